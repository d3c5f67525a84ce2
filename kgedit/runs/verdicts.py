"""A judge's verdicts in a run folder: verdicts.jsonl has a line about the judge, then one per distinct free answer.

Answers are identified by a hash of question, accepted answers and text, so the order of lines does not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kgedit.llm.judging import Judgement, Verdict
from kgedit.records.runs import Answer, with_judgement
from kgedit.records.scores import Judging
from kgedit.runs.headed_lines import read_headed, write_headed

FILE = "verdicts.jsonl"
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
    return write_headed(run_folder / FILE, JudgeLine(judge=judge, where=where, prompt_sha256=prompt), lines)


def read_verdicts(run_folder: Path) -> Verdicts | None:
    """Read the verdicts of a run; None if it has not been judged.

    Raises:
        TimestepError: if a line cannot be read.
    """
    read = read_headed(run_folder / FILE, JudgeLine, VerdictLine, holds="verdicts", again=JUDGE_AGAIN)
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
