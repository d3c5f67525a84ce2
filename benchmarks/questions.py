"""Measures the questions of two snapshots in a store: coverage by templates, overlap of personas, what retrieval finds.

    python benchmarks/questions.py coverage HOME 2021-12-30 2023-12-30
    python benchmarks/questions.py read HOME 2021-12-30 2023-12-30 --cases 60
    python benchmarks/questions.py recall HOME 2014-01-01 --facts 10000 --queries 500

coverage   share of changed facts (literals included) whose property has a template of its own
read       changed facts in words, for reading; the same seed gives the same cases
recall     facts of a snapshot as RAG stores them (by their question); how often the fact that is asked for is the
           nearest, or one of the two nearest that RAG takes, by axis; and the overlap of words with that question
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from kgedit.benchmark.labels import usable
from kgedit.benchmark.subjects import describe_subjects, is_id
from kgedit.benchmark.wording import choose_templates, word_cases
from kgedit.prompts.templates import template_table
from kgedit.prompts.voices import overlap
from kgedit.store.engine import literal, select
from kgedit.store.snapshots import open_snapshot

LITERALS = ("quantity", "time")


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
    return connection


def labelled(connection: duckdb.DuckDBPyConnection, table: str) -> pa.Table:
    """Item-valued facts of a table whose labels can be asked for, as cases."""
    return connection.sql(
        f"""
        SELECT DISTINCT ON (f.subject, f.property) concat_ws(':', f.subject, f.property, f.object) AS case_id,
               f.subject, s.label AS subject_label, f.property, coalesce(p.label, f.property) AS property_label,
               f.object, o.label AS object_label
        FROM {table} f JOIN new_entities s ON s.id = f.subject JOIN new_entities o ON o.id = f.object
        LEFT JOIN new_entities p ON p.id = f.property
        WHERE f.kind = 'item' AND {usable("s.label")} AND {usable("o.label")}
              AND NOT {is_id("s.label")} AND NOT {is_id("o.label")}
        ORDER BY f.subject, f.property, f.object
        """
    ).to_arrow_table()


def worded(connection: duckdb.DuckDBPyConnection, facts: pa.Table, seed: int) -> list[dict[str, object]]:
    chosen = select("FROM facts ORDER BY md5(concat_ws('|', $seed, case_id))", {"seed": str(seed)}, facts=facts)
    templates = choose_templates(chosen, catalogue=None)
    subjects = describe_subjects(connection, chosen)
    kept = word_cases(chosen, templates, subjects, seed=seed, personas=None).kept
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


def recall(connection: duckdb.DuckDBPyConnection, facts: int, queries: int, seed: int, embedder: str) -> None:
    from kgedit.llm.embeddings import embedder_on_demand

    rows = worded(connection, labelled(connection, "new_facts"), seed)[:facts]
    embed = embedder_on_demand(embedder, device="cpu")
    stored = np.asarray(embed([str(row["question"]) for row in rows]))
    asked = [(place, row) for place, row in enumerate(rows) if row["personas"] and row["rephrase"]][:queries]
    print(f"{len(rows)} facts stored, {len(asked)} asked")
    for axis in ("question", "rephrase", "personas"):
        texts = [str(row[axis]) for _, row in asked]
        scores = np.asarray(embed(texts)) @ stored.T
        own = scores[np.arange(len(asked)), [place for place, _ in asked]][:, None]
        ranks = (scores > own).sum(axis=1)
        shared = [overlap(text, str(row["question"])) for text, (_, row) in zip(texts, asked, strict=True)]
        spread = ", ".join(f"{value:.2f}" for value in statistics.quantiles(shared, n=4)) if axis != "question" else "1"
        first, two = float((ranks == 0).mean()), float((ranks < 2).mean())
        print(f"{axis}: nearest {first:.1%}, among two {two:.1%}; overlap quartiles {spread}")
        if axis == "personas":
            for persona in sorted({str(row["persona"]) for _, row in asked}):
                of = [place for place, (_, row) in enumerate(asked) if row["persona"] == persona]
                print(
                    f"  {persona}: nearest {float((ranks[of] == 0).mean()):.1%} of {len(of)}, "
                    f"median overlap {statistics.median(shared[place] for place in of):.2f}"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("coverage", "read", "recall"))
    parser.add_argument("home", type=Path)
    parser.add_argument("dates", nargs="+", type=datetime.date.fromisoformat)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--facts", type=int, default=10000)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--embedder", default="all-minilm-l6-v2", help="or character-ngrams, without a model")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    connection = connect(given.home, given.dates[0], given.dates[-1])
    if given.what == "coverage":
        coverage(connection)
    elif given.what == "read":
        read(connection, given.cases, given.seed)
    else:
        recall(connection, given.facts, given.queries, given.seed, given.embedder)


if __name__ == "__main__":
    sys.exit(main())
