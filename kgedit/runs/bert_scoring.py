"""BERTScores of a run's free answers: computed by an encoder, stored in bertscores.jsonl, and added to answers.

Each run is measured separately, including idf, so that its scores do not depend on other runs of the same call.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.progress import Advance
from kgedit.records.runs import Answer, BertScore, with_judgement
from kgedit.records.scores import Encoding
from kgedit.runs.run_files import read_answers, read_headed, write_headed

if TYPE_CHECKING:
    from kgedit.llm.bert_score import Encoder

FILE = "bertscores.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """Scores of one distinct answer."""

    key: str
    score: BertScore


@dataclass(frozen=True, slots=True)
class BertScores:
    """BERTScores of one run.

    Attributes:
        encoding: Encoder behind the scores.
        by_key: Scores by the key of text and accepted answers.
    """

    encoding: Encoding
    by_key: Mapping[str, BertScore]

    def on(self, answers: Iterable[Answer]) -> Iterator[Answer]:
        """Iterate over the answers, with scores where they exist."""
        for answer in answers:
            score = None if answer.generation == "teacher_forcing" else self.by_key.get(_key(answer))
            yield answer if score is None else with_judgement(answer, bertscore=score)

    def encoding_of(self, answers: Iterable[Answer]) -> Encoding:
        """Encoding of the scores; counts answers added later by a resumed run."""
        keys = {_key(answer) for answer in _measurable(answers)}
        return replace(self.encoding, later=len(keys - self.by_key.keys()))


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSettings:
    """Settings of the encoder.

    Attributes:
        model: Folder of the encoder.
        layer: Hidden layer; None means the last.
        idf: Whether tokens are weighted by their rarity among the run's accepted answers.
        baseline: CSV file with scores of unrelated texts, used to rescale scores; None means raw cosines.
        device: Device; see run-edit.
    """

    model: Path
    layer: int | None = None
    idf: bool = False
    baseline: Path | None = None
    device: str = "auto"


def measure_runs(runs: Sequence[Path], settings: EncoderSettings, *, progress: Advance | None = None) -> int:
    """Measure the free answers of runs and write bertscores.jsonl for each run.

    Returns:
        Number of distinct answers measured, over all runs.

    Raises:
        ModelError: if the encoder or the baseline cannot be read.
    """
    from kgedit.llm.bert_score import Encoder, read_baseline
    from kgedit.llm.devices import resolve_device

    encoder = Encoder(settings.model, layer=settings.layer, device=resolve_device(settings.device))
    baseline = read_baseline(settings.baseline, encoder.layer) if settings.baseline else None
    made_by = Encoding(
        encoder=settings.model.resolve().name,
        fingerprint=encoder.fingerprint,
        layer=encoder.layer,
        idf=settings.idf,
        baseline_sha256=hashlib.sha256(settings.baseline.read_bytes()).hexdigest() if settings.baseline else None,
        measured=0,
    )
    answers = {run: {_key(answer): answer for answer in _measurable(read_answers(run))} for run in runs}
    total, done = sum(map(len, answers.values())), 0
    for run, own in answers.items():
        scores = _measure(encoder, list(own.values()), idf=settings.idf, baseline=baseline)
        lines = [_Line(key=key, score=_rounded(score)) for key, score in zip(own, scores, strict=True)]
        write_headed(run / FILE, replace(made_by, measured=len(own)), lines)
        done += len(own)
        if progress:
            progress(done, total)
    return total


def _measure(encoder: Encoder, answers: Sequence[Answer], *, idf: bool, baseline: BertScore | None) -> list[BertScore]:
    from kgedit.llm.bert_score import bert_scores, inverse_document_frequencies, rescaled

    pairs = [(answer.text, _accepted(answer)) for answer in answers]
    references = dict.fromkeys(reference for _, own in pairs for reference in own)
    weights = inverse_document_frequencies([encoder.tokens(text) for text in references]) if idf else None
    scores = bert_scores(encoder, pairs, weights=weights)
    return [rescaled(score, baseline) for score in scores] if baseline else scores


def read_bertscores(run_folder: Path) -> BertScores | None:
    """Read the BERTScores of a run; None if it was not measured.

    Raises:
        TimestepError: if a line cannot be read.
    """
    again = "measure again: kgedit score RUN --metric bertscore"
    read = read_headed(run_folder / FILE, Encoding, _Line, holds="BERTScores", again=again)
    if read is None:
        return None
    encoding, lines = read
    return BertScores(encoding, {line.key: line.score for line in lines})


def _measurable(answers: Iterable[Answer]) -> Iterator[Answer]:
    """Free answers, which contain text generated by the model."""
    return (answer for answer in answers if answer.generation != "teacher_forcing")


def _accepted(answer: Answer) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in answer.answers if text.strip())) or answer.answers[:1]


def _key(answer: Answer) -> str:
    return hashlib.sha256(json.dumps([answer.text, *_accepted(answer)], ensure_ascii=False).encode()).hexdigest()


def _rounded(score: BertScore) -> BertScore:
    return BertScore(precision=round(score.precision, 6), recall=round(score.recall, 6), f1=round(score.f1, 6))
