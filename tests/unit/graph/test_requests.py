"""What is checked before a query is sent: the server's version, parameters, and what a plan says a query would do."""

from __future__ import annotations

import pytest

from kgedit.errors import GraphError
from kgedit.graph.bolt import refuse_old_server
from kgedit.graph.queries import refuse_all_but_reading, refuse_what_bolt_cannot_carry

URI = "bolt://localhost:7687"


@pytest.mark.parametrize("agent", ["Neo4j/5.23.0", "Neo4j/5.26.30", "Neo4j/5.27-aura", "Neo4j/2025.01.0", "Memgraph/2"])
def test_a_server_that_knows_our_cypher_or_is_not_neo4j_passes(agent: str) -> None:
    refuse_old_server(agent, URI)


@pytest.mark.parametrize("version", ["5.22.0", "5.9.0", "4.4.40"])
def test_an_older_server_is_named_with_its_version(version: str) -> None:
    with pytest.raises(GraphError, match=rf"Neo4j {version} at {URI} is too old; kgedit needs 5\.23 or newer"):
        refuse_old_server(f"Neo4j/{version}", URI)


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), True])
def test_integers_of_64_bits_are_sent(number: int) -> None:
    refuse_what_bolt_cannot_carry("RETURN $limit", {"limit": number, "maps": [{"a": number}]})


@pytest.mark.parametrize(
    "given", [2**63, -(2**63) - 1, [{"a": [1, 2**64]}], 10**10_000], ids=["large", "small", "nested", "huge"]
)
def test_larger_integers_are_refused_at_any_depth(given: object) -> None:
    with pytest.raises(GraphError, match=r"Parameter limit: .* does not fit 64 bits"):
        refuse_what_bolt_cannot_carry("RETURN $limit", {"limit": given})


def test_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(GraphError, match="Parameter label contains text that is not valid Unicode"):
        refuse_what_bolt_cannot_carry("RETURN 1", {"label": [{"\udcff": 1}]})
    with pytest.raises(GraphError, match="not valid UTF-8"):
        refuse_what_bolt_cannot_carry("RETURN '\udcff'", {})


def test_an_operator_deep_in_a_plan_is_found() -> None:
    plan = {"operatorType": "LoadCSV@neo4j"}
    for _ in range(5000):
        plan = {"operatorType": "Apply@neo4j", "children": [plan]}
    with pytest.raises(GraphError, match="LOAD CSV"):
        refuse_all_but_reading("r", plan, URI)


@pytest.mark.parametrize("operator", ["ShowSettings", "ShowTransactions", "ShowSecretsOfALaterVersion"])
def test_a_query_that_shows_the_server_is_refused(operator: str) -> None:
    plan = {"operatorType": "ProduceResults@neo4j", "children": [{"operatorType": f"{operator}@neo4j"}]}
    with pytest.raises(GraphError, match="not run: it shows"):
        refuse_all_but_reading("r", plan, URI)


@pytest.mark.parametrize("operator", ["ShowIndexes", "ShowConstraints", "ShowProcedures", "ShowFunctions"])
def test_a_query_that_shows_the_schema_passes(operator: str) -> None:
    refuse_all_but_reading("r", {"operatorType": f"{operator}@neo4j"}, URI)


def test_a_server_that_does_not_explain_is_not_trusted() -> None:
    with pytest.raises(GraphError, match="does not explain queries"):
        refuse_all_but_reading("r", None, URI)
