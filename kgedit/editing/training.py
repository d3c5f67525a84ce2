"""Code shared by training methods: seeds, examples, texts, and resuming within a call.

Seeds are derived from the cases being edited, so that a resumed run draws the same numbers as an uninterrupted one. A
training state has weights, optimizer and random state at the end of an epoch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from kgedit.editing.editor import EditorState
from kgedit.llm.contexts import Context
from kgedit.llm.decoding import continue_words, sample_random_prefixes
from kgedit.llm.language_model import LanguageModel
from kgedit.records.cases import Case, Fact, KnownFact
from kgedit.timesteps.edit_files.same_facts import keys_of_cases, keys_of_known


def seed_for(seed: int, cases: Sequence[Case]) -> int:
    """Derive a seed for one call of ``apply`` from the run's seed and the cases."""
    names = "\n".join(f"{case.timestep} {case.case_id}" for case in cases)
    return int.from_bytes(hashlib.sha256(f"{seed}\n{names}".encode()).digest()[:6], "big")


def fusible(weights: Sequence[torch.Tensor]) -> bool:
    """Whether Adam can make one pass over a weight instead of ten.

    On a CPU this saves a tenth of a step's time, and on a GPU a copy of all weights.
    """
    return all(weight.device.type in ("cpu", "cuda") for weight in weights)


def known_rows(known: Sequence[KnownFact]) -> list[dict[str, Any]]:
    """Known facts as JSON values, for the memory of a saved model."""
    return [asdict(fact) for fact in known]


def known_of(rows: Sequence[dict[str, Any]]) -> tuple[KnownFact, ...]:
    """Known facts from the result of `known_rows`."""
    return tuple(KnownFact(**{**row, "fact": Fact(**row["fact"])}) for row in rows)


def examples(cases: Sequence[Case], contexts: Sequence[Context]) -> list[tuple[str, str]]:
    """Build (prompt, answer) pairs for every case in every context, case by case."""
    return [(context.prompt(case.question), case.answer) for case in cases for context in contexts]


def smaller_batch(batch: int, *, count: int, epochs: int, least_steps: int) -> int:
    """Number of examples per step: `batch`, or fewer so that all epochs over `count` examples have `least_steps`."""
    return min(batch, max(1, count * epochs // least_steps)) if least_steps else batch


def training_state(
    optimizer: torch.optim.Optimizer, *, epochs: int, scaler: torch.amp.GradScaler | None = None
) -> EditorState:
    """Copy the trained parameters, the optimizer's state and torch's random state after a number of epochs.

    Args:
        scaler: Loss scaler; its state is included if it is enabled.
    """
    own = _parameters(optimizer)
    tensors = {f"weight.{index}": parameter.detach().clone() for index, parameter in enumerate(own)}
    for index, values in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": value.detach().clone() for name, value in values.items()}
    tensors["random.cpu"] = torch.get_rng_state()
    tensors |= {f"random.{device}": torch.cuda.get_rng_state(device) for device in _gpus(own)}
    scale = {"scale": scaler.state_dict()} if scaler and scaler.is_enabled() else {}
    return EditorState(tensors, {"epochs": epochs, **scale})


def resume_training(
    optimizer: torch.optim.Optimizer, state: EditorState, *, scaler: torch.amp.GradScaler | None = None
) -> int:
    """Load a saved state into a new optimizer of the same parameters; returns the number of finished epochs."""
    own = _parameters(optimizer)
    with torch.no_grad():
        for index, parameter in enumerate(own):
            parameter.copy_(state.tensors[f"weight.{index}"])
    values: dict[int, dict[str, torch.Tensor]] = {}
    for key, tensor in state.tensors.items():
        kind, _, rest = key.partition(".")
        if kind == "optimizer":
            number, _, name = rest.partition(".")
            values.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": values})
    torch.set_rng_state(state.tensors["random.cpu"])
    for device in _gpus(own):
        torch.cuda.set_rng_state(state.tensors[f"random.{device}"], device)
    if scaler is not None and "scale" in state.record:
        scaler.load_state_dict(state.record["scale"])
    epochs: int = state.record["epochs"]
    return epochs


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _gpus(parameters: list[torch.Tensor]) -> list[torch.device]:
    return sorted({parameter.device for parameter in parameters if parameter.is_cuda}, key=str)


_WRITTEN, _WRITTEN_TOKENS = 32, 12
"""Number of texts that the model writes where there are no known facts, and their tokens: as long as questions."""
_WORDS = ("I", "You", "Because", "Yes", "Q: ")
"""First words of the prefixes."""


def generated_prefixes(model: LanguageModel, count: int) -> list[str]:
    """Continuations of five words by the unedited model: half of 5 tokens, half of 10.

    Args:
        count: Number of prefixes, at most 10.
    """
    # WISE's lengths; its code also continues these five words.
    written = [text for tokens in (5, 10) for text in continue_words(model, _WORDS, tokens=tokens)] if count else []
    half = count // 2
    return [*written[: len(_WORDS)][: count - half], *written[len(_WORDS) :][:half]]


class UnrelatedPrompts:
    """Prompts about other facts than the edits.

    Args:
        model: The model, unedited when texts are first written.
        seed: Seed of the texts that the model writes.

    Attributes:
        known: Facts from which prompts are taken; without any, the model writes beginnings of texts.
    """

    def __init__(self, model: LanguageModel, *, seed: int) -> None:
        self._model, self._seed = model, seed
        self._texts: list[str] = []
        self.known: tuple[KnownFact, ...] = ()

    def to(self, cases: Sequence[Case]) -> list[str]:
        """Questions about known facts that no probe of the cases asks for; texts of the model if there are none."""
        probed = keys_of_cases(cases)
        free = [known.question for known in self.known if probed.isdisjoint(keys_of_known(known))]
        return free or self._written()

    def _written(self) -> list[str]:
        if not self._texts:
            found = sample_random_prefixes(self._model, _WRITTEN, tokens=_WRITTEN_TOKENS, seed=self._seed)
            self._texts = [text for ids in found if (text := self._model.decode(ids))]
        return self._texts
