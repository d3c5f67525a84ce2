"""Measures the questions of two snapshots in a store: template coverage, overlap of personas, and recall of retrieval.

    python benchmarks/questions.py coverage HOME 2021-12-30 2023-12-30
    python benchmarks/questions.py read HOME 2021-12-30 2023-12-30 --cases 60
    python benchmarks/questions.py recall HOME 2014-01-01 --facts 10000 --queries 500
    python benchmarks/questions.py recall made-up --facts 10000 --queries 1000
    python benchmarks/questions.py table HOME 2021-01-04 2023-02-27 --cases 30

coverage   share of changed facts (including literals) whose property has its own template
read       changed facts as text, for reading; the same seed gives the same cases
recall     facts of a snapshot or of a made-up world, stored by their question as in RAG; share of queries for which the
           right fact is the nearest, or among the rows that RAG takes, by axis and persona; and word overlap with the
           stored question
table      changed facts on all axes, two per property, as a Markdown table
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from made_up_facts import make_world

from kgedit.editing.hparams.memory_based import RagSettings
from kgedit.store.engine import literal, select
from kgedit.store.snapshots import open_snapshot
from kgedit.timesteps.labels import describe_subjects, is_id, usable
from kgedit.timesteps.relation_words import RelationWords
from kgedit.timesteps.wording import choose_templates, persona_voiced, word_cases
from kgedit.wording.personas import overlap, voices
from kgedit.wording.templates import ANY_CLASS, template_table

LITERALS = ("quantity", "time")
MADE_UP = "made-up"
NOT_SHOWN = ("P31", "P279", "P910")
"""Properties that say little about an entity."""
AXES = ("question", "rephrase", "personas", "framed")
_CLASSES = dict.fromkeys(("city", "country", "venue"), "place") | dict.fromkeys(
    ("company", "party", "university"), "organization"
)
_CLASSES |= {"person": "person", "club": "team"}


def connect(home: Path, older: datetime.date, newer: datetime.date) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    for side, date in (("old", older), ("new", newer)):
        snapshot = open_snapshot(home, date)
        connection.execute(f"CREATE VIEW {side}_facts AS FROM {literal(snapshot.facts)}")
        connection.execute(
            f"CREATE VIEW {side}_entities AS FROM {literal(snapshot.entities)} WHERE redirect_target IS NULL"
        )
    connection.execute(
        """
        CREATE VIEW changed AS
        SELECT subject, property, object, kind, value_type FROM new_facts n
        WHERE NOT EXISTS (FROM old_facts o
                          WHERE o.subject = n.subject AND o.property = n.property AND o.object = n.object)
        """
    )
    connection.execute("CREATE VIEW unchanged AS FROM new_facts SEMI JOIN old_facts USING (subject, property, object)")
    return connection


def labelled(connection: duckdb.DuckDBPyConnection, table: str) -> pa.Table:
    """Item-valued facts of a table whose labels can be used in questions, as cases."""
    return connection.sql(
        f"""
        SELECT DISTINCT ON (f.subject, f.property) concat_ws(':', f.subject, f.property, f.object) AS case_id,
               f.subject, s.label AS subject_label, f.property, coalesce(p.label, f.property) AS property_label,
               f.object, o.label AS object_label, o.aliases AS object_aliases
        FROM {table} f JOIN new_entities s ON s.id = f.subject JOIN new_entities o ON o.id = f.object
        LEFT JOIN new_entities p ON p.id = f.property
        WHERE f.kind = 'item' AND {usable("s.label")} AND {usable("o.label")}
              AND NOT {is_id("s.label")} AND NOT {is_id("o.label")}
        ORDER BY f.subject, f.property, f.object
        """
    ).to_arrow_table()


def worded(connection: duckdb.DuckDBPyConnection, facts: pa.Table, seed: int) -> list[dict[str, Any]]:
    chosen = select("FROM facts ORDER BY md5(concat_ws('|', $seed, case_id))", {"seed": str(seed)}, facts=facts)
    templates = choose_templates(chosen, catalogue=None)
    subjects = describe_subjects(connection, chosen)
    words = RelationWords(templates, voices())
    kept = word_cases(chosen, templates, subjects, words, seed=seed, personas=None).kept
    return select("FROM kept ORDER BY md5(concat_ws('|', $seed, case_id))", {"seed": str(seed)}, kept=kept).to_pylist()


def coverage(connection: duckdb.DuckDBPyConnection) -> None:
    kinds = ", ".join(f"'{kind}'" for kind in LITERALS)
    own = pa.table({"property": sorted(set(template_table()["property"].to_pylist()))})
    connection.register("own", own)
    rows = connection.execute(
        f"""
        SELECT coalesce(value_type, kind) AS kind, count(*), count(*) FILTER (property IN (FROM own))
        FROM changed WHERE kind = 'item' OR value_type IN ({kinds}) GROUP BY ALL ORDER BY 1
        """
    ).fetchall()
    for kind, found, covered in rows:
        print(f"{kind}: {covered} of {found} changed facts have a template of their own ({covered / found:.1%})")
    missing = connection.execute(
        f"""
        SELECT property, count(*) FROM changed WHERE (kind = 'item' OR value_type IN ({kinds}))
        AND property NOT IN (FROM own) GROUP BY ALL ORDER BY 2 DESC, 1 LIMIT 20
        """
    ).fetchall()
    print("without:", missing or "none")


def read(connection: duckdb.DuckDBPyConnection, cases: int, seed: int) -> None:
    for place, row in enumerate(worded(connection, labelled(connection, "changed"), seed)[:cases], 1):
        print(f"{place}. {row['case_id']} -> {row['object_label']}")
        for text in (row["question"], *row["rephrases"], f"{row['persona']}: {row['personas']}"):
            print(f"   {text}")
        for text in row["clozes"][1:]:
            print(f"   {text} ...")
        print(f"   {row['statement']}")


def made_up(facts: int, seed: int) -> list[dict[str, Any]]:
    """Facts of a made-up world in the shipped wordings, for more facts than any available slice has."""
    said = {(row["property"], row["subject_class"]): row for row in template_table().to_pylist()}
    rows = []
    world = make_world(facts, seed)
    for case in map(world.case, range(len(world))):
        kind = case.fact.subject.rstrip("0123456789")
        template = said.get((case.fact.property, _CLASSES[kind])) or said[case.fact.property, ANY_CLASS]
        name = case.fact.subject_label
        texts = {
            "question": template["question"].replace("{subject}", name),
            "rephrase": template["rephrase"].replace("{subject}", name),
        }
        row = {
            "case_id": case.case_id,
            "phrase": template["phrase"],
            "answer_type": template["answer_type"],
            "name": name,
        }
        rows.append(row | texts)
    asked = persona_voiced(pa.Table.from_pylist(rows), seed=seed, personas=None, style="reworded")
    said: list[dict[str, Any]] = asked.to_pylist()
    return said


def recall(rows: list[dict[str, Any]], queries: int, seed: int, embedder: str) -> None:
    """Print recall of RAG by axis and by persona, as Markdown tables."""
    from kgedit.llm.embeddings import embedder_on_demand

    plain = pa.Table.from_pylist(rows).select(["case_id", "question"])
    framed = persona_voiced(plain, seed=seed, personas=None, style="framed")
    rows = [row | {"framed": text} for row, text in zip(rows, framed["personas"].to_pylist(), strict=True)]
    embed, taken = embedder_on_demand(embedder, device="cpu"), RagSettings().k
    stored = np.asarray(embed([row["question"] for row in rows]))
    asked = [(place, row) for place, row in enumerate(rows) if row["personas"] and row["rephrase"]]
    order = np.random.default_rng(seed).permutation(len(asked))[:queries]
    asked = [asked[place] for place in order.tolist()]
    print(f"{len(rows)} facts stored, {len(asked)} asked\n")
    print(f"| Axis | Asked | Nearest | Among {taken} | Overlap (quartiles) |\n|---|---:|---:|---:|---:|")
    ranks, shared = {}, {}
    for axis in AXES:
        scores = np.asarray(embed([row[axis] for _, row in asked])) @ stored.T
        own = scores[np.arange(len(asked)), [place for place, _ in asked]][:, None]
        ranks[axis] = (scores > own).sum(axis=1)
        shared[axis] = [overlap(row[axis], row["question"]) for _, row in asked]
        print(_found(axis, ranks[axis], shared[axis], taken))
    for persona in sorted({row["persona"] for _, row in asked}):
        of = [place for place, (_, row) in enumerate(asked) if row["persona"] == persona]
        print(_found(persona, ranks["personas"][of], [shared["personas"][place] for place in of], taken))


def _found(name: str, ranks: np.ndarray[Any, Any], shared: Sequence[float], taken: int) -> str:
    first, among = float((ranks == 0).mean()), float((ranks < taken).mean())
    spread = ", ".join(f"{value:.2f}" for value in statistics.quantiles(shared, n=4))
    return f"| {name} | {len(ranks)} | {first:.1%} | {among:.1%} | {spread} |"


def table(connection: duckdb.DuckDBPyConnection, cases: int, seed: int) -> None:
    """Print cases on all axes as a Markdown table: two per property, properties with most cases first."""
    rows = [row for row in worded(connection, labelled(connection, "changed"), seed) if row["personas"]]
    often = Counter(row["property"] for row in rows)
    chosen: list[dict[str, Any]] = []
    for name, _ in sorted(often.items(), key=lambda item: (-item[1], int(item[0][1:]))):
        if name not in NOT_SHOWN:
            chosen += [row for row in rows if row["property"] == name][:2]
    chosen = chosen[:cases]
    unchanged = worded(connection, labelled(connection, "unchanged"), seed)
    hops = second_hops(connection, chosen)
    print(
        "| Case | Update | Rephrase | Persona | Generalization | Two hops | Locality |\n|---|---|---|---|---|---|---|"
    )
    for row in chosen:
        named = f"{row['property']} {row['property_label']}: {row['subject_label']} → {row['object_label']}"
        near = next((one["question"] for one in unchanged if one["property"] == row["property"]), "–")
        columns = (named, row["question"], row["rephrases"][-1], f"{row['persona']}: {row['personas']}")
        print(f"| {' | '.join(columns)} | {row['clozes'][-1]} … | {hops.get(row['case_id'], '–')} | {near} |")


def second_hops(connection: duckdb.DuckDBPyConnection, rows: list[dict[str, Any]]) -> dict[str, str]:
    """Case -> a question that continues from its answer to a fact about it, if the newer snapshot has one."""
    answers = {row["object"]: row["object_label"] for row in rows}
    objects = pa.table({"subject": list(answers), "subject_label": list(answers.values())})
    classes = {row["subject"]: row["subject_class"] for row in describe_subjects(connection, objects).to_pylist()}
    said = {(row["property"], row["subject_class"]): row for row in template_table().to_pylist()}
    found: dict[str, str] = {}
    for fact in labelled(connection, "new_facts").to_pylist():
        if fact["subject"] not in answers or fact["property"] in NOT_SHOWN:
            continue
        key = (fact["property"], classes.get(fact["subject"], ANY_CLASS))
        second = said.get(key) or said.get((fact["property"], ANY_CLASS))
        for row in rows if second else ():
            if row["object"] == fact["subject"] and fact["object"] != row["subject"]:
                phrase = row["phrase"].replace("{subject}", row["name"])
                found.setdefault(row["case_id"], second["question"].replace("{subject}", phrase))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("coverage", "read", "recall", "table"))
    parser.add_argument("home", type=Path, help="a home, or made-up")
    parser.add_argument("dates", nargs="*", type=datetime.date.fromisoformat)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--facts", type=int, default=10000)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--embedder", default="all-minilm-l6-v2", help="or character-ngrams, without a model")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.what == "recall" and given.home == Path(MADE_UP):
        return recall(made_up(given.facts, given.seed), given.queries, given.seed, given.embedder)
    connection = connect(given.home, given.dates[0], given.dates[-1])
    if given.what == "coverage":
        return coverage(connection)
    if given.what == "read":
        return read(connection, given.cases, given.seed)
    if given.what == "table":
        return table(connection, given.cases, given.seed)
    rows = worded(connection, labelled(connection, "new_facts"), given.seed)[: given.facts]
    return recall(rows, given.queries, given.seed, given.embedder)


if __name__ == "__main__":
    sys.exit(main())
