"""Data of the answer browser: every question of the given runs, with answers before and after editing.

A row is one question of one run under one free preset, combined with the same question under teacher forcing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from kgedit.analysis.runs import Run
from kgedit.metrics.answer_table import stage_of
from kgedit.pages.shell import NOTHING, Numbered
from kgedit.records.answer_table import question_hash
from kgedit.records.answers import ERROR_CLASSES
from kgedit.records.cases import AXES, LOCALITY_AXES, Axis
from kgedit.records.runs import Answer
from kgedit.runs.run_files import read_answers

FLAGS: Mapping[str, int] = {
    "right": 1,
    "right before": 2,
    "forced only": 4,
    "old": 8,
    "empty": 16,
    "kept": 32,
    "broken": 64,
    "inexact": 128,
    "changed": 256,
    "not judged": 512,
}
"""Properties of an answer, as bits.

right, right before: by the preset's own metric. forced only: wrong with free generation, all tokens correct under
teacher forcing. old: contains the old answer. kept, changed: an unrelated answer that is unchanged, or not. broken:
right before the edit, wrong after it. inexact: the answer with additional words. not judged: the preset's own metric
does not decide between right and wrong, or cannot score the answer.
"""

QUESTION_MARKER = "\x01"
"""Replaces the question in prompts, so that equal prompts around different questions are stored once."""

_COLUMNS = (
    *("run", "preset", "case", "axis", "turn", "question", "answers", "flags", "error", "prompt", "forcedPrompt"),
    *("retrieved", "before", "after", "forcedBefore", "forcedAfter", "tokensBefore", "tokensAfter"),
)

QuestionKey = tuple[str, str, Axis, str]
"""Key of a question: timestep, case, axis, question."""


@dataclass(frozen=True, slots=True)
class _StoredAnswer:
    """One answer with its score."""

    answer: Answer
    right: bool | None
    error: str | None


@dataclass(slots=True)
class AnswerBook:
    """Data of the answer browser, added run by run; `edited_in` has the first timestep of each case of the last run."""

    strings: Numbered[str] = field(default_factory=Numbered)
    presets: Numbered[str] = field(default_factory=Numbered)
    timesteps: Numbered[str] = field(default_factory=Numbered)
    cases: Numbered[tuple[str, str]] = field(default_factory=Numbered)
    lists: Numbered[tuple[int, ...]] = field(default_factory=Numbered)
    known_cases: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    edited_in: dict[str, str] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)
    columns: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in _COLUMNS})

    def add_run(self, run: Run, *, key: str, name: str, group: int) -> None:
        """Add every question of a run that was evaluated before any edit or directly after its timestep's own edits."""
        number = len(self.runs)
        self.runs.append({"key": key, "name": name, "group": group, "model": run.model})
        self.edited_in = {}
        for row in run.cases.to_pylist():
            self.known_cases[row["timestep"], row["case_id"]] = row
            self.edited_in.setdefault(row["case_id"], row["timestep"])
        free: list[str | None] = [preset.name for preset in run.spec.presets if not preset.is_forced]
        forced = next((one.name for one in run.spec.presets if one.is_forced), None)
        turns: dict[tuple[str, str, Axis], int] = {}
        for (timestep, case_id, axis, question), answered in _in_order(run):
            turn = turns.get((timestep, case_id, axis), 0)
            turns[timestep, case_id, axis] = turn + 1
            for preset in free or [None]:
                row = self._row(answered, preset, forced, question)
                if row is not None:
                    case = self.cases.number((timestep, case_id))
                    row |= {"run": number, "case": case, "axis": AXES.index(axis), "turn": turn}
                    for column, values in self.columns.items():
                        values.append(row[column])

    def _row(
        self, answered: Mapping[tuple[str, str], _StoredAnswer], free: str | None, forced: str | None, question: str
    ) -> dict[str, int] | None:
        own = free or forced
        before, after = (answered.get((stage, own)) for stage in ("before", "own")) if own else (None, None)
        last = after or before
        if last is None:
            return None
        forced_before, forced_after = (
            (answered.get((stage, forced)) for stage in ("before", "own")) if forced else (None, None)
        )
        shown = (before, after) if free else (None, None)
        return {
            "preset": self.presets.number(own),
            "question": self.strings.number(question),
            "answers": self._list(last.answer.answers),
            "flags": flags_of(before, after, forced_after if free else None),
            "error": ERROR_CLASSES.index(last.error) if last.error in ERROR_CLASSES else NOTHING,
            "prompt": self._prompt(shown[1] or shown[0], question),
            "forcedPrompt": self._prompt(forced_after or forced_before, question),
            "retrieved": self._retrieved(last.answer),
            "before": self._text(shown[0]),
            "after": self._text(shown[1]),
            "forcedBefore": self._text(forced_before),
            "forcedAfter": self._text(forced_after),
            "tokensBefore": _tokens(forced_before),
            "tokensAfter": _tokens(forced_after),
        }

    def _text(self, answered: _StoredAnswer | None) -> int:
        return NOTHING if answered is None else self.strings.number(answered.answer.text)

    def _list(self, texts: Sequence[str]) -> int:
        return self.lists.number(tuple(self.strings.number(text) for text in texts))

    def _prompt(self, answered: _StoredAnswer | None, question: str) -> int:
        if answered is None:
            return NOTHING
        prompt = answered.answer.prompt
        marked = prompt.replace(question, QUESTION_MARKER) if QUESTION_MARKER not in prompt else prompt
        return self._list(marked.split("\n"))

    def _retrieved(self, answer: Answer) -> int:
        if not answer.retrieved:
            return NOTHING
        return self.lists.number(tuple(self.cases.number(self._key(answer, case)) for case in answer.retrieved))

    def _key(self, answer: Answer, retrieved: str) -> tuple[str, str]:
        """Timestep and id of a retrieved case, which may be one of another timestep."""
        timestep, qualified, case_id = retrieved.rpartition("\t")
        if qualified:
            return timestep, case_id
        own = (answer.timestep, case_id)
        return own if own in self.known_cases else (self.edited_in.get(case_id, answer.timestep), case_id)

    def as_data(self) -> dict[str, Any]:
        """Convert to JSON-compatible data."""
        cases = [self._case(*key) for key in self.cases.values]
        return {
            "flags": dict(FLAGS),
            "errors": list(ERROR_CLASSES),
            "axes": list(AXES),
            "presets": self.presets.values,
            "runs": self.runs,
            "cases": {name: [case[name] for case in cases] for name in _CASE_COLUMNS},
            "rows": self.columns,
            "lists": self.lists.values,
            "timesteps": self.timesteps.values,
            "strings": self.strings.values,
        }

    def _case(self, timestep: str, case_id: str) -> dict[str, int]:
        known = self.known_cases.get((timestep, case_id), {})
        case_strings = {column: self.strings.number(known.get(name)) for column, name in _CASE_STRINGS.items()}
        return {
            "id": self.strings.number(case_id),
            "timestep": self.timesteps.number(timestep),
            "old": self._list(known.get("old_answers") or ()),
            **case_strings,
        }


_CASE_STRINGS = {
    "subject": "subject_label",
    "subjectId": "subject",
    "relation": "relation_label",
    "relationId": "relation",
    "target": "object_label",
    "targetId": "object",
    "tag": "tag",
    "kind": "kind",
    "year": "year",
}
_CASE_COLUMNS = ("id", "timestep", "old", *_CASE_STRINGS)


def flags_of(before: _StoredAnswer | None, after: _StoredAnswer | None, forced: _StoredAnswer | None) -> int:
    """Properties of one question's answers, as bits of FLAGS.

    Args:
        before: Answer of the unedited model.
        after: Answer after the edits.
        forced: Answer after the edits under teacher forcing, if `after` is a free answer; otherwise None.
    """
    judged = after.right if after else None
    right, wrong, right_before = judged is True, judged is False, bool(before and before.right)
    unrelated = after is not None and before is not None and after.answer.axis in LOCALITY_AXES
    same = unrelated and after is not None and before is not None and after.answer.text == before.answer.text
    holds = {
        "right": right,
        "right before": right_before,
        "forced only": bool(wrong and forced and forced.right),
        "old": bool(after and after.error == "old answer"),
        "empty": bool(after and not after.answer.text.strip()),
        "kept": same,
        "broken": right_before and wrong,
        "inexact": bool(after and after.error == "more than the answer"),
        "changed": unrelated and not same,
        "not judged": after is not None and judged is None,
    }
    return sum(FLAGS[name] for name, held in holds.items() if held)


def _tokens(answered: _StoredAnswer | None) -> int:
    match = answered.answer.token_match if answered else None
    return NOTHING if match is None else round(100 * match)


def _in_order(run: Run) -> Iterator[tuple[QuestionKey, dict[tuple[str, str], _StoredAnswer]]]:
    """Questions of a run with their answers by stage and preset, ordered by case as edited, axis and question."""
    order = {
        key: turn
        for turn, key in enumerate(zip(*(run.cases[c].to_pylist() for c in ("timestep", "case_id")), strict=True))
    }
    found = _by_question(run)
    last = len(order)
    for key in sorted(found, key=lambda key: (order.get(key[:2], last), key[0], key[1], AXES.index(key[2]), key[3])):
        yield key, found[key]


def _by_question(run: Run) -> dict[QuestionKey, dict[tuple[str, str], _StoredAnswer]]:
    judged = _judgements(run)
    found: dict[QuestionKey, dict[tuple[str, str], _StoredAnswer]] = {}
    for answer in read_answers(run.folder):
        stage = stage_of(answer.model_state, answer.timestep, run.scores.timesteps)
        if stage not in ("before", "own"):
            continue
        key = (answer.timestep, answer.case_id, answer.axis, answer.question)
        answered = found.setdefault(key, {})
        if (stage, answer.preset) not in answered:  # the first answer counts if a question was answered twice
            right, error = judged.get((stage, answer.preset, question_hash(*key)), (None, None))
            answered[stage, answer.preset] = _StoredAnswer(answer, right, error)
    return found


def _judgements(run: Run) -> dict[tuple[str, str, int], tuple[bool | None, str | None]]:
    rows = run.answers.filter(pc.field("stage").isin(["before", "own"]))
    columns = [rows[name].to_pylist() for name in ("stage", "preset", "question", "right", "error")]
    return {
        (stage, preset, question): (right, error)
        for stage, preset, question, right, error in zip(*columns, strict=True)
    }
