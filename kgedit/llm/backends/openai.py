"""`openai`: any server that speaks OpenAI's API: vLLM, llama.cpp, transformers serve, a paid one.

Prompts of a chat preset go to `/chat/completions` as a user's turn, which the server words in the model's template; all
others go to `/completions` as they are. No server tells the probability of a given text in a way that all share, so
presets that feed answers cannot be asked here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from kgedit.errors import MissingExtraError, ModelError
from kgedit.llm.backends.contract import Backend
from kgedit.llm.generation import BATCH_TOKENS, Asked
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.presets import STOPS
from kgedit.llm.replies import Reply, match_of, truncate

SendRequest = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""Sends one request, (endpoint, body), and gives the answer's JSON; raises ModelError where there is none."""

_AT_ONCE = 256
"""Questions between two writes of a run."""

_CONCURRENT = 8


class OpenAIBackend(Backend):
    """Greedy decoding by a server.

    Args:
        send: What sends one request; None for the package `openai`, with the key from OPENAI_API_KEY.
    """

    needs_weights = False
    needs_url = True
    feeds_answers = False
    package = ("openai", "openai")

    def __init__(
        self,
        model: LanguageModel,
        url: str | None = None,
        *,
        batch_tokens: int = BATCH_TOKENS,
        send: SendRequest | None = None,
    ) -> None:
        super().__init__(model, url, batch_tokens=batch_tokens)
        self._send = send or sender(str(url))

    def plan(self, asked: Sequence[Asked]) -> list[list[int]]:
        """In order."""
        return [list(range(start, min(start + _AT_ONCE, len(asked)))) for start in range(0, len(asked), _AT_ONCE)]

    def ask(self, asked: Sequence[Asked]) -> list[Reply]:
        """Ask the server, several questions at a time."""
        with ThreadPoolExecutor(_CONCURRENT) as pool:
            return list(pool.map(self._ask_one, asked))

    def _ask_one(self, asked: Asked) -> Reply:
        started = time.perf_counter()
        model, preset, question = self._model, asked.preset, asked.question
        gold = model.encode_target(question.gold, after=question.prompt)
        body: dict[str, Any] = {
            "model": model.name,
            "temperature": 0,
            "max_tokens": len(gold) if preset.truncation == "gold_length" else preset.max_new_tokens,
        }
        if STOPS[preset.truncation]:
            body["stop"] = list(STOPS[preset.truncation])
        turn = self._turn(asked)
        if turn is None:
            found = self._send("completions", {**body, "prompt": question.prompt})
        else:
            found = self._send("chat/completions", {**body, "messages": [{"role": "user", "content": turn}]})
        said, used = _read(found, chat=turn is not None)
        ids = model.encode_target(said.strip(), after=question.prompt)
        reply = Reply(
            text=truncate(said, STOPS[preset.truncation]),
            token_match=match_of(ids, gold) if question.gold else None,
            prompt_tokens=int(used.get("prompt_tokens") or len(model.encode(question.prompt))),
            new_tokens=int(used.get("completion_tokens") or len(ids)),
            seconds=0.0,
        )
        return replace(reply, seconds=round(time.perf_counter() - started, 6))

    def _turn(self, asked: Asked) -> str | None:
        """What the user says, without the template around it; None where the prompt is plain text."""
        chat, prompt = self._model.chat, asked.question.prompt
        if chat is None or not asked.preset.context.startswith("chat"):
            return None
        return prompt.removeprefix(chat.before).removesuffix(chat.after)


def _read(found: Mapping[str, Any], *, chat: bool) -> tuple[str, Mapping[str, Any]]:
    """Text and token counts of an answer.

    Raises:
        ModelError: if the answer is not of the API's form.
    """
    try:
        choice = found["choices"][0]
        said = choice["message"]["content"] if chat else choice["text"]
        return str(said or ""), found.get("usage") or {}
    except (KeyError, IndexError, TypeError) as error:
        raise ModelError(f"The server's answer is not of the API's form: {str(found)[:200]}") from error


def sender(url: str) -> SendRequest:
    """Requests through the package `openai`.

    Args:
        url: Up to and including `/v1`.
    """
    try:
        import openai
    except ModuleNotFoundError as error:
        raise MissingExtraError(*OpenAIBackend.package) from error
    import os

    client = openai.OpenAI(base_url=url, api_key=os.environ.get("OPENAI_API_KEY") or "none")

    def send(endpoint: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        call = client.chat.completions.create if endpoint == "chat/completions" else client.completions.create
        try:
            answer: Mapping[str, Any] = call(**body).model_dump()
        except openai.OpenAIError as error:
            raise ModelError(
                f"The server at {url} did not answer: {error}. Start it, or give its --backend-url"
            ) from error
        return answer

    return send
