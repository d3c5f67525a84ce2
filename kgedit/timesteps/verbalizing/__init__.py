"""Questions worded by a language model: what is asked of it, what its replies must hold, and the timestep made of them.

Labels come from a wiki that anybody may edit and replies from a model: both are untrusted. Labels are sent as JSON,
cut to a length; of a reply only texts that pass the final filters are used. Whatever fails keeps the template's.
"""
