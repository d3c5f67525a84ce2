"""A judge's error classes in a run folder: judged_errors.jsonl, first who judged, then a line for each wrong answer.

Only what the judge itself called wrong (verdicts.jsonl) is asked about; an empty answer has its class unasked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgedit.errors import TimestepError
from kgedit.llm.error_judging import WrongAnswer
from kgedit.records.answer_table import case_hash
from kgedit.records.cases import EDIT_AXES
from kgedit.records.error_classes import ErrorClass
from kgedit.records.runs import Answer, JudgedAnswer, with_judgement
from kgedit.runs.edited_cases import old_answers, read_edited_cases
from kgedit.runs.headed_lines import read_headed, write_headed
from kgedit.runs.run_files import read_answers
from kgedit.runs.verdicts import JUDGE_AGAIN, JudgeLine, read_verdicts

FILE = "judged_errors.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorLine:
    """What became of one distinct wrong answer.

    Attributes:
        key: Of its `WrongAnswer`.
        error: None where there is no class.
        reason: Why not; "" where there is one.
    """

    key: str
    error: ErrorClass | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class JudgedErrors:
    """Those of one run.

    Attributes:
        by_key: Classes by the key of the wrong answer; None where the judge gave none.
        outdated: Hash of a case -> its old answers.
    """

    by_key: Mapping[str, ErrorClass | None]
    outdated: Mapping[int, Sequence[str]]

    def on(self, answers: Iterable[Answer]) -> Iterator[Answer]:
        """The answers, those that a judge called wrong with the class that it gave them."""
        for answer in answers:
            wrong = wrong_answer(answer, self.outdated)
            error = None if wrong is None else _class_unasked(wrong) or self.by_key.get(wrong.key)
            yield with_judgement(answer, error=error) if error else answer


def wrong_answer(answer: Answer, outdated: Mapping[int, Sequence[str]]) -> WrongAnswer | None:
    """What a judge is asked about an answer; None unless it called the answer wrong."""
    if not isinstance(answer, JudgedAnswer) or answer.right is not False:
        return None
    # Only where the edited fact itself is asked for is its old value an old answer.
    asks_for_it = answer.axis in EDIT_AXES
    old = outdated.get(case_hash(answer.timestep, answer.case_id), ()) if asks_for_it else ()
    return WrongAnswer(answer.question, answer.answers, tuple(old), answer.text)


def _class_unasked(wrong: WrongAnswer) -> ErrorClass | None:
    return None if wrong.answer.strip() else "empty"


def wrong_answers(run: Path) -> dict[str, WrongAnswer]:
    """Distinct answers of a run that a judge called wrong and that say something, by key.

    Raises:
        TimestepError: if nobody has judged the run.
    """
    verdicts = read_verdicts(run)
    if verdicts is None:
        raise TimestepError(f"Nobody has judged {run}, so no answer is known to be wrong. Judge it first.")
    outdated = old_answers(read_edited_cases(run))
    found = (wrong_answer(answer, outdated) for answer in verdicts.on(read_answers(run)))
    return {wrong.key: wrong for wrong in found if wrong is not None and _class_unasked(wrong) is None}


def write_judged_errors(run: Path, lines: Iterable[ErrorLine], *, judge: str, where: str, prompt: str) -> Path:
    """Write judged_errors.jsonl, aside first and then renamed.

    Args:
        lines: In the order of the answers.
        judge: Model.
        where: Address of its server.
        prompt: SHA-256 of its instructions.
    """
    return write_headed(run / FILE, JudgeLine(judge=judge, where=where, prompt_sha256=prompt), lines)


def read_judged_errors(run: Path) -> JudgedErrors | None:
    """The classes that a judge gave; None where it was not asked for any.

    Raises:
        TimestepError: if a line cannot be read.
    """
    read = read_headed(run / FILE, JudgeLine, ErrorLine, holds="error classes", again=JUDGE_AGAIN)
    if read is None:
        return None
    return JudgedErrors({line.key: line.error for line in read[1]}, old_answers(read_edited_cases(run)))
