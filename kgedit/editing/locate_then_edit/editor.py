"""What ROME, MEMIT and AlphaEdit share: settings, random prefixes, statistics, and the value search."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

from kgedit.editing.editor import Advance, Editor, EditorState, silent
from kgedit.editing.locate_then_edit.second_moments import (
    Corpus,
    SecondMoment,
    TextBudget,
    corpus_of_facts,
    corpus_of_files,
    second_moments,
)
from kgedit.editing.locate_then_edit.subject_prompts import (
    SubjectPrompt,
    encode_with_subject,
    inputs_at,
    subject_problem,
    subject_prompt,
)
from kgedit.editing.locate_then_edit.value_search import EditRequest, FoundValues, ValueSearchSettings, search_values
from kgedit.editing.training_examples import training_contexts
from kgedit.errors import SpecError
from kgedit.hparams.locate_then_edit import KNOWN_FACTS, LocateSettings
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.random_prefixes import sample_random_prefixes
from kgedit.llm.surgery.layers import check_layers
from kgedit.llm.surgery.matrices import EditedMatrix
from kgedit.records.cases import Case, KnownFact
from kgedit.records.runs import Setting

_SEARCH_BATCH = defaultdict(lambda: 32, cpu=4)  # a CPU gains nothing from more, and pads more


Settings = TypeVar("Settings", bound=LocateSettings)


class LocateThenEdit(Editor[Settings]):
    """Finds what a layer should give at the subject's last token, then changes matrices in closed form."""

    def __init__(self, model: LanguageModel, settings: Settings, *, asked: Sequence[Context], seed: int) -> None:
        super().__init__(model, settings, asked=asked, seed=seed)
        self.layers = tuple(check_layers(model, self.layers_of(self.settings)))
        self.matrices = {layer: EditedMatrix(model.blocks[layer].down_projection) for layer in self.layers}
        self._contexts = training_contexts(self.settings.context, asked)
        self._random_prefixes: list[list[int]] | None = None
        self._corpus: Corpus | None = None
        self._second_moments: dict[int, SecondMoment] = {}

    def derive(self, model: LanguageModel) -> dict[str, Setting]:
        """What all of them derive; each adds its own."""
        return {"search_batch": _SEARCH_BATCH[model.device.type]}

    @abstractmethod
    def layers_of(self, settings: Settings) -> tuple[int, ...]:
        """Blocks whose matrices are edited, lowest first."""

    def prepare(self, known: Sequence[KnownFact], *, advance: Advance) -> None:
        """Sample random prefixes, and read or build the statistics, on the unedited model."""
        self.random_prefixes()
        own = self.settings.corpus
        corpus = corpus_of_facts(known) if own == KNOWN_FACTS else corpus_of_files([Path(own)])
        budget = TextBudget(self.settings.tokens, self.settings.length)
        self._second_moments = second_moments(self.model, self.layers, corpus, budget=budget, progress=advance)
        self._corpus = corpus

    def derived(self) -> dict[str, Any]:
        """Layers, every setting that was filled in, and what the statistics are built from."""
        statistics = None
        if self._corpus is not None:
            tokens = self._second_moments[self.layers[0]].tokens
            statistics = {"corpus": self._corpus.name, "sha256": self._corpus.sha256, "tokens": tokens}
        return {**super().derived(), "layers": list(self.layers), "statistics": statistics}

    def restore(self) -> None:
        """Give the model its own matrices back."""
        for matrix in self.matrices.values():
            matrix.restore()

    def state(self) -> EditorState:
        """The edited matrices and the random prefixes."""
        tensors = {f"weight.{layer}": matrix.weight.detach().clone() for layer, matrix in self.matrices.items()}
        return EditorState(tensors, {"random_prefixes": self.random_prefixes()})

    def load_state(self, state: EditorState) -> None:
        """Take matrices and random prefixes over."""
        self._random_prefixes = state.record["random_prefixes"]
        for layer, matrix in self.matrices.items():
            matrix.write(state.tensors[f"weight.{layer}"])

    def random_prefixes(self) -> list[list[int]]:
        """One for each prompt of an edit but the bare one; sampled when first asked for."""
        if self._random_prefixes is None:
            count, tokens = self.settings.prompts - 1, self.settings.prefix_tokens
            self._random_prefixes = sample_random_prefixes(self.model, count, tokens=tokens, seed=self.seed)
        return self._random_prefixes

    def second_moment(self, layer: int) -> SecondMoment:
        """The statistics of a layer.

        Raises:
            SpecError: if `prepare` was not called.
        """
        if layer not in self._second_moments:
            raise SpecError([f"{self.method} needs statistics: call prepare() with known facts before the first edit"])
        return self._second_moments[layer]

    def editable(self, cases: Sequence[Case]) -> tuple[list[Case], str]:
        """The cases whose subject occurs once in the question, and why the others cannot be edited."""
        problems = [subject_problem(case) for case in cases]
        fine = [case for case, problem in zip(cases, problems, strict=True) if not problem]
        return fine, "; ".join(filter(None, problems))

    def request_of(self, case: Case) -> EditRequest:
        """A case's prompts, the bare one first, and its target."""
        subject = case.fact.subject_label
        prompts = [subject_prompt(self.model, case, context) for context in self._contexts]
        prompts += [
            subject_prompt(self.model, case, self._contexts[0], random_prefix=ids) for ids in self.random_prefixes()
        ]
        drift = encode_with_subject(self.model, f"{subject} is a", len(subject))
        return EditRequest(tuple(prompts), drift, tuple(self.model.encode_target(case.answer)))

    def search(
        self,
        module: Any,
        requests: Sequence[EditRequest],
        *,
        layer: int,
        advance: Callable[[float], None] = silent,
    ) -> FoundValues:
        """Values for all requests, searched for in batches of similar length.

        Args:
            module: The block's down-projection or the block itself.
            layer: Index of the block.
            advance: Told what share of the requests is done. Resumable after each batch but the last.
        """
        own, size = self.settings, int(self.settings.search_batch or 1)
        search = ValueSearchSettings(
            steps=int(own.steps or 1),
            learning_rate=float(own.learning_rate or 0),
            weight_decay=float(own.weight_decay or 0),
            clamp=float(own.clamp or 0),
            drift_weight=own.drift_weight,
            stop_loss=own.stop_loss,
        )
        order = sorted(range(len(requests)), key=lambda index: _tokens_from_subject(requests[index]))
        parts = [_found(self.halfway, device=self.matrices[layer].weight.device)] if self.halfway else []
        for start in range(sum(len(part.losses) for part in parts), len(requests), size):
            own_requests = [requests[index] for index in order[start : start + size]]
            parts.append(search_values(self.model, layer, module, own_requests, search))
            advance(min(1.0, (start + size) / len(requests)))
            if start + size < len(requests):
                self.keep(lambda: _halfway(_joined(parts)))
        return _joined(parts).in_order(sorted(range(len(order)), key=order.__getitem__))

    def key_rows(self, requests: Sequence[EditRequest], *, layer: int) -> list[torch.Tensor]:
        """For each request the keys of its prompts, prompts x inner width, in float64, in one forward pass."""
        flat: list[SubjectPrompt] = [prompt for request in requests for prompt in request.prompts]
        rows = inputs_at(self.model, [layer], flat)[layer].double()
        return list(torch.split(rows, [len(request.prompts) for request in requests]))


def _joined(parts: Sequence[FoundValues]) -> FoundValues:
    before, added = (torch.cat([getattr(part, name) for part in parts]) for name in ("before", "added"))
    return FoundValues(before, added, tuple(loss for part in parts for loss in part.losses))


def _halfway(found: FoundValues) -> EditorState:
    return EditorState({"before": found.before, "added": found.added}, {"losses": list(found.losses)})


def _found(state: EditorState, *, device: torch.device) -> FoundValues:
    before, added = (state.tensors[name].to(device) for name in ("before", "added"))
    return FoundValues(before, added, tuple(state.record["losses"]))


def _tokens_from_subject(request: EditRequest) -> int:
    """Tokens from the subject's last one on."""
    return len(request.prompts[0].ids) - request.prompts[0].subject + len(request.target)


def rate_by_width(model: LanguageModel) -> float:
    """The published 0.5 from width 4,096 up; more below, so that a step of Adam, lr sqrt(width) long, stays as long.

    (SmolLM2-135M, ROME, 4 edits: 6.3 CPU seconds each at 0.5, 5.4 at 1.33; MEMIT, 10 edits: 5.4 and 3.9; same losses.)
    """
    width = int(model.module.config.get_text_config().hidden_size)
    return 0.5 * math.sqrt(max(1.0, 4096 / width))
