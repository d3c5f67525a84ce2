"""Chains of cases as questions, from tables alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from world.dumps import Json
from world.two_days import about, item, two_snapshots

from kgedit.store.window import Window
from kgedit.timesteps.chains import TWO_HOP_FILTERS, find_shortcuts, make_two_hops
from kgedit.timesteps.changes_only import take_changes
from kgedit.timesteps.relation_words import RelationWords
from kgedit.wording.templates import TEMPLATES

CASES = pa.table(
    {
        "case_id": ["Q1:P6:Q2", "Q2:P26:Q3", "Q2:P27:Q4", "Q5:P6:Q6", "Q6:P26:Q7"],
        "subject": ["Q1", "Q2", "Q2", "Q5", "Q6"],
        "subject_label": ["Arvika", "Ada", "Ada", "Falun", "Eva"],
        "property": ["P6", "P26", "P27", "P6", "P26"],
        "property_label": ["head", "spouse", "country", "head", "spouse"],
        "object": ["Q2", "Q3", "Q4", "Q6", "Q7"],
        "object_label": ["Ada", "Bo", "Norway", "Eva", "Falun Smith of Falun"],
        "object_aliases": pa.array([[], ["B."], [], [], []], pa.list_(pa.string())),
        "name": ["Arvika", "Ada", "Ada", "Falun", "Eva"],
        "subject_class": ["place", "person", "person", "place", "person"],
    }
)
TEMPLATE_ROWS = [
    {
        "property": name,
        "subject_class": subject_class,
        "question": f"What is the {relation} of {{subject}}?",
        "phrase": f"the {relation} of {{subject}}",
    }
    for name, relation, subject_class in (
        ("P6", "head", "place"),
        ("P26", "spouse", "person"),
        ("P27", "country", "person"),
    )
]
TEMPLATE_TABLE = pa.Table.from_pylist(
    [row | dict.fromkeys(("rephrase", "cloze", "template"), "") for row in TEMPLATE_ROWS], schema=TEMPLATES
)
WORDS = RelationWords(TEMPLATE_TABLE)


def chain(subject: str, first: str, bridge: str, second: str, end: str, **shortcuts: bool) -> dict[str, Any]:
    row = {"subject": subject, "first_property": first, "bridge": bridge, "second_property": second, "object": end}
    return row | {"same_by_old_bridge": False, "follows_from_subject": False} | shortcuts


def test_a_chain_asks_for_the_second_object_by_way_of_the_first_subject() -> None:
    chains = pa.Table.from_pylist([chain("Q1", "P6", "Q2", "P26", "Q3")])
    (row,) = make_two_hops(chains, CASES, TEMPLATE_TABLE, WORDS, seed=0).kept.to_pylist()
    assert row["question"] == "What is the spouse of the head of Arvika?"
    assert (row["case_id"], row["second_case_id"]) == ("Q1:P6:Q2", "Q2:P26:Q3")
    assert (row["object_label"], row["object_aliases"], row["chosen"]) == ("Bo", ["B."], True)


def test_a_two_hop_question_has_the_rephrasings_that_pass_the_final_filters() -> None:
    own = [
        "By which {subject} is the spouse?",
        "Of {subject}, who is the spouse?",
        "Is Bo the spouse of {subject}?",
        "Which spouse has Ada, {subject}?",
        "Who is by the side of {subject}?",
        "By which {subject}, is the spouse?",
    ]
    rows = [row | {"rephrases": own} for row in TEMPLATE_TABLE.to_pylist()]
    templates = pa.Table.from_pylist(rows, schema=TEMPLATES)
    chains = pa.Table.from_pylist([chain("Q1", "P6", "Q2", "P26", "Q3")])
    (row,) = make_two_hops(chains, CASES, templates, WORDS, seed=0).kept.to_pylist()
    assert row["rephrases"] == [
        "By which the head of Arvika is the spouse?",
        "Of the head of Arvika, who is the spouse?",
    ]


@pytest.mark.slow
def test_of_several_second_hops_one_is_chosen_and_another_seed_chooses_another() -> None:
    chains = pa.Table.from_pylist([chain("Q1", "P6", "Q2", *end) for end in (("P26", "Q3"), ("P27", "Q4"))])
    chosen = set()
    for seed in range(8):
        rows = make_two_hops(chains, CASES, TEMPLATE_TABLE, WORDS, seed=seed).kept.to_pylist()
        assert len(rows) == 2
        (asked,) = (row["object"] for row in rows if row["chosen"])
        chosen.add(asked)
    assert chosen == {"Q3", "Q4"}


def test_a_chain_is_dropped_with_its_reason() -> None:
    named = TEMPLATE_TABLE.to_pylist()
    named[1]["question"] = "Who is Ada, the spouse of {subject}?"
    chains = pa.Table.from_pylist(
        [
            chain("Q1", "P6", "Q2", "P99", "Q9"),  # no such case
            chain("Q1", "P6", "Q2", "P26", "Q3"),  # the template names the bridge
            chain("Q1", "P6", "Q2", "P27", "Q4", same_by_old_bridge=True),
            chain("Q1", "P6", "Q2", "P27", "Q4", follows_from_subject=True),
        ]
    )
    filtered = make_two_hops(chains, CASES, pa.Table.from_pylist(named, schema=TEMPLATES), WORDS, seed=0)
    assert list(filtered.funnel) == [reason for reason, _ in TWO_HOP_FILTERS]
    assert [reason for reason, count in filtered.funnel.items() if count] == [
        "a hop was dropped from the cases",
        "question: it names the entity in the middle",
        "the old bridge gives the same answer",
        "the answer follows from the first subject",
    ]
    assert filtered.questions["mhop"] == {
        "judged": 3,
        "passed": 2,
        "failed": {"it names the entity in the middle": 1},
    }
    renamed = CASES.to_pylist()
    renamed[4]["object_label"] = "Falun"
    answered = make_two_hops(
        pa.Table.from_pylist([chain("Q5", "P6", "Q6", "P26", "Q7")]),
        pa.Table.from_pylist(renamed),
        TEMPLATE_TABLE,
        WORDS,
        seed=0,
    )
    assert answered.dropped["reason"].to_pylist() == ["question: it gives the answer away"]


@pytest.mark.parametrize("name", ["Arvika (town in Norge)", "Norge"])
def test_only_the_hint_of_the_first_subject_must_not_contain_an_alias_and_one_in_its_label_is_not_accepted(
    name: str,
) -> None:
    first, _, second, *_ = CASES.to_pylist()
    first |= {"name": name, "subject_label": name.partition(" (")[0]}
    cases = pa.Table.from_pylist([first, second | {"object_aliases": ["Norge", "NO"]}], schema=CASES.schema)
    chains = pa.Table.from_pylist([chain("Q1", "P6", "Q2", "P27", "Q4")])
    filtered = make_two_hops(chains, cases, TEMPLATE_TABLE, WORDS, seed=0)
    if "(" in name:
        assert filtered.dropped["reason"].to_pylist() == ["question: it gives the answer away"]
    else:
        assert filtered.kept["object_aliases"].to_pylist() == [["NO"]]


def shortcuts(
    folder: Path, old: list[Any], new: list[Any], *, own: tuple[Json, ...] = (), redirects: str = ""
) -> tuple[bool, bool]:
    """Q1's spouse was Q20 and is Q21; the chain goes on to what Q21 has under P39, Q30."""
    things = [item(name) for name in ("Q30", "Q31")]
    before = [item("Q1", about("P26", "Q20"), *own), *old, *things]
    after = [item("Q1", about("P26", "Q21"), *own), *new, *things]
    chains = pa.Table.from_pylist([chain("Q1", "P26", "Q21", "P39", "Q30")]).select(
        ["subject", "first_property", "bridge", "second_property", "object"]
    )
    old_objects = pa.array([["Q20"]])
    cases = pa.table({"subject": ["Q1"], "property": ["P26"], "object": ["Q21"], "old_objects": old_objects})
    snapshots = two_snapshots(folder, before, after, redirects=redirects)
    found = []
    # What `load-changes` takes out of the snapshots gives the same.
    for number, pair in enumerate((snapshots, take_changes(folder / "taken", *snapshots))):
        with Window(*pair, spill=folder / f"spill {number}") as window:
            found += find_shortcuts(window, chains, cases).to_pylist()
    row, same = found
    assert same == row
    shutil.rmtree(folder / "taken")
    return row["same_by_old_bridge"], row["follows_from_subject"]


def test_case_36_the_office_that_the_predecessor_held_does_not_depend_on_the_edit(tmp_path: Path) -> None:
    office = about("P39", "Q30")
    assert shortcuts(tmp_path, [item("Q20", office), item("Q21")], [item("Q20"), item("Q21", office)]) == (True, False)
    # Who held another one, or the same by another relation, says nothing.
    for other in (about("P39", "Q31"), about("P40", "Q30")):
        assert shortcuts(tmp_path, [item("Q20", other), item("Q21")], [item("Q20"), item("Q21", office)]) == (
            False,
            False,
        )


MERGED = item("Q40", about("P39", "Q30"))
OFFICE = item("Q21", about("P39", "Q30"))


@pytest.mark.parametrize(
    ("old", "own", "redirects", "found"),
    [
        ([item("Q20", about("P39", "Q40"))], (), "Q40 Q30", (True, False)),
        ([MERGED], (), "Q40 Q20", (True, False)),
        ([item("Q21")], (about("P40", "Q40"),), "Q40 Q30", (False, True)),
        ([item("Q40", about("P17", "Q30"))], (), "Q40 Q1", (False, True)),
        ([item("Q40", about("P1001", "Q1"))], (), "Q40 Q30", (False, True)),
        ([MERGED], (), "Q40 Q31", (False, False)),
    ],
    ids=["the office", "the predecessor", "the value", "the subject", "the office, linked back", "another item"],
)
def test_facts_of_and_about_merged_items_are_those_of_their_targets(
    tmp_path: Path, old: list[Json], own: tuple[Json, ...], redirects: str, found: tuple[bool, bool]
) -> None:
    assert shortcuts(tmp_path, old, [OFFICE], own=own, redirects=redirects) == found


@pytest.mark.parametrize(
    ("first", "link", "implied"),
    [
        ("P26", ("Q30", "P1001", "Q1"), True),
        ("P26", ("Q1", "P17", "Q30"), True),
        ("P26", ("Q30", "P17", "Q1"), False),
        ("P6", ("Q30", "P17", "Q1"), True),
    ],
    ids=["office of the subject", "value of the subject", "another link", "head of government, position held"],
)
@pytest.mark.slow
def test_case_36_an_answer_that_the_first_subject_leads_to_does_not_depend_on_the_edit(
    tmp_path: Path, first: str, link: tuple[str, str, str], implied: bool
) -> None:
    def world(head: str, *of_bridge: Json) -> list[Json]:
        linked = {name: [about(link[1], link[2])] if link[0] == name else [] for name in ("Q1", "Q30")}
        return [
            item("Q1", about(first, head), *linked["Q1"]),
            item("Q20"),
            item("Q21", *of_bridge),
            item("Q30", *linked["Q30"]),
        ]

    before, after = world("Q20"), world("Q21", about("P39", "Q30"))
    chains = pa.Table.from_pylist(
        [{"subject": "Q1", "first_property": first, "bridge": "Q21", "second_property": "P39", "object": "Q30"}]
    )
    nothing = pa.array([[]], pa.list_(pa.string()))
    cases = pa.table({"subject": ["Q1"], "property": [first], "object": ["Q21"], "old_objects": nothing})
    with Window(*two_snapshots(tmp_path, before, after), spill=tmp_path / "spill") as window:
        (row,) = find_shortcuts(window, chains, cases).to_pylist()
    assert (row["same_by_old_bridge"], row["follows_from_subject"]) == (False, implied)
