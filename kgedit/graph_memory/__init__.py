"""Graph memory: edited facts as a graph that is searched from the subjects named in a question.

It needs no language model and changes no weights. `graph_memory` is the entry point: learn, search, save, load.
kgedit.wording.name_index finds the subjects of a question and `dates` its date. `facts` stores facts in columns and
lists contradicting values, and `learning` adds them. `retrieval` has the options and results of a search; it walks
paths and ranks them with `relations` (their wordings) and `scoring`; `gate` accepts or rejects the best path.
"""
