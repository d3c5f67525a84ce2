"""Causal tracing: the layers and positions at which a model recalls facts (ROME, arXiv 2202.05262 section 2).

The embeddings of a fact's subject are corrupted with noise, which makes the model forget the answer; then single states
of the clean run are restored. A state that restores the answer mediates the fact. ROME edits the MLP whose restored
outputs at the subject's last token have the largest effect.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import torch

from kgedit.errors import ModelError
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.forward_above import ForwardAbove, forward_above
from kgedit.llm.surgery.structure import by_row, hidden_of, hooks, put, with_hidden
from kgedit.llm.tokenization import token_spans
from kgedit.llm.training import TargetBatch, encode_targets
from kgedit.progress import Advance

StateKind = Literal["hidden", "mlp", "attention"]
STATE_KINDS: tuple[StateKind, ...] = get_args(StateKind)
"""Outputs of blocks, MLPs and attention layers."""

Position = Literal["first subject", "middle subject", "last subject", "next", "further", "last"]
POSITIONS: tuple[Position, ...] = get_args(Position)
"""Kinds of tokens, as in the paper's figure 2; those before the subject cannot mediate anything."""

_MOST_TOKENS = 8192
"""Maximum number of tokens of a batch of restorations."""

_PUBLISHED_WINDOW, _PUBLISHED_DEPTH = 10, 48
"""Number of MLPs or attention layers restored together in GPT-2 XL, and its number of blocks."""

_MEMIT_LAYERS = 5
"""Number of MEMIT's layers in GPT-2 XL: ROME's layer 17 and the four below."""


@dataclass(frozen=True, slots=True)
class TracingPlan:
    """Settings of causal tracing.

    Attributes:
        kinds: Kinds of restored states.
        samples: Noise samples per fact; 10 in the paper's code.
        noise: Standard deviation of the noise, in standard deviations of the subjects' embeddings; 3 in the paper.
        window: Number of adjacent MLPs or attention layers restored together; None means 10 of 48 blocks, as in the
            paper.
        seed: Seed of the noise.
    """

    kinds: tuple[StateKind, ...] = STATE_KINDS
    samples: int = 10
    noise: float = 3.0
    window: int | None = None
    seed: int = 0

    def window_of(self, depth: int) -> int:
        """Number of adjacent layers restored together in a model with `depth` blocks."""
        return self.window or max(1, round(depth * _PUBLISHED_WINDOW / _PUBLISHED_DEPTH))


@dataclass(frozen=True, slots=True)
class TracedFact:
    """A fact to be traced.

    Attributes:
        ids: Token ids of the prompt.
        subject: Indexes of the subject's tokens.
        answer: The answer's first token, whose probability is measured.
    """

    ids: tuple[int, ...]
    subject: range
    answer: int

    def position(self, index: int) -> Position:
        """Kind of a token that is not before the subject."""
        first, last = self.subject[0], self.subject[-1]
        if index == last:
            return "last subject"
        if index < last:
            return "first subject" if index == first else "middle subject"
        if index == len(self.ids) - 1:
            return "last"
        return "next" if index == last + 1 else "further"


@dataclass(frozen=True, slots=True)
class TracedEffects:
    """Effects of one fact.

    Attributes:
        clean: Probability of the answer.
        corrupted: Probability of the answer with the subject corrupted, mean over noise samples.
        restored: Probability with one state restored, by kind of state: tokens from the subject on x layers.
    """

    clean: float
    corrupted: float
    restored: Mapping[StateKind, torch.Tensor]


@dataclass(frozen=True, slots=True)
class AverageEffects:
    """Means over facts.

    Attributes:
        facts: Number of facts.
        total: Average total effect: decrease of the answer's probability by corruption.
        indirect: Average indirect effect by kind and position: increase of the probability by restoring, one value per
            layer; positions that no fact has are omitted.
    """

    facts: int
    total: float
    indirect: Mapping[tuple[StateKind, Position], tuple[float, ...]]

    @property
    def rome_layer(self) -> int | None:
        """The MLP with the largest effect at the subject's last token; None if MLPs were not traced."""
        found = self.indirect.get(("mlp", "last subject"))
        return None if found is None else max(range(len(found)), key=found.__getitem__)

    @property
    def memit_layers(self) -> tuple[int, ...] | None:
        """ROME's layer and the four below it, as published for GPT-2 XL."""
        top = self.rome_layer
        return None if top is None else tuple(range(max(0, top - _MEMIT_LAYERS + 1), top + 1))


def encode_fact(
    model: LanguageModel, question: str, subject: str, answer: str, *, context: Context | None = None
) -> TracedFact | None:
    """Tokenize a fact; None if its subject does not occur exactly once in the question or cloze.

    Args:
        context: Context of the question; None means no context.
    """
    if not subject or question.count(subject) != 1:
        return None
    prompt = context.prompt(question) if context else question
    start = (len(context.before_question) if context else 0) + question.index(subject)
    ids, spans = token_spans(model.tokenizer, prompt)
    own = [index for index, (begin, end) in enumerate(spans) if begin < start + len(subject) and end > start]
    lead = model.leading_ids()
    target = model.encode_target(answer, after=prompt)[0]
    return TracedFact((*lead, *ids), range(len(lead) + own[0], len(lead) + own[-1] + 1), target)


def knows(model: LanguageModel, pairs: Sequence[tuple[str, str]]) -> list[bool]:
    """Whether the first answer token of each (prompt, answer) pair is the most likely, as in the paper's code."""
    targets = encode_targets(model, pairs, learn_end=False)
    with torch.no_grad():
        logits = model.forward(targets.ids, targets.mask, last=targets.last).logits[:, : targets.labels.shape[1]]
    first = (targets.labels != -100).int().argmax(1)
    rows = torch.arange(len(first), device=first.device)
    found: list[bool] = (logits.argmax(-1)[rows, first] == targets.labels[rows, first]).tolist()
    return found


def trace(model: LanguageModel, facts: Sequence[TracedFact], plan: TracingPlan, *, advance: Advance) -> AverageEffects:
    """Trace facts and average their effects.

    Raises:
        ModelError: if there are no facts, or a block lacks the states to restore.
    """
    if not facts:
        raise ModelError("There are no facts to trace. Give facts that the model answers right.")
    width = plan.noise * _deviation(model, facts)
    found = []
    for index, fact in enumerate(facts):
        advance(index, len(facts))
        generator = torch.Generator().manual_seed(random.Random(f"{plan.seed} {index}").getrandbits(63))
        noise = width * torch.randn((plan.samples, len(fact.subject), _embedding_width(model)), generator=generator)
        found.append(effects_of(model, fact, noise, plan))
    advance(len(facts), len(facts))
    return _average(facts, found, plan)


def effects_of(model: LanguageModel, fact: TracedFact, noise: torch.Tensor, plan: TracingPlan) -> TracedEffects:
    """Effects of one fact.

    Args:
        noise: Noise added to the embeddings of the subject's tokens: samples x tokens x width.
    """
    states = clean_states(model, fact, plan.kinds)
    batch = _batch(model, fact, len(noise))
    with torch.no_grad(), forward_above(model, 0, _batch(model, fact, 1)) as clean:
        unharmed = float(_probabilities(clean(), fact).mean())
    with torch.no_grad(), _corrupted(model, fact, noise), forward_above(model, 0, batch) as corrupted:
        harmed = float(_probabilities(corrupted(), fact).mean())
    depth, tokens = len(model.blocks), range(fact.subject[0], len(fact.ids))
    restored: dict[StateKind, torch.Tensor] = {}
    for kind in plan.kinds:
        reach = 1 if kind == "hidden" else plan.window_of(depth)
        columns = [
            restore(model, fact, noise, {(kind, layer): states[kind, layer] for layer in _window(center, reach, depth)},
                    tokens=[(token,) for token in tokens])
            for center in range(depth)
        ]  # fmt: skip
        restored[kind] = torch.stack(columns, dim=1)
    return TracedEffects(unharmed, harmed, restored)


def clean_states(
    model: LanguageModel, fact: TracedFact, kinds: Sequence[StateKind]
) -> dict[tuple[StateKind, int], torch.Tensor]:
    """States of the clean run by kind and layer, tokens x width each."""
    states: dict[tuple[StateKind, int], torch.Tensor] = {}

    def note(key: tuple[StateKind, int]) -> Any:
        def hook(_: Any, __: Any, output: Any) -> None:
            states[key] = by_row(hidden_of(output), 1)[0].detach().clone()

        return hook

    keys = [(kind, layer) for kind in kinds for layer in range(len(model.blocks))]
    batch = _batch(model, fact, 1)
    with torch.no_grad(), hooks(*(_module(model, *key).register_forward_hook(note(key)) for key in keys)):
        model.forward(batch.ids, batch.mask, last=1)
    return states


def restore(
    model: LanguageModel,
    fact: TracedFact,
    noise: torch.Tensor,
    states: Mapping[tuple[StateKind, int], torch.Tensor],
    *,
    tokens: Sequence[Sequence[int]],
) -> torch.Tensor:
    """Probability of the answer with the subject corrupted and states restored, mean over noise samples.

    Args:
        noise: See `effects_of`.
        states: Clean states restored together, by kind and layer.
        tokens: Tokens restored by each restoration; blocks below the lowest layer are computed once for all of them.

    Returns:
        One probability per restoration.
    """
    lowest, samples = min(layer for _, layer in states), len(noise)
    size = max(1, _MOST_TOKENS // (samples * len(fact.ids)))
    found = []
    for start in range(0, len(tokens), size):
        part = tokens[start : start + size]
        with _corrupted(model, fact, noise), forward_above(model, lowest, _batch(model, fact, samples)) as forward:
            found.append(_restored(model, fact, forward, states, tokens=part, samples=samples))
    return torch.cat(found)


def _restored(
    model: LanguageModel,
    fact: TracedFact,
    forward: ForwardAbove,
    states: Mapping[tuple[StateKind, int], torch.Tensor],
    *,
    tokens: Sequence[Sequence[int]],
    samples: int,
) -> torch.Tensor:
    count = len(tokens) * samples
    forward.select_rows(torch.arange(samples).repeat(len(tokens)))
    places = [
        (part * samples + draw, token) for part, own in enumerate(tokens) for token in own for draw in range(samples)
    ]
    rows, columns = (torch.tensor([place[side] for place in places], dtype=torch.long) for side in (0, 1))

    def hook(state: torch.Tensor) -> Any:
        def write(_: Any, __: Any, output: Any) -> Any:
            values = state[columns.to(state.device)]
            return with_hidden(output, put(hidden_of(output), values, rows=rows, columns=columns, count=count))

        return write

    handles = [_module(model, *key).register_forward_hook(hook(state)) for key, state in states.items()]
    with torch.no_grad(), hooks(*handles):
        return _probabilities(forward(), fact).reshape(len(tokens), samples).mean(1)


@contextmanager
def _corrupted(model: LanguageModel, fact: TracedFact, noise: torch.Tensor) -> Iterator[None]:
    """Context in which noise is added to the subject's embeddings: row r gets sample r modulo the number of samples."""

    def add(_: Any, __: Any, output: torch.Tensor) -> torch.Tensor:
        own = noise.repeat(len(output) // len(noise), 1, 1).to(output)
        changed = output.clone()
        changed[:, fact.subject[0] : fact.subject[-1] + 1] += own
        return changed

    with hooks(model.module.get_input_embeddings().register_forward_hook(add)):
        yield


def _module(model: LanguageModel, kind: StateKind, layer: int) -> Any:
    block = model.blocks[layer]
    if kind == "hidden":
        return block.module
    if kind == "mlp" and not block.mixture:
        return block.down_projection
    if kind == "attention" and block.attention_output is not None:
        return block.attention_output.layer
    raise ModelError(
        f"Block {layer} of {model.name} has no single output of its {kind} to restore. Trace other states: --state "
        "hidden"
    )


def _window(center: int, reach: int, depth: int) -> range:
    """Window of layers around one, truncated at both ends of the model."""
    return range(max(0, center - reach // 2), min(depth, center + (reach + 1) // 2))


def _batch(model: LanguageModel, fact: TracedFact, rows: int) -> TargetBatch:
    ids = torch.tensor([fact.ids] * rows, device=model.device)
    labels = torch.full((rows, 1), fact.answer, device=model.device)
    return TargetBatch(ids, torch.ones_like(ids), labels, whole=False)


def _probabilities(logits: torch.Tensor, fact: TracedFact) -> torch.Tensor:
    found: torch.Tensor = logits[:, -1].float().softmax(-1)[:, fact.answer].cpu()
    return found


def _embedding_width(model: LanguageModel) -> int:
    return int(model.module.get_input_embeddings().weight.shape[1])


def _deviation(model: LanguageModel, facts: Sequence[TracedFact]) -> float:
    """Standard deviation of the embeddings of all subjects' tokens, as input of the first block."""
    ids = [fact.ids[index] for fact in facts for index in fact.subject]
    with torch.no_grad():
        embedded = model.module.get_input_embeddings()(torch.tensor([ids], device=model.device))
    return float(embedded.float().std())


def _average(facts: Sequence[TracedFact], found: Sequence[TracedEffects], plan: TracingPlan) -> AverageEffects:
    """Mean over facts; within a fact, over its tokens of one kind."""
    indirect: dict[tuple[StateKind, Position], tuple[float, ...]] = {}
    for kind in plan.kinds:
        for position in POSITIONS:
            rows = []
            for fact, effects in zip(facts, found, strict=True):
                tokens = range(fact.subject[0], len(fact.ids))
                own = [row for row, token in enumerate(tokens) if fact.position(token) == position]
                if own:
                    rows.append(effects.restored[kind][own].mean(0) - effects.corrupted)
            if rows:
                indirect[kind, position] = tuple(cast("list[float]", torch.stack(rows).mean(0).tolist()))
    total = sum(effects.clean - effects.corrupted for effects in found) / len(found)
    return AverageEffects(len(facts), total, indirect)
