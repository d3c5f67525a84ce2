"""Where the methods that work in the prompt here differ from their papers and code."""

from __future__ import annotations

from kgedit.editing.deviations import Deviation, Deviations

PROMPT = Deviations((
    Deviation(
        what="how many facts are stated",
        published="one edit at a time",
        ours="the last call's, 50 at most (`most`)",
        why="the sequential and the per-timestep protocol edit more than one",
        effect="PENDING",
    ),
))  # fmt: skip

IKE = Deviations((
    Deviation(
        what="where demonstrations come from",
        published="the data set's training part",
        ours="known facts of the older snapshot, without those that a probe asks for",
        why="they would give the answer away",
        effect="none with a file of edits: of CounterFact's 7,840, the 40 held back are the edits' own old answers and locality "
        "questions, which no training part holds",
    ),
    Deviation(
        what="several edits",
        published="one edit at a time",
        ours="each prompt gets the edit whose question is nearest to its own",
        why="the sequential and the per-timestep protocol have more than one",
        effect="PENDING",
    ),
))  # fmt: skip

RAG = Deviations((
    Deviation(
        what="what is looked up",
        published='in the released code the question cut at "? ", the gold answer with it',
        ours="the question alone",
        why="the answer is not known when a question is asked",
        effect="none to gain: the question alone finds its pair for 100 of 100 CounterFact edits and their rephrased questions",
    ),
    Deviation(
        what="embeddings",
        published="all-mpnet-base-v2",
        ours="all-minilm-l6-v2, `embedder` for another",
        why="it comes as a package and needs no hub",
        effect="none to gain: they find the pair of every update and rephrased question (100 CounterFact edits)",
    ),
    Deviation(
        what="wording of the pairs",
        published="question and answer, in one form ahead of every prompt",
        ours="as the context words its own question",
        why="an answer then follows theirs in the same way",
        effect="PENDING",
    ),
))  # fmt: skip

GRAPH_RAG = Deviations(none_because="it is kgedit's own method (docs/graph-memory.md)")
