"""The choice of locality probes, from tables alone."""

from __future__ import annotations

import pyarrow as pa

from kgedit.benchmark.locality import choose_probes

STRINGS = pa.list_(pa.string())


def cases(old_objects: list[str] | None = None) -> pa.Table:
    row = {"case_id": "Q1:P6:Q20", "subject": "Q1", "subject_label": "Borgholm", "property": "P6", "object": "Q20"}
    return pa.Table.from_pylist([row]).append_column("old_objects", pa.array([old_objects or []], STRINGS))


def facts(*rows: tuple[str, str, str], property_id: str = "P6") -> pa.Table:
    schema = pa.schema([(name, pa.string()) for name in ("subject", "subject_label", "property", "object")])
    listed = [
        {"subject": subject, "subject_label": label, "property": property_id, "object": end}
        for subject, label, end in rows
    ]
    return pa.Table.from_pylist(listed, schema=schema)


def likened(table: pa.Table, *scores: float) -> pa.Table:
    ids = pa.array(["Q1:P6:Q20"] * table.num_rows, pa.string())
    return table.append_column("case_id", ids).append_column("score", pa.array(scores, pa.float64()))


NONE = likened(facts())


def chosen(given: pa.Table, similar: pa.Table, untouched: pa.Table) -> list[tuple[str, str]]:
    return [(row["subject"], row["basis"]) for row in choose_probes(given, similar, untouched).to_pylist()]


def test_the_most_similar_fact_is_taken_and_of_equals_the_first_by_id() -> None:
    similar = likened(facts(("Q4", "d", "Q40"), ("Q3", "c", "Q30"), ("Q2", "b", "Q50")), 2.0, 2.0, 1.0)
    assert chosen(cases(), similar, facts(("Q9", "Borgholm", "Q90"))) == [("Q3", "graph")]


def test_where_none_is_similar_the_subject_most_alike_in_name_is_taken() -> None:
    untouched = facts(("Q2", "Falun", "Q30"), ("Q3", "Borgholmen", "Q31"))
    assert chosen(cases(), NONE, untouched) == [("Q3", "label")]


def test_a_probe_has_another_subject_another_object_and_the_same_relation() -> None:
    assert chosen(cases(), NONE, facts(("Q1", "Borgholm", "Q30"))) == []
    assert chosen(cases(), NONE, facts(("Q2", "Borgholm", "Q20"))) == []
    assert chosen(cases(["Q21"]), NONE, facts(("Q2", "Borgholm", "Q21"))) == []
    assert chosen(cases(), NONE, facts(("Q2", "Borgholm", "Q30"), property_id="P7")) == []
