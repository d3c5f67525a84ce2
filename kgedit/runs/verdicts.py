"""A judge's verdicts in a run folder: verdicts.jsonl, first who judged, then a line for each distinct free answer.

An answer is found by the hash of question, accepted answers and text, in whatever order the file has them.
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
    """What became of one distinct answer.

    Attributes:
        key: Of its `Judgement`.
        verdict: None where there is none.
        reason: Why not; "" where there is one.
    """

    key: str
    verdict: Verdict | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeLine:
    """Who judged: model, address of its server or "local", SHA-256 of its instructions."""

    judge: str
    where: str
    prompt_sha256: str


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Those of one run.

    Attributes:
        judging: Who gave them, with counts.
        by_key: Verdicts by the key of the judgement.
    """

    judging: Judging
    by_key: Mapping[str, VerdictLine]

    def on(self, answers: Iterable[Answer]) -> Iterator[Answer]:
        """The answers, those that were judged with their verdicts."""
        for answer in answers:
            judgement = judgement_of(answer)
            line = self.by_key.get(judgement.key) if judgement else None
            if line is None or line.verdict is None:
                yield answer
            else:
                yield with_judgement(answer, right=line.verdict == "CORRECT")

    def judging_of(self, answers: Iterable[Answer]) -> Judging:
        """Who judged, answers counted that came after the judge, in a run that was resumed."""
        keys = {judgement.key for judgement in map(judgement_of, answers) if judgement}
        later = len(keys - self.by_key.keys())
        unjudged = dict(self.judging.unjudged) | ({"never shown to the judge": later} if later else {})
        return replace(self.judging, unjudged=dict(sorted(unjudged.items())))


def judgement_of(answer: Answer) -> Judgement | None:
    """What a judge is asked about an answer; None where the gold answer was fed."""
    if answer.generation == "teacher_forcing":
        return None
    return Judgement(answer.question, answer.answers, answer.text)


def write_verdicts(run_folder: Path, lines: Iterable[VerdictLine], *, judge: str, where: str, prompt: str) -> Path:
    """Write verdicts.jsonl, aside first and then renamed.

    Args:
        lines: In the order of the answers.
        judge: Model.
        where: Address of its server, or "local".
        prompt: SHA-256 of its instructions.
    """
    return write_headed(run_folder / FILE, JudgeLine(judge=judge, where=where, prompt_sha256=prompt), lines)


def read_verdicts(run_folder: Path) -> Verdicts | None:
    """The verdicts of a run; None where nobody has judged it.

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
