"""Labels of the entities in a change, filters of labels, and subjects as questions name them.

A subject has its class, "the" before names that need it, and a hint if others share its name. Works on any connection
with the views new_facts, old_facts, new_entities and old_entities: both profiles have them. A slice of Wikidata may
lack classes; then the class is inferred from the properties of an item (prompts/names).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from kgedit.store.closures import below, subclass_links
from kgedit.store.engine import listed, literal, select
from kgedit.store.parts import keep_in_parts, of_part
from kgedit.store.window import Window
from kgedit.wikidata.ids import COUNTRY, INSTANCE_OF, WIKIMEDIA_PAGE_CLASSES
from kgedit.wording.catalogues import ENGLISH, Language
from kgedit.wording.names import NameRules, name_rules

MAX_LABEL_WORDS = 5
"""As in WikiBigEdit, section 3, step 2."""

LABELS = pa.schema(
    [
        ("id", pa.string()),
        ("label", pa.string()),  # in the newer snapshot
        ("old_label", pa.string()),  # in the older snapshot
        ("aliases", pa.list_(pa.string())),
        ("description", pa.string()),  # in the newer snapshot, like the aliases
        ("is_page", pa.bool_()),  # an instance of a Wikimedia page class, or of a subclass
    ]
)
"""One row per entity that occurs in some changes and is in a snapshot."""


def not_roman(label: str, language: Language = ENGLISH) -> str:
    """SQL: whether a label has no letter of the Latin script, or of the language's."""
    return f"NOT regexp_matches({label}, '{language.letters}')"


def too_long(label: str) -> str:
    """SQL: whether a label has more than five words."""
    return rf"len(regexp_split_to_array(trim({label}), '\s+')) > {MAX_LABEL_WORDS}"


def usable(label: str, language: Language = ENGLISH) -> str:
    """SQL: whether a label can be used in questions and answers; false or null without a label."""
    return f"NOT {not_roman(label, language)} AND length({label}) > 1 AND NOT {too_long(label)}"


def likened(label: str) -> str:
    """SQL of a label for finding duplicates: without case and spaces."""
    return rf"lower(regexp_replace(trim({label}), '\s+', ' ', 'g'))"


def pages_among(ids: str) -> str:
    """SQL of those of a table's ids that are Wikimedia pages in the newer snapshot (column ``id``)."""
    return f"""
        SELECT DISTINCT subject AS id FROM new_facts
        WHERE property = '{INSTANCE_OF}' AND subject IN (SELECT id FROM {ids}) AND object IN ({page_classes()})
    """


def page_classes() -> str:
    """SQL of the classes of Wikimedia pages in the newer snapshot (column ``id``)."""
    roots = [("page", name) for name in WIKIMEDIA_PAGE_CLASSES]
    return f"SELECT DISTINCT id FROM ({below(roots, '(' + subclass_links('new_facts') + ')')})"


def write_labels(window: Window, path: Path) -> None:
    """Write the labels of all subjects, properties and objects of changes to a file, which `labelled_parts` reads.

    Args:
        window: Window with the table change: subject, property, old_objects, new_objects and part.
        path: File to write.
    """
    window.run(f"CREATE TABLE page_class AS {page_classes()}; {_MENTIONED}; {_NAMED_TABLE}")
    window.run_by_bucket(_NAMED, divided={"mentioned": "id"})
    window.run(f"COPY (FROM named ORDER BY part, id) TO {literal(path)} (FORMAT parquet)")
    window.drop("page_class", "mentioned", "named")


PAGES = f"SELECT subject AS id FROM new_facts WHERE property = '{INSTANCE_OF}' AND object IN (FROM page_class)"
"""SQL of all Wikimedia pages of a bucket, with a table page_class (page_classes) in the connection."""

_MENTIONED = """
    CREATE TABLE mentioned AS
    SELECT part, subject AS id FROM change UNION SELECT part, property FROM change
    UNION SELECT part, unnest(old_objects) FROM change UNION SELECT part, unnest(new_objects) FROM change
"""

_NAMED_TABLE = """
    CREATE TABLE named (
        part INTEGER, id VARCHAR, label VARCHAR, old_label VARCHAR, aliases VARCHAR[], description VARCHAR,
        is_page BOOLEAN)
"""

_NAMED = f"""
    INSERT INTO named
    WITH old AS (
        SELECT id, label FROM old_entities WHERE id IN (SELECT id FROM mentioned)
    ), new AS (
        SELECT id, label, aliases, description FROM new_entities WHERE id IN (SELECT id FROM mentioned)
    )
    SELECT part, id, new.label, old.label, coalesce(new.aliases, []), new.description, id IN ({PAGES})
    FROM mentioned JOIN (old FULL JOIN new USING (id)) USING (id)
"""


def labelled_parts(
    connection: duckdb.DuckDBPyConnection, table: str, path: Path
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield changes in parts, at least one, each with the labels of its entities.

    All changes and labels at once would take memory that grows with the dump.

    Args:
        connection: Connection of the window that `write_labels` had.
        table: Its table change, or another one with some of these changes and further columns.
        path: File that `write_labels` wrote.
    """
    parts = connection.execute("SELECT coalesce(max(part), 0) + 1 FROM change").fetchall()[0][0]
    for part in range(parts):
        rows = connection.sql(f"{of_part(table, part)} ORDER BY subject, property").to_arrow_table()
        labels = f"SELECT * EXCLUDE (part) FROM {literal(path)} WHERE part = {part} ORDER BY id"
        yield rows, select(labels).cast(LABELS)


SUBJECTS = pa.schema(
    [
        ("subject", pa.string()),
        ("subject_class", pa.string()),  # one of kgedit.wording.grammar.SUBJECT_CLASSES, or ""
        ("name", pa.string()),  # as used in a sentence
        ("shared", pa.bool_()),  # another item has the label
        ("hinted_names", pa.list_(pa.string())),  # with each hint that distinguishes it from those items, best first
    ]
)

ID_PATTERN = r"^\s*[QPL][1-9]\d*\s*$"
"""Labels that are an id, or look like one: they are never used in a question or answer."""

MAX_HINT_WORDS = 8
"""Longer descriptions are not used as a hint."""


def is_id(label: str) -> str:
    """SQL: whether a label is an id."""
    return f"regexp_matches({label}, '{ID_PATTERN}')"


def describe_subjects(
    connection: duckdb.DuckDBPyConnection, labels: pa.Table, *, language: Language = ENGLISH
) -> pa.Table:
    """Determine the names of some subjects.

    Args:
        connection: Connection with views new_facts, old_facts, new_entities and old_entities.
        labels: Columns subject and subject_label.
        language: Language of the labels.

    Returns:
        A table with the schema SUBJECTS, one row per subject, ordered by it.
    """
    connection.register("labels_given", labels.select(["subject", "subject_label"]))
    try:
        return pa.concat_tables(described_parts(connection, "labels_given", language=language))
    finally:
        connection.unregister("labels_given")


def described_parts(
    connection: duckdb.DuckDBPyConnection, labels: str, *, language: Language = ENGLISH
) -> Iterator[pa.Table]:
    """Yield the names of subjects in parts, at least one, as `describe_subjects` joins them.

    Args:
        connection: See `describe_subjects`.
        labels: Table in the connection with columns subject and subject_label.
        language: Language of the labels.
    """
    rules = name_rules()
    yield SUBJECTS.empty_table()
    connection.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE sorted_subject AS
        SELECT subject, min(subject_label) AS label FROM {labels} GROUP BY subject ORDER BY subject;
        CREATE OR REPLACE TEMP TABLE subject_given AS
        SELECT *, (rowid // {_SUBJECTS_AT_ONCE})::INTEGER AS part FROM sorted_subject;
        DROP TABLE sorted_subject
        """
    )
    parts = connection.execute("SELECT coalesce(max(part) + 1, 0) FROM subject_given").fetchall()[0][0]
    if parts:
        _keep_descriptions(connection, rules)
    for part in range(parts):
        described = connection.sql(_query(rules, part)).to_arrow_table()
        # A table of Python objects takes ten times as much memory as its columns.
        for batch in described.to_batches(_ROWS_AT_ONCE):
            yield _named(batch.to_pylist(), rules, language)
    for table in ("subject_given", *(_DESCRIBED if parts else ())):
        connection.execute(f"DROP TABLE {table}")


_SUBJECTS_AT_ONCE = 40_000
"""Subjects of a part, whose joins are in memory together: 140,000 take more than the 128 MB of an export."""

_DESCRIBED = ("described", "description_fact", "namesake", "namesake_country", "namesake_description")
"""Tables of _keep_descriptions."""

_ROWS_AT_ONCE = 8_000


def _named(found: list[dict[str, Any]], rules: NameRules, language: Language) -> pa.Table:
    rows = []
    for row in found:
        own = {"subject_class": row["subject_class"]}
        if language.is_english:
            name = rules.in_sentence(row["label"], by_class=row["by_class"], **own)
        else:
            name = language.in_sentence(row["label"], **own)
        rows.append(
            {
                "subject": row["subject"],
                "subject_class": row["subject_class"],
                "name": name,
                "shared": row["shared"],
                "hinted_names": list(_hinted(name, row, rules, language)),
            }
        )
    return pa.Table.from_pylist(rows, schema=SUBJECTS)


def _hinted(name: str, row: dict[str, str | None], rules: NameRules, language: Language) -> Iterator[str]:
    country, description = row["country"], row["description"]
    tells_country = country is not None and country.casefold() not in name.casefold()
    of_country = tells_country and language.is_english and row["subject_class"] == "organization"
    if country and of_country:
        yield f"{name} of {rules.in_sentence(country, subject_class='place')}"
    if description and len(description.split()) <= MAX_HINT_WORDS and not set("{}()?;") & set(description):
        yield f"{name} ({description.strip()})"
    if tells_country and not of_country:
        yield f"{name} ({country})"


def _keep_descriptions(connection: duckdb.DuckDBPyConnection, rules: NameRules) -> None:
    """Read what names depend on, by a few scans of facts and entities, however many subjects there are.

    Creates the tables description_fact (part, subject, property, object, and subject_class for classes), described
    (part, subject, label, shared, and the country and description that no item of the same label has) and those of
    _NAMESAKES.

    Args:
        connection: See `describe_subjects`; with a table subject_given: subject, label and part.
        rules: Classes and properties that are evidence.
    """
    roots = [(kind, name) for kind, names in rules.classes.items() for name in names]
    read = listed(sorted({INSTANCE_OF, *(name for names in rules.evidence.values() for name in names)}))
    keep_in_parts(
        connection,
        "description_fact",
        f"""
        WITH class_of(subject_class, id) AS (
            {below(roots, f"({subclass_links('new_facts')})")}
        ), own AS (
            SELECT part, subject, property, object FROM new_facts JOIN subject_given USING (subject)
            WHERE property IN {read}
            UNION ALL
            SELECT part, subject, property, object FROM old_facts JOIN subject_given USING (subject)
            WHERE property IN {read}
        )
        SELECT own.*, subject_class FROM own LEFT JOIN class_of ON property = '{INSTANCE_OF}' AND object = id
        """,
    )
    connection.execute(_NAMESAKES)
    keep_in_parts(connection, "described", _DESCRIPTIONS)


def items_named(labels: str) -> str:
    """SQL of the items that have some labels in either snapshot (columns ``id`` and ``label``).

    Items that the newer snapshot redirects or lacks, such as duplicates, are left out: no question is about them.

    Args:
        labels: SQL of the labels.
    """
    return f"""
        WITH before AS MATERIALIZED (
            SELECT id, label FROM old_entities WHERE kind = 'item' AND label IN ({labels})
        )
        SELECT id, label FROM new_entities WHERE kind = 'item' AND label IN ({labels})
        UNION
        SELECT id, before.label FROM new_entities JOIN before USING (id)
    """


_NAMESAKES = f"""
    CREATE OR REPLACE TEMP TABLE namesake AS
    WITH named AS MATERIALIZED ({items_named("SELECT label FROM subject_given")})
    FROM named SEMI JOIN (SELECT label FROM named GROUP BY label HAVING min(id) <> max(id)) USING (label);
    CREATE OR REPLACE TEMP TABLE namesake_country AS
    WITH fact AS (
        SELECT subject, object FROM new_facts WHERE property = '{COUNTRY}'
        UNION ALL SELECT subject, object FROM old_facts WHERE property = '{COUNTRY}'
    )
    SELECT DISTINCT n.id, n.label, object AS country FROM namesake n JOIN fact ON subject = n.id;
    CREATE OR REPLACE TEMP TABLE namesake_description AS
    WITH entity AS (
        SELECT id, description, 1 AS turn FROM new_entities UNION ALL SELECT id, description, 2 FROM old_entities
    )
    SELECT n.id, n.label, description, turn FROM namesake n JOIN entity USING (id) WHERE description IS NOT NULL
"""
"""Items with the label of another one, of which a subject has it, and their countries and descriptions: all that they
have in either snapshot, so that a hint fits no other one."""

SAID_ALIKE = "lower(trim(description))"
"""SQL of a description for finding those that two items share."""

_DESCRIPTIONS = f"""
    WITH shared_country AS (
        SELECT label, country FROM namesake_country GROUP BY ALL HAVING min(id) <> max(id)
    ), shared_description AS (
        SELECT label, {SAID_ALIKE} AS said FROM namesake_description GROUP BY ALL HAVING min(id) <> max(id)
    ), own_country AS (
        SELECT c.id, c.label, min(country) AS country, min(e.label) AS name
        FROM namesake_country c JOIN new_entities e ON e.id = country GROUP BY c.id, c.label HAVING count(*) = 1
    ), own_description AS (
        SELECT id, label, arg_min(description, turn) AS description FROM namesake_description GROUP BY ALL
    ), country AS (
        SELECT id, label, name FROM own_country ANTI JOIN shared_country USING (label, country)
    ), description AS (
        FROM own_description o ANTI JOIN shared_description s ON s.label = o.label AND said = {SAID_ALIKE}
    )
    SELECT part, subject, g.label, n.id IS NOT NULL AS shared, c.name AS country, d.description
    FROM subject_given g LEFT JOIN namesake n ON n.id = subject AND n.label = g.label
    LEFT JOIN country c ON c.id = n.id AND c.label = n.label
    LEFT JOIN description d ON d.id = n.id AND d.label = n.label
"""


def _query(rules: NameRules, part: int) -> str:
    evidence = _values((kind, name) for kind, names in rules.evidence.items() for name in names)
    order = "[" + ", ".join(f"'{kind}'" for kind in rules.classes) + "]"
    return f"""
        WITH own AS MATERIALIZED (
            {of_part("description_fact", part)}
        ), shown AS (
            SELECT subject, subject_class, 0 AS turn FROM own WHERE subject_class IS NOT NULL
            UNION ALL
            SELECT subject, e.subject_class, 1 FROM own
            JOIN (VALUES {evidence}) e(subject_class, property) USING (property)
        ), chosen AS (
            SELECT subject, arg_min(subject_class, (turn, list_position({order}, subject_class))) AS subject_class
            FROM shown GROUP BY subject
        ), article AS (
            SELECT DISTINCT subject FROM own
            WHERE property = '{INSTANCE_OF}' AND object IN {listed(rules.article_classes)}
        )
        SELECT w.subject, w.label, coalesce(subject_class, '') AS subject_class,
               article.subject IS NOT NULL AS by_class, shared, country, description
        FROM ({of_part("described", part)}) w LEFT JOIN chosen USING (subject) LEFT JOIN article USING (subject)
        ORDER BY w.subject
    """


def _values(pairs: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"('{kind}', '{name}')" for kind, name in pairs)
