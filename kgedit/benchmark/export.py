"""`export-timestep`: the WikiBigEdit profile from the graph, the same bytes every time."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

from kgedit import __version__
from kgedit.benchmark.changes import find_changes, judge_changes, keep_cases, open_workspace, read_table
from kgedit.benchmark.locality import find_locality
from kgedit.benchmark.timestep import TABLES, Timestep
from kgedit.benchmark.two_hops import find_two_hops
from kgedit.benchmark.wording import prepare_templates, word_cases
from kgedit.errors import BenchmarkError
from kgedit.graph.connection import Graph
from kgedit.graph.queries import read_query
from kgedit.prompts.personas import persona_version
from kgedit.prompts.templates import template_version
from kgedit.store.files import replace_folder, write_json
from kgedit.store.snapshots import Snapshot

QUERIES = ("changed_edges", "two_hop_changes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings that change the content of a timestep; all of them are recorded in it.

    Attributes:
        seed: Chooses personas and, of several second hops, one.
        known_facts: Most facts of the older snapshot to write questions for.
        pool: Unchanged facts of each relation to choose locality probes from.
        max_df: Facts shared by more items do not count for similarity.
        templates: Catalogue of question templates; None for the shipped one.
        personas: Folder of persona catalogues; None for the shipped ones.
    """

    seed: int = 0
    known_facts: int = 2000
    pool: int = 1000
    max_df: int = 500
    templates: Path | None = None
    personas: Path | None = None


def export_timestep(
    graph: Graph,
    old: Snapshot,
    new: Snapshot,
    folder: Path,
    *,
    settings: Settings,
    writers: Sequence[Callable[[Timestep], Path]] = (),
) -> Timestep:
    """Make the timestep between two snapshots that the graph holds, written aside and renamed when it is complete.

    Args:
        writers: Write further files beside the tables, before the folder is put in place.

    Raises:
        BenchmarkError: if the dates are in the wrong order, or the graph lacks a snapshot.
    """
    if old.date >= new.date:
        raise BenchmarkError(f"--from {old.manifest['date']} is not before --to {new.manifest['date']}.")
    _check_graph(graph, old, new)
    aside = folder.with_name(f".{folder.name}.aside")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    workspace = open_workspace(old, new, spill=aside / "spill")
    window = {"old": old.date, "new": new.date}
    funnel = judge_changes(workspace, find_changes(graph, **window))
    keep_cases(workspace)
    find_locality(workspace, pool=settings.pool, max_df=settings.max_df)
    _choose_known_facts(workspace, settings.known_facts)
    prepare_templates(workspace, settings.templates)
    word_cases(workspace, seed=settings.seed, personas=settings.personas)
    chains = find_two_hops(graph, workspace, **window, seed=settings.seed)
    tables = _write_tables(workspace, aside)
    write_json(
        aside / "timestep.json",
        {
            "timestep": f"{old.date}_{new.date}",
            "profile": "wikibigedit",
            "kgedit": __version__,
            "snapshots": [snapshot.manifest for snapshot in (old, new)],
            "settings": _provenance(settings),
            "funnel": {
                "changed": _count(workspace, "changed"),
                "dropped": dict(zip(funnel["reason"].to_pylist(), funnel["count"].to_pylist(), strict=True)),
                "kept": _count(workspace, "facts"),
            },
            "cases": _counts(workspace, "SELECT tag, count(*) FROM facts GROUP BY tag ORDER BY tag"),
            "generic_templates": _count(workspace, "worded WHERE template LIKE '%:generic'"),
            "locality": _counts(workspace, "SELECT basis, count(*) FROM locality_facts GROUP BY basis ORDER BY basis"),
            "two_hops": chains | {"kept": _count(workspace, "hops"), "asked": _count(workspace, "hops WHERE chosen")},
            "tables": tables,
        },
    )
    workspace.close()
    made = Timestep.open(aside)
    for write in writers:
        write(made)
    replace_folder(aside, folder)
    return Timestep.open(folder)


def _check_graph(graph: Graph, old: Snapshot, new: Snapshot) -> None:
    rows = graph.rows("MATCH (s:Snapshot) WHERE s.state = 'complete' RETURN s.date AS date ORDER BY date")
    missing = [snapshot for snapshot in (old, new) if snapshot.date not in {row["date"] for row in rows}]
    if missing:
        raise BenchmarkError(
            f"The graph lacks the snapshot of {missing[0].manifest['date']}. Give its load-dump command once more."
        )


def _choose_known_facts(workspace: duckdb.DuckDBPyConnection, limit: int) -> None:
    """Table ``known_facts``: old answers, then locality facts, then other unchanged ones; labels of the old day."""
    workspace.execute(
        """
        CREATE TABLE known_facts AS
        WITH wanted AS (
            SELECT subject, property, old_objects[1] AS object, 0 AS turn FROM facts WHERE len(old_objects) = 1
            UNION ALL SELECT subject, property, object, 1 FROM locality_facts
            UNION ALL SELECT subject, property, object, 2 FROM static_facts
        ), once AS (
            SELECT subject, property, object, min(turn) AS turn FROM wanted GROUP BY ALL
        )
        SELECT once.*, s.label AS subject_label, coalesce(p.label, once.property) AS property_label,
               o.label AS object_label
        FROM once JOIN old_entities s ON s.id = once.subject JOIN old_entities o ON o.id = once.object
        LEFT JOIN old_entities p ON p.id = once.property
        WHERE s.label IS NOT NULL AND o.label IS NOT NULL
        ORDER BY turn, md5(once.subject || once.property), once.object LIMIT ?
        """,
        [limit],
    )


_SELECTS = {
    "cases": "SELECT {} FROM worded ORDER BY case_id",
    "locality": (
        "SELECT {} FROM (SELECT l.*, round(score, 6) AS similarity, say_question(t, subject_label) AS question "
        "FROM locality_facts l JOIN templates t USING (property)) ORDER BY case_id"
    ),
    "two_hops": "SELECT {} FROM hops ORDER BY case_id, second_case_id",
    "known_facts": (
        "SELECT {} FROM (SELECT f.*, say_question(t, subject_label) AS question, "
        "say_rephrase(t, subject_label) AS rephrase, say_cloze(t, subject_label) AS cloze "
        "FROM known_facts f JOIN templates t USING (property)) ORDER BY turn, subject, property, object"
    ),
}


def _write_tables(workspace: duckdb.DuckDBPyConnection, folder: Path) -> dict[str, Any]:
    written = {}
    for name, schema in TABLES.items():
        path = folder / f"{name}.parquet"
        rows = read_table(workspace, _SELECTS[name].format(", ".join(schema.names)))
        pq.write_table(rows.cast(schema), path, compression="zstd")
        written[name] = {"rows": rows.num_rows, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    return written


def _provenance(settings: Settings) -> dict[str, Any]:
    texts = json.dumps({name: read_query(name).text for name in QUERIES}, sort_keys=True)
    return {
        "seed": settings.seed,
        "known_facts": settings.known_facts,
        "pool": settings.pool,
        "max_df": settings.max_df,
        "templates": template_version(settings.templates),
        "personas": persona_version(settings.personas),
        "queries": hashlib.sha256(texts.encode()).hexdigest()[:16],
    }


def _count(workspace: duckdb.DuckDBPyConnection, table: str) -> int:
    row = workspace.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - our own names and numbers
    return int(row[0]) if row else 0


def _counts(workspace: duckdb.DuckDBPyConnection, query: str) -> dict[str, int]:
    return dict(workspace.execute(query).fetchall())
