"""Selects the cases of a run's timesteps to edit: named ones, a sample, and of these those that the model gets wrong.

Each step depends on the file, the seed and the unedited model alone, so a resumed run selects the same cases.

An instance is a set of edits that belong together, such as those behind one chain of MQuAKE: all are applied before the
chain is evaluated. With the protocol "single", an instance is edited, evaluated and undone as a whole. Where edits
accumulate, instances share edits: each different edit is applied once, and a chain is evaluated with the last of its
edits.
"""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

import msgspec

from kgedit.errors import SpecError, TimestepError
from kgedit.files import replace_file
from kgedit.llm.backends.contract import Backend
from kgedit.llm.contexts import Context
from kgedit.llm.generation import AnswerCache
from kgedit.llm.language_model import LanguageModel
from kgedit.metrics import METRICS
from kgedit.records.cases import Case, Probe, qualified_id
from kgedit.records.runs import UNEDITED, Preset, RunSpec, Selection
from kgedit.runs.evaluator import Answered, AskedProbe, cached_replies, to_answer, word
from kgedit.runs.overlaps import count_conflicting, leave_out_edited
from kgedit.timesteps.edit_files import Edits

_RECORD, _NAMES = "selection.json", "edited_cases.txt"


def choose_cases(timesteps: Sequence[Edits], spec: RunSpec) -> tuple[dict[str, list[Case]], list[Selection]]:
    """Select named, limited or sampled cases of each timestep, in the spec's order, and count them after each step.

    Raises:
        SpecError: if two timesteps have the same name, an option has no effect on any of them, or the file of cases
            cannot be read.
        TimestepError: if no case of a timestep is left.
    """
    _check_options(timesteps, spec)
    wanted = _read_names(Path(spec.only_cases)) if spec.only_cases else None
    chosen: dict[str, list[Case]] = {}
    counts = []
    known = set[str]()
    for timestep in timesteps:
        if timestep.name in chosen:
            raise SpecError([f"two of the timesteps are called {timestep.name}; give each once"])
        cases = list(
            timestep.cases(
                neighbours=spec.neighbours,
                archive_as=spec.archive_as,
                two_hop_rephrases=spec.two_hop_rephrases,
            )
        )
        if not cases:
            raise TimestepError(
                f"The timestep {timestep.name} contains no cases, so there is nothing to edit. Its timestep.json shows "
                "which filters dropped them; export it again with more properties or dates further apart."
            )
        if spec.population == "repl":
            cases = _replacements(cases, timestep.name)
        if wanted:
            known.update(name for case in cases for name in _names(case) & wanted)
        named = cases if wanted is None else _named(cases, wanted)
        if not named:
            raise TimestepError(
                f"{spec.only_cases} names no case of the timestep {timestep.name}. Name one, or leave it."
            )
        drawn = _ordered(_drawn(edit_units(named), spec, timestep.name), spec)
        merged = merge_instances(drawn) if spec.protocol != "single" else MergedInstances(drawn)
        chosen[timestep.name] = merged.cases
        counts.append(
            Selection(
                timestep=timestep.name,
                cases=len(cases),
                named=len(named),
                drawn=len(drawn),
                answered=0,
                edited=len(merged.cases),
                repeated=len(drawn) - len(merged.cases),
                contradicted=merged.contradicted,
                conflicting=0 if spec.protocol == "single" else count_conflicting(merged.cases),
            )
        )
    unknown = sorted((wanted or set()) - known)
    counts = [replace(count, unknown_names=_concerning(count.timestep, unknown)) for count in counts]
    if spec.protocol == "single":
        return chosen, counts
    chosen, edited_before = leave_out_edited(chosen)
    return chosen, [replace(count, edited_before=edited_before[count.timestep]) for count in counts]


_WITHOUT_EFFECT = {
    "neighbours": "only files of edits and timesteps of --profile wikifactdiff have several neighbours of a case",
    "archive_as": "none of the edits archives a fact; those of a timestep's wikifactdiff.jsonl may",
    "two_hop_rephrases": "files of edits have no paraphrases of two-hop questions",
}


def _check_options(timesteps: Sequence[Edits], spec: RunSpec) -> None:
    used = frozenset[str]().union(*(timestep.options for timestep in timesteps))
    unused = [name for name in _WITHOUT_EFFECT if getattr(spec, name) and name not in used]
    if unused:
        raise SpecError([f"{name} has no effect: {_WITHOUT_EFFECT[name]}. Leave it out." for name in unused])


def _replacements(cases: Sequence[Case], name: str) -> list[Case]:
    """Cases of WFD_repl.

    Raises:
        TimestepError: if there are none.
    """
    found = [case for case in cases if case.in_replacement_set]
    if not found:
        why = (
            "does not record which cases are in it. Take a timestep of --profile wikifactdiff, or its "
            "wikifactdiff.jsonl"
            if all(case.in_replacement_set is None for case in cases)
            else "contains none of its cases. Leave out --population"
        )
        raise TimestepError(f"--population repl takes WikiFactDiff's replacement set; the timestep {name} {why}.")
    return found


def leave_out_answered(
    cases: Mapping[str, list[Case]],
    counts: Sequence[Selection],
    model: LanguageModel,
    backend: Backend,
    preset: Preset,
    *,
    context: Context,
    cache: AnswerCache,
    advance: Answered,
) -> tuple[dict[str, list[Case]], list[Selection]]:
    """Select the cases whose update question the unedited model does not answer fully right by the preset's own metric.

    Args:
        model: The unedited model.
        backend: Backend that answers; used only for answers that are not in the cache.
        advance: Called with the number of further questions that have been answered.

    Raises:
        TimestepError: if the model answers every case of a timestep, or a case belongs to an instance with several
            cases.
    """
    if any(case.group is not None for own in cases.values() for case in own):
        raise TimestepError(
            "--only-failed leaves out single edits, and the multi-hop questions of MQuAKE are right only after all "
            "edits of their instance. Leave out --only-failed."
        )
    asked = [_update_probe(case) for own in cases.values() for case in own]
    known = _answered(asked, model, backend, preset, context=context, cache=cache, advance=advance)
    left = {name: [case for case in own if (name, case.case_id) not in known] for name, own in cases.items()}
    for name, own in left.items():
        if not own:
            raise TimestepError(
                f"The model answers all {len(cases[name])} cases that were drawn of {name}, so --only-failed leaves "
                "none. Draw more, or edit without it."
            )
    recounted = [
        replace(count, answered=count.drawn - len(left[count.timestep]), edited=len(left[count.timestep]))
        for count in counts
    ]
    return left, recounted


def choose_evaluated(cases: Mapping[str, list[Case]], spec: RunSpec) -> Callable[[Sequence[Case]], list[Case]]:
    """Function that leaves those of some edited cases that are evaluated: all, or a sample of each timestep.

    A case's place in the draw depends on the seed and its own id, so it is evaluated in every state or in none. All
    cases of an instance are evaluated if one is.
    """
    if spec.evaluate_sample is None:
        return list
    chosen: set[tuple[str, str]] = set()
    for timestep, own in cases.items():
        units = sorted({case.group or case.case_id for case in own}, key=partial(_place, f"evaluate {spec.seed}"))
        kept = set(units[: spec.evaluate_sample])
        chosen |= {(timestep, case.case_id) for case in own if (case.group or case.case_id) in kept}
    return lambda asked: [case for case in asked if (case.timestep, case.case_id) in chosen]


def write_selection(folder: Path, cases: Mapping[str, list[Case]], counts: Sequence[Selection]) -> None:
    """Write the counts, and the edited cases one per line, which another run's --only-cases can read.

    Raises:
        SpecError: if the folder's run edits other cases.
    """
    names = "".join(f"{qualified_id(timestep, case.case_id)}\n" for timestep, own in cases.items() for case in own)
    path = folder / _NAMES
    if path.is_file() and path.read_text(encoding="utf-8") != names:
        raise SpecError(
            [f"{folder} contains a run of other cases (see {path}); give another --out, or --overwrite"],
            of="The run cannot start",
        )
    replace_file(path, names)
    replace_file(folder / _RECORD, msgspec.json.format(msgspec.json.encode(list(counts)), indent=1) + b"\n")


def _read_names(path: Path) -> set[str]:
    """Read the lines of a file: case ids, or a timestep's name, a tab and a case id."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError([f"the cases {path} cannot be read: {error}; give a file with one case id a line"]) from error
    return {line.strip() for line in lines if line.strip()}


def _names(case: Case) -> set[str]:
    return {case.case_id, qualified_id(case.timestep, case.case_id)}


def _concerning(timestep: str, names: Sequence[str]) -> tuple[str, ...]:
    """Names given with this timestep or without any."""
    return tuple(name for name in names if name.rpartition("\t")[0] in ("", timestep))


def _named(cases: Sequence[Case], wanted: set[str]) -> list[Case]:
    """Named cases, and the other cases of their instances."""
    groups = {case.group for case in cases if case.group is not None and _names(case) & wanted}
    return [case for case in cases if case.group in groups or _names(case) & wanted]


def _drawn(units: list[list[Case]], spec: RunSpec, timestep: str) -> list[list[Case]]:
    if spec.sample is None or spec.sample >= len(units):
        return units[: spec.limit]
    draw = random.Random(f"sample {spec.seed} {timestep}")
    if spec.stratify is None:
        return [units[index] for index in sorted(draw.sample(range(len(units)), spec.sample))]
    return [units[index] for index in _stratified(units, spec.sample, draw)]


def _ordered(units: list[list[Case]], spec: RunSpec) -> list[Case]:
    """Cases in the order of the spec; those of an instance stay together.

    A case's position depends on the seed and its own id, so a subset of the cases has the same relative order.
    """
    if spec.order != "file":
        units = sorted(units, key=lambda unit: _place(f"order {spec.seed}", unit[0].group or unit[0].case_id))
    return [case for unit in units for case in unit]


def _place(draw: str, unit: str) -> bytes:
    return hashlib.sha256(f"{draw} {unit}".encode()).digest()


def _stratified(units: list[list[Case]], count: int, draw: random.Random) -> list[int]:
    """Systematic sampling: indexes at equal distances after a random start, with the cases ordered by relation."""
    order = sorted(range(len(units)), key=lambda index: (units[index][0].fact.property, draw.random()))
    start = draw.random()
    return sorted(order[int((start + step) * len(order) / count)] for step in range(count))


def _update_probe(case: Case) -> AskedProbe:
    return AskedProbe(case, next(probe for probe in case.probes if probe.axis == "update"))


def _answered(
    asked: Sequence[AskedProbe],
    model: LanguageModel,
    backend: Backend,
    preset: Preset,
    *,
    context: Context,
    cache: AnswerCache,
    advance: Answered,
) -> set[tuple[str, str]]:
    """Timestep and id of the cases that the model answers fully right."""
    metric = METRICS[preset.metric]
    best = metric.maximum if metric.higher_is_better else metric.minimum
    items = [word(model, probe, preset, context=context) for probe in asked]
    found = set()
    for batch in backend.plan([item.put for item in items]):
        own = [items[index] for index in batch]
        replies = cached_replies(backend, [item.put for item in own], cache)
        for item, reply in zip(own, replies, strict=True):
            if metric.judge(to_answer(item, reply, UNEDITED), None) == best:
                found.add((item.asked.case.timestep, item.asked.case.case_id))
        advance(len(batch))
    return found


_Edit = tuple[str, str]
"""Question and answer; two cases with the same pair are the same edit."""


@dataclass(frozen=True, slots=True)
class MergedInstances:
    """Cases in the order of editing, each different edit once.

    Attributes:
        cases: The cases.
        contradicted: Probes left out because another edit changes one of their facts.
    """

    cases: list[Case]
    contradicted: int = 0


def edit_units(cases: Sequence[Case]) -> list[list[Case]]:
    """Consecutive cases of the same group together, every other case alone."""
    keyed = ((index if case.group is None else case.group, case) for index, case in enumerate(cases))
    return [[case for _, case in unit] for _, unit in groupby(keyed, key=lambda pair: pair[0])]


def batched(cases: Sequence[Case], size: int) -> Iterator[list[Case]]:
    """The cases in order, at most `size` at a time."""
    return (list(cases[start : start + size]) for start in range(0, len(cases), size))


def merge_instances(cases: Sequence[Case]) -> MergedInstances:
    """Merge cases of instances that are the same edit; cases without a group are left unchanged.

    The first case of an edit keeps its position. All probes of an instance other than those of its single edits move to
    the last of its edits, unless another edit gives one of their facts a different object.
    """
    kept: dict[object, Case] = {}
    for index, case in enumerate(cases):
        kept.setdefault(index if case.group is None else _edit(case), case)
    place = {key: index for index, key in enumerate(kept)}
    taught: dict[tuple[str, str], set[str]] = defaultdict(set)
    for case in kept.values():
        taught[case.fact.subject, case.fact.property].add(case.fact.object)
    moved: dict[object, list[Probe]] = defaultdict(list)
    contradicted = 0
    for unit in edit_units(cases):
        if unit[0].group is None:
            continue
        last = max(map(_edit, unit), key=place.__getitem__)
        asked = [probe for case in unit for probe in case.probes if probe.axis != "update"]
        right = [probe for probe in asked if not _is_contradicted(probe, taught)]
        moved[last] += right
        contradicted += len(asked) - len(right)
    merged = [
        case if case.group is None else replace(case, probes=(case.probes[0], *_once(moved[key])))
        for key, case in kept.items()
    ]
    return MergedInstances(merged, contradicted)


def _edit(case: Case) -> _Edit:
    return case.question, case.answer


def _once(probes: Sequence[Probe]) -> list[Probe]:
    """First probe of each question on an axis: instances of the same chain have the same questions."""
    return list({(probe.axis, probe.question): probe for probe in reversed(probes)}.values())[::-1]


def _is_contradicted(probe: Probe, taught: dict[tuple[str, str], set[str]]) -> bool:
    """Whether an edit gives one of a probe's facts another object."""
    return any(taught.get((fact.subject, fact.property), set()) - {fact.object} for fact in probe.facts)
