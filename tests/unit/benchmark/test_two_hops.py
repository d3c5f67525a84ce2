"""Chains of cases as questions, from tables alone."""

from __future__ import annotations

import pyarrow as pa

from kgedit.benchmark.two_hops import FILTERS, make_two_hops
from kgedit.prompts.templates import TEMPLATES

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
    }
)
TEMPLATE_ROWS = [
    {"property": name, "question": f"What is the {name} of {{subject}}?", "phrase": f"the {name} of {{subject}}"}
    for name in ("P6", "P26", "P27")
]
TEMPLATE_TABLE = pa.Table.from_pylist(
    [row | dict.fromkeys(("rephrase", "cloze", "template"), "") for row in TEMPLATE_ROWS], schema=TEMPLATES
)


def chain(subject: str, first: str, bridge: str, second: str, end: str) -> dict[str, str]:
    return {"subject": subject, "first_property": first, "bridge": bridge, "second_property": second, "object": end}


def test_a_chain_asks_for_the_second_object_by_way_of_the_first_subject() -> None:
    chains = pa.Table.from_pylist([chain("Q1", "P6", "Q2", "P26", "Q3")])
    (row,) = make_two_hops(chains, CASES, TEMPLATE_TABLE, seed=0).kept.to_pylist()
    assert row["question"] == "What is the P26 of the P6 of Arvika?"
    assert (row["case_id"], row["second_case_id"]) == ("Q1:P6:Q2", "Q2:P26:Q3")
    assert (row["object_label"], row["object_aliases"], row["chosen"]) == ("Bo", ["B."], True)


def test_of_several_second_hops_one_is_chosen_and_another_seed_chooses_another() -> None:
    chains = pa.Table.from_pylist([chain("Q1", "P6", "Q2", *end) for end in (("P26", "Q3"), ("P27", "Q4"))])
    chosen = set()
    for seed in range(8):
        rows = make_two_hops(chains, CASES, TEMPLATE_TABLE, seed=seed).kept.to_pylist()
        assert len(rows) == 2
        (asked,) = (row["object"] for row in rows if row["chosen"])
        chosen.add(asked)
    assert chosen == {"Q3", "Q4"}


def test_a_chain_is_dropped_with_its_reason() -> None:
    named = TEMPLATE_TABLE.to_pylist()
    named[1]["question"] = "Who is Ada, the P26 of {subject}?"
    chains = pa.Table.from_pylist(
        [
            chain("Q1", "P6", "Q2", "P99", "Q9"),  # no such case
            chain("Q1", "P6", "Q2", "P26", "Q3"),  # the template names the bridge
        ]
    )
    filtered = make_two_hops(chains, CASES, pa.Table.from_pylist(named, schema=TEMPLATES), seed=0)
    assert list(filtered.funnel) == [reason for reason, _ in FILTERS]
    assert filtered.funnel == {FILTERS[0][0]: 1, FILTERS[1][0]: 1, FILTERS[2][0]: 0}
    renamed = CASES.to_pylist()
    renamed[4]["object_label"] = "Falun"
    answered = make_two_hops(
        pa.Table.from_pylist([chain("Q5", "P6", "Q6", "P26", "Q7")]),
        pa.Table.from_pylist(renamed),
        TEMPLATE_TABLE,
        seed=0,
    )
    assert answered.dropped["reason"].to_pylist() == [FILTERS[2][0]]
