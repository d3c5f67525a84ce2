"""Answers questions in batches by teacher forcing and greedy decoding, several presets at once if that is faster.

Teacher forcing gives a model's prediction at each token of an answer while the answer itself is the input: one forward
pass gives both the most likely tokens and the probability of the answer. Answers of unedited models are cached on disk,
so that across runs each model is asked each question only once: one file per model fingerprint, one JSON line per
answer; an incomplete last line is removed.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch

from kgedit.checksums import decoding
from kgedit.errors import ModelError, SpecError
from kgedit.files import append_lines, cut_half_line, read_lines
from kgedit.llm.decoding import Decoding, decode, end_of_answer, up_to
from kgedit.llm.devices import enough_memory
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.presets import PRESETS
from kgedit.llm.replies import Reply, Thinking, fed_reply, match_of, truncate
from kgedit.llm.shared_reading import read_beginning, read_rows, shares_beginnings
from kgedit.llm.surgery.onednn import frozen_products
from kgedit.llm.training import row_losses
from kgedit.records.runs import Preset

BATCH_TOKENS = 4096
"""Default maximum number of tokens in a batch."""


_LEAST_TOKENS = 256
"""Smallest batch size in tokens. Questions that need more are asked alone."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question for a model.

    Attributes:
        prompt: Text sent to the model.
        gold: The correct answer, used by teacher forcing and for the length of "gold_length"; "" if unknown.
        old: Answers that were correct before the edit; teacher forcing also computes their probability.
        static: Answers that remain correct, likewise.
        alternatives: Answers that were never correct, likewise.
    """

    prompt: str
    gold: str
    old: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()

    @property
    def fed(self) -> tuple[str, ...]:
        """All answers fed by teacher forcing, the gold answer first."""
        return (self.gold, *self.old, *self.static, *self.alternatives)


@dataclass(frozen=True, slots=True)
class PresetQuestion:
    """A question with its preset."""

    question: Question
    preset: Preset

    @property
    def is_forced(self) -> bool:
        """Whether answers are fed by teacher forcing rather than generated."""
        return self.preset.is_forced


def longest(model: LanguageModel, question: Question, preset: Preset) -> int:
    """Number of tokens of a prompt and its longest possible answer."""
    return len(model.encode(question.prompt)) + _room(model, question, preset)


def _room(model: LanguageModel, question: Question, preset: Preset) -> int:
    """Number of tokens of the longest possible answer with its thoughts."""
    fed = question.fed if preset.is_forced else (question.gold,)
    exact = preset.truncation == "gold_length"
    room = max(map(len, _targets(model, question, fed))) if exact else preset.max_new_tokens
    return preset.thinking_tokens + room


def plan_batches(
    model: LanguageModel, questions: Sequence[Question], preset: Preset, *, batch_tokens: int
) -> list[list[int]]:
    """Split questions under one preset into batches; see `plan`."""
    return plan(model, [PresetQuestion(question, preset) for question in questions], batch_tokens=batch_tokens)


def plan(model: LanguageModel, asked: Sequence[PresetQuestion], *, batch_tokens: int) -> list[list[int]]:
    """Split questions into batches of similar length and the same generation, longest first, as lists of indexes.

    Args:
        batch_tokens: Maximum number of tokens in a batch, including padding and the longest possible answers.

    Raises:
        ModelError: if a prompt has no tokens.
    """
    prompts = [len(model.encode(one.question.prompt)) for one in asked]
    if 0 in prompts:
        raise ModelError(
            f"Question {prompts.index(0) + 1} of {len(asked)} is empty, and the model's tokenizer has no token for the "
            "beginning of a text. Give it a text."
        )
    lengths = [tokens + _room(model, one.question, one.preset) for tokens, one in zip(prompts, asked, strict=True)]
    rows = [len(one.question.fed) if one.is_forced else 1 for one in asked]
    batches: list[list[int]] = []
    filled = 0
    for index in sorted(range(len(asked)), key=lambda i: (not asked[i].is_forced, -lengths[i], i)):
        same = bool(batches) and asked[batches[-1][0]].is_forced == asked[index].is_forced
        if not same or (filled + rows[index]) * lengths[batches[-1][0]] > batch_tokens:
            batches.append([])
            filled = 0
        batches[-1].append(index)
        filled += rows[index]
    return batches


def ask(
    model: LanguageModel, questions: Sequence[Question], preset: Preset, *, batch_tokens: int = BATCH_TOKENS
) -> list[Reply]:
    """Ask questions under one preset; see `ask_each`."""
    return ask_each(model, [PresetQuestion(question, preset) for question in questions], batch_tokens=batch_tokens)


def ask_each(model: LanguageModel, asked: Sequence[PresetQuestion], *, batch_tokens: int = BATCH_TOKENS) -> list[Reply]:
    """Ask questions, each under its own preset.

    Args:
        batch_tokens: Maximum number of tokens in a batch; halved when a GPU runs out of memory.

    Returns:
        One reply per question, in the same order; each includes its share of the wall time, by tokens.

    Raises:
        ModelError: if a single question does not fit in GPU memory.
    """
    started = time.perf_counter()
    forced = [index for index, one in enumerate(asked) if one.is_forced]
    free = [index for index, one in enumerate(asked) if not one.is_forced]
    replies: dict[int, Reply] = {}
    with torch.inference_mode(), frozen_products(model), enough_memory(f"a batch of {len(asked)} questions"):
        for indexes, way in ((forced, _fed), (free, _decoded)):
            if indexes:
                own = [asked[index] for index in indexes]
                found = model.asked_at_once.run(batch_tokens, partial(way, model, own), least=_LEAST_TOKENS)
                replies |= dict(zip(indexes, found, strict=True))
    seconds = time.perf_counter() - started
    tokens = sum(reply.prompt_tokens + reply.new_tokens for reply in replies.values())
    return [
        replace(reply, seconds=round(seconds * (reply.prompt_tokens + reply.new_tokens) / tokens, 6))
        for _, reply in sorted(replies.items())
    ]


def _fed(model: LanguageModel, asked: Sequence[PresetQuestion], batch_tokens: int) -> list[Reply]:
    """Replies by teacher forcing: gold and old answers of all questions in one forward pass."""
    prompts = [model.encode(one.question.prompt) for one in asked]
    targets = [_targets(model, one.question, one.question.fed) for one in asked]
    rows = [(prompt, target) for prompt, own in zip(prompts, targets, strict=True) for target in own]
    found = iter(feed(model, [prompt for prompt, _ in rows], [target for _, target in rows], most_tokens=batch_tokens))
    replies = []
    for one, prompt, (gold, *_) in zip(asked, prompts, targets, strict=True):
        fed, question = next(found), one.question
        old, static, alternatives = (
            [next(found).probability for _ in answers]
            for answers in (question.old, question.static, question.alternatives)
        )
        reply = Reply(
            text=model.decode(fed.best).strip(),
            token_match=match_of(fed.best, gold),
            prompt_tokens=len(prompt),
            new_tokens=len(gold),
            seconds=0.0,
        )
        replies.append(fed_reply(reply, fed.probability, old, static, alternatives))
    return replies


def _decoded(model: LanguageModel, asked: Sequence[PresetQuestion], batch_tokens: int) -> list[Reply]:
    """Replies by free generation, after reasoning where the preset asks for it."""

    def continued(prompts: Sequence[list[int]], limits: Sequence[int], closes: str) -> list[list[int]]:
        stop_ids, is_over = up_to(model, closes)
        rows = [Decoding(ids, stop_ids, limit, is_over) for ids, limit in zip(prompts, limits, strict=True)]
        return decode(model, rows, most_tokens=batch_tokens)

    reasoned = reason(model, asked, continued)
    asked = [one.asked for one in reasoned]
    golds = [model.encode_target(one.question.gold, after=one.question.prompt) for one in asked]
    ends = {truncation: end_of_answer(model, truncation) for truncation in {one.preset.truncation for one in asked}}
    rows = [
        Decoding(
            prompt=before.ids,
            stop_ids=ends[one.preset.truncation].stop_ids,
            limit=len(gold) if one.preset.truncation == "gold_length" else one.preset.max_new_tokens,
            is_over=ends[one.preset.truncation].is_over,
            most_entropy=math.inf if one.preset.stop_entropy is None else one.preset.stop_entropy,
        )
        for one, before, gold in zip(asked, reasoned, golds, strict=True)
    ]
    said = decode(model, rows, most_tokens=batch_tokens)
    return [free_reply(model, one, ids, gold) for one, ids, gold in zip(reasoned, said, golds, strict=True)]


class Reasoned(NamedTuple):
    """A question up to its answer.

    Attributes:
        asked: The question, whose prompt contains the thoughts and is complete except for the answer.
        ids: Token ids of that prompt.
        thoughts: The thoughts; "" without reasoning.
        cut: Whether the model had not closed the passage within its tokens.
        tokens: Number of tokens that the model wrote.
    """

    asked: PresetQuestion
    ids: list[int]
    thoughts: str = ""
    cut: bool = False
    tokens: int = 0


Continue = Callable[[Sequence[list[int]], Sequence[int], str], Sequence[list[int]]]
"""Continues prompts, given as token ids, each by at most a number of tokens and up to a text that ends it."""


def reason(model: LanguageModel, asked: Sequence[PresetQuestion], continue_by: Continue) -> list[Reasoned]:
    """Let the model reason about the questions whose presets ask for it; the others are returned unchanged.

    Args:
        continue_by: Generates tokens, greedily; the tokens that contain the ending text are included.
    """
    found = [Reasoned(one, model.encode(one.question.prompt)) for one in asked]
    turn = [index for index, one in enumerate(asked) if one.preset.thinking_tokens]
    marks = model.chat.thinking if model.chat else None
    if not turn or marks is None:
        return found
    limits = [asked[index].preset.thinking_tokens for index in turn]
    for index, ids in zip(turn, continue_by([found[i].ids for i in turn], limits, marks.closes), strict=True):
        found[index] = _closed_thoughts(model, found[index], ids, marks)
    return found


def _closed_thoughts(model: LanguageModel, one: Reasoned, ids: Sequence[int], marks: Thinking) -> Reasoned:
    written = str(model.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))
    thoughts, closed, _ = written.partition(marks.closes)
    if closed:
        kept, rest = list(ids), marks.closing.removeprefix(marks.closes)
    else:
        kept, rest = [token for token in ids if token not in model.end_ids], f"\n{marks.closing}"
        thoughts = model.decode(kept)
    question = replace(one.asked.question, prompt=f"{one.asked.question.prompt}{thoughts}{marks.closing}")
    return Reasoned(
        asked=replace(one.asked, question=question),
        ids=[*one.ids, *kept, *model.tokenizer.encode(rest, add_special_tokens=False)],
        thoughts=thoughts.strip(),
        cut=not closed,
        tokens=len(ids),
    )


def free_reply(model: LanguageModel, reasoned: Reasoned, ids: Sequence[int], gold: Sequence[int]) -> Reply:
    """Reply from generated tokens; `seconds` is filled in later."""
    truncation, question = reasoned.asked.preset.truncation, reasoned.asked.question
    text = truncate(model.decode(ids), truncation)
    # Decoding continues past a sentence until its end is known.
    said = model.encode_target(text, after=question.prompt) if truncation == "sentence" else ids
    return Reply(
        text=text,
        token_match=match_of(said, gold) if question.gold else None,
        prompt_tokens=len(reasoned.ids) - reasoned.tokens,
        new_tokens=reasoned.tokens + len(ids),
        seconds=0.0,
        thoughts=reasoned.thoughts,
        thoughts_cut=reasoned.cut,
    )


def _targets(model: LanguageModel, question: Question, answers: Sequence[str]) -> list[list[int]]:
    return [model.encode_target(answer, after=question.prompt) for answer in answers]


def free_preset(name: str) -> Preset:
    """Return a preset with free generation.

    Raises:
        SpecError: if there is no such preset.
    """
    free = {name: preset for name, preset in PRESETS.items() if preset.generation == "greedy"}
    if name not in free:
        raise SpecError(
            [f"there is no preset '{name}' with free generation; known: {', '.join(free)}"], of="Nothing was asked"
        )
    return free[name]


def answer_freely(model: LanguageModel, questions: Sequence[Question], preset: Preset) -> list[str]:
    """Return the model's answers, in the order of the questions."""
    answers = [""] * len(questions)
    for batch in plan_batches(model, questions, preset, batch_tokens=BATCH_TOKENS):
        for index, reply in zip(batch, ask(model, [questions[row] for row in batch], preset), strict=True):
            answers[index] = reply.text
    return answers


_ROWS_AT_ONCE = 16
"""About 3 MB with a vocabulary of 50,000."""


@dataclass(frozen=True, slots=True)
class Fed:
    """The result of teacher forcing on one target.

    Attributes:
        best: The arg max at each token of the target.
        probability: exp of the mean log-probability of the target's tokens (WikiFactDiff, section 5).
    """

    best: list[int]
    probability: float


def feed(
    model: LanguageModel, prompts: Sequence[list[int]], targets: Sequence[list[int]], *, most_tokens: int = 4096
) -> list[Fed]:
    """Feed each target after its prompt.

    Args:
        most_tokens: Maximum number of tokens per batch, including padding, if there is more than one row.
    """
    longest = max(len(prompt) + len(target) for prompt, target in zip(prompts, targets, strict=True))
    if shares_beginnings(model, longest):
        return _feed_trees(model, prompts, targets, most_tokens=most_tokens)
    at_once = max(1, most_tokens // longest)
    return [
        fed
        for start in range(0, len(prompts), at_once)
        for fed in _feed_rows(model, prompts[start : start + at_once], targets[start : start + at_once])
    ]


def _feed_rows(model: LanguageModel, prompts: Sequence[list[int]], targets: Sequence[list[int]]) -> list[Fed]:
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


def _log_sums(logits: torch.Tensor) -> torch.Tensor:
    """Log-sum-exp of each row, in blocks that fit into the processor's cache, which takes a third of the time."""
    return torch.cat([block.logsumexp(-1) for block in torch.split(logits, _ROWS_AT_ONCE)])


def _feed_trees(
    model: LanguageModel, prompts: Sequence[list[int]], targets: Sequence[list[int]], *, most_tokens: int
) -> list[Fed]:
    """Feed targets in trees. The last target token is not fed to the model, because its prediction is not needed."""
    rows = [prompt + target[:-1] for prompt, target in zip(prompts, targets, strict=True)]
    wanted = [range(len(prompt) - 1, len(row)) for prompt, row in zip(prompts, rows, strict=True)]
    beginning = read_beginning(model, rows, most=min(map(len, prompts)) - 1)
    fed: list[Fed | None] = [None] * len(rows)
    for read in read_rows(model, rows, wanted, beginning=beginning, most_tokens=most_tokens):
        best = read.logits.argmax(-1).tolist()
        flat = [
            (at, token)
            for row, own in zip(read.rows, read.found, strict=True)
            for at, token in zip(own, targets[row], strict=True)
        ]
        nodes, tokens = (torch.tensor(part, device=read.logits.device) for part in zip(*flat, strict=True))
        logits = read.logits.float()
        said = iter((logits[nodes, tokens] - _log_sums(logits)[nodes]).tolist())
        for row, own in zip(read.rows, read.found, strict=True):
            likelihoods = [next(said) for _ in own]
            fed[row] = Fed([best[at] for at in own], math.exp(math.fsum(likelihoods) / len(own)))
    return [one for one in fed if one is not None]


_CACHE_VERSION = 2
"""Version of the stored fields. Older ones lack probabilities and the match ratio of free answers."""


class AnswerCache:
    """Replies of one unedited model.

    Args:
        path: Cache file of the model.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        cut_half_line(path)
        with decoding(path, fix="Remove it: its answers are generated again."):
            self._replies = {row["key"]: Reply(**row["reply"]) for row in map(json.loads, read_lines(path))}

    def get(self, question: Question, preset: Preset) -> Reply | None:
        """The stored reply, or None."""
        return self._replies.get(_cache_key(question, preset))

    def add(self, questions: list[Question], replies: list[Reply], preset: Preset) -> None:
        """Store the replies to a batch of questions."""
        rows = {_cache_key(question, preset): reply for question, reply in zip(questions, replies, strict=True)}
        new = {key: reply for key, reply in rows.items() if key not in self._replies}
        lines = [json.dumps({"key": key, "reply": asdict(reply)}, ensure_ascii=False) for key, reply in new.items()]
        append_lines(self._path, lines)
        self._replies.update(new)


def _cache_key(question: Question, preset: Preset) -> str:
    forced = preset.is_forced
    parts: list[object] = [
        _CACHE_VERSION,
        question.prompt,
        question.gold,
        question.old if forced else (),
        preset.generation,
        preset.truncation,
        preset.max_new_tokens,
    ]
    if forced and (question.static or question.alternatives):
        parts += [question.static, question.alternatives]
    if preset.stop_entropy is not None:  # presets without it keep the keys of earlier versions
        parts.append({"stop_entropy": preset.stop_entropy})
    if preset.thinking_tokens:
        parts.append({"thinking_tokens": preset.thinking_tokens})
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()[:32]
