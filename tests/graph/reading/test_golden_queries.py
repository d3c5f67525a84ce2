"""Results of each query file on the sample world, stored in tests/golden/queries as examples and to detect changes.

Rewrite them with `make golden`, and read the difference.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kgedit.graph.connection import Graph
from kgedit.graph.queries import read_queries

pytestmark = pytest.mark.graph

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "queries"
WINDOW = {"from": "2021-01-04", "to": "2023-02-27"}
PARAMETERS = {
    "changed_edges": WINDOW,
    "changed_statements": WINDOW,
    "edge_diff_counts": WINDOW,
    "facts_on_date": {"subject": "Q183", "date": "2023-02-27"},
    "find_terms": {"name": "germany", "limit": "5"},
    "functional_by_constraint": {"date": "2023-02-27"},
    "functional_by_data": {"date": "2023-02-27"},
    "hops_from": WINDOW | {"items": "Q183,Q30", "properties": "P6,P35,P36"},
    "hops_to": WINDOW | {"items": "Q64,Q183", "properties": "P17,P36,P131"},
    "memory_facts": {"date": "2023-02-27", "properties": "P6", "subjects": "3"},
    "memory_subjects": {"question": "Who is the spouse of the head of government of norway?"},
    "memory_walk": {"subjects": "Q20", "date": "2023-02-27", "limit": "5"},
    "most_changed_item": WINDOW | {"most": "15"},
    "nearest_entities": WINDOW | {"subjects": "Q183", "documents": "Q142,Q183,Q38", "n": "2"},
    "nearest_triples": WINDOW | {"subject": "Q183", "property": "P6", "k": "3"},
    "shared_facts": {"from": "2021-01-04", "subjects": "Q183", "max_df": "5"},
    "similar_static_facts": WINDOW | {"subject": "Q183", "property": "P6", "k": "3"},
    "similar_subjects": {"subject": "Q183", "date": "2021-01-04", "k": "5"},
    "statement_history": {"subject": "Q183", "property": "P6"},
    "static_facts": WINDOW | {"properties": "P6,P286", "limit": "5"},
    "two_hop_changes": WINDOW,
}


@pytest.mark.parametrize("name", list(read_queries()))
def test_a_query_finds_in_the_sample_what_it_found_before(sample_home: Path, name: str) -> None:
    query = read_queries()[name]
    with Graph.open(sample_home) as graph:
        rows = graph.read_only_query(query.text, query.bind(PARAMETERS[name]), timeout=60)
    assert rows
    assert list(rows[0]) == [column for column, _ in query.returns]
    lines = "".join(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in rows)
    path = GOLDEN / f"{name}.jsonl"
    if os.environ.get("KGEDIT_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(lines, encoding="utf-8")
    assert lines == path.read_text(encoding="utf-8")
