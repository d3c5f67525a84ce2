"""A judge's verdicts and error classes in a run folder: verdicts.jsonl and judged_errors.jsonl.

The first line of each is about the judge; then there is a line per distinct free answer, and per wrong answer.

A verdict's answer is identified by a hash of question, accepted answers and text, so the order of lines does not
matter. Only answers that the judge itself called wrong are classified; an empty answer needs no judge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kgedit.errors import TimestepError
from kgedit.llm.judging import Judgement, Verdict, WrongAnswer
from kgedit.records.answer_table import case_hash
from kgedit.records.answers import ErrorClass
from kgedit.records.cases import EDIT_AXES
from kgedit.records.runs import Answer, JudgedAnswer, with_judgement
from kgedit.records.scores import Judging
from kgedit.runs.edited_cases import old_answers, read_edited_cases
from kgedit.runs.run_files import read_answers, read_headed, write_headed

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
