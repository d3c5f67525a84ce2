"""`export-timestep --profile wikifactdiff`: deterministic, and identical with either engine.

The steps are those of the paper's section 4, each in a separate module that counts what it drops and why. The same
snapshots and settings give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from kgedit import __version__
from kgedit.checksums import sha256_of, write_checksums
from kgedit.errors import TimestepError
from kgedit.progress import step
from kgedit.records.cases import SPECIFICITY
from kgedit.store.files import replace_folder, working_folder, write_json
from kgedit.store.snapshots import Snapshot
from kgedit.store.window import Window
from kgedit.timesteps.changes import DROPPED, verdict_record
from kgedit.timesteps.engines import Engine
from kgedit.timesteps.engines.store import StoreEngine
from kgedit.timesteps.filters import beyond_subject
from kgedit.timesteps.labels import is_id
from kgedit.timesteps.profiles import FUNCTIONAL_BY, PERSONA_STYLES, behaviour
from kgedit.timesteps.relation_words import RelationWords
from kgedit.timesteps.selected import read_selection
from kgedit.timesteps.specificity import measure_specificity, specificity_provenance
from kgedit.timesteps.tables import ROWS_IN_GROUP, TABLES, find_evidence, write_table
from kgedit.timesteps.timestep import Timestep
from kgedit.timesteps.wikifactdiff import OWN_TABLES, PROFILE
from kgedit.timesteps.wikifactdiff.cases import (
    draw_random_neighbours,
    find_neighbours,
    find_unchanged_triples,
    make_cases,
    similarity,
)
from kgedit.timesteps.wikifactdiff.classification import classify, count_functional, find_functional
from kgedit.timesteps.wikifactdiff.difference import compare, find_changed, find_new_entities, preprocess
from kgedit.timesteps.wikifactdiff.scenarios import SCENARIOS, find_dropped, find_updates, lose_last_entities
from kgedit.timesteps.wikifactdiff.values import DRAWN_CLOZE, prepare_subjects, prepare_templates, word_values
from kgedit.timesteps.wikifactdiff.workspace import count_by, count_rows, measure_popularity, open_workspace, read_table
from kgedit.wikidata.times import not_before
from kgedit.wording.dates import dates_version
from kgedit.wording.names import names_version
from kgedit.wording.personas import persona_version, voices
from kgedit.wording.templates import template_version


@dataclass(frozen=True, slots=True, kw_only=True)
class WikiFactDiffSettings:
    """Settings that change the content of a timestep; all of them are recorded in it.

    Attributes:
        seed: Seed of the choice of personas, of random neighbours and their order among equally similar ones, of the
            clozes of neighbours, and of the populations of the replacement set.
        known_facts: Maximum number of facts of the older snapshot to write questions for.
        compat: Behaviour of other code (kgedit.timesteps.profiles); None means the paper's.
        pageviews: Monthly files of page views; if empty, popularity is null.
        templates: Catalogue of question templates; None means the shipped one.
        personas: Folder of persona catalogues; None means the shipped ones.
        functional_by: Evidence that a relation is functional (kgedit.timesteps.profiles.FUNCTIONAL_BY).
        ask_as_of: Whether questions name the day that they ask about.
        persona_style: "reworded", or "framed": the unchanged question in a frame, which is easier.
        only: File of the subjects and relations whose changes count (kgedit.timesteps.selected); None means all.
        counts: Counts of a corpus, or its texts (kgedit.timesteps.specificity); None leaves counts null.
    """

    seed: int = 0
    known_facts: int = 2000
    compat: str | None = None
    pageviews: tuple[Path, ...] = ()
    templates: Path | None = None
    personas: Path | None = None
    functional_by: str = FUNCTIONAL_BY[PROFILE][0]
    ask_as_of: bool = False
    persona_style: str = PERSONA_STYLES[0]
    only: Path | None = None
    counts: Path | None = None


def export_timestep(
    old: Snapshot,
    new: Snapshot,
    folder: Path,
    *,
    settings: WikiFactDiffSettings,
    engine: Engine | None = None,
    writers: Sequence[Callable[[Timestep], Path]] = (),
) -> Timestep:
    """Export the timestep between two snapshots to a temporary folder, which is renamed when it is complete.

    Args:
        old: The older snapshot.
        new: The newer snapshot.
        folder: Output folder; an existing one is replaced.
        settings: Settings of the export.
        engine: Engine that answers the queries of the export; recorded in the manifest. None means the store.
        writers: Functions that write further files next to the tables before the folder is renamed.

    Raises:
        TimestepError: if the dates are reversed, a file or name is invalid, or the engine lacks a snapshot or the
            statements.
        SourceError: if page views cannot be read.
    """
    if old.date >= new.date:
        raise TimestepError(not_before(old.name, new.name))
    engine = engine or StoreEngine()
    behaviour(settings.compat)  # reports a wrong name or file before any work
    selection = None if settings.only is None else read_selection(settings.only)
    if settings.compat and settings.functional_by != "constraints":
        raise TimestepError(
            f"--compat {settings.compat} knows constraints only. Leave out --functional-by {settings.functional_by}."
        )
    with working_folder(folder) as aside:
        with open_workspace(old, new, spill=aside / "spill") as window:
            engine.check(window)
            find_functional(engine, window, settings.functional_by)
            counted = _make_tables(engine, window, settings, selection)
            tables = _write_tables(window.connection, aside)
        write_json(
            aside / "timestep.json",
            describe_export(old, new, settings=settings) | {"engine": engine.name} | counted | {"tables": tables},
        )
        step("writing other forms", 5, _STEPS)
        made = Timestep.open(aside)
        for write in writers:
            write(made)
        write_checksums(aside)
        replace_folder(aside, folder)
    return Timestep.open(folder)


def describe_export(old: Snapshot, new: Snapshot, *, settings: WikiFactDiffSettings) -> dict[str, Any]:
    """First part of timestep.json: everything that an export depends on. Exports that agree in it are identical;
    the engine is not part of it, since both engines return the same rows."""
    return {
        "timestep": f"{old.date}_{new.date}",
        "profile": PROFILE,
        "kgedit": __version__,
        "snapshots": [snapshot.manifest for snapshot in (old, new)],
        "settings": _provenance(settings),
    }


_STEPS = 6
"""Number of steps of an export, for its progress."""


@dataclass(frozen=True, slots=True)
class _Compared:
    """Counts of the steps up to the updates."""

    changed: dict[str, int]
    preprocessing: dict[str, dict[str, object]]
    entities: dict[str, int]
    difference: dict[str, int]
    classes: dict[str, dict[str, int]]
    funnel: dict[str, object]
    popularity: dict[str, object]


def _make_tables(
    engine: Engine, window: Window, settings: WikiFactDiffSettings, selection: pa.Table | None
) -> dict[str, Any]:
    """Create the tables of a timestep; returns the counts of all steps."""
    workspace, old, new = window.connection, window.old, window.new
    compared = _find_updates(engine, window, settings, selection)
    step("finding neighbours", 3, _STEPS)
    find_unchanged_triples(workspace)
    find_neighbours(engine, window, seed=settings.seed)
    draw_random_neighbours(workspace, seed=settings.seed)
    step("wording questions", 4, _STEPS)
    words = RelationWords(
        _word(workspace, settings, new.day), voices(settings.personas) if settings.persona_style == "reworded" else ()
    )
    final_filters = make_cases(
        workspace,
        words,
        known_facts=settings.known_facts,
        seed=settings.seed,
        personas=settings.personas,
        as_of=new.day.isoformat(),
        days=(old.day, new.day) if settings.ask_as_of else None,
        persona_style=settings.persona_style,
    )
    return _counted(workspace, compared, final_filters) | _add_specificity(workspace, settings)


def _add_specificity(workspace: duckdb.DuckDBPyConnection, settings: WikiFactDiffSettings) -> dict[str, Any]:
    """Add the columns of SPECIFICITY to ``cases``; returns their entry in the manifest."""
    cases = read_table(workspace, "SELECT case_id, subject, subject_label, object, object_label FROM cases")
    found, counted = measure_specificity(workspace, cases, counts=settings.counts)
    workspace.register("found", found)
    columns = ", ".join(SPECIFICITY)
    workspace.execute(f"CREATE OR REPLACE TABLE cases AS SELECT c.*, {columns} FROM cases c JOIN found USING (case_id)")
    workspace.unregister("found")
    return {"specificity": counted} if settings.pageviews or settings.counts else {}


def _find_updates(
    engine: Engine, window: Window, settings: WikiFactDiffSettings, selection: pa.Table | None
) -> _Compared:
    """Run the paper's steps up to the updates and their popularity."""
    workspace, old, new = window.connection, window.old, window.new
    rules, days = behaviour(settings.compat), {"old": old.date, "new": new.date}
    step("keeping facts", 0, _STEPS)
    changed = find_changed(engine, window)
    preprocessing = preprocess(workspace, rules, **days)
    entities = find_new_entities(workspace, rules, older_is_slice=old.manifest.get("slice_of") is not None, **days)
    step("comparing", 1, _STEPS)
    difference = compare(workspace)
    classes = classify(workspace, rules, **days)
    word_values(workspace)
    funnel = find_updates(workspace, rules, seed=settings.seed, templates=settings.templates, selection=selection)
    step("measuring popularity", 2, _STEPS)
    popularity = measure_popularity(workspace, settings.pageviews, wiki=new.wiki, date=new.date)
    lose_last_entities(workspace, rules, funnel)
    find_dropped(workspace)
    return _Compared(changed, preprocessing, entities, difference, classes, funnel, popularity)


def _counted(
    workspace: duckdb.DuckDBPyConnection, compared: _Compared, final_filters: Mapping[str, object]
) -> dict[str, Any]:
    """Entry of the manifest with the counts of steps and tables."""
    scenarios = count_by(workspace, "scenario", "updates")
    return {
        "changed_statements": compared.changed,
        "preprocessing": compared.preprocessing,
        "difference": compared.difference,
        "new_entities": compared.entities,
        "classes": compared.classes,
        "functional_relations": count_functional(workspace),
        "funnel": compared.funnel,
        "scenarios": {name: scenarios.get(name, 0) for name, _ in SCENARIOS},
        "replacement_set": count_rows(workspace, "updates WHERE in_replacement_set"),
        "popularity": compared.popularity,
        "neighbours": count_by(workspace, "basis", "neighbours"),
        "updates_without_a_nearest_neighbour": count_rows(
            workspace, "updates ANTI JOIN (FROM neighbours WHERE basis = 'nearest') USING (subject, property)"
        ),
        "generic_templates": count_rows(workspace, "updates WHERE template LIKE '%:generic'"),
        "cases": count_by(workspace, "tag", "cases"),
        "final_filters": final_filters,
        "added_relations_with_an_older_value": count_rows(workspace, "had_value"),
        "locality": count_rows(workspace, "locality"),
        "known_facts": count_rows(workspace, "known_facts"),
    }


def _word(workspace: duckdb.DuckDBPyConnection, settings: WikiFactDiffSettings, day: date) -> pa.Table:
    """Create the tables ``updates``, ``objects`` and ``neighbours``; returns the templates, without a day."""
    workspace.execute(
        "CREATE TABLE asked_property AS SELECT property FROM update_group "
        "UNION SELECT neighbour_property FROM random_triple"
    )
    templates = prepare_templates(workspace, settings.templates, as_of=day if settings.ask_as_of else None)
    prepare_subjects(workspace, _ASKED_FACTS)
    workspace.execute(_UPDATES)
    workspace.execute(_OBJECTS)
    workspace.execute(_NEIGHBOURS, {"seed": settings.seed})
    return templates


_ASKED_FACTS = """
    SELECT subject AS id, label AS answer, aliases FROM update_object
    UNION SELECT neighbour, label, aliases FROM nearest_triple JOIN triple_object USING (object)
    UNION SELECT neighbour, label, aliases FROM random_triple JOIN triple_object USING (object)
"""

_PROPERTY_LABEL = f"CASE WHEN p.label IS NULL OR {is_id('p.label')} THEN t.label ELSE p.label END"
"""SQL: the snapshot's label of a property, or else the catalogue's; without either, find_updates drops the group."""

_UPDATES = f"""
    CREATE TABLE updates AS
    SELECT g.*, s.label AS subject_label, s.description AS subject_description,
           {_PROPERTY_LABEL} AS property_label, p.description AS property_description,
           g.functional AS temporal_functional, popularity, basis AS popularity_basis,
           say(t.question, s.name) AS question, say(t.rephrase, s.name) AS rephrase, say(t.cloze, s.name) AS cloze,
           say_all(t.rephrases, s.name) AS rephrases, say_all(t.clozes, s.name) AS clozes,
           t.template, s.name, s.subject_class, s.ambiguous, t.phrase, t.answer_type,
           row_number() OVER (
               ORDER BY popularity DESC NULLS LAST, g.subject[2:]::BIGINT, g.property[2:]::BIGINT) AS place
    FROM update_group g JOIN named s ON s.id = g.subject LEFT JOIN known p ON p.id = g.property
    JOIN template t ON t.property = g.property AND t.subject_class = s.subject_class
    LEFT JOIN popularity ON popularity.id = g.subject
"""

_OBJECTS = f"""
    CREATE TABLE objects AS
    SELECT o.* EXCLUDE (object, value_type, label, description, aliases), term AS object, label AS object_label,
           description AS object_description, {beyond_subject("aliases", "u.subject_label")} AS object_aliases,
           CASE WHEN o.object IS NULL THEN value_type END AS value_type, u.place,
           array_position(['new', 'obsolete', 'static'], decision) AS turn
    FROM update_object o JOIN updates u USING (subject, property)
"""

_NEIGHBOURS = f"""
    CREATE TABLE neighbours AS
    WITH found AS (
        SELECT subject, property, 'nearest' AS basis, place, neighbour, property AS neighbour_property, object,
               {similarity("cosine")} AS similarity FROM nearest_triple
        UNION ALL
        SELECT subject, property, 'random', place, neighbour, neighbour_property, object, NULL FROM random_triple
    ), found_fact AS (
        SELECT DISTINCT neighbour AS subject, neighbour_property AS property, object FROM found
    ), evident AS (
        {find_evidence("found_fact")}
    )
    SELECT f.*, n.label AS neighbour_label, n.name AS neighbour_name, n.description AS neighbour_description,
           n.ambiguous,
           {_PROPERTY_LABEL} AS neighbour_property_label,
           o.label AS object_label, o.description AS object_description,
           {beyond_subject("o.aliases", "n.label")} AS object_aliases,
           say(t.question, n.name) AS question, say(t.rephrase, n.name) AS rephrase,
           say({DRAWN_CLOZE}, n.name) AS cloze,
           u.place AS update_place, pop.popularity, e.evidence
    FROM found f JOIN named n ON n.id = f.neighbour JOIN triple_object o ON o.object = f.object
    JOIN template t ON t.property = f.neighbour_property AND t.subject_class = n.subject_class
    LEFT JOIN known p ON p.id = f.neighbour_property LEFT JOIN popularity pop ON pop.id = f.neighbour
    JOIN updates u ON u.subject = f.subject AND u.property = f.property
    LEFT JOIN evident e ON e.subject = f.neighbour AND e.property = f.neighbour_property AND e.object = f.object
"""

_ORDERS = {
    "updates": "place",
    "objects": "place, turn, object",
    "neighbours": "update_place, basis, place",
    "cases": "case_id",
    "locality": "case_id",
    "two_hops": "case_id",
    "created_entities": "id[2:]::BIGINT",
    "known_facts": "turn, subject, property, object",
    "dropped": "subject, property",
}


def _write_tables(workspace: duckdb.DuckDBPyConnection, folder: Path) -> dict[str, Any]:
    written = {}
    schemas: Mapping[str, pa.Schema] = OWN_TABLES | TABLES | {"dropped": DROPPED}
    for name, schema in schemas.items():
        path = folder / f"{name}.parquet"
        query = f"SELECT {_columns(workspace, name, schema)} FROM {name} ORDER BY {_ORDERS[name]}"
        batches = workspace.sql(query).to_arrow_reader(ROWS_IN_GROUP)
        written[name] = write_table(path, schema, (pa.Table.from_batches([batch]) for batch in batches))
    return written


def _columns(workspace: duckdb.DuckDBPyConnection, table: str, schema: pa.Schema) -> str:
    """SQL of a schema's columns; columns that only the other profile can fill are null, or an empty list."""
    there = {row[0] for row in workspace.execute(f"DESCRIBE {table}").fetchall()}
    absent = {field.name: "[]" if pa.types.is_list(field.type) else "NULL" for field in schema}
    return ", ".join(name if name in there else f"{absent[name]} AS {name}" for name in schema.names)


def _provenance(settings: WikiFactDiffSettings) -> dict[str, Any]:
    return {
        "seed": settings.seed,
        "known_facts": settings.known_facts,
        "compat": asdict(behaviour(settings.compat)),
        "pageviews": {path.name: sha256_of(path) for path in settings.pageviews},
        "templates": template_version(settings.templates),
        "personas": persona_version(settings.personas),
        "persona_style": settings.persona_style,
        "names": names_version(),
        "functional_by": verdict_record(settings.functional_by),
        "ask_as_of": dates_version() if settings.ask_as_of else None,
        **specificity_provenance(None, settings.counts),
        **({"only": sha256_of(settings.only)} if settings.only else {}),
    }
