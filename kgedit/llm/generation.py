"""Questions to answers: teacher forcing and greedy decoding, in left-padded batches, longest first.

Rows that have ended leave the batch and its cache, so one long answer does not make the others pay.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from kgedit.llm.devices import enough_memory
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.presets import STOPS
from kgedit.llm.targets import row_losses
from kgedit.records.runs import Preset

_MOST_ROWS = 256


@dataclass(frozen=True, slots=True)
class Question:
    """One question to be put to a model.

    Attributes:
        prompt: As sent.
        gold: The correct answer, which teacher forcing feeds and "gold_length" measures; "" where nobody knows it.
        old: Answers that were correct before the edit; teacher forcing tells their probability too.
    """

    prompt: str
    gold: str
    old: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """The model's reply to one question; its fields are those of an Answer."""

    text: str
    token_match: float | None
    prompt_tokens: int
    new_tokens: int
    seconds: float
    probability: float | None = None
    old_probability: float | None = None


@dataclass(frozen=True, slots=True)
class Fed:
    """The result of teacher forcing on one target.

    Attributes:
        best: The arg max at each token of the target.
        probability: exp of the mean log-probability of the target's tokens (WikiFactDiff, section 5).
    """

    best: list[int]
    probability: float


def longest(model: LanguageModel, question: Question, preset: Preset) -> int:
    """Tokens of a prompt and its longest possible answer."""
    fed = (question.gold, *question.old) if preset.generation == "teacher_forcing" else (question.gold,)
    exact = preset.truncation == "gold_length"
    room = max(map(len, _targets(model, question, fed))) if exact else preset.max_new_tokens
    return len(model.encode(question.prompt)) + room


def plan_batches(
    model: LanguageModel, questions: Sequence[Question], preset: Preset, *, batch_tokens: int
) -> list[list[int]]:
    """Indexes of the questions, in batches of similar length, longest first.

    Args:
        batch_tokens: Most tokens in a batch, padding and the longest possible answers included.
    """
    lengths = [longest(model, question, preset) for question in questions]
    forced = preset.generation == "teacher_forcing"
    rows = [1 + len(question.old) if forced else 1 for question in questions]
    batches: list[list[int]] = []
    filled = 0
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        most = min(_MOST_ROWS, batch_tokens // lengths[batches[-1][0]]) if batches else 0
        if filled + rows[index] > most:
            batches.append([])
            filled = 0
        batches[-1].append(index)
        filled += rows[index]
    return batches


def ask(model: LanguageModel, questions: Sequence[Question], preset: Preset) -> list[Reply]:
    """Ask one batch of questions.

    Returns:
        One reply per question, in the same order; each carries an equal share of the batch's wall time.

    Raises:
        ModelError: if the batch does not fit into the GPU's memory.
    """
    started = time.perf_counter()
    forced = preset.generation == "teacher_forcing"
    with torch.inference_mode(), enough_memory(f"a batch of {len(questions)} questions"):
        replies = _fed(model, questions) if forced else _decoded(model, questions, preset)
    seconds = round((time.perf_counter() - started) / len(questions), 6)
    return [replace(reply, seconds=seconds) for reply in replies]


def _fed(model: LanguageModel, questions: Sequence[Question]) -> list[Reply]:
    """Replies by teacher forcing: gold and old answers of all questions in one forward pass."""
    prompts = [model.encode(question.prompt) for question in questions]
    targets = [_targets(model, question, (question.gold, *question.old)) for question in questions]
    rows = [(prompt, target) for prompt, own in zip(prompts, targets, strict=True) for target in own]
    found = iter(feed(model, [prompt for prompt, _ in rows], [target for _, target in rows]))
    replies = []
    for prompt, (gold, *old) in zip(prompts, targets, strict=True):
        fed, others = next(found), [next(found).probability for _ in old]
        replies.append(
            Reply(
                text=model.decode(fed.best).strip(),
                token_match=_match(fed.best, gold),
                prompt_tokens=len(prompt),
                new_tokens=len(gold),
                seconds=0.0,
                probability=_six_digits(fed.probability),
                old_probability=_six_digits(max(others)) if others else None,
            )
        )
    return replies


def _decoded(model: LanguageModel, questions: Sequence[Question], preset: Preset) -> list[Reply]:
    """Replies by free decoding."""
    prompts = [model.encode(question.prompt) for question in questions]
    golds = [model.encode_target(question.gold, after=question.prompt) for question in questions]
    exact, stops = preset.truncation == "gold_length", STOPS[preset.truncation]
    limits = [len(gold) if exact else preset.max_new_tokens for gold in golds]
    return [
        Reply(
            text=truncate(model.decode(ids), stops),
            token_match=_match(ids, gold) if question.gold else None,
            prompt_tokens=len(prompt),
            new_tokens=len(ids),
            seconds=0.0,
        )
        for question, ids, prompt, gold in zip(
            questions, decode_greedily(model, prompts, stops=stops, limits=limits), prompts, golds, strict=True
        )
    ]


def feed(model: LanguageModel, prompts: Sequence[list[int]], targets: Sequence[list[int]]) -> list[Fed]:
    """Teacher forcing: what is predicted at each token of a target while the target itself is fed."""
    ids, mask = model.pad_left([prompt + target for prompt, target in zip(prompts, targets, strict=True)])
    width = max(map(len, targets))
    ends = ids.shape[1] - 1 - torch.tensor([len(target) for target in targets], device=ids.device)
    logits = model.forward(ids, mask, last=width + 1, ends=ends).logits
    labels = torch.tensor([[-100] * (width - len(target)) + target for target in targets], device=ids.device)
    best = logits[:, :-1].argmax(-1).tolist()
    probabilities = row_losses(logits, labels).neg().exp().tolist()
    return [
        Fed(row[width - len(target) :], probability)
        for row, target, probability in zip(best, targets, probabilities, strict=True)
    ]


def _targets(model: LanguageModel, question: Question, answers: Sequence[str]) -> list[list[int]]:
    return [model.encode_target(answer, after=question.prompt) for answer in answers]


def decode_greedily(
    model: LanguageModel, prompts: Sequence[list[int]], *, stops: Sequence[str], limits: Sequence[int]
) -> list[list[int]]:
    """Free decoding with a key-value cache.

    Args:
        prompts: Token ids.
        stops: Texts that end an answer; so does the model's own end of text.
        limits: Most new tokens of each row.

    Returns:
        New tokens of each row, the one that ended it included.
    """
    stop_ids = model.ids_containing(stops) | model.end_ids
    replies: list[list[int]] = [[] for _ in prompts]
    alive = list(range(len(prompts)))
    ids, mask = model.pad_left(prompts)
    cache = None
    ends: torch.Tensor | None = torch.full((len(ids),), ids.shape[1] - 1, device=ids.device)
    while alive:
        output = model.forward(ids, mask, last=1, cache=cache, keep=True, ends=ends, rows=alive)
        cache, ends = output.past_key_values, None
        chosen = output.logits[:, -1].argmax(-1)
        for row, token in zip(alive, chosen.tolist(), strict=True):
            replies[row].append(token)
        going = [
            i for i, row in enumerate(alive) if replies[row][-1] not in stop_ids and len(replies[row]) < limits[row]
        ]
        if going and len(going) < len(alive):
            kept = torch.tensor(going)  # on the CPU, to fit a cache on several GPUs
            cache.batch_select_indices(kept)
            chosen, mask = chosen[kept], mask[kept]
        alive = [alive[i] for i in going]
        ids = chosen.unsqueeze(1)
        mask = torch.cat([mask, mask.new_ones((len(mask), 1))], dim=1)
    return replies


def truncate(text: str, stops: Sequence[str]) -> str:
    """The text ahead of the first stop, without surrounding space."""
    for stop in stops:
        text = text.partition(stop)[0]
    return text.strip()


def _match(ids: list[int], gold: list[int]) -> float:
    """Share of the gold answer's tokens that stand at their index among the generated ones."""
    return sum(a == b for a, b in zip(ids, gold, strict=False)) / len(gold)


def _six_digits(value: float) -> float:
    return float(f"{value:.6g}")
