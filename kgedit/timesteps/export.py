"""`export-timestep`: the WikiBigEdit profile, deterministic and identical with either engine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
from kgedit.store.engine import select
from kgedit.store.files import replace_folder, working_folder, write_json
from kgedit.store.snapshots import Snapshot
from kgedit.store.window import Window
from kgedit.timesteps.chains import CHAIN_QUERIES, MOST_HOPS, Chains, find_chains, unchanged_hops
from kgedit.timesteps.changes import (
    DROPPED,
    dropped_changes,
    filter_changes,
    find_changed_facts,
    find_changes,
    keep_functional,
    keep_kinds,
    make_cases,
    read_statements,
    verdict_record,
    with_reasons,
)
from kgedit.timesteps.crosslingual import ask_in_other_language, describe_crosslingual, open_other
from kgedit.timesteps.engines.protocol import Engine
from kgedit.timesteps.engines.store import read_sql
from kgedit.timesteps.funnel import Filtered, join_parts, reason_column, split_by_reason
from kgedit.timesteps.kinds import (
    KindClassifier,
    describe_kinds,
    read_labelled,
    signals_of_known_values,
    train_classifier,
)
from kgedit.timesteps.known_facts import choose_known_facts
from kgedit.timesteps.labels import describe_subjects, labelled_parts, write_labels
from kgedit.timesteps.locality import Locality, families_version, find_locality
from kgedit.timesteps.profiles import FUNCTIONAL_BY, PERSONA_STYLES
from kgedit.timesteps.relation_words import RelationWords
from kgedit.timesteps.selected import keep_selected, read_selection
from kgedit.timesteps.specificity import measure_specificity, read_case_views, specificity_provenance
from kgedit.timesteps.tables import OPTIONAL_TABLES, TABLES, write_table
from kgedit.timesteps.timestep import Timestep
from kgedit.timesteps.two_hops import find_shortcuts, make_two_hops
from kgedit.timesteps.wording import choose_templates, word_cases, word_facts, word_probes
from kgedit.timesteps.written import WrittenCases, WrittenProbes, count_values, write_cases, write_probes
from kgedit.wikidata.times import not_before
from kgedit.wording.dates import date_templates, dates_version
from kgedit.wording.languages import ENGLISH, Language, language_catalogue, read_language
from kgedit.wording.names import names_version
from kgedit.wording.personas import persona_version, shipped_personas
from kgedit.wording.templates import template_version
from kgedit.wording.voices import voices

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
        counts: Counts of a corpus, or its texts (kgedit.timesteps.corpus_counts); None leaves counts null.
        hops: Number of facts of the longest chains to ask for (kgedit.timesteps.chains), 2 to 4.
        language: Language of questions and labels (kgedit.wording.languages).
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
    """
    if not 2 <= settings.hops <= MOST_HOPS:
        raise TimestepError(f"Chains have 2 to {MOST_HOPS} facts, and not {settings.hops}.")
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
            finding = partial(_find_cases, selection=selection, classifier=classifier, labels=labels, spill=spilled)
            # Not a variable, so that _write_tables can release what it has written.
            made = _write_tables(engine, window, settings, finding(engine, window, settings, earlier), other, aside)
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


def _write_tables(
    engine: Engine,
    window: Window,
    settings: WikiBigEditSettings,
    found: _FoundCases,
    other: Timestep | None,
    folder: Path,
) -> _Made:
    """Write every table of a timestep; cases and probes are worded and written in parts, and not held together."""
    language = read_language(settings.language)
    tables: dict[str, Any] = {}
    undated = choose_templates(found.cases, catalogue=_catalogue(settings))
    templates, old_templates = (_dated(undated, snapshot, settings) for snapshot in (window.new, window.old))
    step("wording cases", 2, _STEPS)
    speaking = voices(_personas(settings)) if settings.persona_style == "reworded" else ()
    words = RelationWords(undated, speaking, language=language)
    translated = _keep_translated(found.cases, undated, language)
    asked, measured = _add_specificity(window, translated.kept, settings)
    # The cases with questions, of which only some columns are held, replace them.
    found, translated = replace(found, cases=asked.schema.empty_table()), _without_kept(translated)
    worded = write_cases(
        _word_cases(window, asked, templates, words, settings),
        folder / "cases.parquet",
        as_of=window.new.name,
        language=language,
    )
    del asked
    tables["cases"] = worded.written
    filters = (*found.filters, *(() if language.is_english else (translated,)), worded.filtered)
    labelled = labelled_parts(with_reasons(found.changes, filters), found.labels)
    tables["dropped"] = write_table(folder / "dropped.parquet", DROPPED, dropped_changes(labelled))
    found.labels.unlink()
    changed = find_changed_facts(window, found.changes, worded.cases) if settings.changed_locality else None
    number_changed = found.changes.num_rows
    del found
    step("finding locality probes", 3, _STEPS)
    locality = _find_locality(engine, window, changed, worded.cases, settings)
    near_subjects = describe_subjects(window.connection, locality.probes, language=language)
    near = write_probes(word_probes(locality.probes, templates, near_subjects, words), folder / "locality.parquet")
    tables["locality"] = near.written
    step("choosing known facts", 4, _STEPS)
    chains_of_facts = _find_chains(engine, window, worded.cases, templates, words, settings)
    unchanged = None if chains_of_facts is None else unchanged_hops(chains_of_facts.kept)
    known_facts = choose_known_facts(window, worded.cases, locality, limit=settings.known_facts, hops=unchanged)
    known_subjects = describe_subjects(window.connection, known_facts, language=language)
    step("finding two hops", 5, _STEPS)
    chains = find_shortcuts(window, engine.two_hops(window), worded.cases)
    hops = make_two_hops(chains, worded.cases, templates, words, seed=settings.seed)
    others = {
        "two_hops": hops.kept,
        "known_facts": word_facts(known_facts, old_templates, known_subjects, language=language),
    }
    counted = _counted(number_changed, filters, worded, near, chains.num_rows, hops) | measured
    if settings.pageviews or settings.counts:
        counted |= {"specificity": worded.specificity}
    if not language.is_english:
        counted |= _untranslated(window, worded.cases, translated.dropped, language)
    if chains_of_facts is not None:
        others["chains"] = chains_of_facts.kept
        counted |= {"chains": chains_of_facts.counts | {"final_filters": chains_of_facts.questions}}
    if other is not None:
        others["crosslingual"] = ask_in_other_language(worded.cases, other)
        counted |= {"crosslingual": describe_crosslingual(worded.cases, others["crosslingual"], other)}
    for name, rows in others.items():
        tables[name] = write_table(folder / f"{name}.parquet", (TABLES | OPTIONAL_TABLES)[name], [rows])
    order = [*TABLES, *(name for name in OPTIONAL_TABLES if name in tables), "dropped"]
    return _Made({name: tables[name] for name in order}, counted)


def _with_narrow_dropped(filtered: Filtered) -> Filtered:
    return filtered._replace(dropped=filtered.dropped.select(["subject", "property", "reason"]))


def _without_kept(filtered: Filtered) -> Filtered:
    """Counts of a filter and what it dropped; the next filter has the rows that it kept."""
    return _with_narrow_dropped(filtered)._replace(kept=filtered.kept.schema.empty_table())


def _catalogue(settings: WikiBigEditSettings) -> Path | None:
    """Template catalogue of the settings; None means the shipped English one."""
    english = settings.language == ENGLISH.code
    return settings.templates or (None if english else language_catalogue(settings.language))


def _personas(settings: WikiBigEditSettings) -> Path:
    """Folder of persona catalogues of the settings."""
    return settings.personas or shipped_personas(settings.language)


def _keep_translated(cases: pa.Table, templates: pa.Table, language: Language) -> Filtered:
    """Keep cases whose property has a template; in English every property has one."""
    if language.is_english:
        return Filtered(cases, cases.schema.empty_table().append_column("reason", pa.nulls(0, pa.string())), {})
    filters = (("no template in the language", "t.property IS NULL"),)
    judged = select(
        f"""
        SELECT c.*, {reason_column(filters)} FROM cases c
        LEFT JOIN (SELECT DISTINCT property FROM templates) t USING (property) ORDER BY case_id
        """,
        cases=cases,
        templates=templates.select(["property"]),
    )
    return split_by_reason(judged, filters)


def _untranslated(window: Window, cases: pa.Table, dropped: pa.Table, language: Language) -> dict[str, Any]:
    """Counts for the manifest: cases by property without a template, and cases with a label of another language."""
    foreign = window.select(
        """
        SELECT count(*) AS cases FROM cases
        WHERE subject IN (FROM other) OR object IN (FROM other)
        """.replace("other", "(SELECT id FROM new_entities WHERE label_language IS DISTINCT FROM $code)"),
        {"code": language.code},
        cases=cases.select(["subject", "object"]),
    )
    return {
        "without_template": count_values(dropped["property"]),
        "labels_in_other_languages": foreign["cases"][0].as_py(),
    }


def _find_chains(
    engine: Engine,
    window: Window,
    cases: pa.Table,
    templates: pa.Table,
    words: RelationWords,
    settings: WikiBigEditSettings,
) -> Chains | None:
    """Chains of more than two facts; None if the settings ask for none."""
    if settings.hops <= 2:
        return None
    step("finding chains", 4, _STEPS)
    return find_chains(engine, window, cases, templates, words, hops=settings.hops, seed=settings.seed)


@dataclass(frozen=True, slots=True)
class _FoundCases:
    """Changes that the engine found, and the cases made of them.

    Attributes:
        changes: All changes.
        labels: File of the labels of their entities (kgedit.timesteps.labels.write_labels).
        filters: Results of the filters, in order.
        cases: Remaining cases, without questions.
    """

    changes: pa.Table
    labels: Path
    filters: tuple[Filtered, ...]
    cases: pa.Table


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
    changes = find_changes(engine, window)
    write_labels(window, changes, labels)
    selected, filtered, named = _filter_parts(changes, labels, selection, read_language(settings.language))
    functional = keep_functional(engine, window, filtered.kept, settings.functional_by)
    step("judging kinds of change", 1, _STEPS)
    kinds = describe_kinds(window.old, window.new, earlier, functional.kept, spill=spill, classifier=classifier)
    wanted = keep_kinds(functional.kept, kinds, settings.kinds)
    cases = make_cases(wanted.kept, named, read_statements(window, wanted.kept))
    filters = tuple(map(_without_kept, (selected, filtered, functional, wanted)))
    return _FoundCases(changes, labels, filters, cases)


def _filter_parts(
    changes: pa.Table, labels: Path, selection: pa.Table | None, language: Language
) -> tuple[Filtered, Filtered, pa.Table]:
    """Select and filter changes part by part; returns both results, and the labels of the entities in kept changes."""
    selected, filtered, named = [], [], []
    for rows, of_rows in labelled_parts(changes, labels):
        chosen = keep_selected(rows, selection)
        judged = filter_changes(chosen.kept, of_rows, language)
        selected.append(_without_kept(chosen))
        filtered.append(_with_narrow_dropped(judged))
        named.append(select(_NAMED, labels=of_rows, kept=judged.kept))
    once = select("SELECT DISTINCT ON (id) * FROM named", named=pa.concat_tables(named))
    return join_parts(selected), join_parts(filtered), once


_NAMED = """
    FROM labels WHERE id IN (
        SELECT subject FROM kept UNION SELECT property FROM kept UNION SELECT added[1] FROM kept)
"""
"""Labels from which kgedit.timesteps.changes.make_cases makes cases."""


def _word_cases(
    window: Window, cases: pa.Table, templates: pa.Table, words: RelationWords, settings: WikiBigEditSettings
) -> Iterator[Filtered]:
    return word_cases(
        cases,
        templates,
        describe_subjects(window.connection, cases, language=words.language),
        words,
        seed=settings.seed,
        personas=_personas(settings),
        persona_style=settings.persona_style,
        as_of=window.new.day if settings.ask_as_of else None,
    )


def _add_specificity(window: Window, cases: pa.Table, settings: WikiBigEditSettings) -> tuple[pa.Table, dict[str, Any]]:
    """Add the columns of SPECIFICITY to the cases; returns these, and the page views' entry in the manifest."""
    counted: dict[str, Any] = {}
    window.run("CREATE VIEW known AS SELECT id, wiki_title FROM new_entities WHERE kind = 'item'")
    if settings.pageviews:
        wiki = str(window.new.manifest.get("options", {}).get("wiki", "enwiki"))
        counted["page_views"] = read_case_views(
            window.connection, cases, settings.pageviews, wiki=wiki, date=window.new.date
        )
    found, _ = measure_specificity(window.connection, cases, counts=settings.counts)
    for name in SPECIFICITY:
        cases = cases.append_column(name, found[name])
    return cases, counted


def _find_locality(
    engine: Engine, window: Window, changed: pa.Table | None, cases: pa.Table, settings: WikiBigEditSettings
) -> Locality:
    return find_locality(
        engine,
        window,
        cases,
        pool=settings.pool,
        max_df=settings.max_df,
        max_uses=settings.locality_uses,
        changed=changed,
        language=read_language(settings.language),
    )


def _counted(
    changed: int, filters: Sequence[Filtered], worded: WrittenCases, near: WrittenProbes, chains: int, hops: Filtered
) -> dict[str, Any]:
    """Counts for the manifest; the last of the filters is the one that worded cases passed."""
    dropped = {reason: count for part in filters for reason, count in part.funnel.items()}
    return {
        "funnel": {"changed": changed, "dropped": dropped, "kept": worded.cases.num_rows},
        "cases": worded.tags,
        "kinds": worded.kinds,
        "generic_templates": worded.generic,
        "final_filters": {**worded.filtered.questions, **near.questions, **hops.questions},
        "locality": near.bases,
        "without_locality": worded.cases.num_rows - near.written["rows"],
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
