"""Sends stored answers to a judge: a model behind a server, or a local one.

The same question, accepted answers and text are judged once, over all given runs; an empty text is wrong without a
judge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kgedit.errors import ModelError, TimestepError
from kgedit.llm.contexts import Instructions, read_instructions
from kgedit.llm.judging import VERDICTS, Judgement, Verdict, WrongAnswer, judge_request, read_verdict
from kgedit.llm.remote.client import ChatClient, ChatReplies, CostEstimate, Effort
from kgedit.llm.remote.prices import SHIPPED, ByCharacters, ByTokenizer, TokenCounter, price_of, read_prices
from kgedit.llm.remote.requests import ChatReply, ChatRequest, FailedCall, ReplyCache
from kgedit.llm.remote.server import ChatServer
from kgedit.progress import Advance
from kgedit.records.answer_table import case_hash
from kgedit.records.answers import ErrorClass
from kgedit.records.cases import EDIT_AXES
from kgedit.records.runs import Answer, JudgedAnswer, with_judgement
from kgedit.records.scores import Judging
from kgedit.resources import cache
from kgedit.runs.run_files import old_answers, read_answers, read_edited_cases, read_headed, write_headed

# The first line of each is about the judge; then there is a line per distinct free answer, and per wrong answer.
#
# A verdict's answer is identified by a hash of question, accepted answers and text, so the order of lines does not
# matter. Only answers that the judge itself called wrong are classified; an empty answer needs no judge.


VERDICTS_FILE = "verdicts.jsonl"
JUDGE_AGAIN = "judge again: kgedit score RUN --metric judge"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictLine:
    """Outcome for one distinct answer.

    Attributes:
        key: Key of its `Judgement`.
        verdict: Verdict; None without one.
        reason: Reason why there is no verdict; "" if there is one.
    """

    key: str
    verdict: Verdict | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeLine:
    """The judge: model, address of its server or "local", SHA-256 of its instructions."""

    judge: str
    where: str
    prompt_sha256: str


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Verdicts of one run.

    Attributes:
        judging: The judge, with counts.
        by_key: Verdicts by the key of the judgement.
    """

    judging: Judging
    by_key: Mapping[str, VerdictLine]

    def on(self, answers: Iterable[Answer]) -> Iterator[Answer]:
        """Iterate over the answers, with verdicts where they exist."""
        for answer in answers:
            judgement = judgement_of(answer)
            line = self.by_key.get(judgement.key) if judgement else None
            if line is None or line.verdict is None:
                yield answer
            else:
                yield with_judgement(answer, right=line.verdict == "CORRECT")

    def judging_of(self, answers: Iterable[Answer]) -> Judging:
        """The judge, with counts that include answers added later by a resumed run."""
        keys = {judgement.key for judgement in map(judgement_of, answers) if judgement}
        later = len(keys - self.by_key.keys())
        unjudged = dict(self.judging.unjudged) | ({"never shown to the judge": later} if later else {})
        return replace(self.judging, unjudged=dict(sorted(unjudged.items())))


def judgement_of(answer: Answer) -> Judgement | None:
    """Input of a judge for an answer; None if the target was fed."""
    if answer.generation == "teacher_forcing":
        return None
    return Judgement(answer.question, answer.answers, answer.text)


def write_verdicts(run_folder: Path, lines: Iterable[VerdictLine], *, judge: str, where: str, prompt: str) -> Path:
    """Write verdicts.jsonl atomically.

    Args:
        lines: Lines in the order of the answers.
        judge: Name of the model.
        where: Address of its server, or "local".
        prompt: SHA-256 of its instructions.
    """
    return write_headed(run_folder / VERDICTS_FILE, JudgeLine(judge=judge, where=where, prompt_sha256=prompt), lines)


def read_verdicts(run_folder: Path) -> Verdicts | None:
    """Read the verdicts of a run; None if it has not been judged.

    Raises:
        TimestepError: if a line cannot be read.
    """
    read = read_headed(run_folder / VERDICTS_FILE, JudgeLine, VerdictLine, holds="verdicts", again=JUDGE_AGAIN)
    if read is None:
        return None
    who, lines = read
    unjudged = Counter(line.reason for line in lines if line.verdict is None)
    judging = Judging(
        judge=who.judge,
        where=who.where,
        prompt_sha256=who.prompt_sha256,
        judged=sum(line.verdict is not None for line in lines),
        unjudged=dict(sorted(unjudged.items())),
    )
    return Verdicts(judging, {line.key: line for line in lines})


ERRORS_FILE = "judged_errors.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorLine:
    """Outcome for one distinct wrong answer.

    Attributes:
        key: Key of its `WrongAnswer`.
        error: Error class; None without one.
        reason: Reason why there is no class; "" if there is one.
    """

    key: str
    error: ErrorClass | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class JudgedErrors:
    """Error classes of one run.

    Attributes:
        by_key: Classes by the key of the wrong answer; None if the judge assigned none.
        outdated: Hash of a case -> its old answers.
    """

    by_key: Mapping[str, ErrorClass | None]
    outdated: Mapping[int, Sequence[str]]

    def on(self, answers: Iterable[Answer]) -> Iterator[Answer]:
        """Iterate over the answers; those that a judge called wrong have their class."""
        for answer in answers:
            wrong = wrong_answer(answer, self.outdated)
            error = None if wrong is None else _class_unasked(wrong) or self.by_key.get(wrong.key)
            yield with_judgement(answer, error=error) if error else answer


def wrong_answer(answer: Answer, outdated: Mapping[int, Sequence[str]]) -> WrongAnswer | None:
    """Input of the judge for an answer; None unless the judge called it wrong."""
    if not isinstance(answer, JudgedAnswer) or answer.right is not False:
        return None
    # The old value counts as an old answer only on axes that query the edited fact itself.
    asks_for_it = answer.axis in EDIT_AXES
    old = outdated.get(case_hash(answer.timestep, answer.case_id), ()) if asks_for_it else ()
    return WrongAnswer(answer.question, answer.answers, tuple(old), answer.text)


def _class_unasked(wrong: WrongAnswer) -> ErrorClass | None:
    return None if wrong.answer.strip() else "empty"


def wrong_answers(run: Path) -> dict[str, WrongAnswer]:
    """Distinct non-empty answers of a run that a judge called wrong, by key.

    Raises:
        TimestepError: if the run has no verdicts.
    """
    verdicts = read_verdicts(run)
    if verdicts is None:
        raise TimestepError(f"{run} has no verdicts, so no answer is known to be wrong. Judge it first.")
    outdated = old_answers(read_edited_cases(run))
    found = (wrong_answer(answer, outdated) for answer in verdicts.on(read_answers(run)))
    return {wrong.key: wrong for wrong in found if wrong is not None and _class_unasked(wrong) is None}


def write_judged_errors(run: Path, lines: Iterable[ErrorLine], *, judge: str, where: str, prompt: str) -> Path:
    """Write judged_errors.jsonl atomically.

    Args:
        lines: Lines in the order of the answers.
        judge: Name of the model.
        where: Address of its server.
        prompt: SHA-256 of its instructions.
    """
    return write_headed(run / ERRORS_FILE, JudgeLine(judge=judge, where=where, prompt_sha256=prompt), lines)


def read_judged_errors(run: Path) -> JudgedErrors | None:
    """Read the classes assigned by a judge; None if it was not run for them.

    Raises:
        TimestepError: if a line cannot be read.
    """
    read = read_headed(run / ERRORS_FILE, JudgeLine, ErrorLine, holds="error classes", again=JUDGE_AGAIN)
    if read is None:
        return None
    return JudgedErrors({line.key: line.error for line in read[1]}, old_answers(read_edited_cases(run)))


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
        _write(runs, lines, judge=model.public_name, where="local", prompt=instructions.sha256("verdict"))
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
    return VerdictLine(key=key, verdict=verdict, reason="" if verdict else _why_unread(reply, "a verdict"))


def _why_unread(reply: ChatReply, wanted: str) -> str:
    return f"the reply is not {wanted}" if reply.finished or reply.text else "the reply was cut off before its text"


def _error_line(wrong: WrongAnswer, reply: ChatReply | FailedCall | None) -> ErrorLine:
    if reply is None or isinstance(reply, FailedCall):
        reason = f"no reply: {reply.reason}" if reply else "not asked"
        return ErrorLine(key=wrong.key, error=None, reason=reason)
    error = wrong.read(reply.text)
    return ErrorLine(key=wrong.key, error=error, reason="" if error else _why_unread(reply, "a class"))


def _write(runs: Sequence[Path], lines: Mapping[str, VerdictLine], *, judge: str, where: str, prompt: str) -> None:
    for run in runs:
        (run / ERRORS_FILE).unlink(missing_ok=True)  # another judge's; its replies are in the cache
        own = [
            lines[key] if judgement.answer.strip() else VerdictLine(key=key, verdict="INCORRECT")
            for key, judgement in _judgements(run).items()
        ]
        write_verdicts(run, own, judge=judge, where=where, prompt=prompt)
