"""Greedy decoding in batches with a key-value cache, and sampling of random prefixes.

Finished rows leave the batch. If prompts can share prefixes, waiting rows take their slots at once, and equal prompts
are decoded once, even with different stops. The cache has reusable slots, so a new token copies nothing; that of
transformers is copied completely for each token. On a GPU, steps are recorded and replayed.

Random prefixes are texts sampled from the model. Edits trained with several of them generalise better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from kgedit.llm.language_model import LanguageModel, kept_cache
from kgedit.llm.presets import STOPS
from kgedit.llm.replies import SENTENCE_ENDS, sentence_end
from kgedit.llm.roomy_cache import RecordedStep, RoomyCache, record_step
from kgedit.llm.shared_reading import Beginning, TreesRead, read_beginning, read_rows, shares_beginnings

_MOST_ROWS = 256
"""Maximum rows of a batch: each has logits over the whole vocabulary in every step."""
_WAITING_FOR = 4
"""Waiting rows are read once a quarter of the rows has left; reading them one by one would cost one pass each."""
_WORTH_RECORDING = 12
"""Fewest remaining steps for which one is recorded: a recording costs about three steps."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """An answer to decode.

    Attributes:
        prompt: Token ids.
        stop_ids: Tokens that end the answer.
        limit: Maximum number of new tokens, at least one.
        is_over: Function that decides whether the new tokens contain a whole answer, if no single token shows it.
        most_entropy: Entropy of the next token's distribution, in nats, above which the answer ends before that token;
            the first token is always kept.
    """

    prompt: list[int]
    stop_ids: frozenset[int]
    limit: int
    is_over: Callable[[Sequence[int]], bool] | None = None
    most_entropy: float = math.inf


class EndOfAnswer(NamedTuple):
    """Condition for the end of an answer; the fields are those of `Decoding`."""

    stop_ids: frozenset[int]
    is_over: Callable[[Sequence[int]], bool] | None


def end_of_answer(model: LanguageModel, truncation: str) -> EndOfAnswer:
    """Return the end condition of a truncation module."""
    stop_ids = model.ids_containing(STOPS[truncation]) | model.end_ids
    if truncation != "sentence":
        return EndOfAnswer(stop_ids, None)
    with_end = model.ids_containing(SENTENCE_ENDS)

    def is_over(ids: Sequence[int]) -> bool:
        has_end = not with_end.isdisjoint(ids)
        return has_end and sentence_end(model.decode(ids), is_whole=False) is not None

    return EndOfAnswer(stop_ids, is_over)


def up_to(model: LanguageModel, text: str) -> EndOfAnswer:
    """Return the condition that a text was generated, or the model ended."""
    containing = model.ids_containing((text,))
    if containing:
        return EndOfAnswer(containing | model.end_ids, None)
    tokens = len(model.tokenizer.encode(text, add_special_tokens=False)) + 1

    def is_over(ids: Sequence[int]) -> bool:
        return text in str(model.tokenizer.decode(list(ids[-tokens:]), skip_special_tokens=False))

    return EndOfAnswer(model.end_ids, is_over)


def decode(model: LanguageModel, rows: Sequence[Decoding], *, most_tokens: int) -> list[list[int]]:
    """Decode rows; returns the new tokens of each, including those that revealed its end.

    Args:
        most_tokens: Maximum number of tokens in the cache, including padding and the longest possible answers, if there
            is more than one row.
    """
    longest = max(len(row.prompt) + row.limit for row in rows)
    at_once = min(_MOST_ROWS, max(1, most_tokens // longest))
    if shares_beginnings(model, longest):
        return _decode_trees(model, rows, at_once=at_once, most_tokens=most_tokens)
    # Rows of similar length share a batch, which leaves the least padding.
    order = sorted(range(len(rows)), key=lambda row: (-len(rows[row].prompt), row))
    replies: list[list[int]] = [[] for _ in rows]
    for start in range(0, len(rows), at_once):
        batch = order[start : start + at_once]
        for row, reply in zip(batch, _decode_rows(model, [rows[row] for row in batch]), strict=True):
            replies[row] = reply
    return replies


def _decode_rows(model: LanguageModel, rows: Sequence[Decoding]) -> list[list[int]]:
    """Left-padded rows, each with its whole prompt."""
    replies: list[list[int]] = [[] for _ in rows]
    alive = list(range(len(rows)))
    ids, mask = model.pad_left([row.prompt for row in rows])
    cache = None
    ends: torch.Tensor | None = torch.full((len(ids),), ids.shape[1] - 1, device=ids.device)
    while alive:
        output = model.forward(ids, mask, last=1, cache=cache, keep=True, ends=ends, rows=alive)
        cache, ends = kept_cache(output), None
        logits = output.logits[:, -1]
        chosen, entropies = logits.argmax(-1), _entropies(logits, [rows[row] for row in alive])
        going = [
            i
            for i, (row, token) in enumerate(zip(alive, chosen.tolist(), strict=True))
            if _goes_on(rows[row], replies[row], token, entropies[i])
        ]
        if going and len(going) < len(alive):
            kept = torch.tensor(going)  # on the CPU, to work with a cache on several GPUs
            cache.reorder_cache(kept)  # also drops rows, and caches of linear attention have it
            chosen, mask = chosen[kept], mask[kept]
        alive = [alive[i] for i in going]
        ids = chosen.unsqueeze(1)
        mask = torch.cat([mask, mask.new_ones((len(mask), 1))], dim=1)
    return replies


def _entropies(logits: torch.Tensor, rows: Sequence[Decoding]) -> list[float]:
    """Entropy of each row of logits, in nats; zeros without computation if no answer ends by entropy."""
    if all(row.most_entropy == math.inf for row in rows):
        return [0.0] * len(logits)
    found: list[float] = torch.special.entr(logits.float().softmax(-1)).sum(-1).tolist()
    return found


def _goes_on(row: Decoding, reply: list[int], token: int, entropy: float) -> bool:
    """Add a token to a reply unless its entropy is too high; returns whether the reply continues."""
    if reply and entropy > row.most_entropy:
        return False
    reply.append(token)
    return not _has_ended(row, reply)


def _has_ended(row: Decoding, reply: Sequence[int]) -> bool:
    if len(reply) >= row.limit or reply[-1] in row.stop_ids:
        return True
    return row.is_over is not None and row.is_over(reply)


@dataclass(slots=True)
class _Text:
    """A prompt with the tokens decoded so far.

    Attributes:
        prompt: Token ids.
        asking: Unfinished rows with this prompt, with their indexes.
        new: New tokens.
    """

    prompt: list[int]
    asking: list[tuple[int, Decoding]] = field(default_factory=list)
    new: list[int] = field(default_factory=list)

    @property
    def limit(self) -> int:
        return max(row.limit for _, row in self.asking)

    def add(self, token: int, entropy: float, replies: list[list[int]]) -> bool:
        """Add a token and store the replies of rows that it ends. Returns whether any row is left.

        Args:
            entropy: Entropy of the distribution that the token was chosen from, in nats.
        """
        going = []
        for index, row in self.asking:
            reply = list(self.new)
            if _goes_on(row, reply, token, entropy):
                going.append((index, row))
            else:
                replies[index] = reply
        self.asking = going
        self.new.append(token)
        return bool(going)


def _asking(texts: Sequence[_Text]) -> list[Decoding]:
    return [row for text in texts for _, row in text.asking]


def _decode_trees(model: LanguageModel, rows: Sequence[Decoding], *, at_once: int, most_tokens: int) -> list[list[int]]:
    texts: dict[tuple[int, ...], _Text] = {}
    for index, row in enumerate(rows):
        texts.setdefault(tuple(row.prompt), _Text(row.prompt)).asking.append((index, row))
    # A later row fits into the columns of the current ones: it is not longer than they were.
    waiting = sorted(texts.values(), key=lambda text: -len(text.prompt))
    prompts = [text.prompt for text in waiting]
    beginning = read_beginning(model, prompts, most=min(map(len, prompts)) - 1)
    replies: list[list[int]] = [[] for _ in rows]
    pool = _Pool(model, replies, beginning=beginning, slots=min(at_once, len(waiting)), most_tokens=most_tokens)
    while waiting or pool.texts:
        free = at_once - len(pool.texts)
        if waiting and (not pool.texts or free * _WAITING_FOR >= at_once):
            pool.admit(waiting[:free])
            waiting = waiting[free:]
        if pool.texts:
            pool.step()
    return replies


class _Pool:
    """Texts being decoded together.

    Args:
        replies: Receives the replies of finished rows.
        beginning: Common prefix of all prompts.
        slots: Maximum number of texts.
        most_tokens: Maximum number of prompt tokens read at once.
    """

    def __init__(
        self,
        model: LanguageModel,
        replies: list[list[int]],
        *,
        beginning: Beginning,
        slots: int,
        most_tokens: int,
    ) -> None:
        self.texts: list[_Text] = []
        self._starts: list[int] = []
        self._cache: RoomyCache | None = None
        self._recorded: RecordedStep | None = None
        self._may_record = True
        self._model, self._replies, self._beginning = model, replies, beginning
        self._slots, self._most_tokens = slots, most_tokens

    def admit(self, texts: Sequence[_Text]) -> None:
        """Read prompts; those whose answers do not end with the first token stay in the pool."""
        prompts = [text.prompt for text in texts]
        if not self.texts:
            self._forget_recorded()
            self._cache = None
        length = self._cache.length if self._cache else max(map(len, prompts))
        limit = max(text.limit for text in texts)
        for read in read_rows(
            self._model,
            prompts,
            [[len(prompt) - 1] for prompt in prompts],
            beginning=self._beginning,
            most_tokens=self._most_tokens,
            keep=True,
        ):
            tokens, entropies = read.logits.argmax(-1).tolist(), _entropies(read.logits, _asking(texts))
            going = [
                row
                for row, (at,) in zip(read.rows, read.found, strict=True)
                if texts[row].add(tokens[at], entropies[at], self._replies)
            ]
            if not going:
                continue
            if self._cache is None:
                self._cache = RoomyCache(read.cache, slots=self._slots, length=length, columns=length + limit)
            self._place(self._cache, read, going, texts)

    def _place(self, cache: RoomyCache, read: TreesRead, rows: Sequence[int], texts: Sequence[_Text]) -> None:
        trees, columns = [read.packs.trees[row] for row in rows], [read.columns(row) for row in rows]
        cache.place(read.cache, trees, columns, first=len(self.texts))
        self.texts += [texts[row] for row in rows]
        self._starts += [cache.length - len(texts[row].prompt) for row in rows]

    def step(self) -> None:
        """Decode one more token of each text."""
        cache = self._cache
        assert cache is not None
        if cache.is_full:
            unused = min(self._starts)
            if not unused:
                self._forget_recorded()  # a wider cache is another tensor
            cache.make_room(unused)
            self._starts = [start - unused for start in self._starts]
        logits = self._logits(cache)
        entropies = _entropies(logits, _asking(self.texts))
        chosen = enumerate(zip(logits.argmax(-1).tolist(), entropies, strict=True))
        going = [slot for slot, (token, entropy) in chosen if self.texts[slot].add(token, entropy, self._replies)]
        self._keep(going, cache)

    def _forget_recorded(self) -> None:
        self._recorded, self._may_record = None, True

    def _logits(self, cache: RoomyCache) -> torch.Tensor:
        """Logits of the next token of each text, replayed if that gives the same as computing them."""
        tokens = [text.new[-1] for text in self.texts]
        if self._recorded is None:
            remaining = max(text.limit - len(text.new) for text in self.texts)
            if self._may_record and remaining >= _WORTH_RECORDING:
                self._may_record = False
                self._recorded = record_step(self._model, cache, tokens, self._starts)
            return self._computed(cache, tokens)
        replayed = self._recorded.replay(tokens, self._starts)
        if self._recorded.is_tested:
            cache.advance()
            return replayed
        logits = self._computed(cache, tokens)
        if not self._recorded.test(replayed, logits):
            self._recorded = None
        return logits

    def _computed(self, cache: RoomyCache, tokens: Sequence[int]) -> torch.Tensor:
        at, count = self._model.device, len(tokens)
        starts = torch.tensor(self._starts, device=at)[:, None]
        output = self._model.forward_tree(
            torch.tensor(tokens, device=at)[:, None],
            (torch.arange(cache.length + 1, device=at) >= starts)[:, None],
            cache.length - starts,
            picks=(torch.arange(count), torch.zeros(count, dtype=torch.long)),
            cache=cache,
        )
        logits: torch.Tensor = output.logits
        return logits

    def _keep(self, going: list[int], cache: RoomyCache) -> None:
        """Move the last texts into the slots of finished ones."""
        free = sorted(set(range(len(going))) - set(going))
        last = [slot for slot in going if slot >= len(going)]
        if free:
            cache.move(last, free)
            for target, source in zip(free, last, strict=True):
                self.texts[target], self._starts[target] = self.texts[source], self._starts[source]
        del self.texts[len(going) :], self._starts[len(going) :]


def sample_random_prefixes(
    model: LanguageModel, count: int, *, tokens: int, seed: int, likeliest: int | None = None
) -> list[list[int]]:
    """Sample `count` prefixes from the unedited model's distribution, as token ids.

    Args:
        tokens: Length of each prefix.
        seed: Seed; random numbers are drawn on the CPU, so that they do not depend on the device.
        likeliest: Each token is one of the `likeliest` most probable ones (top-k); None means any token.
    """
    if count == 0:
        return []
    start = model.tokenizer.bos_token_id
    # Without a beginning-of-text token (GPT-2), texts begin after an end-of-text token.
    first = start if start is not None else next(iter(sorted(model.end_ids)), 0)
    draw = torch.Generator().manual_seed(seed)
    rows = torch.full((count, 1), first, device=model.device)
    # Either token would begin another text within the prefix.
    barred = torch.tensor(sorted(model.end_ids | {first}), device="cpu")
    with torch.no_grad():
        for _ in range(tokens):
            logits = model.forward(rows, torch.ones_like(rows), last=1).logits[:, -1].float().cpu()
            logits[:, barred] = -torch.inf
            if likeliest is not None:
                logits[logits < logits.topk(min(likeliest, logits.shape[1])).values[:, -1:]] = -torch.inf
            chosen = torch.multinomial(logits.softmax(-1), 1, generator=draw)
            rows = torch.cat([rows, chosen.to(rows.device)], dim=1)
    found: list[list[int]] = rows[:, 1:].tolist()
    return found


def continue_words(model: LanguageModel, words: Sequence[str], *, tokens: int) -> list[str]:
    """Continue each text by greedy decoding; returns texts without the end-of-text token, which is never chosen.

    Args:
        tokens: Length of each continuation.
    """
    rows, mask = model.pad_left([model.encode(word) for word in words])
    barred = torch.tensor(sorted(model.end_ids), dtype=torch.long)
    with torch.no_grad():
        for _ in range(tokens):
            logits = model.forward(rows, mask, last=1).logits[:, -1].float().cpu()
            logits[:, barred] = -torch.inf
            rows = torch.cat([rows, logits.argmax(-1, keepdim=True).to(rows.device)], dim=1)
            mask = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
    return [model.decode(row[real].tolist()) for row, real in zip(rows, mask.bool(), strict=True)]
