"""`export-timestep`: the WikiBigEdit profile, deterministic and identical with either engine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kgedit import __version__
from kgedit.checksums import sha256_of, write_checksums
from kgedit.errors import TimestepError
from kgedit.graph.queries import read_query
from kgedit.llm.embeddings import load_embedder
from kgedit.progress import step
from kgedit.records.cases import SPECIFICITY
from kgedit.store.files import replace_folder, working_folder, write_json
from kgedit.store.parts import keep_in_parts
from kgedit.store.snapshots import Snapshot, check_selection
from kgedit.store.window import Window
from kgedit.timesteps.chain_paths import CHAIN_QUERIES, MOST_HOPS
from kgedit.timesteps.chains import (
    Chains,
    find_chains,
    find_shortcuts,
    make_two_hops,
    unchanged_hops,
)
from kgedit.timesteps.changes import (
    DROPPED,
    drop_remaining,
    dropped_changes,
    find_changed_facts,
    judge_changes,
    keep_cases,
    keep_changes,
    keep_functional,
    keep_kinds,
    verdict_record,
)
from kgedit.timesteps.crosslingual import ask_in_other_language, describe_crosslingual, open_other
from kgedit.timesteps.engines import Engine
from kgedit.timesteps.engines.store import read_sql
from kgedit.timesteps.filters import Filter, Filtered, add_counts, reason_column, without_namesakes
from kgedit.timesteps.kinds import (
    CHANGES,
    KindClassifier,
    WindowChanges,
    kinds_in_parts,
    read_labelled,
    signals_of_known_values,
    train_classifier,
)
from kgedit.timesteps.known_facts import choose_known_facts
from kgedit.timesteps.labels import describe_subjects, labelled_parts, write_labels
from kgedit.timesteps.locality import families_version, find_locality
from kgedit.timesteps.profiles import FUNCTIONAL_BY, PERSONA_STYLES
from kgedit.timesteps.relation_words import RelationWords
from kgedit.timesteps.selected import read_selection
from kgedit.timesteps.specificity import measure_specificity, read_case_views, specificity_provenance
from kgedit.timesteps.tables import OPTIONAL_TABLES, TABLES, write_table
from kgedit.timesteps.timestep import Timestep
from kgedit.timesteps.wording import choose_templates, named_parts, word_cases, word_facts, word_probes
from kgedit.timesteps.written import WrittenCases, WrittenProbes, count_values, write_cases, write_probes
from kgedit.wikidata.times import not_before
from kgedit.wording.catalogues import ENGLISH, Language, language_catalogue, read_language
from kgedit.wording.dates import date_templates, dates_version
from kgedit.wording.names import names_version
from kgedit.wording.personas import persona_version, shipped_personas, voices
from kgedit.wording.templates import template_version

QUERIES = (
    *("changed_edges", "two_hop_changes", "functional_by_data", "functional_by_constraint"),
    "shared_facts",
)
"""Each is a file of cypher/read and one of kgedit/timesteps/engines/sql."""

_SQL_ALONE = (
    *("functional_counts", "begun_facts", "edited_subjects", "static_facts", "candidate_facts"),
    "similar_facts",
)
"""Files of kgedit/timesteps/engines/sql without a counterpart in cypher/read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WikiBigEditSettings:
    """Settings that change the content of a timestep; all of them are recorded in it.

    Attributes:
        seed: Seed of the choice of personas and of one of several second hops.
        known_facts: Maximum number of facts of the older snapshot to write questions for.
        pool: Number of unchanged facts of each relation to choose locality probes from.
        max_df: Maximum number of items that may share a fact for it to count for similarity.
        locality_uses: Maximum number of cases with the same unchanged fact as probe.
        templates: Catalogue of question templates; None means the shipped one.
        personas: Folder of persona catalogues; None means the shipped ones of the language.
        persona_style: "reworded", or "framed": the unchanged question in a frame, which is easier.
        kinds: Kinds of change to keep (kgedit.timesteps.kinds.KINDS); empty means all.
        labelled_changes: File of labelled changes to train a classifier of kinds with; None uses rules alone.
        kind_embedder: Embedder with which the classifier compares meanings; None compares words alone.
        functional_by: Evidence that a relation is functional (kgedit.timesteps.profiles.FUNCTIONAL_BY).
        ask_as_of: Whether questions name the day that they ask about.
        changed_locality: Whether facts that changed in the window, but are not cases, may be locality probes.
        only: File of the subjects and relations whose changes count (kgedit.timesteps.selected); None means all.
        pageviews: Monthly files of page views (kgedit.timesteps.specificity); if empty, views are null.
        counts: Counts of a corpus, or its texts (kgedit.timesteps.specificity); None leaves counts null.
        hops: Number of facts of the longest chains to ask for (kgedit.timesteps.chains), 2 to 4.
        language: Language of questions and labels (kgedit.wording.catalogues).
        crosslingual: Timestep of the same window in another language, or a folder that contains it, whose questions
            are asked about the same edits; None asks in the edits' language only.
    """

    seed: int = 0
    known_facts: int = 2000
    pool: int = 1000
    max_df: int = 500
    locality_uses: int = 3
    templates: Path | None = None
    personas: Path | None = None
    persona_style: str = PERSONA_STYLES[0]
    kinds: tuple[str, ...] = ()
    labelled_changes: Path | None = None
    kind_embedder: str | None = None
    functional_by: str = FUNCTIONAL_BY["wikibigedit"][0]
    ask_as_of: bool = False
    changed_locality: bool = False
    only: Path | None = None
    pageviews: tuple[Path, ...] = ()
    counts: Path | None = None
    hops: int = 2
    language: str = ENGLISH.code
    crosslingual: Path | None = None


def export_timestep(
    engine: Engine,
    old: Snapshot,
    new: Snapshot,
    folder: Path,
    *,
    settings: WikiBigEditSettings,
    earlier: Sequence[Snapshot] = (),
    writers: Sequence[Callable[[Timestep], Path]] = (),
) -> Timestep:
    """Export the timestep between two snapshots to a temporary folder, which is renamed when it is complete.

    Args:
        engine: Engine that answers the queries of the export; recorded in the manifest.
        old: The older snapshot.
        new: The newer snapshot.
        folder: Output folder; an existing one is replaced.
        settings: Settings that the content depends on.
        earlier: Snapshots older than `old`; a change back to one of their values is a revert.
        writers: Functions that write further files next to the tables before the folder is renamed.

    Raises:
        TimestepError: if the dates are reversed, the engine lacks a snapshot, chains of that length are not asked for,
            the snapshots are parts (kgedit.timesteps.changes_only), which lack the facts of chains, or the timestep in
            another language is of another window.
        StoreError: if the snapshots are parts that another version of kgedit selected.
    """
    if not 2 <= settings.hops <= MOST_HOPS:
        raise TimestepError(f"Chains have 2 to {MOST_HOPS} facts, and not {settings.hops}.")
    check_selection((old, new))
    if settings.hops > 2 and new.is_part:
        raise TimestepError(
            f"{new.folder.parent} contains what changed, not all the facts that chains lead through. Leave out --hops, "
            "or export where the whole snapshots are."
        )
    if old.date >= new.date:
        raise TimestepError(not_before(old.name, new.name))
    _check_language(settings, (old, new))
    other = _open_other(old, new, settings)
    selection = None if settings.only is None else read_selection(settings.only)
    with working_folder(folder) as aside:
        classifier = _classifier(settings, (old, new, *earlier), spill=aside / "spill-of-labels")
        with Window(old, new, spill=aside / "spill") as window:
            engine.check(window)
            spilled = aside / "spill-of-kinds"
            labels = aside / "labels.parquet"
            found = _find_cases(
                engine,
                window,
                settings,
                earlier,
                selection=selection,
                classifier=classifier,
                labels=labels,
                spill=spilled,
            )
            made = _write_tables(engine, window, settings, found, other, aside)
        about = describe_export(old, new, earlier, settings=settings) | {"engine": engine.name}
        write_json(aside / "timestep.json", about | made.counts | {"tables": made.tables})
        written = Timestep.open(aside)
        step("writing other forms", 6, _STEPS)
        for write in writers:
            write(written)
        write_checksums(aside)
        replace_folder(aside, folder)
    return Timestep.open(folder)


def _check_language(settings: WikiBigEditSettings, snapshots: Sequence[Snapshot]) -> None:
    """Check that there is a grammar, and that labels are in the language.

    Raises:
        TimestepError: if not, or if an option exists in English only.
    """
    language = read_language(settings.language)
    if language.is_english:
        return
    if settings.ask_as_of:
        raise TimestepError(
            f"--ask-as-of has dates in English only. Leave it out, or leave out --language {language.code}."
        )
    for snapshot in snapshots:
        labels = snapshot.manifest["loader"]["languages"]
        if labels[0] != language.code:
            raise TimestepError(
                f"The labels of {snapshot.name} are in '{labels[0]}', and the questions would be in '{language.code}'. "
                f"Load the dumps into another home: kgedit load-dump ... --language {language.code} --language en"
            )


def _open_other(old: Snapshot, new: Snapshot, settings: WikiBigEditSettings) -> Timestep | None:
    if settings.crosslingual is None:
        return None
    return open_other(settings.crosslingual, f"{old.date}_{new.date}", language=settings.language)


def describe_export(
    old: Snapshot, new: Snapshot, earlier: Sequence[Snapshot], *, settings: WikiBigEditSettings
) -> dict[str, Any]:
    """First part of timestep.json: everything that an export depends on. Exports that agree in it are identical;
    the engine is not part of it, since both engines return the same rows."""
    other = _open_other(old, new, settings)
    return {
        "timestep": f"{old.date}_{new.date}",
        "profile": "wikibigedit",
        "kgedit": __version__,
        "snapshots": [snapshot.manifest for snapshot in (old, new)],
        "earlier_snapshots": sorted(snapshot.name for snapshot in earlier),
        "settings": _provenance(settings) | ({} if other is None else {"crosslingual": other.sha256}),
    }


_STEPS = 7
"""Number of steps of an export, for its progress."""


@dataclass(frozen=True, slots=True)
class _Made:
    """Entries of the manifest: tables with their rows and hashes, and counts of all steps."""

    tables: dict[str, Any]
    counts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Wording:
    """What questions are worded with.

    Attributes:
        language: Language of the questions.
        undated: Templates of the relations of all cases.
        templates: The same, with the day of the newer snapshot if the settings ask as of a day.
        old_templates: The same, with the day of the older snapshot.
        words: Words of the relations.
    """

    language: Language
    undated: pa.Table
    templates: pa.Table
    old_templates: pa.Table
    words: RelationWords


def _write_tables(
    engine: Engine,
    window: Window,
    settings: WikiBigEditSettings,
    found: _FoundCases,
    other: Timestep | None,
    folder: Path,
) -> _Made:
    """Write every table of a timestep; cases and probes are worded and written in parts, and not held together."""
    step("wording cases", 2, _STEPS)
    wording = _choose_wording(window, settings)
    language = wording.language
    untranslated = {} if language.is_english else _drop_untranslated(window, wording.undated)
    measured = _add_specificity(window, settings)
    worded = _write_cases(window, settings, wording, folder)
    tables = {"cases": worded.written, "dropped": _write_dropped(window, found.labels, folder / "dropped.parquet")}
    counts = {"funnel": _funnel(window, found.dropped | untranslated | worded.funnel, worded)}
    if not language.is_english:
        counts |= _untranslated(window, language)
    changed = find_changed_facts(window) if settings.changed_locality else None
    window.drop("change", "dropped_change")
    near = _write_locality(engine, window, settings, wording, changed, folder)
    tables["locality"] = near.written
    step("choosing known facts", 4, _STEPS)
    chains = _find_chains(engine, window, settings, wording)
    known_facts, judged = _word_known_facts(window, settings, wording, chains)
    found_hops, hops = _find_two_hops(engine, window, settings, wording)
    counts |= _counted(worded, near, judged, found_hops, hops) | measured
    others = {"two_hops": hops.kept, "known_facts": known_facts}
    if settings.pageviews or settings.counts:
        counts |= {"specificity": worded.specificity}
    if chains is not None:
        others["chains"] = chains.kept
        counts |= {"chains": chains.counts | {"final_filters": chains.questions}}
    if other is not None:
        cases = window.select("SELECT case_id FROM worded_case")
        others["crosslingual"] = ask_in_other_language(cases, other)
        counts |= {"crosslingual": describe_crosslingual(cases, others["crosslingual"], other)}
    for name, rows in others.items():
        tables[name] = write_table(folder / f"{name}.parquet", (TABLES | OPTIONAL_TABLES)[name], [rows])
    order = [*TABLES, *(name for name in OPTIONAL_TABLES if name in tables), "dropped"]
    return _Made({name: tables[name] for name in order}, counts)


def _choose_wording(window: Window, settings: WikiBigEditSettings) -> _Wording:
    language = read_language(settings.language)
    relations = window.select("SELECT property, max(property_label) AS property_label FROM new_case GROUP BY property")
    undated = choose_templates(relations, catalogue=_catalogue(settings))
    speaking = voices(_personas(settings)) if settings.persona_style == "reworded" else ()
    return _Wording(
        language,
        undated,
        templates=_dated(undated, window.new, settings),
        old_templates=_dated(undated, window.old, settings),
        words=RelationWords(undated, speaking, language=language),
    )


def _write_cases(window: Window, settings: WikiBigEditSettings, wording: _Wording, folder: Path) -> WrittenCases:
    """Word and write the cases of the table new_case, which is dropped."""
    worded = write_cases(
        window,
        _word_cases(window, wording.templates, wording.words, settings),
        folder / "cases.parquet",
        as_of=window.new.name,
        language=wording.language,
    )
    window.drop("new_case")
    return worded


def _write_locality(
    engine: Engine,
    window: Window,
    settings: WikiBigEditSettings,
    wording: _Wording,
    changed: pa.Table | None,
    folder: Path,
) -> WrittenProbes:
    step("finding locality probes", 3, _STEPS)
    find_locality(
        engine,
        window,
        pool=settings.pool,
        max_df=settings.max_df,
        max_uses=settings.locality_uses,
        changed=changed,
        language=wording.language,
    )
    parts = named_parts(window, "probe", language=wording.language)
    probes = (word_probes(rows, wording.templates, subjects, wording.words) for rows, subjects in parts)
    return write_probes(probes, folder / "locality.parquet")


def _word_known_facts(
    window: Window, settings: WikiBigEditSettings, wording: _Wording, chains: Chains | None
) -> tuple[pa.Table, dict[str, dict[str, Any]]]:
    """Known facts, and how many were left out."""
    hops = None if chains is None else unchanged_hops(chains.kept)
    chosen = choose_known_facts(window, limit=settings.known_facts, hops=hops)
    subjects = describe_subjects(window.connection, chosen, language=wording.language)
    worded = word_facts(chosen, wording.old_templates, subjects, language=wording.language)
    clear, ambiguous = without_namesakes(worded, "known_facts")
    passed = {"known_facts": {"judged": clear.num_rows, "passed": clear.num_rows, "failed": {}}}
    return clear, add_counts([passed, ambiguous])


def _find_two_hops(
    engine: Engine, window: Window, settings: WikiBigEditSettings, wording: _Wording
) -> tuple[int, Filtered]:
    """Number of chains of two facts, and the questions about them."""
    step("finding two hops", 5, _STEPS)
    found = engine.two_hops(window)
    cases = window.select(_HOP_CASES, chains=found)
    chains = find_shortcuts(window, found, cases)
    return chains.num_rows, make_two_hops(chains, cases, wording.templates, wording.words, seed=settings.seed)


_HOP_CASES = """
    FROM worded_case SEMI JOIN (
        SELECT subject, first_property AS property, bridge AS object FROM chains
        UNION SELECT bridge, second_property, object FROM chains) USING (subject, property, object)
    ORDER BY case_id
"""


def _write_dropped(window: Window, labels: Path, path: Path) -> dict[str, Any]:
    """Write the changes that became no case, and delete the labels; returns the table's entry in the manifest."""
    rows = """
        SELECT part, subject, property, old_objects, new_objects, reason
        FROM change JOIN dropped_change USING (subject, property)
    """
    keep_in_parts(window.connection, "labelled_change", rows)
    labelled = labelled_parts(window.connection, "labelled_change", labels)
    written = write_table(path, DROPPED, dropped_changes(labelled))
    window.drop("labelled_change")
    labels.unlink()
    return written


def _funnel(window: Window, dropped: dict[str, int], worded: WrittenCases) -> dict[str, Any]:
    changed = window.select("SELECT count(*) AS n FROM change")["n"][0].as_py()
    return {"changed": changed, "dropped": dropped, "kept": worded.written["rows"]}


def _catalogue(settings: WikiBigEditSettings) -> Path | None:
    """Template catalogue of the settings; None means the shipped English one."""
    english = settings.language == ENGLISH.code
    return settings.templates or (None if english else language_catalogue(settings.language))


def _personas(settings: WikiBigEditSettings) -> Path:
    """Folder of persona catalogues of the settings."""
    return settings.personas or shipped_personas(settings.language)


_UNTRANSLATED: tuple[Filter, ...] = (("no template in the language", "t.property IS NULL"),)


def _drop_untranslated(window: Window, templates: pa.Table) -> dict[str, int]:
    """Move cases whose property has no template to dropped_change; returns their number. In English every property has
    one."""
    window.run("ALTER TABLE new_case RENAME TO remaining")
    judged = f"""
        SELECT c.*, {reason_column(_UNTRANSLATED)} FROM remaining c
        LEFT JOIN (SELECT DISTINCT property FROM templates) t USING (property)
    """
    counts = drop_remaining(window, judged, _UNTRANSLATED, templates=templates.select(["property"]))
    window.run("ALTER TABLE remaining RENAME TO new_case")
    return counts


def _untranslated(window: Window, language: Language) -> dict[str, Any]:
    """Counts for the manifest: cases by property without a template, and cases with a label of another language."""
    foreign = window.select(
        """
        SELECT count(*) AS cases FROM worded_case
        WHERE subject IN (FROM other) OR object IN (FROM other)
        """.replace("other", "(SELECT id FROM new_entities WHERE label_language IS DISTINCT FROM $code)"),
        {"code": language.code},
    )
    dropped = window.select(
        "SELECT property FROM dropped_change WHERE reason = $reason", {"reason": _UNTRANSLATED[0][0]}
    )
    return {
        "without_template": count_values(dropped["property"]),
        "labels_in_other_languages": foreign["cases"][0].as_py(),
    }


def _find_chains(engine: Engine, window: Window, settings: WikiBigEditSettings, wording: _Wording) -> Chains | None:
    """Chains of more than two facts; None if the settings ask for none."""
    if settings.hops <= 2:
        return None
    step("finding chains", 4, _STEPS)
    cases = window.select("SELECT case_id, subject, property, object, old_objects FROM worded_case ORDER BY case_id")
    return find_chains(engine, window, cases, wording.templates, wording.words, hops=settings.hops, seed=settings.seed)


@dataclass(frozen=True, slots=True)
class _FoundCases:
    """Cases that were made of changes, in the tables change, dropped_change and new_case of the window.

    Attributes:
        labels: File of the labels of the entities in changes (kgedit.timesteps.labels.write_labels).
        dropped: Number of dropped changes by reason, in the order of the filters.
    """

    labels: Path
    dropped: dict[str, int]


def _find_cases(
    engine: Engine,
    window: Window,
    settings: WikiBigEditSettings,
    earlier: Sequence[Snapshot],
    *,
    selection: pa.Table | None,
    classifier: KindClassifier | None,
    labels: Path,
    spill: Path,
) -> _FoundCases:
    step("finding changes", 0, _STEPS)
    keep_changes(window, engine.changed_edges(window))
    write_labels(window, labels)
    dropped = judge_changes(window, labels, selection, read_language(settings.language))
    dropped |= keep_functional(engine, window, settings.functional_by)
    step("judging kinds of change", 1, _STEPS)
    changes = window.select(f"SELECT {', '.join(CHANGES.names)} FROM remaining")
    of_window = WindowChanges(window.old, window.new, earlier, changes)
    for kinds in kinds_in_parts(of_window, spill=spill, classifier=classifier):
        window.add("change_kind", kinds)
    dropped |= keep_kinds(window, settings.kinds)
    keep_cases(window, labels)
    return _FoundCases(labels, dropped)


def _word_cases(
    window: Window, templates: pa.Table, words: RelationWords, settings: WikiBigEditSettings
) -> Iterator[Filtered]:
    for cases, subjects in named_parts(window, "new_case", language=words.language):
        yield word_cases(
            cases,
            templates,
            subjects,
            words,
            seed=settings.seed,
            personas=_personas(settings),
            persona_style=settings.persona_style,
            as_of=window.new.day if settings.ask_as_of else None,
        )


def _add_specificity(window: Window, settings: WikiBigEditSettings) -> dict[str, Any]:
    """Add the columns of SPECIFICITY to the table new_case; returns the page views' entry in the manifest."""
    counted: dict[str, Any] = {}
    if not settings.pageviews and not settings.counts:
        window.run("; ".join(f"ALTER TABLE new_case ADD COLUMN {name} BIGINT" for name in SPECIFICITY))
        return counted
    window.run("CREATE VIEW known AS SELECT id, wiki_title FROM new_entities WHERE kind = 'item'")
    cases = window.select("SELECT case_id, subject, subject_label, object, object_label FROM new_case")
    if settings.pageviews:
        counted["page_views"] = read_case_views(
            window.connection, cases, settings.pageviews, wiki=window.new.wiki, date=window.new.date
        )
    found, _ = measure_specificity(window.connection, cases, counts=settings.counts)
    window.run("CREATE OR REPLACE TABLE new_case AS FROM new_case JOIN found USING (case_id)", found=found)
    return counted


def _counted(
    worded: WrittenCases, near: WrittenProbes, known_facts: dict[str, dict[str, Any]], chains: int, hops: Filtered
) -> dict[str, Any]:
    """Counts for the manifest."""
    return {
        "cases": worded.tags,
        "kinds": worded.kinds,
        "generic_templates": worded.generic,
        "final_filters": {**worded.questions, **near.questions, **hops.questions, **known_facts},
        "locality": near.bases,
        "without_locality": worded.written["rows"] - near.written["rows"],
        "two_hops": {"found": chains}
        | hops.funnel
        | {"kept": hops.kept.num_rows, "asked": pc.sum(hops.kept["chosen"]).as_py() or 0},
    }


def _dated(templates: pa.Table, snapshot: Snapshot, settings: WikiBigEditSettings) -> pa.Table:
    return date_templates(templates, snapshot.day) if settings.ask_as_of else templates


def _classifier(settings: WikiBigEditSettings, snapshots: Sequence[Snapshot], *, spill: Path) -> KindClassifier | None:
    if settings.labelled_changes is None:
        return None
    labelled = read_labelled(settings.labelled_changes)
    signals = signals_of_known_values(labelled, snapshots, spill=spill)
    embed = None if settings.kind_embedder is None else load_embedder(settings.kind_embedder, device="cpu")
    step("training the classifier of kinds", 0, _STEPS)
    return train_classifier(labelled, signals=signals, seed=settings.seed, embed=embed)


def _provenance(settings: WikiBigEditSettings) -> dict[str, Any]:
    asked = {name: [read_query(name).text, read_sql(name)] for name in QUERIES}
    texts = json.dumps(asked | {name: read_sql(name) for name in _SQL_ALONE}, sort_keys=True)
    return {
        "seed": settings.seed,
        "known_facts": settings.known_facts,
        "pool": settings.pool,
        "max_df": settings.max_df,
        "locality_uses": settings.locality_uses,
        "relation_families": families_version(),
        "templates": template_version(_catalogue(settings)),
        "personas": persona_version(_personas(settings)),
        "functional_by": verdict_record(settings.functional_by),
        "ask_as_of": dates_version() if settings.ask_as_of else None,
        "changed_locality": settings.changed_locality,
        "persona_style": settings.persona_style,
        "names": names_version(),
        "queries": hashlib.sha256(texts.encode()).hexdigest()[:16],
        **({} if settings.language == ENGLISH.code else {"language": settings.language}),
        **({"hops": settings.hops, "chain_queries": _chain_queries()} if settings.hops > 2 else {}),
        **({"kinds": sorted(settings.kinds)} if settings.kinds else {}),
        **_classifier_provenance(settings),
        **({"only": sha256_of(settings.only)} if settings.only else {}),
        **specificity_provenance({path.name: sha256_of(path) for path in settings.pageviews}, settings.counts),
    }


def _chain_queries() -> str:
    texts = json.dumps({name: [read_query(name).text, read_sql(name)] for name in CHAIN_QUERIES}, sort_keys=True)
    return hashlib.sha256(texts.encode()).hexdigest()[:16]


def _classifier_provenance(settings: WikiBigEditSettings) -> dict[str, Any]:
    if settings.labelled_changes is None:
        return {}
    return {"labelled_changes": sha256_of(settings.labelled_changes), "kind_embedder": settings.kind_embedder}
