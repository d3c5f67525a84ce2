"""Differences of the in-context methods from their papers and code."""

from __future__ import annotations

from kgedit.editing.deviations import Deviation, Deviations

PROMPT = Deviations((
    Deviation(
        what="how many facts are stated",
        published="one edit at a time",
        ours="the last call's, 50 at most (`most`)",
        why="the sequential and the per-timestep protocol edit more than one",
        effect="SmolLM2-135M, 20 CounterFact edits stated together and one by one: teacher-forced update 75 and 60, "
        "rephrased 15.8 and 12.5, unchanged 40 and 30; few_shot update 35 and 25",
    ),
))  # fmt: skip

IKE = Deviations((
    Deviation(
        what="where demonstrations come from",
        published="the data set's training part",
        ours="known facts of the older snapshot, without those that a probe asks for",
        why="they would give the answer away",
        effect="none with a file of edits: of CounterFact's 7,840, the 40 held back are the edits' own old answers "
        "and locality questions, which no training part holds",
    ),
    Deviation(
        what="several edits",
        published="one edit at a time",
        ours="each prompt gets the edit whose question is nearest to its own",
        why="the sequential and the per-timestep protocol have more than one",
        effect="20 CounterFact edits one by one and in a row, SmolLM2-135M, teacher-forced: update 80, rephrased 50 "
        "both ways, unchanged 15 and 20 (docs/methods.md)",
    ),
))  # fmt: skip

RAG = Deviations((
    Deviation(
        what="what is looked up",
        published='in the released code the question cut at "? ", the gold answer with it',
        ours="the question alone",
        why="the answer is not known when a question is asked",
        effect="none to gain: the question alone finds its pair for 100 of 100 CounterFact edits and their rephrased "
        "questions",
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
        effect="SmolLM2-135M, 20 CounterFact edits, `wording: question_answer`: teacher-forced update 30 in place of "
        "55, rephrased 10.8 in place of 7.5, unchanged 25 in place of 45; none under few_shot, whose form that is",
    ),
))  # fmt: skip

GRAPH_RAG = Deviations(none_because="it is kgedit's own method (docs/graph-memory.md)")
