"""`rome`, `r_rome`, `c_rome`: one fact at a time, by a rank-one change of one MLP down-projection.

The three differ in two keys: the one that the change is computed for, and the one that it is scaled by. ROME uses the
mean key over all prompts for the first and the bare prompt's key for the second; if these differ much, the scale
explodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import east_asian_width

import torch

from kgedit.editing.editor import NO_RUN, AppliedEdits, Capabilities, EditorState, Prefix, PrefixPart, RunContext
from kgedit.editing.hparams.locate_then_edit import RomeSettings
from kgedit.editing.locate_then_edit.editor import LocateThenEdit
from kgedit.editing.locate_then_edit.second_moments import Whitening
from kgedit.editing.locate_then_edit.subject_prompts import encode_with_subject
from kgedit.editing.locate_then_edit.value_search import EditRequest
from kgedit.llm.contexts import Context
from kgedit.llm.devices import in_float64
from kgedit.llm.language_model import LanguageModel
from kgedit.records.cases import Case


class Rome(LocateThenEdit[RomeSettings]):
    """Edits one fact by a rank-one update of one MLP matrix.

    The change has the direction of the mean key and maps the bare prompt's key to v*.
    """

    capabilities = Capabilities(
        protocols=("sequential", "single", "per_timestep"),
        changes_weights=True,
        needs_known_facts=True,
        source="ROME, arXiv 2202.05262 section 3",
    )
    settings_type = RomeSettings

    def __init__(self, model: LanguageModel, settings: RomeSettings, *, contexts: Sequence[Context], seed: int) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        self.layer = self.layers[0]
        self._whitening: Whitening | None = None

    def layers_of(self, settings: RomeSettings) -> tuple[int, ...]:
        """The one layer."""
        return (settings.layer,)

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:
        """Edit the cases one by one."""
        fine, failures = self.editable(cases)
        losses = []
        for case in fine:
            losses.append(self._edit(case))
            run.progress(len(losses) / len(fine))
        return AppliedEdits(loss=sum(losses) / len(losses) if losses else None, failures=failures)

    def direction_key(self, keys: torch.Tensor) -> torch.Tensor:
        """The key that the change is computed for, from the keys of all prompts (prompts x inner width)."""
        return keys.mean(0)

    def met_key(self, keys: torch.Tensor) -> torch.Tensor:
        """The key that is mapped to v*."""
        return keys[0]

    def _edit(self, case: Case) -> float:
        matrix, request = self.matrices[self.layer], self.request_of(case)
        module = self.model.blocks[self.layer].down_projection
        found = self.search(module, [request], layer=self.layer)
        keys = self.key_rows([request], layer=self.layer)[0]
        direction, met = self._whiten(self.direction_key(keys)), self._whiten(self.met_key(keys))
        wanted = in_float64(found.before[0]) + in_float64(found.added[0])
        residual = (wanted - self._given(self.met_key(keys))).to(direction.device).unsqueeze(1)
        matrix.add((residual @ self._back(direction.T) / (direction.T @ met)).T)
        return found.losses[0]

    def _given(self, key: torch.Tensor) -> torch.Tensor:
        """Current output of the layer for a key."""
        layer = self.model.blocks[self.layer].down
        weight = in_float64(layer.layer.weight)
        given = (weight.T if layer.rows_are_inputs else weight) @ key
        bias = layer.layer.bias
        found: torch.Tensor = given if bias is None else given + in_float64(bias)
        return found

    def _whiten(self, key: torch.Tensor) -> torch.Tensor:
        if self._whitening is None:
            self._whitening = Whitening.of(self.second_moment(self.layer).matrix, damping=self.settings.damping)
        return self._whitening.whiten(key.to(self._whitening.factor.device).unsqueeze(1))

    def _back(self, change: torch.Tensor) -> torch.Tensor:
        assert self._whitening is not None
        return self._whitening.back(change)


class RRome(Rome):
    """Like ROME, with the same key for the change and its scale, so that sequential edits do not collapse the model.

    The mean key over all prompts is the key that the change is computed for and the key that is mapped to v*.
    """

    capabilities = Capabilities(
        protocols=("sequential", "single", "per_timestep"),
        changes_weights=True,
        needs_known_facts=True,
        source="R-ROME, arXiv 2403.07175",
    )

    def met_key(self, keys: torch.Tensor) -> torch.Tensor:
        """The mean key."""
        return self.direction_key(keys)


class CRome(RRome):
    """Like R-ROME, with keys from prompts after a random prefix, also prepended to questions about edited subjects.

    Both keys are the mean over the prompts with random prefixes. The first token of a text has an unusual key, so a
    subject that is the first token gets a random prefix, both in edits and in questions. Keys are read at a subject's
    last token, so one of several tokens needs none.
    """

    capabilities = Capabilities(
        protocols=("sequential", "single", "per_timestep"),
        changes_weights=True,
        changes_prompt=True,
        needs_known_facts=True,
        source="C-ROME, arXiv 2406.11263",
    )

    def __init__(self, model: LanguageModel, settings: RomeSettings, *, contexts: Sequence[Context], seed: int) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        self._subjects: list[str] = []

    def direction_key(self, keys: torch.Tensor) -> torch.Tensor:
        """The mean key without that of the bare prompt, if there are others."""
        return keys[1:].mean(0) if len(keys) > 1 else keys[0]

    def request_of(self, case: Case) -> EditRequest:
        """Prepend a random prefix to the bare prompt if the subject is its first token."""
        self._subjects.append(case.fact.subject_label)
        request = super().request_of(case)
        prompt = self.contexts[0].prompt(case.question)
        alone = self.random_prefixes() and self._is_first_token(prompt, case.fact.subject_label)
        return (
            EditRequest((request.prompts[-1], *request.prompts[1:]), request.drift, request.target)
            if alone
            else request
        )

    def prefixes(self, questions: Sequence[str]) -> list[Prefix]:
        """Random prefix for questions whose first token is an edited subject."""
        if not self.random_prefixes() or self.model.leading_ids():
            return super().prefixes(questions)
        random_prefix = Prefix((PrefixPart(f"{self.model.decode(self.random_prefixes()[-1])}. "),), first_only=True)
        subjects = tuple(dict.fromkeys(self._subjects))
        return [
            random_prefix
            if question.startswith(subjects) and any(self._is_first_token(question, subject) for subject in subjects)
            else Prefix()
            for question in questions
        ]

    def _is_first_token(self, text: str, subject: str) -> bool:
        """Whether a text begins with a subject, as a whole word that is one token."""
        if not subject or not text.startswith(subject):
            return False
        after = text[len(subject) : len(subject) + 1]
        # Chinese, Japanese and Korean continue a sentence without a space.
        if after.isalnum() and east_asian_width(after) not in ("W", "F"):
            return False
        return encode_with_subject(self.model, text, len(subject)).subject == 0

    def restore(self) -> None:
        """Restore the matrix and remove the subjects."""
        super().restore()
        self._subjects = []

    def state(self) -> EditorState:
        """Also returns the subjects."""
        state = super().state()
        return EditorState(state.tensors, {**state.record, "subjects": list(self._subjects)})

    def load_state(self, state: EditorState) -> None:
        """Also loads the subjects."""
        super().load_state(state)
        self._subjects = list(state.record["subjects"])

    def memory(self) -> EditorState:
        """Return random prefixes and edited subjects; the matrix is in the model's files."""
        return EditorState(record={"random_prefixes": self.random_prefixes(), "subjects": list(self._subjects)})

    def load_memory(self, memory: EditorState) -> None:
        """Load prefixes and subjects; the model already has the edited matrix."""
        self._random_prefixes = memory.record["random_prefixes"]
        self._subjects = list(memory.record["subjects"])

    @property
    def edits_when_loaded(self) -> bool:
        """False: an edit needs the statistics, as large as a matrix of the model."""
        return False
