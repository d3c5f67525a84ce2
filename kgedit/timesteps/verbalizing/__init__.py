"""Questions worded by a language model: requests, validation of replies, and the resulting timestep.

Labels come from a wiki that anyone may edit and replies from a model: both are untrusted. Labels are sent as JSON and
truncated; only texts of a reply that pass the final filters are used. If a text fails, the template's is kept.
"""
