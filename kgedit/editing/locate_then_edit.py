"""What ROME, MEMIT and AlphaEdit share: settings, openings, statistics, and cases as wishes of the value search."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from kgedit.editing.contract import Advance, Editor, State, silent
from kgedit.editing.examples import CONTEXT_MEANING, training_contexts
from kgedit.editing.layers import check_layers
from kgedit.editing.matrices import EditedMatrix
from kgedit.editing.openings import sample_openings
from kgedit.editing.prompts import Prompt, inputs_at, locate, prompt_of, subject_problem
from kgedit.editing.settings import Bounds, setting
from kgedit.editing.statistics import Amount, Corpus, Moment, corpus_of_facts, corpus_of_files, second_moments
from kgedit.editing.value_search import Found, Search, Wish, search_values
from kgedit.errors import SpecError
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.records.cases import Case, KnownFact
from kgedit.records.runs import Setting

KNOWN_FACTS = "known_facts"
_TOGETHER = defaultdict(lambda: 32, cpu=4)  # a CPU gains nothing from more, and pads more
_PUBLISHED = "; None: as published for the model, else derived"


@dataclass(frozen=True, slots=True)
class LocateSettings:
    """Hyperparameters of the search for values and of the statistics."""

    steps: int | None = setting(None, f"most steps of the value search{_PUBLISHED}", bounds=Bounds(least=1))
    learning_rate: float | None = setting(None, f"of the value search's Adam{_PUBLISHED}", bounds=Bounds(above=0))
    weight_decay: float | None = setting(None, f"weight of |d| / |v0|^2{_PUBLISHED}", bounds=Bounds(least=0))
    clamp: float | None = setting(None, f"|d| stays below so many times |v0|{_PUBLISHED}", bounds=Bounds(above=0))
    drift_weight: float = setting(0.0625, 'weight of KL(after | before) at "SUBJECT is a"', bounds=Bounds(least=0))
    stop_loss: float = setting(5e-2, "an edit's search ends at this mean loss of the target", bounds=Bounds(least=0))
    contexts: int = setting(6, "prompts per edit: the bare one, and one behind each opening", bounds=Bounds(least=1))
    opening: int = setting(10, "tokens of an opening, which the model itself writes", bounds=Bounds(least=1))
    together: int | None = setting(None, "edits searched for in one batch; None: by device", bounds=Bounds(least=1))
    context: str = setting("question_only", CONTEXT_MEANING)
    corpus: str = setting(KNOWN_FACTS, "text of the statistics: the timestep's known_facts, or a text file's path")
    tokens: int = setting(40_000, "most tokens of the statistics", bounds=Bounds(least=1))
    length: int = setting(128, "tokens of a row of that text", bounds=Bounds(least=2))
    damping: float = setting(1e-4, "share of the mean eigenvalue added to the statistics", bounds=Bounds(least=0))


Settings = TypeVar("Settings", bound=LocateSettings)


class LocateThenEdit(Editor[Settings]):
    """Finds what a layer should give at the subject's last token, then changes matrices in closed form."""

    def __init__(self, model: LanguageModel, settings: Settings, *, asked: Sequence[Context], seed: int) -> None:
        super().__init__(model, settings, asked=asked, seed=seed)
        self.layers = tuple(check_layers(model, self.layers_of(self.settings)))
        self.matrices = {layer: EditedMatrix(model.blocks[layer].down_projection) for layer in self.layers}
        self._contexts = training_contexts(self.settings.context, asked)
        self._openings: list[list[int]] | None = None
        self._corpus: Corpus | None = None
        self._moments: dict[int, Moment] = {}

    def derive(self, model: LanguageModel) -> dict[str, Setting]:
        """What all of them derive; each adds its own."""
        return {"together": _TOGETHER[model.device.type]}

    @abstractmethod
    def layers_of(self, settings: Settings) -> tuple[int, ...]:
        """Blocks whose matrices are edited, lowest first."""

    def prepare(self, known: Sequence[KnownFact], *, advance: Advance) -> None:
        """Sample openings, and read or build the statistics, on the unedited model."""
        self.openings()
        own = self.settings.corpus
        corpus = corpus_of_facts(known) if own == KNOWN_FACTS else corpus_of_files([Path(own)])
        amount = Amount(self.settings.tokens, self.settings.length)
        self._moments = second_moments(self.model, self.layers, corpus, amount=amount, progress=advance)
        self._corpus = corpus

    def derived(self) -> dict[str, Any]:
        """Layers, every setting that was filled in, and what the statistics are built from."""
        statistics = None
        if self._corpus is not None:
            tokens = self._moments[self.layers[0]].tokens
            statistics = {"corpus": self._corpus.name, "sha256": self._corpus.sha256, "tokens": tokens}
        return {**super().derived(), "layers": list(self.layers), "statistics": statistics}

    def restore(self) -> None:
        """Give the model its own matrices back."""
        for matrix in self.matrices.values():
            matrix.restore()

    def state(self) -> State:
        """The edited matrices and the openings."""
        tensors = {f"weight.{layer}": matrix.weight.detach().clone() for layer, matrix in self.matrices.items()}
        return State(tensors, {"openings": self.openings()})

    def load_state(self, state: State) -> None:
        """Take matrices and openings over."""
        self._openings = state.record["openings"]
        for layer, matrix in self.matrices.items():
            matrix.write(state.tensors[f"weight.{layer}"])

    def openings(self) -> list[list[int]]:
        """One for each prompt of an edit but the bare one; sampled when first asked for."""
        if self._openings is None:
            count, tokens = self.settings.contexts - 1, self.settings.opening
            self._openings = sample_openings(self.model, count, tokens=tokens, seed=self.seed)
        return self._openings

    def moment(self, layer: int) -> Moment:
        """The statistics of a layer.

        Raises:
            SpecError: if `prepare` was not called.
        """
        if layer not in self._moments:
            raise SpecError([f"{self.method} needs statistics: call prepare() with known facts before the first edit"])
        return self._moments[layer]

    def editable(self, cases: Sequence[Case]) -> tuple[list[Case], str]:
        """The cases whose subject has one place in the question, and why the others cannot be edited."""
        problems = [subject_problem(case) for case in cases]
        fine = [case for case, problem in zip(cases, problems, strict=True) if not problem]
        return fine, "; ".join(filter(None, problems))

    def wish(self, case: Case) -> Wish:
        """A case's prompts, the bare one first, and its target."""
        subject = case.fact.subject_label
        prompts = [prompt_of(self.model, case, context) for context in self._contexts]
        prompts += [prompt_of(self.model, case, self._contexts[0], opening=ids) for ids in self.openings()]
        drift = locate(self.model, f"{subject} is a", len(subject))
        return Wish(tuple(prompts), drift, tuple(self.model.encode_target(case.answer)))

    def search(
        self,
        place: Any,
        wishes: Sequence[Wish],
        *,
        layer: int,
        advance: Callable[[float], None] = silent,
    ) -> Found:
        """Values for all wishes, searched for in batches of those that need about as many places.

        Args:
            place: The block's down-projection or the block itself.
            layer: Index of the block.
            advance: Told what share of the wishes is done. The call can be gone on with after each batch but the last.
        """
        own, size = self.settings, int(self.settings.together or 1)
        search = Search(
            steps=int(own.steps or 1),
            learning_rate=float(own.learning_rate or 0),
            weight_decay=float(own.weight_decay or 0),
            clamp=float(own.clamp or 0),
            drift_weight=own.drift_weight,
            stop_loss=own.stop_loss,
        )
        order = sorted(range(len(wishes)), key=lambda index: _places(wishes[index]))
        parts = [_found(self.halfway, device=self.matrices[layer].weight.device)] if self.halfway else []
        for start in range(sum(len(part.losses) for part in parts), len(wishes), size):
            own_wishes = [wishes[index] for index in order[start : start + size]]
            parts.append(search_values(self.model, layer, place, own_wishes, search))
            advance(min(1.0, (start + size) / len(wishes)))
            if start + size < len(wishes):
                self.keep(lambda: _halfway(_joined(parts)))
        return _joined(parts).in_order(sorted(range(len(order)), key=order.__getitem__))

    def key_rows(self, wishes: Sequence[Wish], *, layer: int) -> list[torch.Tensor]:
        """For each wish the keys of its prompts, prompts x inner width, in float64, in one forward pass."""
        flat: list[Prompt] = [prompt for wish in wishes for prompt in wish.prompts]
        rows = inputs_at(self.model, [layer], flat)[layer].double()
        return list(torch.split(rows, [len(wish.prompts) for wish in wishes]))


def _joined(parts: Sequence[Found]) -> Found:
    before, added = (torch.cat([getattr(part, name) for part in parts]) for name in ("before", "added"))
    return Found(before, added, tuple(loss for part in parts for loss in part.losses))


def _halfway(found: Found) -> State:
    return State({"before": found.before, "added": found.added}, {"losses": list(found.losses)})


def _found(state: State, *, device: torch.device) -> Found:
    before, added = (state.tensors[name].to(device) for name in ("before", "added"))
    return Found(before, added, tuple(state.record["losses"]))


def _places(wish: Wish) -> int:
    """Places from the subject's last token on."""
    return len(wish.prompts[0].ids) - wish.prompts[0].subject + len(wish.target)


def rate_by_width(model: LanguageModel) -> float:
    """The published 0.5 from width 4,096 up; more below, so that a step of Adam, lr sqrt(width) long, stays as long.

    (SmolLM2-135M, ROME, 4 edits: 6.3 CPU seconds each at 0.5, 5.4 at 1.33; MEMIT, 10 edits: 5.4 and 3.9; same losses.)
    """
    width = int(model.module.config.get_text_config().hidden_size)
    return 0.5 * math.sqrt(max(1.0, 4096 / width))
