"""Chains of three and four facts through an edit: which paths remain, and how they are asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pytest
from world.dumps import Json
from world.two_days import about, item, two_snapshots

from kgedit.errors import TimestepError
from kgedit.exporters.easyedit import export as easyedit
from kgedit.exporters.wikibigedit import export as wikibigedit
from kgedit.store.window import Window
from kgedit.timesteps.chain_paths import find_paths, judge_paths
from kgedit.timesteps.engines.store import StoreEngine
from kgedit.timesteps.export import WikiBigEditSettings, export_timestep
from kgedit.timesteps.filters import Filtered
from kgedit.timesteps.timestep import Timestep

Facts = Mapping[str, Sequence[tuple[str, str]]]

LABELS = {
    "Q1": "Arvika FC",
    "Q2": "Bo Ek",
    "Q20": "Carl Dahl",
    "Q21": "Dag Falk",
    "Q30": "Norway",
    "Q31": "Sweden",
    "Q40": "Eva Gran",
    "Q41": "Filip Holm",
    "Q50": "Green Party",
    "Q60": "Gro Ibsen",
    "P6": "head of government",
    "P27": "country of citizenship",
    "P54": "member of sports team",
    "P102": "member of political party",
    "P286": "head coach",
    "P26": "spouse",
}
ALIASES = {"Q40": ("E. Gran", "Arvika")}
STATIC: Facts = {
    "Q2": [("P54", "Q1")],
    "Q20": [("P27", "Q31")],
    "Q21": [("P27", "Q30")],
    "Q30": [("P6", "Q40")],
    "Q31": [("P6", "Q41")],
    "Q40": [("P102", "Q50")],
}
"""Norway and its head of government follow from the new coach, Sweden and its own from the one before."""


def world(coach: str, more: Facts) -> list[Json]:
    facts = {name: [*STATIC.get(name, ()), *more.get(name, ())] for name in LABELS}
    facts["Q1"].append(("P286", coach))
    return [
        item(name, *(about(*fact) for fact in facts[name]), label=label, aliases=ALIASES.get(name, ()))
        for name, label in LABELS.items()
    ]


ALONE: Facts = {"Q2": [("P54", "Q60")]}
"""The player has a second team, so no path begins with him."""

CASES = pa.table(
    {
        "case_id": ["Q1:P286:Q21"],
        "subject": ["Q1"],
        "property": ["P286"],
        "object": ["Q21"],
        "old_objects": pa.array([["Q20"]]),
    }
)


def export(folder: Path, *, hops: int = 4, more: Facts = MappingProxyType({})) -> Timestep:
    """Export the change of the coach of Q1; `more` holds on both days."""
    snapshots = two_snapshots(folder, world("Q20", more), world("Q21", more))
    return export_timestep(StoreEngine(), *snapshots, folder / "out", settings=WikiBigEditSettings(hops=hops))


@pytest.fixture(scope="module")
def timestep(tmp_path_factory: pytest.TempPathFactory) -> Timestep:
    """Has one path of each length."""
    return export(tmp_path_factory.mktemp("alone"), more=ALONE)


def judged(folder: Path, *, hops: int, more: Facts, before: Facts | None = None, redirects: str = "") -> Filtered:
    """Paths through the change; `before` replaces `more` on the first day.

    With `redirects`, the first day also has Q70 and the second one Q71.
    """
    old, new = world("Q20", more if before is None else before), world("Q21", more)
    if redirects:
        old += [item("Q70", *(about(*fact) for fact in (before or {}).get("Q70", ())), label="Dup")]
        new += [item("Q71", label="Gry Jo")]
    snapshots = two_snapshots(folder, old, new, redirects=redirects)
    relations = [name for name in LABELS if name.startswith("P")]
    with Window(*snapshots, spill=folder / "spill") as window:
        paths = find_paths(StoreEngine(), window, CASES, relations, hops=hops, seed=0)
        return judge_paths(window, paths, CASES)


def written(paths: pa.Table) -> list[str]:
    """Items and relations of each path."""
    return [
        " ".join([row["nodes"][0], *(f"{p} {o}" for p, o in zip(row["properties"], row["nodes"][1:], strict=True))])
        for row in paths.to_pylist()
    ]


COACH_TO_HEAD = "Q1 P286 Q21 P27 Q30 P6 Q40"


def test_an_edit_is_any_hop_of_a_chain(tmp_path: Path) -> None:
    found = judged(tmp_path, hops=4, more={}).kept
    assert written(found) == [
        COACH_TO_HEAD,
        "Q2 P54 Q1 P286 Q21 P27 Q30",
        f"{COACH_TO_HEAD} P102 Q50",
        f"Q2 P54 {COACH_TO_HEAD}",
    ]
    assert found["hops"].to_pylist() == [3, 3, 4, 4]
    assert found["position"].to_pylist() == [1, 2, 1, 2]
    assert found["old_answers"].to_pylist() == [["Filip Holm"], ["Sweden"], [], ["Filip Holm"]]


@pytest.mark.slow
def test_one_chain_of_each_length_is_asked(tmp_path: Path) -> None:
    timestep = export(tmp_path)
    assert [row["hops"] for row in timestep.table("chains").to_pylist()] == [3, 4]
    counts = timestep.manifest["chains"]
    assert (counts["found"], counts["kept"], counts["asked"]) == (4, 4, {"3": 1, "4": 1})
    (row,) = json.loads(wikibigedit(timestep).read_text(encoding="utf-8"))
    assert (row["mhop"], row["mhop_ids"]) == (None, None), "this form has two hops at most"
    (row,) = json.loads(easyedit(timestep).read_text(encoding="utf-8"))
    assert "Reasoning" not in row["portability"], "nor has this one more"


def test_a_chain_is_asked_for_without_naming_anything_in_between(timestep: Timestep) -> None:
    three, four = timestep.table("chains").to_pylist()
    assert three["question"] == (
        "Who is the head of government of the country of which the head coach of Arvika FC is a citizen?"
    )
    assert (three["object_label"], three["old_answers"]) == ("Eva Gran", ["Filip Holm"])
    assert (four["object_label"], four["old_answers"]) == ("Green Party", [])
    assert len(three["rephrases"]) == 3
    assert all("Arvika FC" in text for text in three["rephrases"])
    assert three["object_aliases"] == ["E. Gran"], "the question contains Arvika"
    assert three["facts"][2]["object_aliases"] == ["E. Gran", "Arvika"]


def test_a_case_has_the_question_of_its_chain_and_one_about_each_fact(timestep: Timestep) -> None:
    (case,) = timestep.cases(two_hop_rephrases=True)
    three, four = (probe for probe in case.probes if probe.axis == "mhop")
    assert three.chain is not None
    assert four.chain is not None
    assert (three.chain.hops, four.chain.hops) == (3, 4)
    assert [fact.object_label for fact in three.facts] == ["Dag Falk", "Norway", "Eva Gran"]
    assert three.chain.old_answers == ("Filip Holm",)
    singles = {probe.question: probe for probe in case.probes if probe.axis == "hop"}
    assert tuple(singles) == four.chain.hop_questions, "each is asked once"
    assert four.chain.hop_questions[:3] == three.chain.hop_questions
    assert [probe.answers[0] for probe in singles.values()] == ["Dag Falk", "Norway", "Eva Gran", "Green Party"]
    assert len([probe for probe in case.probes if probe.axis == "mhop_rephrase"]) == 6
    known = {(known.fact.subject, known.fact.property, known.fact.object) for known in timestep.known_facts()}
    assert {("Q21", "P27", "Q30"), ("Q30", "P6", "Q40"), ("Q40", "P102", "Q50")} <= known
    assert ("Q1", "P286", "Q21") not in known


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        ({"Q1": [("P6", "Q40")]}, "the start and the answer are linked directly"),
        ({"Q40": [("P54", "Q1")]}, "the start and the answer are linked directly"),
        ({"Q1": [("P26", "Q60")], "Q60": [("P26", "Q40")]}, "a shorter path leads to the answer"),
        ({"Q31": [("P6", "Q40"), ("P6", "Q41")]}, "the replaced object gives the same answer"),
    ],
    ids=["linked", "linked back", "shorter", "same by the replaced object"],
)
def test_an_answer_that_does_not_depend_on_the_edit_is_not_asked_for(tmp_path: Path, link: Facts, reason: str) -> None:
    filtered = judged(tmp_path, hops=3, more={**ALONE, **link})
    assert COACH_TO_HEAD not in written(filtered.kept)
    assert (COACH_TO_HEAD, reason) in zip(
        written(filtered.dropped), filtered.dropped["reason"].to_pylist(), strict=True
    )


@pytest.mark.parametrize(
    ("before", "more", "redirects", "reason"),
    [
        ({"Q31": [("P6", "Q70")]}, {}, "Q70 Q40", "the replaced object gives the same answer"),
        ({"Q70": [("P6", "Q40")]}, {}, "Q70 Q31", "the replaced object gives the same answer"),
        ({}, {"Q1": [("P26", "Q70")]}, "Q70 Q40", "the start and the answer are linked directly"),
        ({}, {"Q1": [("P26", "Q70")], "Q60": [("P26", "Q40")]}, "Q70 Q60", "a shorter path leads to the answer"),
    ],
    ids=["same by a merged answer", "same by a merged item", "linked", "shorter"],
)
def test_merged_items_count_as_their_targets(
    tmp_path: Path, before: Facts, more: Facts, redirects: str, reason: str
) -> None:
    filtered = judged(tmp_path, hops=3, more={**ALONE, **more}, before={**ALONE, **before}, redirects=redirects)
    assert filtered.dropped["reason"].to_pylist() == [reason]


def test_an_old_answer_that_was_merged_has_the_label_of_its_target(tmp_path: Path) -> None:
    before: Facts = {**ALONE, "Q31": [("P6", "Q70")]}
    found = judged(tmp_path, hops=3, more=ALONE, before=before, redirects="Q70 Q71").kept
    assert found["old_answers"].to_pylist() == [["Filip Holm", "Gry Jo"]]


def test_four_facts_are_no_chain_if_three_lead_to_the_answer(tmp_path: Path) -> None:
    way: Facts = {**ALONE, "Q1": [("P26", "Q60")], "Q60": [("P26", "Q41")], "Q41": [("P26", "Q50")]}
    filtered = judged(tmp_path, hops=4, more=way)
    assert written(filtered.kept) == [COACH_TO_HEAD]
    assert filtered.dropped["reason"].to_pylist() == ["a shorter path leads to the answer"]


@pytest.mark.parametrize(
    ("more", "before", "hops"),
    [
        ({"Q21": [("P27", "Q31")]}, None, []),
        ({}, {"Q21": [("P27", "Q31")]}, [3, 4]),
        ({}, {"Q40": [("P102", "Q51")], "Q30": [("P6", "Q41")]}, [3, 4]),
    ],
    ids=["two values", "two values before", "other values before"],
)
def test_hops_are_single_values_that_both_days_have(
    tmp_path: Path, more: Facts, before: Facts | None, hops: list[int]
) -> None:
    found = judged(tmp_path, hops=4, more={**ALONE, **more}, before=None if before is None else {**ALONE, **before})
    assert found.kept["hops"].to_pylist() == hops


def test_a_fact_that_only_one_day_has_is_no_hop(tmp_path: Path) -> None:
    new: Facts = {"Q50": [("P27", "Q60")]}
    assert written(judged(tmp_path, hops=4, more={**ALONE, **new}, before=ALONE).kept) == [
        COACH_TO_HEAD,
        f"{COACH_TO_HEAD} P102 Q50",
    ]
    gone: Facts = {"Q40": [("P102", "Q50")]}
    without = {**ALONE, "Q30": [("P102", "Q50")]}
    assert not any("Q30 P102" in path for path in written(judged(tmp_path, hops=4, more=without, before=gone).kept))


def test_two_hops_are_the_default_and_nothing_else_is_written(tmp_path: Path) -> None:
    timestep = export(tmp_path, hops=2)
    assert "chains" not in timestep.manifest
    assert not (timestep.folder / "chains.parquet").exists()
    assert timestep.table("chains").num_rows == 0
    assert not [probe for case in timestep.cases() for probe in case.probes if probe.axis == "hop"]
    with pytest.raises(TimestepError, match="Chains have 2 to 4 facts, and not 5"):
        export(tmp_path, hops=5)
