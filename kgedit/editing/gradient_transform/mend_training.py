"""Training of MEND's network: it learns edits that hold in other words and leave other questions alone.

Each step edits the unedited model with one known fact, whose answer is another fact's of the same relation, and asks
for it again in other words, and for an unrelated fact. The loss is that of the answer plus the divergence on the other.
What is learned so far is written to a file from time to time: interrupted training resumes from there, to the same
bytes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from kgedit.editing.editor import Advance
from kgedit.editing.gradient_transform.hypernetwork import Hypernetworks
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.saving import save_tensors
from kgedit.llm.surgery.forward_above import forward_above
from kgedit.llm.surgery.gradient_factors import GradientFactors, gradient_factors
from kgedit.llm.surgery.layers import MlpMatrix
from kgedit.llm.surgery.structure import hooks
from kgedit.llm.targets import TargetBatch, encode_targets, target_losses
from kgedit.records.cases import KnownFact

PUBLISHED_STEPS = 100_000
"""Edits that EasyEdit's configurations train on, if early stopping lets them."""

_STEPS_BETWEEN_WRITES = 100

Update = tuple[torch.Tensor, torch.Tensor]
"""Of one matrix: vectors x inputs and vectors x outputs; their product is to be subtracted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """How to train.

    Attributes:
        steps: Edits learned from, one per step.
        learning_rate: Of Adam on the network.
        rate_speed: Of Adam on the logarithms of the matrices' learning rates.
        edit_weight: Of the answer's loss beside the divergence.
        learn_end: Whether the end of text is factors of a target.
        seed: Of the facts' order and pairing.
        progress_file: Where progress is written, and found again; the caller removes it.
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
    facts: Sequence[KnownFact],
    contexts: Sequence[Context],
    plan: TrainingPlan,
    advance: Advance,
) -> None:
    """Train a network in place; the model does not change.

    Args:
        matrices: The matrices that are edited, those of the lowest block first.
        facts: At least two.
    """
    order = random.Random(plan.seed)
    rates, others = (
        [parameter for name, parameter in network.named_parameters() if name.endswith("log_rate") is wanted]
        for wanted in (True, False)
    )
    optimizer = torch.optim.Adam(
        [{"params": others, "lr": plan.learning_rate}, {"params": rates, "lr": plan.rate_speed}]
    )
    for step in range(_resume(plan.progress_file, network, optimizer, order), plan.steps):
        advance(step, plan.steps)
        loss = _loss(network, model, matrices, draw=_draw(facts, contexts, order), plan=plan)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % _STEPS_BETWEEN_WRITES == 0:
            _write_progress(plan.progress_file, network, optimizer, order, steps=step + 1)
    advance(plan.steps, plan.steps)


def _write_progress(
    path: Path, network: Hypernetworks, optimizer: torch.optim.Optimizer, order: random.Random, *, steps: int
) -> None:
    """Write all that the next step depends on."""
    version, numbers, spare = order.getstate()
    tensors = {f"network.{name}": tensor for name, tensor in network.content().items()}
    for index, values in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": value for name, value in values.items()}
    save_tensors(path, tensors, {"steps": str(steps), "order": json.dumps([version, numbers, spare])})


def _resume(path: Path, network: Hypernetworks, optimizer: torch.optim.Optimizer, order: random.Random) -> int:
    """Read what `_write_progress` wrote, if there is anything; returns the number of steps done."""
    if not path.is_file():
        return 0
    with safe_open(path, framework="pt") as file:
        said, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    values: dict[int, dict[str, torch.Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith("optimizer."):
            _, index, name = key.split(".")
            values.setdefault(int(index), {})[name] = tensor
    network.take({key.removeprefix("network."): own for key, own in tensors.items() if key.startswith("network.")})
    optimizer.load_state_dict({**optimizer.state_dict(), "state": values})
    version, numbers, spare = json.loads(said["order"])
    order.setstate((version, tuple(numbers), spare))
    return int(said["steps"])


@dataclass(frozen=True, slots=True)
class _Draw:
    """(prompt, answer) of the edit, of the same in other words, and of something else."""

    edit: tuple[str, str]
    again: tuple[str, str]
    other: tuple[str, str]


def _draw(facts: Sequence[KnownFact], contexts: Sequence[Context], order: random.Random) -> _Draw:
    fact, other = order.sample(range(len(facts)), 2)
    own, context = facts[fact], order.choice(list(contexts))
    same = [known.answer for known in facts if known.fact.property == own.fact.property and known.answer != own.answer]
    target = order.choice(same) if same else facts[other].answer
    return _Draw(
        (context.prompt(own.question), target),
        (context.prompt(own.rephrase or own.question), target),
        (context.prompt(facts[other].question), facts[other].answer),
    )


def _loss(
    network: Hypernetworks, model: LanguageModel, matrices: Sequence[MlpMatrix], *, draw: _Draw, plan: TrainingPlan
) -> torch.Tensor:
    inner = encode_targets(model, [draw.edit], learn_end=plan.learn_end)
    factors, _ = gradient_factors(model, matrices, inner)
    vectors = [vectors_of(factors, inner) for factors in factors]
    network.watch(vectors)
    outer = encode_targets(model, [draw.edit, draw.again, draw.other], learn_end=plan.learn_end)
    with forward_above(model, matrices[0].block, outer) as logits, torch.enable_grad():
        with torch.no_grad():
            before = logits()
        updates = [network(own, number) for number, own in enumerate(vectors)]
        with updated(matrices, updates):
            after = logits()
    answer = target_losses(after, outer)[:2].mean()
    asked = outer.labels[2] != -100
    log_before, log_after = (rows[2, :-1][asked].float().log_softmax(-1) for rows in (before, after))
    divergence = (log_before.exp() * (log_before - log_after)).sum(-1).mean()
    return plan.edit_weight * answer + divergence


def vectors_of(factors: GradientFactors, targets: TargetBatch) -> torch.Tensor:
    """One matrix's inputs and output gradients side by side, at every token that is no padding."""
    tokens = targets.mask.bool()
    return torch.cat([factors.inputs[tokens], factors.gradients[tokens]], dim=1)


@contextmanager
def updated(matrices: Sequence[MlpMatrix], updates: Sequence[Update]) -> Iterator[None]:
    """The model as if the products had been subtracted from these matrices, with gradients to the updates."""

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
