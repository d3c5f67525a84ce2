"""`anyedit`: answers of many sentences in chunks, each with a separate value before its first token."""

from __future__ import annotations

from collections.abc import Sequence

from kgedit.editing.editor import Capabilities
from kgedit.editing.hparams.locate_then_edit import AnyEditSettings
from kgedit.editing.locate_then_edit.answer_requests import answer_requests
from kgedit.editing.locate_then_edit.memit import NullSpaceEditor
from kgedit.editing.locate_then_edit.value_search import EditRequest
from kgedit.records.cases import Case
from kgedit.records.runs import EditFailure


class AnyEdit(NullSpaceEditor[AnyEditSettings]):
    """Like AlphaEdit, with an answer split into chunks that are edited together.

    The value of a chunk is searched for at the token before it, with the prompt and the earlier chunks as context: one
    value determines few tokens well. No subject is needed. Past edits are not part of the equations, as published.
    """

    capabilities = Capabilities(
        protocols=("single", "per_timestep", "sequential"),
        changes_weights=True,
        needs_known_facts=True,
        resumes_calls=True,
        source="AnyEdit, arXiv 2502.05628",
    )
    settings_type = AnyEditSettings

    @property
    def remembers(self) -> bool:
        """False: past edits are not preserved."""
        return False

    def editable(self, cases: Sequence[Case]) -> tuple[list[Case], tuple[EditFailure, ...]]:
        """Return all cases: no subject is needed."""
        return list(cases), ()

    def requests_of(self, case: Case) -> list[EditRequest]:
        """One request per chunk of the answer."""
        own = self.settings
        return answer_requests(
            self.model,
            case,
            self.contexts,
            chunk=own.chunk,
            learn_end=own.learn_end,
            random_prefixes=self.random_prefixes(),
        )
