"""Sends stored answers to a judge: a model behind a server, or a local one.

The same question, accepted answers and text are judged once, over all given runs; an empty text is wrong without a
judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kgedit.errors import ModelError
from kgedit.llm.contexts import Instructions, read_instructions
from kgedit.llm.judging import VERDICTS, Judgement, WrongAnswer, judge_request, read_verdict
from kgedit.llm.remote.client import ChatClient, ChatReplies, CostEstimate, Effort
from kgedit.llm.remote.prices import SHIPPED, ByCharacters, ByTokenizer, TokenCounter, price_of, read_prices
from kgedit.llm.remote.requests import ChatReply, ChatRequest, FailedCall, ReplyCache
from kgedit.llm.remote.server import ChatServer
from kgedit.progress import Advance
from kgedit.resources import cache
from kgedit.runs.run_files import read_answers
from kgedit.runs.verdicts import (
    ERRORS_FILE,
    ErrorLine,
    VerdictLine,
    judgement_of,
    write_judged_errors,
    write_verdicts,
    wrong_answers,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteJudge:
    """A judge behind an OpenAI-compatible server.

    Attributes:
        model: Name of the model on its server.
        server: Server of the model.
        effort: Reasoning effort.
        prices: Table of prices.
        budget: Maximum cost in dollars; None means no limit.
        tokenizer: Local model whose tokenizer counts tokens for an estimate; None counts characters.
        prompts: Folder with instructions that replace the built-in ones; None means those.
    """

    model: str
    server: ChatServer = field(default_factory=ChatServer)
    effort: Effort = field(default_factory=Effort)
    prices: Path = SHIPPED
    budget: float | None = None
    tokenizer: str | None = None
    prompts: Path | None = None

    def estimate(self, runs: Sequence[Path]) -> CostEstimate:
        """Estimate the cost of judging; no server is called."""
        counter: TokenCounter = ByTokenizer(self.tokenizer) if self.tokenizer else ByCharacters()
        requests = self._requests(_to_ask(runs))
        return self._client().estimate(requests, counter, likely_reply=VERDICTS[1])

    def judge(self, runs: Sequence[Path], *, progress: Advance | None = None) -> ChatReplies:
        """Judge the runs' free answers and write verdicts.jsonl for each run.

        Raises:
            ModelError: if the server refuses, or the budget is exceeded; verdicts so far stay in the cache.
        """
        judgements = _to_ask(runs)
        asked = self._client().ask(self._requests(judgements), progress=progress)
        if asked.not_asked:
            raise self._out_of_money(asked, len(judgements), "are not judged")
        lines = {
            key: _line(key, reply) for key, reply in zip(judgements, asked.replies, strict=True) if reply is not None
        }
        _write(runs, lines, judge=self.model, where=self.server.url, prompt=self._instructions().sha256("verdict"))
        return asked

    def judge_errors(self, runs: Sequence[Path], *, spent: float = 0.0) -> ChatReplies:
        """Classify the errors of answers that were called wrong, and write judged_errors.jsonl for each run.

        Args:
            spent: Dollars of the budget that are already spent.

        Raises:
            TimestepError: if a run has no verdicts.
            ModelError: see `judge`.
        """
        own = {run: wrong_answers(run) for run in runs}
        wrong = {key: answer for answers in own.values() for key, answer in answers.items()}
        instructions = self._instructions()
        template, prompt = instructions.texts["error_class"], instructions.sha256("error_class")
        requests = [answer.request(self.model, template) for answer in wrong.values()]
        asked = self._client(spent).ask(requests)
        if asked.not_asked:
            raise self._out_of_money(asked, len(wrong), "have no error class")
        replies = dict(zip(wrong, asked.replies, strict=True))
        for run, answers in own.items():
            lines = [_error_line(answer, replies[key]) for key, answer in answers.items()]
            write_judged_errors(run, lines, judge=self.model, where=self.server.url, prompt=prompt)
        return asked

    def _out_of_money(self, asked: ChatReplies, of: int, what: str) -> ModelError:
        return ModelError(
            f"The budget of ${self.budget} does not cover all: {asked.not_asked:,} of {of:,} answers {what}, "
            f"${asked.dollars or 0:.4f} are spent. What was judged is kept and costs nothing when the command is given "
            "again, with a larger --budget."
        )

    def _requests(self, judgements: Mapping[str, Judgement]) -> list[ChatRequest]:
        template = self._instructions().texts["verdict"]
        return [judge_request(judgement, self.model, template) for judgement in judgements.values()]

    def _instructions(self) -> Instructions:
        return read_instructions("judge", self.prompts)

    def _client(self, spent: float = 0.0) -> ChatClient:
        price = price_of(self.model, read_prices(self.prices))
        replies = ReplyCache(cache() / "replies")
        left = None if self.budget is None else max(0.0, self.budget - spent)
        return ChatClient(self.server, replies, model=self.model, effort=self.effort, price=price, budget=left)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModelJudge:
    """A judge on this machine.

    Attributes:
        model: Built-in name, folder, or name on the hub.
        device: Device; see run-edit.
        prompts: See RemoteJudge.
    """

    model: str
    device: str = "auto"
    prompts: Path | None = None

    def judge(self, runs: Sequence[Path], *, progress: Advance | None = None) -> int:
        """Judge the runs' free answers and write verdicts.jsonl for each run.

        Returns:
            Number of distinct answers that were judged.
        """
        from kgedit.llm.devices import resolve_device, resolve_dtype
        from kgedit.llm.loading import load_model
        from kgedit.llm.local_chat import LocalJudge

        instructions = read_instructions("judge", self.prompts)
        judgements = _to_ask(runs)
        device = resolve_device(self.device)
        model = load_model(self.model, device=device, dtype=resolve_dtype("auto", device))
        judge = LocalJudge(model, instructions.texts["verdict"])
        verdicts = judge.judge(list(judgements.values()), progress=progress)
        lines = {key: VerdictLine(key=key, verdict=verdict) for key, verdict in zip(judgements, verdicts, strict=True)}
        _write(runs, lines, judge=self.model, where="local", prompt=instructions.sha256("verdict"))
        return len(lines)


def _to_ask(runs: Sequence[Path]) -> dict[str, Judgement]:
    """Distinct judgements of the runs' free answers by key, without empty texts."""
    return {key: judgement for run in runs for key, judgement in _judgements(run).items() if judgement.answer.strip()}


def _judgements(run: Path) -> dict[str, Judgement]:
    found = (judgement_of(answer) for answer in read_answers(run))
    return {judgement.key: judgement for judgement in found if judgement is not None}


def _line(key: str, reply: ChatReply | FailedCall) -> VerdictLine:
    if isinstance(reply, FailedCall):
        return VerdictLine(key=key, verdict=None, reason=f"no reply: {reply.reason}")
    verdict = read_verdict(reply.text)
    return VerdictLine(key=key, verdict=verdict, reason="" if verdict else "the reply is not a verdict")


def _error_line(wrong: WrongAnswer, reply: ChatReply | FailedCall | None) -> ErrorLine:
    if reply is None or isinstance(reply, FailedCall):
        reason = f"no reply: {reply.reason}" if reply else "not asked"
        return ErrorLine(key=wrong.key, error=None, reason=reason)
    error = wrong.read(reply.text)
    return ErrorLine(key=wrong.key, error=error, reason="" if error else "the reply is not a class")


def _write(runs: Sequence[Path], lines: Mapping[str, VerdictLine], *, judge: str, where: str, prompt: str) -> None:
    for run in runs:
        (run / ERRORS_FILE).unlink(missing_ok=True)  # another judge's; its replies are in the cache
        own = [
            lines[key] if judgement.answer.strip() else VerdictLine(key=key, verdict="INCORRECT")
            for key, judgement in _judgements(run).items()
        ]
        write_verdicts(run, own, judge=judge, where=where, prompt=prompt)
