"""`mend`: a network, trained beforehand, turns an edit's gradient into an update of the last MLP matrices (MEND).

The network is trained once per model, facts and settings, on the older snapshot's facts, and kept under the home
folder; or it comes from a file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from kgedit.editing.contract import Advance, Applied, Capabilities, Editor, State
from kgedit.editing.examples import CONTEXT_MEANING, examples, training_contexts
from kgedit.editing.gradients import gradient_parts
from kgedit.editing.hypernetwork import Hypernetworks
from kgedit.editing.layers import MATRICES_MEANING, mlp_places, parse_roles
from kgedit.editing.matrices import EditedMatrix
from kgedit.editing.mend_training import Course, train, vectors_of
from kgedit.editing.randomness import seeded
from kgedit.editing.settings import Bounds, setting
from kgedit.errors import SpecError
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.targets import lines_of
from kgedit.records.cases import Case, KnownFact
from kgedit.resources import home


@dataclass(frozen=True, slots=True)
class MendSettings:
    """Hyperparameters of MEND."""

    blocks: int = setting(3, "last blocks whose matrices are edited", bounds=Bounds(least=1))
    matrices: str = setting("up,down", MATRICES_MEANING, read_by=parse_roles)
    rank: int = setting(256, "of the network's two layers", bounds=Bounds(least=1))
    edit_rate: float = setting(1e-4, "learning rate of an edit before training", bounds=Bounds(above=0))
    network: str = setting("", "file of a trained network; empty: train one")
    train_steps: int = setting(300, "edits that the network learns from", bounds=Bounds(least=0))
    learning_rate: float = setting(3e-4, "of Adam on the network", bounds=Bounds(above=0))
    rate_speed: float = setting(0.03, "of Adam on the logarithms of the edit rates", bounds=Bounds(above=0))
    edit_weight: float = setting(0.1, "of the answer's loss beside the divergence", bounds=Bounds(above=0))
    context: str = setting("question_only", CONTEXT_MEANING)
    learn_end: bool = setting(False, "whether the end of text is part of the target")


class Mend(Editor[MendSettings]):
    """Subtracts what its network makes of the gradient's rank-one parts, one update per call."""

    capabilities = Capabilities(
        protocols=("single", "sequential", "per_timestep"),
        changes_weights=True,
        needs_known_facts=True,
        source="MEND, arXiv 2110.11309",
    )
    settings_type = MendSettings
    method = "mend"

    def __init__(self, model: LanguageModel, settings: MendSettings, *, asked: Sequence[Context], seed: int) -> None:
        super().__init__(model, settings, asked=asked, seed=seed)
        depth = len(model.blocks)
        self.layers = list(range(max(0, depth - settings.blocks), depth))
        self._contexts = training_contexts(settings.context, asked)
        self.places = mlp_places(model, self.layers, settings.matrices)
        self._matrices = [EditedMatrix(place.module) for place in self.places]
        self._network: Hypernetworks | None = None

    def prepare(self, known: Sequence[KnownFact], *, advance: Advance) -> None:
        """Read the network, or train it where it is not there yet.

        Raises:
            SpecError: if there is no network and none can be trained.
        """
        settings = self.settings
        network = self._new_network()
        facts = list(dict.fromkeys(known))
        kept = Path(settings.network) if settings.network else home() / "networks" / f"mend-{self._digest(facts)}"
        if kept.is_file():
            self._read(network, kept)
        elif settings.network or not settings.train_steps or len(facts) < 2:
            raise SpecError([_untrained(settings, facts)])
        else:
            course = Course(
                steps=settings.train_steps,
                learning_rate=settings.learning_rate,
                rate_speed=settings.rate_speed,
                edit_weight=settings.edit_weight,
                learn_end=settings.learn_end,
                seed=self.seed,
            )
            contexts = self._contexts
            train(network, self.model, self.places, facts=facts, contexts=contexts, course=course, advance=advance)
            _write(network, kept)
        self._network = network.requires_grad_(False)

    def apply(self, cases: Sequence[Case]) -> Applied:
        """One update for all cases; the loss is that before it."""
        if self._network is None:
            raise SpecError([_untrained(self.settings, [])])
        lines = lines_of(self.model, examples(cases, self._contexts), learn_end=self.settings.learn_end)
        parts, loss = gradient_parts(self.model, self.places, lines)
        for number, (matrix, part) in enumerate(zip(self._matrices, parts, strict=True)):
            inputs, outputs = self._network(vectors_of(part, lines), number)
            matrix.add(-inputs.T @ outputs)
        return Applied(loss=loss)

    def derived(self) -> dict[str, Any]:
        """Blocks, and matrices of them, that are edited."""
        return {**super().derived(), "layers": self.layers, "matrices": [place.name for place in self.places]}

    def restore(self) -> None:
        """Give the model its own matrices back; the network stays."""
        for matrix in self._matrices:
            matrix.restore()

    def state(self) -> State:
        """The matrices; the network is no part of it, since `prepare` brings it back."""
        weights = zip(self.places, self._matrices, strict=True)
        return State({place.name: matrix.weight.detach().float().clone() for place, matrix in weights})

    def load_state(self, state: State) -> None:
        """Take the matrices over."""
        for place, matrix in zip(self.places, self._matrices, strict=True):
            matrix.write(state.tensors[place.name])

    def save_network(self, path: Path) -> None:
        """Write the trained network, to be given as the setting `network` of another run."""
        if self._network is not None:
            _write(self._network, path)

    def _new_network(self) -> Hypernetworks:
        shapes = [place.shape for place in self.places]
        with seeded(self.seed, torch.device("cpu")):
            network = Hypernetworks(shapes, rank=self.settings.rank, learning_rate=self.settings.edit_rate)
        return network.to(self.model.device)

    def _read(self, network: Hypernetworks, path: Path) -> None:
        try:
            network.take(load_file(path))
        except (RuntimeError, KeyError, ValueError) as error:
            wanted = f"{self.settings.matrices} of the last {len(self.layers)} blocks with rank {self.settings.rank}"
            reason = str(error).splitlines()[0]
            problem = f"settings.network: {path} holds no network for {wanted} of this model ({reason})"
            raise SpecError([problem]) from error

    def _digest(self, facts: Sequence[KnownFact]) -> str:
        contexts = [context.sha256 for context in self._contexts]
        learned = [[fact.fact.property, fact.question, fact.rephrase, fact.answer] for fact in facts]
        content = [self.model.fingerprint, asdict(self.settings), self.seed, contexts, learned]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16] + ".safetensors"


def _untrained(settings: MendSettings, facts: Sequence[KnownFact]) -> str:
    if settings.network:
        return f"settings.network: there is no file {settings.network}"
    if not settings.train_steps:
        return "mend needs a trained network: give settings.network=FILE, or settings.train_steps above 0 to train one"
    return (
        f"mend trains its network on known facts, and the timestep has {len(facts)}; give settings.network=FILE, or "
        "export the timestep again with more facts"
    )


def _write(network: Hypernetworks, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial-{os.getpid()}")
    save_file(network.content(), partial)
    partial.replace(path)
