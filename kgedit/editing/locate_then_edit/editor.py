"""Common base of ROME, MEMIT and AlphaEdit: settings, random prefixes, statistics, and the value search."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import torch

from kgedit.editing.corpora import Corpus, TextBudget, corpus_of
from kgedit.editing.editor import NO_RUN, Editor, EditorState, RunContext
from kgedit.editing.hparams.locate_then_edit import LocateSettings
from kgedit.editing.locate_then_edit.second_moments import SecondMoment, damped, second_moments
from kgedit.editing.locate_then_edit.subject_prompts import (
    SubjectPrompt,
    encode_with_subject,
    inputs_at,
    subject_problem,
    subject_prompt,
)
from kgedit.editing.locate_then_edit.value_search import EditRequest, FoundValues, ValueSearchSettings, search_values
from kgedit.errors import ModelError, SpecError
from kgedit.llm.contexts import Context
from kgedit.llm.decoding import sample_random_prefixes
from kgedit.llm.devices import BatchLimit, float64_device, in_float64
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.layers import check_layers
from kgedit.llm.surgery.matrices import EditedMatrix
from kgedit.progress import Advance
from kgedit.records.cases import Case, KnownFact
from kgedit.records.runs import EditFailure

Settings = TypeVar("Settings", bound=LocateSettings)


class LocateThenEdit(Editor[Settings]):
    """Searches for a layer's output at the subject's last token, then changes matrices in closed form."""

    def __init__(self, model: LanguageModel, settings: Settings, *, contexts: Sequence[Context], seed: int) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        self.layers = tuple(check_layers(model, self.layers_of(self.settings)))
        self._refuse_experts()
        self.matrices = {layer: EditedMatrix(model.blocks[layer].down_projection) for layer in self.layers}
        self._random_prefixes: list[list[int]] | None = None
        self._corpus: Corpus | None = None
        self._second_moments: dict[int, SecondMoment] = {}
        self._searched_at_once = BatchLimit("edits of a value search")

    @abstractmethod
    def layers_of(self, settings: Settings) -> tuple[int, ...]:
        """Blocks whose matrices are edited, lowest first."""

    def _refuse_experts(self) -> None:
        """Raise if several down-projections together produce the output that is solved for in one.

        Raises:
            ModelError: if there are such blocks; the message names them.
        """
        mixed = [layer for layer in self.layers if self.model.blocks[layer].mixture]
        if mixed:
            raise ModelError(
                f"{type(self).__name__} finds one down-projection that makes what an MLP adds, but in blocks "
                f"{', '.join(map(str, mixed))} of {type(self.model.module).__name__} a router mixes several experts' "
                "for each token. Edit blocks with a single MLP (--set layers=...), where there are any; or take a "
                "method that assumes no such matrix: ft_m, locft_bf, crispedit, lora, grace, wise or rag."
            )

    @property
    def patience(self) -> int | None:
        """Steps of the search after all tokens of a target are the most likely; None means no early stopping."""
        return None

    def prepare(self, known: Sequence[KnownFact], *, advance: Advance) -> None:
        """Sample random prefixes, and load or compute the statistics, on the unedited model."""
        self.random_prefixes()
        corpus = corpus_of(self.settings.corpus, known)
        budget = TextBudget(self.settings.tokens, self.settings.length)
        found = second_moments(self.model, self.layers, corpus, budget=budget, progress=advance)
        self._second_moments = {
            layer: replace(moment, device=self.solving_device(layer)) for layer, moment in found.items()
        }
        self._corpus = corpus

    def details(self) -> dict[str, Any]:
        """Layers, the text of the statistics, and notes on its consequences."""
        if self._corpus is None:
            return {**super().details(), "layers": list(self.layers), "statistics": None, "notes": []}
        moment = self._second_moments[self.layers[0]]
        statistics = {
            "corpus": self._corpus.name,
            "sha256": self._corpus.sha256,
            "tokens": moment.tokens,
            "width": len(moment.matrix),
            "tokens_per_dimension": round(moment.tokens_per_dimension, 2),
        }
        return {
            **super().details(),
            "layers": list(self.layers),
            "statistics": statistics,
            "notes": [] if self.comparable(self.layers[0]) else self.notes(),
        }

    def comparable(self, layer: int) -> bool:
        """Whether a layer's statistics have enough tokens for settings published with millions of tokens."""
        return self.second_moment(layer).tokens_per_dimension >= self.settings.enough

    def notes(self) -> list[str]:
        """Adjustments of the method to small statistics, in sentences."""
        return []

    def restore(self) -> None:
        """Restore the model's own matrices."""
        for matrix in self.matrices.values():
            matrix.restore()

    def state(self) -> EditorState:
        """Return the edited matrices and the random prefixes."""
        tensors = {f"weight.{layer}": matrix.weight.detach().clone() for layer, matrix in self.matrices.items()}
        return EditorState(tensors, {"random_prefixes": self.random_prefixes()})

    def load_state(self, state: EditorState) -> None:
        """Load matrices and random prefixes."""
        self._random_prefixes = state.record["random_prefixes"]
        for layer, matrix in self.matrices.items():
            matrix.write(state.tensors[f"weight.{layer}"])

    def random_prefixes(self) -> list[list[int]]:
        """One random prefix for each prompt of an edit except the bare one; sampled at the first call."""
        if self._random_prefixes is None:
            own = self.settings
            self._random_prefixes = sample_random_prefixes(
                self.model, own.prompts - 1, tokens=own.prefix_tokens, seed=self.seed, likeliest=own.prefix_likeliest
            )
        return self._random_prefixes

    def solving_device(self, layer: int) -> torch.device:
        """Device of a layer's statistics and equations."""
        own = float64_device(self.matrices[layer].weight.device)
        return torch.device("cpu") if self.settings.solve_on == "cpu" else own

    def second_moment(self, layer: int) -> SecondMoment:
        """Return the statistics of a layer.

        Raises:
            SpecError: if `prepare` was not called.
        """
        if layer not in self._second_moments:
            raise SpecError(
                [f"{type(self).__name__} needs statistics: call prepare() with known facts first"],
                of="The method is not prepared",
            )
        return self._second_moments[layer]

    def damped(self, layer: int) -> torch.Tensor:
        """Return C of a layer, damped according to the settings so that it is invertible."""
        return damped(self.second_moment(layer).matrix, self.settings.damping)

    def editable(self, cases: Sequence[Case]) -> tuple[list[Case], tuple[EditFailure, ...]]:
        """Split cases into those whose subject occurs once in the question, with a token, and failures with reasons."""
        judged = [(case, subject_problem(self.model, case)) for case in cases]
        failures = tuple(EditFailure(case_id=case.case_id, reason=reason) for case, reason in judged if reason)
        return [case for case, reason in judged if not reason], failures

    def request_of(self, case: Case) -> EditRequest:
        """Build a case's prompts, that of the first context first, and its target as it follows that prompt."""
        subject = case.fact.subject_label
        prompts = [subject_prompt(self.model, case, context) for context in self.contexts]
        prompts += [
            subject_prompt(self.model, case, self.contexts[0], random_prefix=ids) for ids in self.random_prefixes()
        ]
        drift = encode_with_subject(self.model, f"{subject} is a", len(subject))
        if self.settings.drift_at == "subject":
            drift = SubjectPrompt(drift.ids[: drift.subject + 1], drift.subject)
        target = self.model.encode_target(case.answer, after=self.contexts[0].prompt(case.question))
        return EditRequest(tuple(prompts), drift, tuple(target))

    def requests_of(self, case: Case) -> list[EditRequest]:
        """Requests whose values together edit a case: by default one, at the subject."""
        return [self.request_of(case)]

    def search(
        self,
        module: Any,
        requests: Sequence[EditRequest],
        *,
        layer: int,
        run: RunContext = NO_RUN,
    ) -> FoundValues:
        """Search for the values of all edit requests, in batches of similar length.

        Args:
            module: The block's down-projection or the block itself.
            layer: Index of the block.
            run: Run context; the search is resumable after each batch except the last.
        """
        own, size = self.settings, self.settings.search_batch
        search = ValueSearchSettings(
            steps=own.steps,
            learning_rate=own.learning_rate,
            weight_decay=own.weight_decay,
            clamp=own.clamp,
            drift_weight=own.drift_weight,
            stop_loss=own.stop_loss,
            stop=own.stop,
            patience=self.patience,
        )

        def searched(own_requests: Sequence[EditRequest], at_once: int) -> FoundValues:
            groups = [own_requests[start : start + at_once] for start in range(0, len(own_requests), at_once)]
            return FoundValues.joined([search_values(self.model, layer, module, group, search) for group in groups])

        order = sorted(range(len(requests)), key=lambda index: _tokens_from_subject(requests[index]))
        parts = [_found(run.resume, device=self.matrices[layer].weight.device)] if run.resume else []
        for start in range(sum(len(part.losses) for part in parts), len(requests), size):
            own_requests = [requests[index] for index in order[start : start + size]]
            parts.append(self._searched_at_once.run(size, partial(searched, own_requests)))
            run.progress(min(1.0, (start + size) / len(requests)))
            if start + size < len(requests):
                run.checkpoint(lambda: _search_state(FoundValues.joined(parts)))
        return FoundValues.joined(parts).in_order(sorted(range(len(order)), key=order.__getitem__))

    def key_rows(self, requests: Sequence[EditRequest], *, layer: int) -> list[torch.Tensor]:
        """Compute each request's keys of its prompts, prompts x inner width, in float64, in one forward pass."""
        flat: list[SubjectPrompt] = [prompt for request in requests for prompt in request.prompts]
        rows = in_float64(inputs_at(self.model, [layer], flat)[layer])
        return list(torch.split(rows, [len(request.prompts) for request in requests]))


def _search_state(found: FoundValues) -> EditorState:
    return EditorState({"before": found.before, "added": found.added}, {"losses": list(found.losses)})


def _found(state: EditorState, *, device: torch.device) -> FoundValues:
    before, added = (state.tensors[name].to(device) for name in ("before", "added"))
    return FoundValues(before, added, tuple(state.record["losses"]))


def _tokens_from_subject(request: EditRequest) -> int:
    """Number of tokens from the subject's last one on, including the target."""
    return len(request.prompts[0].ids) - request.prompts[0].subject + len(request.target)
