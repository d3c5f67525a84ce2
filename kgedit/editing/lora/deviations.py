"""Where the low-rank adapters here differ from their papers and code."""

from __future__ import annotations

from kgedit.editing.deviations import Deviation, Deviations

_SHARED = (
    Deviation(
        what="learning rate",
        published="none is named",
        ours="1e-3 from width 4,096 up, below in inverse proportion, 1e-2 at most",
        why="narrow models need larger steps",
        effect="SmolLM2-135M, 10 edits: teacher-forced 0.29 at 2e-3, 0.61 at 1e-2",
    ),
    Deviation(
        what="the first epoch",
        published="in the released code at learning rate 0",
        ours="the warm-up begins above 0",
        why="an epoch at 0 learns nothing",
    ),
    Deviation(
        what="order of the examples",
        published="in the released code that of the file",
        ours="shuffled in each epoch",
        why="an epoch should not end with the same edits each time",
    ),
    Deviation(
        what="wording of the training examples",
        published="question and answer, where the evaluation asks Q: and A:",
        ours="the contexts of training that the run names",
        why="what is asked should be what was trained",
        effect="not measured",
    ),
)

LORA = Deviations(_SHARED)

LORA_MERGE = Deviations((
    *_SHARED,
    Deviation(
        what="interpolation on a CPU",
        published="base and adapted model share their tensors in the released code: nothing is interpolated",
        ours="W_before is a copy",
        why="0.75 W_before + 0.25 W_adapted is what the paper says",
    ),
))  # fmt: skip
