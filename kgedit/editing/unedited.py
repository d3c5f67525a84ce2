"""`none`: no editing, the baseline of every comparison."""

from __future__ import annotations

from collections.abc import Sequence

from kgedit.editing.editor import NO_RUN, AppliedEdits, Capabilities, Editor, EditorState, RunContext
from kgedit.editing.hparams.settings import NoSettings
from kgedit.records.cases import Case


class Unedited(Editor[NoSettings]):
    """Leaves the model unchanged, under every protocol."""

    capabilities = Capabilities(protocols=("per_timestep", "sequential", "single"))
    settings_type = NoSettings

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:  # noqa: ARG002 - the contract's shape
        """Do nothing."""
        return AppliedEdits()

    def restore(self) -> None:
        """Do nothing."""

    def state(self) -> EditorState:
        """There is no state."""
        return EditorState()

    def load_state(self, state: EditorState) -> None:
        """There is no state."""
