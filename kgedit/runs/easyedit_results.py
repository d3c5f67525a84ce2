"""EasyEdit's results files: a list with one object per edit, its scores before ("pre") and after ("post").

They are written from a finished run's first teacher-forced preset: EasyEdit's token accuracy is kgedit's token_match.
Its locality score compares tokens; a run stores texts, so the written score compares whole answers, as metric_meta
records. Scores of files that are read are taken as stated, because such files contain no answers.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from kgedit.analysis.results_files import ResultsFile, StatedScore
from kgedit.errors import TimestepError
from kgedit.metrics.text import FLUENCY
from kgedit.records.cases import LOCALITY_AXES, Axis
from kgedit.records.runs import UNEDITED, Answer, ModelState, Preset
from kgedit.runs.run_files import read_answers, read_edit_costs, read_edited_cases, read_spec, require_finished
from kgedit.timesteps.edit_files.easyedit import LOCALITY_GROUPS, PORTABILITY_AXES

_PLAIN: Mapping[str, Axis] = {"rewrite": "update", "rephrase": "rephrase"}
"""Scores outside any section -> axis."""

_PORTABILITY: Mapping[str, Axis] = {
    **PORTABILITY_AXES,
    "Single_Hops": "hop",
    "Reasoning_Rephrased": "mhop_rephrase",
}
"""Group of `portability` -> axis, as written by kgedit."""

_READ: Mapping[str, Axis] = {**_PORTABILITY, "mhop": "mhop", "personas": "personas"}
"""Group -> axis when reading: examples/run_WikiBigEdit.py uses other names for two of them."""

_TEACHER_FORCED = "decoder_only_teacher_forcing"
_WHOLE_ANSWERS = "pre_post_argmax_text_match"
"""Value in metric_meta; EasyEdit has no name for it, because it compares tokens."""

_Asked = dict[Axis, dict[str, Answer]]


@dataclass(frozen=True, slots=True)
class WrittenResults:
    """Results of a run in EasyEdit's format.

    Attributes:
        text: Content of the file.
        edits: Number of edits of the run.
        left_out: Number of edits without an answer to their own question, which EasyEdit's format requires.
    """

    text: str
    edits: int
    left_out: int


def easyedit_results(folder: Path) -> WrittenResults:
    """Render the results of a finished run in EasyEdit's format, one object per line, in the order of editing.

    `time` is that of the call that made the edit. `kgedit` contains data that EasyEdit has no field for.

    Raises:
        TimestepError: if the run is not finished, or has no teacher-forced preset or answer on the axis update.
    """
    require_finished(folder)
    spec = read_spec(folder)
    preset = next((one for one in spec.presets if one.is_forced and (not one.axes or "update" in one.axes)), None)
    if preset is None:
        raise TimestepError(
            f"The run {folder} has no teacher-forced preset on the axis update, whose token match EasyEdit's results "
            "hold. Run it again with --preset synthetic."
        )
    long = next((one for one in spec.presets if one.truncation == "end_of_text"), None)
    seconds = {(cost.timestep, case_id): cost.seconds for cost in read_edit_costs(folder) for case_id in cost.case_ids}
    before, after, fluency = _answers(folder, preset, long)
    origin = {"method": spec.method, "model": Path(spec.model).name}
    rows = []
    cases = read_edited_cases(folder).to_pylist()
    for number, case in enumerate(cases):
        key = case["timestep"], case["case_id"]
        if "update" not in before[key]:
            continue
        origin_of_case = {name: case[name] for name in ("timestep", "case_id", "relation")} | origin
        post = _scores(after[key], before[key], preset)
        row = {
            "pre": _scores(before[key], None, preset) | _fluency(fluency, key, before=True),
            "case_id": number,
            "requested_rewrite": _request(case, before[key]),
            "time": seconds.get(key),
            "post": post | _fluency(fluency, key, before=False),
            "kgedit": origin_of_case,
        }
        rows.append(json.dumps(row, ensure_ascii=False))
    if cases and not rows:
        raise TimestepError(
            f"The run {folder} has no answer to the question of an edit under the preset {preset.name}, which each "
            "object of EasyEdit's results needs. Leave out --easyedit."
        )
    text = "[\n" + ",\n".join(rows) + "\n]\n" if rows else "[]\n"
    return WrittenResults(text, edits=len(cases), left_out=len(cases) - len(rows))


_Key = tuple[str, str]
_Fluency = dict[tuple[_Key, bool], float]


def _answers(
    folder: Path, preset: Preset, long: Preset | None
) -> tuple[Mapping[_Key, _Asked], Mapping[_Key, _Asked], _Fluency]:
    """Answers before any edit and after a timestep's own edits, by case, axis and question; fluency of long answers."""
    before: dict[_Key, _Asked] = defaultdict(dict)
    after: dict[_Key, _Asked] = defaultdict(dict)
    fluency: _Fluency = {}
    for answer in read_answers(folder):
        key, is_before = (answer.timestep, answer.case_id), answer.model_state == UNEDITED
        if not is_before and answer.model_state != ModelState(answer.timestep):
            continue
        if answer.preset == preset.name:
            (before if is_before else after)[key].setdefault(answer.axis, {}).setdefault(answer.question, answer)
        elif long and answer.preset == long.name and answer.axis == "update":
            value = FLUENCY.judge(answer, None)
            if value is not None:
                fluency.setdefault((key, is_before), value)
    return before, after, fluency


def _fluency(found: _Fluency, key: _Key, *, before: bool) -> dict[str, Any]:
    return {"fluency": {"ngram_entropy": found[key, before]}} if (key, before) in found else {}


def _request(case: Mapping[str, Any], asked: _Asked) -> dict[str, Any]:
    """The edit in the format of EasyEdit's results."""
    ((prompt, update),) = asked["update"].items()
    rephrased = list(asked.get("rephrase", {}))
    request = {
        "prompt": prompt,
        "target_new": update.answers[0],
        "ground_truth": case["old_answers"][0] if case["old_answers"] else None,
        "portability": {group: _questions(asked[axis]) for group, axis in _PORTABILITY.items() if axis in asked},
        "locality": {group: _questions(asked[axis]) for group, axis in LOCALITY_GROUPS.items() if axis in asked},
        "subject": case["subject_label"],
    }
    return request | ({"rephrase_prompt": rephrased[0] if len(rephrased) == 1 else rephrased} if rephrased else {})


def _questions(answers: Mapping[str, Answer]) -> dict[str, list[str]]:
    return {"prompt": list(answers), "ground_truth": [answer.answers[0] for answer in answers.values()]}


def _scores(asked: _Asked, before: _Asked | None, preset: Preset) -> dict[str, Any]:
    """Scores of one state; locality only after the edit, compared with the answers before it."""
    found: dict[str, Any] = {}
    meta = {}
    for name, axis in _PLAIN.items():
        if axis in asked:
            # One number per edit, as in EasyEdit: its summary cannot average lists of different lengths.
            found[f"{name}_acc"] = _matches(asked[axis])[:1] if axis == "update" else _mean_of(_matches(asked[axis]))
            meta[name] = _meta(f"{name}_acc", _TEACHER_FORCED, "token_accuracy", "lm") | {"context": preset.context}
    found["locality"] = {}
    for group, axis in LOCALITY_GROUPS.items() if before is not None else ():
        if axis in asked:
            earlier = (before or {}).get(axis, {})
            found["locality"][f"{group}_acc"] = [
                float(earlier[question].text == answer.text)
                for question, answer in asked[axis].items()
                if question in earlier
            ]
            key = f"locality.{group}"
            meta[key] = _meta(f"{key}_acc", _WHOLE_ANSWERS, "exact_match", "locality.lm")
    found["portability"] = {
        f"{group}_acc": _matches(asked[axis]) for group, axis in _PORTABILITY.items() if axis in asked
    }
    return found | {"metric_meta": meta}


def _matches(answers: Mapping[str, Answer]) -> list[float]:
    return [answer.token_match for answer in answers.values() if answer.token_match is not None]


def _mean_of(values: list[float]) -> list[float]:
    return [fmean(values)] if values else []


def _meta(key: str, protocol: str, scorer: str, family: str) -> dict[str, str]:
    group = f"{family}.{protocol}" + (f".{scorer}" if family == "lm" else "")
    return {"result_key": key, "protocol": protocol, "scorer": scorer, "comparable_group": group}


def read_easyedit_results(path: Path) -> ResultsFile:
    """Read the scores stated in a results file.

    Raises:
        TimestepError: if it is not a results file.
    """
    try:
        content = path.read_bytes()
        rows = json.loads(content)
    except (OSError, ValueError) as error:
        raise TimestepError(f"{path} cannot be read as results of EasyEdit: {error}. {_WANTED}") from error
    listed = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    if not listed or len(listed) != len(rows) or not any(isinstance(row.get("post"), dict) for row in listed):
        raise TimestepError(f"{path} contains no results of EasyEdit. {_WANTED}")
    stated: dict[tuple[Axis, str], list[float]] = defaultdict(list)
    unread, protocols, locality = set[str](), set[str](), set[str]()
    for row in listed:
        for state in ("pre", "post"):
            scores = _mapping(row.get(state))
            for name, value in _stated(scores):
                axis = _axis_of(name)
                if axis is None:
                    unread.add(name)
                elif (mean := _mean(value)) is not None:
                    stated[axis, state].append(mean)
            meta = _mapping(scores.get("metric_meta"))
            protocols |= {str(_mapping(one)["protocol"]) for one in _of(meta, "rewrite") if "protocol" in _mapping(one)}
            locality |= {str(_mapping(one).get("protocol")) for name, one in meta.items() if "locality" in name}
    return ResultsFile(
        path=path,
        sha256=hashlib.sha256(content).hexdigest(),
        edits=tuple(_edit(_mapping(row.get("requested_rewrite"))) for row in listed),
        protocols=tuple(sorted(protocols)),
        scores={axis: _score(stated, axis) for axis in {axis for axis, _ in stated}},
        whole_answers=locality == {_WHOLE_ANSWERS},
        unread=tuple(sorted(unread)),
    )


_WANTED = "Name a run's folder, or a JSON list of objects with requested_rewrite, pre and post."


def _stated(scores: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Names and values of one state's scores; names in groups are prefixed with their section."""
    for name, value in scores.items():
        if name in ("locality", "portability"):
            yield from ((f"{name}.{inner}", one) for inner, one in _mapping(value).items() if inner.endswith("_acc"))
        elif name != "metric_meta" and not name.endswith("_gen_content"):
            yield name, value


def _axis_of(name: str) -> Axis | None:
    """Axis of a score; all groups of locality are one axis, as in files of edits."""
    section, _, inner = name.partition(".")
    group = inner.removesuffix("_acc")
    if section == "locality":
        return LOCALITY_GROUPS.get(group, LOCALITY_AXES[0])
    if section == "portability":
        return _READ.get(group)
    return _PLAIN.get(name.removesuffix("_acc"))


def _score(stated: Mapping[tuple[Axis, str], list[float]], axis: Axis) -> StatedScore:
    before, after = (stated.get((axis, state), []) for state in ("pre", "post"))
    return StatedScore(fmean(before) if before else None, fmean(after) if after else None, len(after))


def _mean(value: Any) -> float | None:
    """Mean of a number or of nested lists of numbers, ignoring NaN; None without any."""
    if isinstance(value, list):
        inner = [mean for one in value if (mean := _mean(one)) is not None]
        return fmean(inner) if inner else None
    is_number = isinstance(value, int | float) and not (isinstance(value, float) and math.isnan(value))
    return float(value) if is_number else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _of(meta: Mapping[str, Any], name: str) -> list[Any]:
    return [meta[name]] if name in meta else []


def _edit(request: Mapping[str, Any]) -> tuple[str, str]:
    subject, target = (request.get(name) for name in ("subject", "target_new"))
    return str(subject or request.get("prompt") or ""), str(target or "")
