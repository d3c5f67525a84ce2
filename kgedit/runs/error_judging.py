"""A judge's error classes in a run folder: judged_errors.jsonl has a line about the judge, then one per wrong answer.

Only answers that the judge itself called wrong (verdicts.jsonl) are classified; an empty answer needs no judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgedit.errors import TimestepError
from kgedit.llm.error_judging import WrongAnswer
from kgedit.records.answer_table import case_hash
from kgedit.records.answers import ErrorClass
from kgedit.records.cases import EDIT_AXES
from kgedit.records.runs import Answer, JudgedAnswer, with_judgement
from kgedit.runs.edited_cases import old_answers, read_edited_cases
from kgedit.runs.headed_lines import read_headed, write_headed
from kgedit.runs.run_files import read_answers
from kgedit.runs.verdicts import JUDGE_AGAIN, JudgeLine, read_verdicts

FILE = "judged_errors.jsonl"


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
    return write_headed(run / FILE, JudgeLine(judge=judge, where=where, prompt_sha256=prompt), lines)


def read_judged_errors(run: Path) -> JudgedErrors | None:
    """Read the classes assigned by a judge; None if it was not run for them.

    Raises:
        TimestepError: if a line cannot be read.
    """
    read = read_headed(run / FILE, JudgeLine, ErrorLine, holds="error classes", again=JUDGE_AGAIN)
    if read is None:
        return None
    return JudgedErrors({line.key: line.error for line in read[1]}, old_answers(read_edited_cases(run)))
