"""Network of MEND, and its training: it transforms the rank-one factors of a gradient into those of a better edit.

One network serves all matrices of one shape; each has its own statistics, scales, shifts and learning rate. Initially
they pass the normalized factors through unchanged, so training starts from plain gradient descent.

The network learns edits that generalise to rephrases and do not affect other questions. Each step edits the unedited
model and evaluates the edit, a rephrase of it, and an unrelated fact. Edits are known facts, each with the answer of
another fact of the same relation, or those of a file with rephrased questions. The loss is that of the answer plus the
divergence on the unrelated fact. Checkpoints are written regularly: interrupted training resumes from there and gives
the same bytes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import safe_open
from torch import nn

from kgedit.editing.gradient_transform.running_statistics import RunningStatistics
from kgedit.llm.contexts import Context
from kgedit.llm.devices import float64_device
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.model_files import save_tensors
from kgedit.llm.surgery.forward_above import GradientFactors, forward_above, gradient_factors
from kgedit.llm.surgery.layers import MlpMatrix
from kgedit.llm.surgery.structure import hooks
from kgedit.llm.training import TargetBatch, backward, encode_targets, loss_scaler, take_step, target_losses
from kgedit.progress import Advance
from kgedit.records.cases import LOCALITY_AXES, Case, KnownFact


class Hypernetworks(nn.Module):
    """One network for each shape among the matrices.

    Args:
        shapes: Shapes of the matrices: inputs and outputs.
        rank: Rank of every network's layers.
        learning_rate: Initial learning rate of every matrix.
    """

    def __init__(self, shapes: Sequence[tuple[int, int]], *, rank: int, learning_rate: float) -> None:
        super().__init__()
        kinds = list(dict.fromkeys(shapes))
        self._at = [(kinds.index(shape), shapes[:index].count(shape)) for index, shape in enumerate(shapes)]
        self.networks = nn.ModuleList(
            Hypernetwork(*kind, matrices=shapes.count(kind), rank=rank, learning_rate=learning_rate) for kind in kinds
        )

    def forward(self, vectors: torch.Tensor, matrix: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Like `Hypernetwork.forward`, for the matrix with this index."""
        network, own = self._at[matrix]
        parts: tuple[torch.Tensor, torch.Tensor] = self.networks[network](vectors, own)
        return parts

    def watch(self, vectors: Sequence[torch.Tensor]) -> None:
        """Add each matrix's vectors to its statistics; used only in training."""
        for number, network in enumerate(self._each()):
            network.watch([own for own, (at, _) in zip(vectors, self._at, strict=True) if at == number])

    def content(self) -> dict[str, torch.Tensor]:
        """Weights and statistics of all networks."""
        return {
            f"{number}.{name}": tensor
            for number, network in enumerate(self._each())
            for name, tensor in network.content().items()
        }

    def take(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Load the result of `content`.

        Raises:
            RuntimeError, KeyError: if it came from networks of other shapes.
        """
        for number, network in enumerate(self._each()):
            own = {name.partition(".")[2]: tensor for name, tensor in tensors.items() if name.startswith(f"{number}.")}
            network.take(own)

    def _each(self) -> list[Hypernetwork]:
        return [network for network in self.networks if isinstance(network, Hypernetwork)]


class Hypernetwork(nn.Module):
    """Two low-rank residual layers over the concatenated input and output gradient (MEND, section 3).

    Args:
        inputs: Input width of the matrices.
        outputs: Output width of the matrices.
        matrices: Number of matrices.
        rank: Rank of both layers.
        learning_rate: Initial learning rate of every matrix.
    """

    def __init__(self, inputs: int, outputs: int, *, matrices: int, rank: int, learning_rate: float) -> None:
        super().__init__()
        width = inputs + outputs
        self.inputs = inputs
        self.down = nn.ParameterList([nn.Parameter(torch.randn(width, rank) / width**0.5) for _ in range(2)])
        # Zeros, so that both layers pass their input through at first.
        self.up = nn.ParameterList([nn.Parameter(torch.zeros(rank, width)) for _ in range(2)])
        self.bias = nn.Parameter(torch.zeros(width))
        self.scale = nn.Parameter(torch.ones(2, matrices, width))
        self.shift = nn.Parameter(torch.zeros(2, matrices, width))
        self.log_rate = nn.Parameter(torch.full((matrices,), learning_rate).log())
        self.seen = [RunningStatistics.empty(width, torch.device("cpu")) for _ in range(matrices)]

    def forward(self, vectors: torch.Tensor, matrix: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the inputs and the output gradients of the edit, the latter multiplied by the matrix's learning rate.

        Args:
            vectors: Inputs and output gradients of the original gradient, vectors x (inputs + outputs).
        """
        hidden = self.seen[matrix].normalize(vectors).float().to(vectors.device)
        for layer in range(2):
            changed = hidden @ self.down[layer] @ self.up[layer] + (self.bias if layer == 0 else 0)
            moved = self.scale[layer, matrix] * changed + self.shift[layer, matrix]
            # At 0, the initial value, relu has no gradient, nor has clamp in torch 2.15.
            hidden = hidden + torch.where(moved < 0, 0.0, moved)
        return hidden[:, : self.inputs], hidden[:, self.inputs :] * self.log_rate[matrix].exp()

    def watch(self, vectors: Sequence[torch.Tensor]) -> None:
        """See `Hypernetworks.watch`."""
        if self.seen[0].count == 0:
            self.seen = [RunningStatistics.empty(own.shape[1], own.device) for own in vectors]
        for seen, own in zip(self.seen, vectors, strict=True):
            seen.add(own)

    def content(self) -> dict[str, torch.Tensor]:
        """Weights and statistics."""
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.state_dict().items()}
        tensors["seen.count"] = torch.tensor([seen.count for seen in self.seen])
        tensors["seen.mean"] = torch.stack([seen.mean for seen in self.seen]).cpu()
        tensors["seen.squares"] = torch.stack([seen.squares for seen in self.seen]).cpu()
        return tensors

    def take(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Load the result of `content`.

        Raises:
            RuntimeError, KeyError: if it came from a network of another shape.
        """
        self.load_state_dict({name: tensor for name, tensor in tensors.items() if not name.startswith("seen.")})
        device = self.bias.device
        counts, means, squares = (tensors[f"seen.{name}"] for name in ("count", "mean", "squares"))
        self.seen = [
            RunningStatistics(int(count), mean.to(float64_device(device)), own.to(float64_device(device)))
            for count, mean, own in zip(counts, means, squares, strict=True)
        ]


PUBLISHED_STEPS = 100_000
"""Number of training edits in EasyEdit's configurations, unless stopped early."""

_STEPS_BETWEEN_WRITES = 100
"""An interruption costs at most this many of the thousands of steps; a write is as large as the networks."""

_QUESTIONS = 3
"""Number of questions asked after each edit."""

Update = tuple[torch.Tensor, torch.Tensor]
"""Update of one matrix: vectors x inputs and vectors x outputs; their product is subtracted from it."""


@dataclass(frozen=True, slots=True)
class TrainingEdit:
    """An edit of a training file.

    Attributes:
        question: Question of the edit.
        answer: Target of the edit.
        rephrases: Rephrased questions.
        kept: Unrelated questions with their answers.
    """

    question: str
    answer: str
    rephrases: tuple[str, ...]
    kept: tuple[tuple[str, str], ...]


def training_edits(cases: Iterable[Case]) -> list[TrainingEdit]:
    """Extract the edits of a file, each once, with its rephrased and locality questions."""
    edits = [
        TrainingEdit(
            case.question,
            case.answer,
            tuple(probe.question for probe in case.probes if probe.axis == "rephrase"),
            tuple((probe.question, probe.answers[0]) for probe in case.probes if probe.axis in LOCALITY_AXES),
        )
        for case in cases
    ]
    return list(dict.fromkeys(edits))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """Training settings.

    Attributes:
        steps: Number of training edits, one per step.
        learning_rate: Learning rate of Adam on the network.
        rate_speed: Learning rate of Adam on the logarithms of the matrices' learning rates.
        edit_weight: Weight of the answer's loss relative to the divergence.
        learn_end: Whether the end of text is part of a target.
        seed: Seed of the order and pairing of facts.
        progress_file: File for checkpoints of the training; the caller removes it.
    """

    steps: int
    learning_rate: float
    rate_speed: float
    edit_weight: float
    learn_end: bool
    seed: int
    progress_file: Path


def train(
    network: Hypernetworks,
    model: LanguageModel,
    matrices: Sequence[MlpMatrix],
    *,
    lessons: Sequence[KnownFact] | Sequence[TrainingEdit],
    contexts: Sequence[Context],
    plan: TrainingPlan,
    advance: Advance,
) -> None:
    """Train a network in place; the model does not change.

    Args:
        matrices: The edited matrices, from the lowest block upwards.
        lessons: Known facts or edits; at least two.
    """
    order = random.Random(plan.seed)
    rates, others = (
        [parameter for name, parameter in network.named_parameters() if name.endswith("log_rate") is wanted]
        for wanted in (True, False)
    )
    optimizer = torch.optim.Adam(
        [{"params": others, "lr": plan.learning_rate}, {"params": rates, "lr": plan.rate_speed}]
    )
    training = _Training(network, optimizer, loss_scaler(model), order)
    for step in range(training.resume(plan.progress_file), plan.steps):
        advance(step, plan.steps)
        draw = _draw(lessons, contexts, order, edit_weight=plan.edit_weight)
        vectors = _edit(network, model, matrices, draw[0], learn_end=plan.learn_end)
        loss_of = partial(_loss, network, model, matrices, vectors=vectors, learn_end=plan.learn_end)
        backward(model, draw, loss_of, optimizer=optimizer, scaler=training.scaler)
        # As published 100, for the sum over ten edits; with a higher learning rate, steps of one edit are limited more.
        take_step(optimizer, training.scaler, max_norm=1.0)
        if (step + 1) % _STEPS_BETWEEN_WRITES == 0:
            training.write(plan.progress_file, steps=step + 1)
    advance(plan.steps, plan.steps)


@dataclass(frozen=True, slots=True)
class _Training:
    """Complete state of the training between steps."""

    network: Hypernetworks
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    order: random.Random

    def write(self, path: Path, *, steps: int) -> None:
        """Write the state after a number of steps."""
        version, numbers, spare = self.order.getstate()
        tensors = {f"network.{name}": tensor for name, tensor in self.network.content().items()}
        for index, values in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": value for name, value in values.items()}
        scale = {"scale": json.dumps(self.scaler.state_dict())} if self.scaler.is_enabled() else {}
        save_tensors(path, tensors, {"steps": str(steps), "order": json.dumps([version, numbers, spare]), **scale})

    def resume(self, path: Path) -> int:
        """Load the state written by `write`, if there is one; returns the number of finished steps."""
        if not path.is_file():
            return 0
        with safe_open(path, framework="pt") as file:
            said, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        values: dict[int, dict[str, torch.Tensor]] = {}
        for key, tensor in tensors.items():
            if key.startswith("optimizer."):
                _, index, name = key.split(".")
                values.setdefault(int(index), {})[name] = tensor
        own = {key.removeprefix("network."): own for key, own in tensors.items() if key.startswith("network.")}
        self.network.take(own)
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": values})
        if "scale" in said:
            self.scaler.load_state_dict(json.loads(said["scale"]))
        version, numbers, spare = json.loads(said["order"])
        self.order.setstate((version, tuple(numbers), spare))
        return int(said["steps"])


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question asked after an edit.

    Attributes:
        pair: Prompt and answer.
        share: Weight of its loss in the step's loss.
        kept: Whether the model should answer as before the edit, rather than with the answer.
    """

    pair: tuple[str, str]
    share: float
    kept: bool = False


def _draw(
    lessons: Sequence[KnownFact] | Sequence[TrainingEdit],
    contexts: Sequence[Context],
    order: random.Random,
    *,
    edit_weight: float,
) -> list[_Asked]:
    """Draw the questions of a step: the edit, a rephrase, and an unrelated question."""
    number, other = order.sample(range(len(lessons)), 2)
    context = order.choice(list(contexts))
    own, another = lessons[number], lessons[other]
    if isinstance(own, TrainingEdit):
        target, rephrase = own.answer, order.choice(own.rephrases or (own.question,))
        kept = order.choice(own.kept or ((another.question, another.answer),))
    else:
        facts = cast("Sequence[KnownFact]", lessons)
        same = [one.answer for one in facts if one.fact.property == own.fact.property and one.answer != own.answer]
        target = order.choice(same) if same else another.answer
        rephrase, kept = own.rephrase or own.question, (another.question, another.answer)
    return [
        _Asked((context.prompt(own.question), target), edit_weight / 2),
        _Asked((context.prompt(rephrase), target), edit_weight / 2),
        _Asked((context.prompt(kept[0]), kept[1]), 1.0, kept=True),
    ]


def _edit(
    network: Hypernetworks, model: LanguageModel, matrices: Sequence[MlpMatrix], edit: _Asked, *, learn_end: bool
) -> list[torch.Tensor]:
    """Compute each matrix's input of the network, and add it to the network's statistics."""
    targets = encode_targets(model, [edit.pair], learn_end=learn_end)
    factors, _ = gradient_factors(model, matrices, targets)
    vectors = [vectors_of(own, targets) for own in factors]
    network.watch(vectors)
    return vectors


def _loss(
    network: Hypernetworks,
    model: LanguageModel,
    matrices: Sequence[MlpMatrix],
    asked: Sequence[_Asked],
    *,
    vectors: Sequence[torch.Tensor],
    learn_end: bool,
) -> torch.Tensor:
    """Loss of some of a step's questions, scaled so that the mean over all questions is the step's loss."""
    targets = encode_targets(model, [question.pair for question in asked], learn_end=learn_end)
    with forward_above(model, matrices[0].block, targets) as logits, torch.enable_grad():
        with torch.no_grad():
            before = logits()
        with updated(matrices, [network(own, number) for number, own in enumerate(vectors)]):
            after = logits()
    answers = target_losses(after, targets)
    losses = [
        question.share * (_divergence(before[row], after[row], targets.labels[row]) if question.kept else answers[row])
        for row, question in enumerate(asked)
    ]
    return torch.stack(losses).sum() * (_QUESTIONS / len(asked))


def _divergence(before: torch.Tensor, after: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """KL(before || after), averaged over the answer's tokens of one row of logits."""
    answer = labels != -100
    log_before, log_after = (logits[:-1][answer].float().log_softmax(-1) for logits in (before, after))
    divergence: torch.Tensor = (log_before.exp() * (log_before - log_after)).sum(-1).mean()
    return divergence


def vectors_of(factors: GradientFactors, targets: TargetBatch) -> torch.Tensor:
    """Concatenated inputs and output gradients of one matrix, at every token that is not padding."""
    tokens = targets.mask.bool()
    return torch.cat([factors.inputs[tokens], factors.gradients[tokens]], dim=1)


@contextmanager
def updated(matrices: Sequence[MlpMatrix], updates: Sequence[Update]) -> Iterator[None]:
    """Context in which the model computes as if the updates were subtracted, with gradients to the updates."""

    def hook(update: Update) -> Any:
        inputs, outputs = update

        def subtract(_: Any, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
            device = output.device
            changed: torch.Tensor = (given[0].float() @ inputs.to(device).T) @ outputs.to(device)
            return (output.float() - changed).to(output.dtype)

        return subtract

    pairs = zip(matrices, updates, strict=True)
    with hooks(*[matrix.module.register_forward_hook(hook(update)) for matrix, update in pairs]):
        yield
