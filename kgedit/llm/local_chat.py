"""A local model in place of a server: as judge, and for chat requests.

The judge's verdict is the word that the model finds more likely, so every answer gets one. Small models do not follow a
format when they decode, and prefer one word regardless of the prompt. Therefore the two words are compared at the first
token in which they differ, minus their difference after judgements without content (Zhao et al. 2021, Calibrate Before
Use). The rules, which are the same for all answers, are read once.

Chat requests and replies are the same records as those of a server. Replies are cached by content: the key contains the
model's fingerprint instead of an address.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import torch

from kgedit.errors import ModelError
from kgedit.llm.contexts import Context
from kgedit.llm.decoding import Decoding, decode
from kgedit.llm.devices import enough_memory
from kgedit.llm.judging import VERDICTS, Judgement, Verdict
from kgedit.llm.language_model import LanguageModel, kept_cache
from kgedit.llm.remote.requests import ChatReply, ChatRequest, ReplyCache, request_key
from kgedit.llm.surgery.onednn import frozen_products
from kgedit.llm.tokenization import written_chat
from kgedit.progress import Advance

_JUDGED_TOKENS = 4096
"""Maximum tokens of a batch of judgements: each has logits over the whole vocabulary."""
_WITHOUT_CONTENT = (Judgement("N/A", ("N/A",), "N/A"), Judgement("", ("",), ""))


class LocalJudge:
    """A judge.

    Args:
        model: Prompted with its chat template if it has one.
        template: The instructions "verdict" (kgedit.llm.contexts).
        calibrated: Whether the model's bias towards either word is subtracted.

    Attributes:
        liking: Margin from which an answer counts as correct.

    Raises:
        ModelError: if the tokenizer does not distinguish the two words.
    """

    def __init__(self, model: LanguageModel, template: str, *, calibrated: bool = True) -> None:
        self._model, self._template = model, template
        chat = model.chat
        context = Context("chat", "{question}", in_chat=True) if chat else Context("judge", "{question}\n\n")
        self._context = context.for_model(chat)
        margins = self.margins(_WITHOUT_CONTENT) if calibrated else [0.0]
        self.liking = sum(margins) / len(margins)

    def judge(self, judgements: Sequence[Judgement], *, progress: Advance | None = None) -> list[Verdict]:
        """Return a verdict for each judgement.

        Args:
            progress: Called with the number of finished judgements and of all.

        Raises:
            ModelError: if the GPU's memory is too small.
        """
        correct, incorrect = VERDICTS
        margins = self.margins(judgements, progress=progress)
        return [correct if margin > self.liking else incorrect for margin in margins]

    def margins(self, judgements: Sequence[Judgement], *, progress: Advance | None = None) -> list[float]:
        """Return log p(CORRECT) - log p(INCORRECT) of each judgement, at the first token in which the words differ."""
        prompts = [self._context.prompt(judgement.prompt(self._template)) for judgement in judgements]
        targets = [[self._model.encode_target(word, after=prompt) for word in VERDICTS] for prompt in prompts]
        rows = []
        for prompt, (correct, incorrect) in zip(prompts, targets, strict=True):
            same = _shared([correct, incorrect])
            if same == min(len(correct), len(incorrect)):
                raise ModelError(f"The tokenizer of '{self._model.name}' cannot tell {' from '.join(VERDICTS)}.")
            rows.append((self._model.encode(prompt) + correct[:same], correct[same], incorrect[same]))
        return self._read([ids for ids, _, _ in rows], [pair for _, *pair in rows], progress=progress)

    def _read(self, rows: list[list[int]], words: list[list[int]], *, progress: Advance | None) -> list[float]:
        """Difference of two tokens' logits after each row; the common prefix of all rows is read once."""
        shared = min(_shared(rows), min(map(len, rows), default=1) - 1)
        margins = [0.0] * len(rows)
        order = sorted(range(len(rows)), key=lambda index: (-len(rows[index]), index))
        done = 0
        with torch.inference_mode(), frozen_products(self._model), enough_memory("a batch of judgements"):
            prefix = self._prefix(rows[0][:shared]) if rows and shared else None
            while done < len(order):
                batch = order[done : done + max(1, _JUDGED_TOKENS // len(rows[order[done]]))]
                logits = self._logits([rows[index][shared:] for index in batch], shared, prefix)
                for index, row in zip(batch, logits, strict=True):
                    correct, incorrect = words[index]
                    margins[index] = float(row[correct] - row[incorrect])
                done += len(batch)
                if progress:
                    progress(done, len(order))
        return margins

    def _prefix(self, ids: list[int]) -> Any:
        """Key-value cache of the common prefix of all rows."""
        tokens, mask = self._model.pad_left([ids])
        return kept_cache(self._model.forward(tokens, mask, last=1, keep=True))

    def _logits(self, rests: list[list[int]], shared: int, prefix: Any) -> torch.Tensor:
        """Logits after the last token of each row: rows x vocabulary."""
        ids, mask = self._model.pad_left(rests)
        cache = copy.deepcopy(prefix)
        if cache is not None:
            cache.batch_repeat_interleave(len(rests))
            mask = torch.cat([mask.new_ones((len(rests), shared)), mask], dim=1)
        logits: torch.Tensor = self._model.forward(ids, mask, last=1, cache=cache, keep=cache is not None).logits
        return logits[:, -1].float()


def _shared(rows: Sequence[Sequence[int]]) -> int:
    """Length of the common prefix of all rows, in tokens."""
    return sum(1 for _ in takewhile(lambda tokens: len(set(tokens)) == 1, zip(*rows, strict=False)))


_AT_ONCE = 16
"""Number of requests between two writes to the cache."""


_BATCH_TOKENS = 16_384
"""Maximum tokens, prompts and replies, whose keys and values are in memory at once."""


class LocalChat:
    """Answers requests by greedy decoding.

    Args:
        model: A model with a chat template.
        cache: Cache of replies.
    """

    def __init__(self, model: LanguageModel, cache: ReplyCache) -> None:
        self._model = model
        self._cache = cache

    @property
    def where(self) -> str:
        """Identifier of the model, used in cache keys instead of a server's address."""
        return f"local:{self._model.fingerprint}"

    def ask(self, requests: Sequence[ChatRequest], *, progress: Advance | None = None) -> list[ChatReply]:
        """Return a reply to each request, in order; equal requests are answered once.

        Raises:
            ModelError: if a request is longer than the model's context.
        """
        distinct = {request_key(request, self.where): request for request in requests}
        replies = {key: reply for key in distinct if (reply := self._cache.get(key)) is not None}
        open_ones = [key for key in distinct if key not in replies]
        for start in range(0, len(open_ones), _AT_ONCE):
            keys = open_ones[start : start + _AT_ONCE]
            for key, reply in zip(keys, self._answer([distinct[key] for key in keys]), strict=True):
                self._cache.add(key, reply)
                replies[key] = reply
            if progress:
                progress(len(replies), len(distinct))
        return [replies[request_key(request, self.where)] for request in requests]

    def _answer(self, requests: Sequence[ChatRequest]) -> list[ChatReply]:
        rows = [self._row(request) for request in requests]
        with torch.inference_mode(), frozen_products(self._model), enough_memory(f"{len(rows)} requests"):
            written = decode(self._model, rows, most_tokens=_BATCH_TOKENS)
        replies = []
        for row, ids in zip(rows, written, strict=True):
            ended = ids[-1] in self._model.end_ids
            text = self._model.decode(ids[:-1] if ended else ids).strip()
            replies.append(ChatReply(text=text, finished=ended, prompt_tokens=len(row.prompt), new_tokens=len(ids)))
        return replies

    def _row(self, request: ChatRequest) -> Decoding:
        turns = [{"role": message.role, "content": message.content} for message in request.messages]
        prompt = self._model.encode(written_chat(self._model.tokenizer, turns))
        room = self._model.positions
        if room is not None and len(prompt) + request.max_tokens > room:
            raise ModelError(
                f"A request of {len(prompt)} tokens with {request.max_tokens} for its reply is longer than the context "
                f"of '{self._model.name}', {room} tokens. Choose another model."
            )
        return Decoding(prompt, self._model.end_ids, request.max_tokens)
