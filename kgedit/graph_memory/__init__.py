"""Graph memory: edited facts as a graph that is walked from the subjects that a question names.

No language model takes part and no weight changes. `graph_memory` is the whole: it learns, is asked, saved and loaded.
`names` (with `spellings`) finds the subjects of a question, `dates` the time that it asks about, `facts` holds what is
known, in `columns`; `learning` takes facts in. `retrieval` walks and ranks paths, by `relations` (how they are worded)
and `scoring`; `gate` decides whether anything is said, `findings` is what comes back, and `conflicts` lists what
contradicts itself.
"""
