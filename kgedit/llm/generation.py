"""Questions to answers: teacher forcing and greedy decoding, in left-padded batches, longest first.

Rows that have ended leave the batch and its cache, so one long answer does not make the others pay.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kgedit.llm.devices import enough_memory
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.presets import STOPS
from kgedit.records.runs import Preset

_MOST_ROWS = 256


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt as sent, and the gold answer, which teacher forcing feeds and "gold_length" measures."""

    prompt: str
    gold: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model said to one question; the fields are those of an Answer."""

    text: str
    token_match: float | None
    prompt_tokens: int
    new_tokens: int
    seconds: float


def longest(model: LanguageModel, question: Question, preset: Preset) -> int:
    """Tokens of a prompt with the longest answer that it may get."""
    exact = preset.truncation == "gold_length"
    room = len(model.encode_target(question.gold)) if exact else preset.max_new_tokens
    return len(model.encode(question.prompt)) + room


def plan_batches(
    model: LanguageModel, questions: Sequence[Question], preset: Preset, *, batch_tokens: int
) -> list[list[int]]:
    """Indexes of the questions, in batches of similar length, longest first.

    Args:
        batch_tokens: Most tokens in a batch, padding and the longest possible answers included.
    """
    lengths = [longest(model, question, preset) for question in questions]
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        fits = batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= batch_tokens
        if not fits or len(batches[-1]) == _MOST_ROWS:
            batches.append([])
        batches[-1].append(index)
    return batches


def ask(model: LanguageModel, questions: Sequence[Question], preset: Preset) -> list[Reply]:
    """Ask one batch of questions.

    Returns:
        One reply per question, in the same order; each carries an equal share of the batch's wall time.

    Raises:
        ModelError: if the batch does not fit into the GPU's memory.
    """
    started = time.perf_counter()
    prompts = [model.encode(question.prompt) for question in questions]
    golds = [model.encode_target(question.gold) for question in questions]
    with torch.inference_mode(), enough_memory(f"a batch of {len(questions)} questions"):
        if preset.generation == "teacher_forcing":
            replies = feed(model, prompts, golds)
        else:
            exact = preset.truncation == "gold_length"
            limits = [len(gold) if exact else preset.max_new_tokens for gold in golds]
            replies = decode_greedily(model, prompts, stops=STOPS[preset.truncation], limits=limits)
    seconds = (time.perf_counter() - started) / len(questions)
    return [
        Reply(
            text=truncate(model.decode(ids), STOPS[preset.truncation]),
            token_match=_match(ids, gold) if preset.generation == "teacher_forcing" else None,
            prompt_tokens=len(prompt),
            new_tokens=len(ids),
            seconds=round(seconds, 6),
        )
        for ids, prompt, gold in zip(replies, prompts, golds, strict=True)
    ]


def feed(model: LanguageModel, prompts: Sequence[list[int]], golds: Sequence[list[int]]) -> list[list[int]]:
    """Teacher forcing: the arg max at each token of the gold answer while the gold answer itself is fed."""
    ids, mask = model.pad_left([prompt + gold for prompt, gold in zip(prompts, golds, strict=True)])
    ends = ids.shape[1] - 1 - torch.tensor([len(gold) for gold in golds], device=ids.device)
    logits = model.forward(ids, mask, last=max(map(len, golds)) + 1, ends=ends).logits
    best = logits[:, :-1].argmax(-1).tolist()
    return [row[len(row) - len(gold) :] for row, gold in zip(best, golds, strict=True)]


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
    return sum(a == b for a, b in zip(ids, gold, strict=True)) / len(gold)
