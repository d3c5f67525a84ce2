"""`mend`: a pretrained network transforms an edit's gradient into an update of the last MLP matrices (MEND).

The network is trained once per model, facts and settings, on the older snapshot's facts or a file of edits, and stored
in the home folder; or it is read from a file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file

from kgedit.editing.editor import NO_RUN, AppliedEdits, Capabilities, Editor, EditorState, RunContext
from kgedit.editing.gradient_transform.hypernetwork import (
    PUBLISHED_STEPS,
    Hypernetworks,
    TrainingEdit,
    TrainingPlan,
    train,
    training_edits,
    vectors_of,
)
from kgedit.editing.hparams.gradient_transform import MendSettings
from kgedit.editing.training import examples
from kgedit.errors import SpecError
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.model_files import save_tensors
from kgedit.llm.surgery.forward_above import gradient_factors
from kgedit.llm.surgery.layers import mlp_matrices
from kgedit.llm.surgery.matrices import EditedMatrix
from kgedit.llm.training import encode_targets, seeded
from kgedit.progress import Advance
from kgedit.records.cases import Case, KnownFact
from kgedit.resources import home
from kgedit.timesteps.edit_files import EditFile

Lessons = Sequence[KnownFact] | Sequence[TrainingEdit]
"""Training data of a network."""


_AT_ONCE = 32
"""Edits whose factors are in memory at once: those of a whole timestep would need more memory than the model."""


_TRAINING = 2
"""Increased when the same settings give a different network than before, so that stored networks are retrained."""


_NEAR = 0.5
"""Share of the published training length from which a training counts as comparable."""


class Mend(Editor[MendSettings]):
    """Updates the last MLP matrices by an edit's gradient transformed by a trained network."""

    capabilities = Capabilities(
        protocols=("single", "sequential", "per_timestep"),
        changes_weights=True,
        needs_known_facts=True,
        source="MEND, arXiv 2110.11309",
    )
    settings_type = MendSettings

    def __init__(self, model: LanguageModel, settings: MendSettings, *, contexts: Sequence[Context], seed: int) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        depth = len(model.blocks)
        self.layers = list(range(max(0, depth - settings.blocks), depth))
        self.matrices = mlp_matrices(model, self.layers, settings.matrices)
        self._edited = [EditedMatrix(matrix.module) for matrix in self.matrices]
        self._network: Hypernetworks | None = None
        self._trained_steps: int | None = None
        self._train_file: dict[str, Any] | None = None

    def prepare(self, known: Sequence[KnownFact], *, advance: Advance) -> None:
        """Load the network, or train it if it does not exist yet.

        Raises:
            SpecError: if there is no network and none can be trained.
        """
        settings = self.settings
        network = self._new_network()
        facts: Lessons = self._edits_of_file() if settings.train_file else list(dict.fromkeys(known))
        kept = Path(settings.network) if settings.network else home() / "networks" / f"mend-{self._digest(facts)}"
        if kept.is_file():
            self._read(network, kept)
        elif settings.network or not settings.train_steps or len(facts) < 2:
            raise SpecError([_untrained(settings, facts)], of="The settings are wrong")
        else:
            plan = TrainingPlan(
                steps=settings.train_steps,
                learning_rate=settings.learning_rate,
                rate_speed=settings.rate_speed,
                edit_weight=settings.edit_weight,
                learn_end=settings.learn_end,
                seed=self.seed,
                progress_file=kept.with_suffix(".training"),
            )
            contexts = self.contexts
            train(network, self.model, self.matrices, lessons=facts, contexts=contexts, plan=plan, advance=advance)
            save_tensors(kept, network.content(), {"train_steps": str(plan.steps)})
            plan.progress_file.unlink(missing_ok=True)
        self._trained_steps = _steps_of(kept)
        self._network = network.requires_grad_(False)

    def _edits_of_file(self) -> list[TrainingEdit]:
        path = Path(self.settings.train_file)
        if not path.is_file():
            raise SpecError([f"settings.train_file: there is no file {path}"], of="The settings are wrong")
        opened = EditFile.open(path)
        edits = training_edits(opened.cases())
        self._train_file = {"name": opened.name, "sha256": opened.sha256, "edits": len(edits)}
        return edits

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:  # noqa: ARG002 - the contract's shape
        """Make one update for all cases; the loss is the one before it."""
        if self._network is None:
            raise SpecError([_untrained(self.settings, [])], of="The method is not prepared")
        pairs = examples(cases, self.contexts)
        updates, total = [torch.zeros(()) for _ in self.matrices], 0.0
        for start in range(0, len(pairs), _AT_ONCE):
            part = pairs[start : start + _AT_ONCE]
            targets = encode_targets(self.model, part, learn_end=self.settings.learn_end)
            factors, loss = gradient_factors(self.model, self.matrices, targets)
            total += loss * len(part)
            for number, factor in enumerate(factors):
                inputs, outputs = self._network(vectors_of(factor, targets), number)
                updates[number] = updates[number] - inputs.T @ outputs
        for edited, update in zip(self._edited, updates, strict=True):
            edited.add(update)
        return AppliedEdits(loss=total / len(pairs))

    def details(self) -> dict[str, Any]:
        """Blocks, edited matrices, and training length of the network relative to the published one."""
        return {
            **super().details(),
            "layers": self.layers,
            "matrices": [matrix.name for matrix in self.matrices],
            "train_file": self._train_file,
            "train_steps": self._trained_steps,
            "published_train_steps": PUBLISHED_STEPS,
            "notes": self._notes(),
        }

    def _notes(self) -> list[str]:
        steps = self._trained_steps
        if steps is None or steps >= _NEAR * PUBLISHED_STEPS:
            return []
        return [
            f"the network was trained on {steps:,} edits, {steps / PUBLISHED_STEPS:.2g} of the published "
            f"{PUBLISHED_STEPS:,}: the results are not those of MEND as published (settings.train_steps)"
        ]

    def restore(self) -> None:
        """Restore the model's own matrices; the network is kept."""
        for edited in self._edited:
            edited.restore()

    def state(self) -> EditorState:
        """Return the matrices; the network is not included, because `prepare` loads it."""
        weights = zip(self.matrices, self._edited, strict=True)
        return EditorState({matrix.name: edited.weight.detach().float().clone() for matrix, edited in weights})

    def load_state(self, state: EditorState) -> None:
        """Load the matrices."""
        for matrix, edited in zip(self.matrices, self._edited, strict=True):
            edited.write(state.tensors[matrix.name])

    def _new_network(self) -> Hypernetworks:
        shapes = [matrix.shape for matrix in self.matrices]
        with seeded(self.seed, torch.device("cpu")):
            network = Hypernetworks(shapes, rank=self.settings.rank, learning_rate=self.settings.edit_rate)
        return network.to(self.model.device)

    def _read(self, network: Hypernetworks, path: Path) -> None:
        try:
            network.take(load_file(path))
        except (RuntimeError, KeyError, ValueError) as error:
            wanted = f"{self.settings.matrices} of the last {len(self.layers)} blocks with rank {self.settings.rank}"
            reason = str(error).splitlines()[0]
            problem = f"settings.network: {path} contains no network for {wanted} of this model ({reason})"
            raise SpecError([problem], of="The settings are wrong") from error

    def _digest(self, lessons: Lessons) -> str:
        contexts = [context.sha256 for context in self.contexts]
        learned = [
            astuple(one)
            if isinstance(one, TrainingEdit)
            else [one.fact.property, one.question, one.rephrase, one.answer]
            for one in lessons
        ]
        # The file's content is in the lessons; its path does not matter.
        settings = self.settings.model_dump(exclude={"train_file"})
        content = [_TRAINING, self.model.fingerprint, settings, self.seed, contexts, learned]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16] + ".safetensors"


def _steps_of(path: Path) -> int | None:
    """Number of edits that a network was trained on, if its file contains it."""
    with safe_open(path, framework="pt") as file:
        said = (file.metadata() or {}).get("train_steps")
    return None if said is None else int(said)


def _untrained(settings: MendSettings, facts: Lessons) -> str:
    if settings.network:
        return f"settings.network: there is no file {settings.network}"
    if not settings.train_steps:
        return "mend needs a trained network: give settings.network=FILE, or settings.train_steps above 0 to train one"
    if settings.train_file:
        return f"settings.train_file: mend trains its network on at least two edits, and {settings.train_file} has one"
    return (
        f"mend trains its network on known facts, and the timestep has {len(facts)}; give settings.network=FILE, or "
        "export the timestep again with more facts"
    )
