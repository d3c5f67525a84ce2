"""Graph memory: edited facts as a graph that is walked from the subjects that a question names.

No language model takes part and no weight changes. `names` finds the subjects, `facts` holds what is known of them,
`relations` says how each relation is worded, and `graph_memory` ranks paths by how like the question they are worded.
"""
