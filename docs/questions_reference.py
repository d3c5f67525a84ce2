"""Writes docs/reference/questions.md: the questions of an export in Cypher and SQL, from the files: ``make docs``."""

from __future__ import annotations

from pathlib import Path

from kgedit.graph.queries import read_query
from kgedit.timesteps.engines.store import read_sql

FILE = Path(__file__).parent / "reference" / "questions.md"

QUESTIONS: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...] = (
    (
        "What changed?",
        "The candidates for edits. wikibigedit compares current facts: subjects and properties whose objects differ. "
        "wikifactdiff compares statements of any rank, ended ones included: subjects and properties with a version of "
        "a statement that one snapshot lacks. Its rules then judge the statements, with ranks, dates and qualifiers "
        "from the snapshots.",
        ("changed_edges", "changed_statements"),
        ("changed_edges", "changed_statements"),
    ),
    (
        "How functional are their relations?",
        "Asked with `--functional-by data` (the first file) or `constraints` (the second).",
        ("functional_by_data", "functional_by_constraint"),
        ("functional_counts", "functional_by_data", "functional_by_constraint"),
    ),
    (
        "Which new edges chain into two hops?",
        "wikibigedit alone. Pairs of new facts of which the second starts where the first ends.",
        ("two_hop_changes",),
        ("begun_facts", "two_hop_changes"),
    ),
    (
        "Which unchanged facts continue a chain?",
        "With `--hops 3` or `4`. Unchanged facts that lead on from the object of an edit, or to its subject, step by "
        "step; `kgedit/timesteps/chains.py` joins them into paths and drops those whose answer does not depend on the "
        "edit.",
        ("hops_from", "hops_to"),
        ("hops_from", "hops_to"),
    ),
    (
        "Which similar subjects should not change?",
        "wikibigedit: unchanged facts of the edits' relations, and for each edit those about the subjects that share "
        "the rarest facts with it. Either engine finds shared facts and who has them; `candidate_facts.sql` then "
        "chooses from the facts of `static_facts.sql` and `similar_facts.sql` ranks them, for both. wikifactdiff: the "
        "entities with the highest cosine of TF-IDF vectors. In Cypher that is one query; the store's features are "
        "multiplied as sparse matrices (`kgedit/timesteps/engines/store.py`).",
        ("shared_facts", "nearest_entities"),
        ("edited_subjects", "static_facts", "shared_facts", "candidate_facts", "similar_facts", "entity_features"),
    ),
)
"""Title, explanation, Cypher files, SQL files."""

_HEAD = """\
<!-- Written by docs/questions_reference.py from the query files (make docs). Changes made here are lost. -->

# The four questions of an export

`kgedit export-timestep --engine graph` asks them in Cypher, `--engine store` in SQL; the rows are the same
([two engines](../graph.md#two-engines)). Cypher runs in Neo4j Browser and in `kgedit query NAME` as it is. SQL reads
views (`kgedit.store.window`): `old_facts` and `new_facts` are the `facts.parquet` of the two snapshots, `old_entities`
and `new_entities` their entities without redirects. The views of `changed_edges`, `changed_statements`, `begun_facts`,
`functional_counts`, `edited_subjects` and `static_facts` contain one bucket of a snapshot at a time.
"""


def reference() -> str:
    """The whole file."""
    return _HEAD + "".join(_section(*question) for question in QUESTIONS)


def _section(title: str, meaning: str, cypher: tuple[str, ...], sql: tuple[str, ...]) -> str:
    texts = [("cypher", f"cypher/read/{name}.cypher", read_query(name).text) for name in cypher]
    texts += [("sql", f"kgedit/timesteps/engines/sql/{name}.sql", read_sql(name)) for name in sql]
    blocks = "".join(f"\n`{path}`\n\n```{language}\n{text.strip()}\n```\n" for language, path, text in texts)
    return f"\n## {title}\n\n{meaning}\n{blocks}"


if __name__ == "__main__":
    FILE.write_text(reference(), encoding="utf-8")
