"""All answers scored by their preset's own metric, as the rows of answers.parquet, on which comparisons are based.

Wrong free answers get an error class, by rules that can be checked by hand. The first matching class is used:

empty                 no word.
repetition            one to eight words three times in a row, or at least twelve words of which fewer than half of the
                      pairs of adjacent words are distinct.
old answer            contains an answer that was correct before the edit, and none that is correct now.
more than the answer  contains the complete answer and other words: wrong by exact match.
irrelevant            no content: asks a question back, or has only function words and words of the question.
incorrect             any other answer.

After the errors that WILD makes visible (Mirage, section 6.3: repetition, irrelevant and incorrect information).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from kgedit.metrics import METRICS, Earlier, Metric
from kgedit.metrics.judged import BeforeKey
from kgedit.metrics.matching import contains, normalize
from kgedit.metrics.probability import BLEEDOVER
from kgedit.metrics.text import UNCHANGED
from kgedit.records.answer_table import ANSWERS, SCENARIO_SCORES, case_hash, question_hash
from kgedit.records.answers import ErrorClass
from kgedit.records.cases import EDIT_AXES, LOCALITY_AXES, TWO_HOP_AXES
from kgedit.records.runs import Answer, JudgedAnswer, ModelState
from kgedit.records.scores import EvaluationStage

_ROWS = 65_536
"""Answers in a batch: as objects in Python they take memory only while their batch is built."""


def answer_table(
    answers: Iterable[Answer],
    own_metrics: Mapping[str, str],
    *,
    timesteps: Sequence[str],
    old_answers: Mapping[int, Sequence[str]],
    before: Mapping[BeforeKey, Earlier] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Rows of ANSWERS in file order; if a question was answered twice in the same state, only the first answer.

    Args:
        own_metrics: Name of each preset's metric, by preset.
        timesteps: See RunScores.
        old_answers: `case_hash` of a case -> answers that were correct before its edit.
        before: Answers before any edit, used by comparing metrics; None if there are none.
    """
    metrics = {preset: METRICS[name] for preset, name in own_metrics.items()}
    seen: set[tuple[object, str, int]] = set()
    rows: list[dict[str, Any]] = []
    for answer in answers:
        question = question_hash(answer.timestep, answer.case_id, answer.axis, answer.question)
        key = (answer.model_state, answer.preset, question)
        if key in seen:
            continue
        seen.add(key)
        value = metrics[answer.preset].judge(answer, None)  # no preset's own metric compares with an earlier answer
        right = _is_right(value, metrics[answer.preset])
        case = case_hash(answer.timestep, answer.case_id)
        judged = answer if isinstance(answer, JudgedAnswer) else None
        rows.append(
            {
                "stage": stage_of(answer.model_state, answer.timestep, timesteps),
                "model_timestep": answer.model_state.timestep,
                "edits": answer.model_state.edits,
                "timestep": answer.timestep,
                "case": case,
                "second_case": answer.second_case_id and case_hash(answer.timestep, answer.second_case_id),
                "question": question,
                "relation": answer.relation,
                "axis": answer.axis,
                "preset": answer.preset,
                "value": value,
                "right": right,
                "first_found": answer.has_retrieved(answer.case_id),
                "second_found": answer.has_retrieved(answer.second_case_id),
                "begins_right": _begins_right(answer),
                "error": _error(answer, right, old_answers.get(case, ())),
                "judged_right": judged and judged.right,
                "judged_error": judged and judged.error,
                **_about_neighbour(answer, before or {}),
                **_in_scenario(answer, before or {}),
                **_of_chain(answer),
            }
        )
        if len(rows) == _ROWS:
            yield pa.RecordBatch.from_pylist(rows, schema=ANSWERS)
            rows = []
    yield pa.RecordBatch.from_pylist(rows, schema=ANSWERS)


def _about_neighbour(answer: Answer, before: Mapping[BeforeKey, Earlier]) -> dict[str, Any]:
    """Whether a locality answer is unchanged, which neighbour it is about, and how much probability it lost."""
    if answer.axis not in LOCALITY_AXES:
        return {}
    earlier = before.get(BeforeKey(answer.timestep, answer.preset, answer.case_id, answer.question))
    unchanged = UNCHANGED.judge(answer, earlier)
    if answer.neighbour is None:
        return {"unchanged": unchanged}
    return {
        "unchanged": unchanged,
        "neighbour": answer.neighbour.subject,
        "neighbour_label": answer.neighbour.label,
        "similarity": answer.neighbour.similarity,
        "popularity": answer.neighbour.popularity,
        "basis": answer.neighbour.basis,
        "bleedover": BLEEDOVER.judge(answer, earlier),
    }


def _in_scenario(answer: Answer, before: Mapping[BeforeKey, Earlier]) -> dict[str, Any]:
    """Scenario of an answer, and its scores."""
    if answer.scenario is None:
        return {}
    earlier = before.get(BeforeKey(answer.timestep, answer.preset, answer.case_id, answer.question))
    return {"scenario": answer.scenario, **{name: METRICS[name].judge(answer, earlier) for name in SCENARIO_SCORES}}


def _of_chain(answer: Answer) -> dict[str, Any]:
    """Number of facts that a multi-hop question needs, and hashes of the single-hop questions about them."""
    if answer.axis not in TWO_HOP_AXES:
        return {}
    if (chain := answer.chain) is None:
        return {"hops": 2}
    single = [question_hash(answer.timestep, answer.case_id, "hop", question) for question in chain.hop_questions]
    return {"hops": chain.hops, "chain": case_hash(answer.timestep, chain.chain_id), "hop_questions": single}


def _is_right(value: float | None, metric: Metric) -> bool | None:
    if value is None or not metric.of_correctness:
        return None
    return value == (metric.maximum if metric.higher_is_better else metric.minimum)


def _begins_right(answer: Answer) -> bool | None:
    """Whether a free answer, truncated to the target's length, equals the target."""
    if answer.generation == "teacher_forcing" or answer.axis in LOCALITY_AXES or answer.token_match is None:
        return None
    return answer.token_match == 1


def _error(answer: Answer, right: bool | None, old_answers: Sequence[str]) -> ErrorClass | None:
    """Error class of a wrong free answer by the rules; locality has no correct answer, so no class."""
    if right is not False or answer.generation == "teacher_forcing" or answer.axis in LOCALITY_AXES:
        return None
    of_chain = answer.chain.old_answers if answer.chain else ()
    old = old_answers if answer.axis in EDIT_AXES else of_chain
    return classify_error(answer.text, question=answer.question, answers=answer.answers, old_answers=old)


def stage_of(model_state: ModelState, timestep: str, timesteps: Sequence[str]) -> EvaluationStage:
    """Return the stage of a question.

    Args:
        timestep: Timestep of the question.
        timesteps: All timesteps of the run, in the order of editing, followed by evaluated timesteps without edits.
    """
    if model_state.timestep is None:
        return "before"
    if model_state.edits is not None:
        return "partial"
    later = timesteps.index(model_state.timestep) - timesteps.index(timestep)
    return "own" if later == 0 else "retained" if later > 0 else "ahead"


_LONGEST_REPEATED = 8
"""Maximum words of a phrase that is looked for three times in a row; longer loops show in repeated pairs."""
_WORDS_OF_A_LONG_TEXT = 12
"""Minimum words for a verdict by pairs: in shorter texts a repeated name is half of the words."""
_FUNCTION_WORD = re.compile(
    "and|are|as|at|be|been|by|did|do|does|for|from|had|has|have|he|her|his|i|in|is|it|its|me|my|no|not|of|on|one|or|our|"
    "she|so|some|that|their|them|there|these|they|this|those|to|up|us|was|we|were|what|when|where|which|who|whom|whose|"
    "why|will|with|would|yes|you|your|answer|question|q"
)


def classify_error(text: str, *, question: str, answers: Sequence[str], old_answers: Sequence[str] = ()) -> ErrorClass:
    """Classify a wrong answer.

    Args:
        text: Answer, as generated and truncated.
        question: Question, as evaluated.
        answers: Accepted answers.
        old_answers: Answers that were correct before the edit.

    >>> classify_error("Paris Paris Paris", question="Where?", answers=["Rome"])
    'repetition'
    """
    words = normalize(text).split()
    if not words:
        return "empty"
    if repeats(words):
        return "repetition"
    holds_answer = any(contains(text, answer) for answer in answers)
    if not holds_answer and any(contains(text, old) for old in old_answers):
        return "old answer"
    if holds_answer:
        return "more than the answer"
    return "irrelevant" if _says_nothing(text, words, question) else "incorrect"


def repeats(words: Sequence[str]) -> bool:
    """Whether words are repeated more than in ordinary sentences."""
    pairs = list(pairwise(words))
    if len(words) >= _WORDS_OF_A_LONG_TEXT and len(set(pairs)) < len(pairs) / 2:
        return True
    return any(_three_in_a_row(words, length) for length in range(1, _LONGEST_REPEATED + 1))


def _three_in_a_row(words: Sequence[str], length: int) -> bool:
    run = 0
    for earlier, later in zip(words, words[length:], strict=False):
        run = run + 1 if earlier == later else 0
        if run == 2 * length:
            return True
    return False


def _says_nothing(text: str, words: Sequence[str], question: str) -> bool:
    known = set(normalize(question).split())
    return text.rstrip().endswith("?") or all(word in known or _FUNCTION_WORD.fullmatch(word) for word in words)
