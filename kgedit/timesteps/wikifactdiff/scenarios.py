"""Updates from classified facts: groups of one subject and relation, each with its scenario, and counts of every drop.

A group is kept if all of its facts have a known class and one of them is new or obsolete (WikiFactDiff, sections 3 and
4.3, appendix C). Changed groups that became no update are listed with their reason, as in the other profile
(kgedit.timesteps.changes); no question is made from them.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from kgedit.timesteps.labels import is_id
from kgedit.timesteps.profiles import Behaviour
from kgedit.timesteps.selected import IS_SELECTED, NOT_SELECTED
from kgedit.timesteps.wikifactdiff.workspace import count_by, count_rows
from kgedit.wikidata.ids import POPULATION
from kgedit.wording.templates import read_templates

POPULATION_UNDERSAMPLED_BY = 14
"""The replacement set keeps one in this many replaced populations."""

SCENARIOS: tuple[tuple[str, str], ...] = (
    ("AddEntity", "subject_is_new"),
    ("Archive", "obsolete = facts"),
    ("AddRelation", "new = facts"),
    ("ReplaceObject", "new = 1 AND obsolete = 1 AND static = 0"),
    ("AddObject", "new > 0 AND static > 0 AND obsolete = 0"),
    ("Other", "true"),
)
"""Scenario and its condition over the numbers of new, obsolete and static facts in a group, in order."""

UNCHANGED = "nothing changed"

REASONS: tuple[tuple[str, str], ...] = (
    (UNCHANGED, "NOT differs AND new = 0 AND obsolete = 0"),
    (NOT_SELECTED, "NOT selected"),
    ("only dates or precision of values refined", "sides_equal AND refined AND new = 0 AND obsolete = 0"),
    ("the same values in both snapshots, which the released code skips", "skips_equal AND sides_equal"),
    ("unknown", "unknown > 0"),
    ("no fact holds at either date", "new + obsolete + static = 0"),
    ("one value with contradicting classes", "contradicting"),
    ("all static", "new + obsolete = 0"),
    ("subject or value without a label", "unlabelled"),
    ("no label of the property", "property IN (FROM unnamed_property)"),
)
"""Reasons for dropping a group, and their conditions, in order; "unknown" is split by the rule that decided it."""


def find_updates(
    workspace: duckdb.DuckDBPyConnection,
    behaviour: Behaviour,
    *,
    seed: int,
    templates: Path | None = None,
    selection: pa.Table | None = None,
) -> dict[str, object]:
    """Create ``update_group`` (subject, property, scenario, ...) and ``update_object``, one row per value of an update.

    The table ``unnamed_property`` has the properties that no question can name, because they have a label neither in a
    snapshot nor in the catalogue.

    Args:
        workspace: Workspace with classified and label.
        behaviour: Behaviour of the released code, or the paper's.
        seed: Seed of the choice of populations for the replacement set.
        templates: Catalogue of question templates; None means the shipped one.
        selection: Subjects and relations to include (kgedit.timesteps.selected); None means all.

    Returns:
        The funnel: number of groups compared, unchanged, changed, dropped by reason and kept.
    """
    _find_unnamed_properties(workspace, templates)
    same = "label" if behaviour.changed_values_only else "term"
    workspace.execute(
        f"""
        CREATE TABLE stated AS
        SELECT *, count(*) OVER same AS times_stated,
               count(*) FILTER (decision IN ('new', 'static')) OVER same AS times_valid,
               count(*) FILTER (decision = 'obsolete') OVER same AS times_obsolete,
               row_number() OVER (
                   PARTITION BY subject, property, {same}, decision IN ('new', 'obsolete', 'static')
                   ORDER BY decision = 'static' DESC, coalesce(new_statement_id, old_statement_id)) AS nth
        FROM classified JOIN worded_value USING (term)
        WINDOW same AS (PARTITION BY subject, property, {same}, decision IN ('new', 'obsolete', 'static'))
        """
    )
    workspace.register("selection", pa.table({"subject": [], "property": []}) if selection is None else selection)
    workspace.execute(
        _JUDGED.format(
            selected="true" if selection is None else IS_SELECTED,
            skips_equal=behaviour.changed_values_only,
            reasons=_reasons(),
            label_is_id=is_id("label"),
            subject_is_id=is_id("any_value(subject_label)"),
        )
    )
    workspace.unregister("selection")
    workspace.execute(_kept(), {"seed": seed})
    workspace.execute(_OBJECTS)
    dropped = count_by(workspace, "reason", "judged_group")
    compared = count_rows(workspace, "judged_group")
    unchanged = dropped.pop(UNCHANGED, 0)
    return {
        "compared": compared,
        "unchanged": unchanged,
        "changed": compared - unchanged,
        "dropped": dropped,
        "kept": count_rows(workspace, "update_group"),
    }


def _find_unnamed_properties(workspace: duckdb.DuckDBPyConnection, templates: Path | None) -> None:
    workspace.register("named_property", pa.table({"property": sorted(read_templates(templates).labels)}))
    workspace.execute(
        f"""
        CREATE TABLE unnamed_property AS
        SELECT DISTINCT f.property FROM (SELECT property FROM classified UNION SELECT property FROM old_facts) f
        LEFT JOIN known ON id = f.property
        WHERE (label IS NULL OR {is_id("label")}) AND f.property NOT IN (FROM named_property)
        """
    )
    workspace.unregister("named_property")


def _reasons() -> str:
    spelled = {"unknown": "'unknown: ' || unknown_rule"}
    return " ".join(f"WHEN {condition} THEN {spelled.get(name, repr(name))}" for name, condition in REASONS)


_JUDGED = """
    CREATE TABLE judged_group AS
    WITH counted AS (
        SELECT subject, property, bool_or(subject_is_new) AS subject_is_new, bool_or(functional) AS functional,
               bool_or(differs) AS differs, bool_and(side = 'both') AS sides_equal, bool_or(refined) AS refined,
               {skips_equal} AS skips_equal,
               count(*) FILTER (decision = 'new' AND nth = 1) AS new,
               count(*) FILTER (decision = 'obsolete' AND nth = 1) AS obsolete,
               count(*) FILTER (decision = 'static' AND nth = 1) AS static,
               count(*) FILTER (decision = 'unknown') AS unknown,
               arg_min(rule, place) FILTER (decision = 'unknown') AS unknown_rule,
               bool_or(decision IN ('new', 'obsolete', 'static') AND times_valid > 0 AND times_obsolete > 0)
                   AS contradicting,
               bool_or((label IS NULL OR {label_is_id}) AND decision <> 'ignore')
                   OR any_value(subject_label) IS NULL OR {subject_is_id} AS unlabelled
        FROM stated LEFT JOIN (SELECT id AS subject, label AS subject_label FROM known) USING (subject)
        GROUP BY subject, property
    )
    SELECT * EXCLUDE (selected), new + obsolete + static AS facts, CASE {reasons} END AS reason
    FROM (SELECT *, {selected} AS selected FROM counted)
"""


def _kept() -> str:
    scenarios = " ".join(f"WHEN {condition} THEN '{name}'" for name, condition in SCENARIOS)
    number = "md5_number_lower($seed || '|' || subject || '|' || property)"
    return f"""
        CREATE TABLE update_group AS
        SELECT subject, property, CASE {scenarios} END AS scenario, subject_is_new, functional,
               new = 1 AND obsolete = 1 AND facts = 2 AND NOT subject_is_new
                   AND (property <> '{POPULATION}' OR {number} % {POPULATION_UNDERSAMPLED_BY} = 0) AS in_replacement_set
        FROM judged_group WHERE reason IS NULL
    """


_OBJECTS = """
    CREATE TABLE update_object AS
    SELECT t.* EXCLUDE (times_stated, times_valid, times_obsolete, nth, differs, place)
    FROM stated t SEMI JOIN update_group USING (subject, property)
    WHERE nth = 1 AND decision IN ('new', 'obsolete', 'static')
"""
"""One row per value of an update; if a value occurs twice, static is preferred to new."""


LOST = "lost at the end, as by the released code"


def lose_last_entities(workspace: duckdb.DuckDBPyConnection, behaviour: Behaviour, funnel: dict[str, object]) -> None:
    """Drop the groups of the entities that the released code never wrote, if its behaviour is requested.

    The code iterated over all entities with an article, most popular first, and wrote after the first and after every
    thousand more; entities after the last write were lost. Entities of equal popularity are ordered by id here; in its
    database their order was undefined.

    Args:
        workspace: Workspace with known, page, update_group, update_object and popularity.
        behaviour: Behaviour of the released code, or the paper's.
        funnel: From find_updates; updated with the groups dropped here.
    """
    if not behaviour.last_entities_lost:
        return
    workspace.execute(
        """
        CREATE TABLE lost AS
        WITH placed AS (
            SELECT id, row_number() OVER (ORDER BY popularity DESC NULLS LAST, id[2:]::BIGINT) - 1 AS place,
                   count(*) OVER () AS entities
            FROM known LEFT JOIN popularity USING (id)
            WHERE kind = 'item' AND wiki_title IS NOT NULL AND id NOT IN (FROM page)
        )
        SELECT id FROM placed WHERE place > (entities - 1) // 1000 * 1000
        """
    )
    before = count_rows(workspace, "update_group")
    workspace.execute("DELETE FROM update_group WHERE subject IN (FROM lost)")
    workspace.execute("DELETE FROM update_object WHERE subject IN (FROM lost)")
    kept = count_rows(workspace, "update_group")
    dropped = funnel["dropped"]
    assert isinstance(dropped, dict)
    dropped[LOST] = before - kept
    funnel["kept"] = kept


def find_dropped(workspace: duckdb.DuckDBPyConnection) -> None:
    """Create ``dropped`` with the columns of kgedit.timesteps.changes.DROPPED.

    Values of both snapshots have the newer one's ids; a literal has an id "V..." and its text as label. A value in both
    snapshots is listed on both sides.

    Args:
        workspace: Workspace with judged_group, stated, known and, if the released code lost entities, lost.
    """
    tables = {row[0] for row in workspace.execute("SHOW TABLES").fetchall()}
    lost = "subject IN (FROM lost)" if "lost" in tables else "false"
    workspace.execute(
        f"""
        CREATE TABLE dropped AS
        WITH reason_of AS (
            SELECT subject, property, coalesce(reason, '{LOST}') AS reason FROM judged_group
            WHERE reason <> '{UNCHANGED}' OR (reason IS NULL AND {lost})
        ), said AS (
            SELECT subject, property, term, any_value(label) AS label,
                   bool_or(side <> 'new') AS was, bool_or(side <> 'old') AS became
            FROM stated SEMI JOIN reason_of USING (subject, property) GROUP BY subject, property, term
        ), listed AS (
            SELECT subject, property,
                   coalesce(list(term ORDER BY term) FILTER (WHERE was), []) AS old_objects,
                   coalesce(list(label ORDER BY term) FILTER (WHERE was), []) AS old_labels,
                   coalesce(list(term ORDER BY term) FILTER (WHERE became), []) AS new_objects,
                   coalesce(list(label ORDER BY term) FILTER (WHERE became), []) AS new_labels
            FROM said GROUP BY subject, property
        )
        SELECT subject, s.label AS subject_label, property,
               CASE WHEN p.label IS NULL OR {is_id("p.label")} THEN NULL ELSE p.label END AS property_label,
               old_objects, old_labels, new_objects, new_labels, reason
        FROM reason_of JOIN listed USING (subject, property)
        LEFT JOIN known s ON s.id = subject LEFT JOIN known p ON p.id = property
        """
    )
