"""Values and questions of updates as texts: canonical literals, the days of dates, and the shipped templates."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import duckdb
import pyarrow as pa

from kgedit.store.engine import add_columns
from kgedit.timesteps.filters import beyond_subject, gives_any_away
from kgedit.timesteps.labels import describe_subjects
from kgedit.timesteps.wording import begun, choose_templates
from kgedit.wikidata.ids import UNIT_SYMBOL
from kgedit.wikidata.times import parse_time
from kgedit.wording.dates import date_templates

CANONICAL_VALUE = r"""
    CASE WHEN c.datatype = 'quantity'
         THEN regexp_replace(regexp_replace(c.value, '(\.\d*?)0+$', '\1'), '\.$', '')
         WHEN c.datatype = 'time' THEN c.value
         ELSE regexp_replace(trim(c.value), '\s+', ' ', 'g') END
"""
"""A claim's literal without insignificant parts: trailing zeros of a fraction, surrounding and repeated spaces."""

_MOMENTS = pa.schema([("value", pa.string()), ("precision", pa.string()), ("first", pa.int64()), ("until", pa.int64())])


def moments(values: pa.Table) -> pa.Table:
    """Compute the days that dates may mean.

    Args:
        values: Columns value (text at its precision, as in a claim) and precision; distinct rows.

    Returns:
        These columns with ``first`` and ``until``, a half-open interval of day numbers. Unreadable values are left out.
    """
    rows = []
    for row in values.to_pylist():
        try:
            time = parse_time(_padded(row["value"]), int(row["precision"]))
        except ValueError:
            continue
        rows.append(row | {"first": time.first, "until": time.until})
    return pa.Table.from_pylist(rows, schema=_MOMENTS)


def _padded(text: str) -> str:
    return text + "-00" * (2 - text.lstrip("-").count("-"))


def prepare_moments(workspace: duckdb.DuckDBPyConnection) -> None:
    """Create ``moment`` (value, precision, first, until) of all dates in old_read and new_read."""
    distinct = workspace.sql(
        "SELECT value, precision FROM old_read WHERE value_type = 'time' AND value IS NOT NULL UNION "
        "SELECT value, precision FROM new_read WHERE value_type = 'time' AND value IS NOT NULL ORDER BY ALL"
    ).to_arrow_table()
    workspace.register("found", moments(distinct))
    workspace.execute("CREATE TABLE moment AS FROM found")
    workspace.unregister("found")


_MONTHS = [
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
]  # fmt: skip

_MACROS = r"""
    CREATE MACRO grouped(digits) AS reverse(rtrim(regexp_replace(reverse(digits), '(\d{3})', '\1,', 'g'), ','));
    CREATE MACRO say_number(amount) AS
        (CASE WHEN amount[1] = '-' THEN '-' ELSE '' END)
        || grouped(regexp_extract(amount, '^[-+]?(\d+)', 1))
        || rtrim(rtrim(regexp_extract(amount, CASE WHEN regexp_matches(amount, '^[-+]?0\.0{6}') THEN '\.0+\d{1,6}'
                                              ELSE '\.\d{1,6}' END), '0'), '.');
    CREATE MACRO say_unit(amount, unit_name) AS CASE WHEN ltrim(amount, '+') = '1' THEN unit_name
        WHEN regexp_matches(unit_name, '\b(foot|inch)$') THEN
            regexp_replace(regexp_replace(unit_name, 'foot$', 'feet'), 'inch$', 'inches')
        ELSE regexp_replace(unit_name,
            '^((?:square |cubic )?(?:deci|centi|milli|micro|nano|hecto|kilo|mega|giga|tera|peta|exa|zetta|yotta)?' ||
            '(?:metre|meter|gram|litre|liter|year|month|week|day|hour|minute|second|mile|yard|acre|hectare|tonne|' ||
            'ton|watt hour|watt|pixel|byte|knot|degree|page|parsec|joule|volt|newton|pascal|light-year|' ||
            'astronomical unit)' ||
            '|(?:[A-Z][A-Za-z]+ )*(?:dollar|euro|pound|franc|peso|rupee|ruble|dinar|lira|real))(\b)', '\1s\2') END;
    CREATE MACRO ordinal(n) AS n || CASE WHEN n % 100 BETWEEN 11 AND 13 THEN 'th' WHEN n % 10 = 1 THEN 'st'
                                         WHEN n % 10 = 2 THEN 'nd' WHEN n % 10 = 3 THEN 'rd' ELSE 'th' END;
    CREATE MACRO spell_era(said) AS [said, replace(said, ' BC', ' BCE'), replace(said, ' AD', ' CE'),
                                     replace(said, ' AD', ''), regexp_replace(said, '(\d+) AD', 'AD \1')];
    CREATE MACRO name_literal(value_type, precision) AS CASE value_type
        WHEN 'quantity' THEN 'Quantity'
        WHEN 'time' THEN CASE precision WHEN '11' THEN 'Date' WHEN '10' THEN 'Month' ELSE 'Year' END
        ELSE 'String' END
"""


_WORDED: tuple[dict[str, str], ...] = (
    {
        "year_": r"CASE value_type WHEN 'time' THEN try_cast(regexp_extract(value, '^-?0*(\d+)', 1) AS BIGINT) END",
        "month_": rf"CASE value_type WHEN 'time' THEN {_MONTHS}[try_cast(regexp_extract(value, '^-?\d+-(\d\d)', 1) "
        "AS INTEGER)] END",
        "day_": r"CASE value_type WHEN 'time' THEN try_cast(regexp_extract(value, '-(\d\d)$', 1) AS INTEGER) END",
        "bare_": "ltrim(value, '+')",
        "number_": "CASE value_type WHEN 'quantity' THEN say_number(value) END",
        "units_": "CASE value_type WHEN 'quantity' THEN say_unit(value, unit_name) END",
        "before_christ_": "CASE WHEN value[1] = '-' THEN ' BC' ELSE '' END",
    },
    {"era_": "CASE WHEN before_christ_ = '' AND year_ < 100 THEN ' AD' ELSE before_christ_ END"},
    {"said_year_": "(CASE WHEN year_ > 9999 THEN grouped(year_::VARCHAR) ELSE year_::VARCHAR END) || era_"},
    {
        "said": """CASE value_type
            WHEN 'quantity' THEN number_ || coalesce(' ' || units_, '')
            WHEN 'time' THEN CASE precision
                WHEN '11' THEN day_ || ' ' || month_ || ' ' || said_year_
                WHEN '10' THEN month_ || ' ' || said_year_
                WHEN '8' THEN year_ // 10 * 10 || 's' || era_
                WHEN '7' THEN ordinal((year_ - 1) // 100 + 1) || ' century' || before_christ_
                WHEN '6' THEN ordinal((year_ - 1) // 1000 + 1) || ' millennium' || before_christ_
                ELSE said_year_ END
            ELSE value END""",
    },
    {
        "spelled": """list_sort(list_distinct(CASE value_type
            WHEN 'quantity' THEN [bare_, number_, concat_ws(' ', bare_, unit_name),
                                  concat_ws(' ', number_, unit_name), concat_ws(' ', bare_, units_), said]
            WHEN 'time' THEN CASE
                WHEN precision = '11' THEN flatten(list_transform([
                    month_ || ' ' || day_ || ', ' || said_year_,
                    month_ || ' ' || ordinal(day_) || ', ' || said_year_,
                    ordinal(day_) || ' ' || month_ || ' ' || said_year_,
                    left(month_, 3) || ' ' || day_ || ', ' || said_year_,
                    day_ || ' ' || left(month_, 3) || ' ' || said_year_,
                    said], lambda x: spell_era(x))) || [bare_]
                WHEN precision = '10' THEN flatten(list_transform(
                    [said, left(month_, 3) || ' ' || said_year_], lambda x: spell_era(x))) || [bare_]
                WHEN precision IN ('8', '7') THEN ['the ' || said]
                ELSE spell_era(said) END
            ELSE [] END))""",
    },
)
"""Columns of literals in words (see `add_columns`). Planning them as nested macros took 60 ms instead of 10."""


def prepare_wording_of_literals(workspace: duckdb.DuckDBPyConnection) -> None:
    """Create the macros of `word_literals`, and name_literal(value_type, precision): WikiFactDiff's name of the kind of
    a literal, which is Quantity, Date, Month, Year or String.
    """
    workspace.execute(_MACROS)


def word_literals(relation: str) -> str:
    """SQL query that adds ``said`` and ``spelled`` to a relation.

    ``said`` is a quantity with commas, its unit's name and at most six decimals ("83,190,556", "1.5 kilometres"), a
    date at its precision ("12 March 2021", "March 2021", "2021", "1990s", "19th century", "44 BC"), or a text
    unchanged. ``spelled`` lists all accepted spellings ("83190556", "March 12, 2021", "427 BCE").

    Args:
        relation: SQL with the columns value_type, value, precision, unit_name and any others, on a connection with the
            macros of `prepare_wording_of_literals`.
    """
    inner = ", ".join(name for group in _WORDED for name in group if name.endswith("_"))
    return f"SELECT * EXCLUDE ({inner}) FROM ({add_columns(relation, _WORDED)})"


BLANK = "____"
"""Placeholder of the answer in a prompt of WikiFactDiff."""


DRAWN_CLOZE = (
    "t.clozes[1 + (md5_number_lower(concat_ws('|', $seed, 'cloze', f.subject, f.property, f.neighbour, f.object)) "
    "% len(t.clozes))::BIGINT]"
)
"""SQL of one of a template's clozes, drawn for each neighbour f of an update (WikiFactDiff, section 5)."""


def word_values(workspace: duckdb.DuckDBPyConnection) -> None:
    """Create ``worded_value``: label, description and aliases of each term in ``classified``; null without a label."""
    prepare_wording_of_literals(workspace)
    workspace.execute(_UNITS)
    literals = """
        SELECT * FROM (
            SELECT term, any_value(object) AS object, any_value(value_type) AS value_type, any_value(value) AS value,
                   any_value(unit) AS unit, any_value(precision) AS precision
            FROM classified GROUP BY term
        ) LEFT JOIN unit USING (unit)
    """
    workspace.execute(
        f"""
        CREATE TABLE worded_value AS
        WITH one AS ({word_literals(literals)})
        SELECT term, CASE WHEN object IS NULL THEN said ELSE label END AS label,
               CASE WHEN object IS NULL THEN name_literal(value_type, precision) ELSE description END AS description,
               CASE WHEN object IS NULL THEN list_filter(spelled, lambda x: x <> said)
                    ELSE coalesce(aliases, []) END AS aliases
        FROM one LEFT JOIN known ON known.id = object
        """
    )


_UNITS = f"""
    CREATE TABLE unit AS
    WITH used AS (
        SELECT unit FROM new_facts WHERE unit IS NOT NULL
        UNION SELECT unit FROM old_facts WHERE unit IS NOT NULL
        UNION SELECT unit FROM classified WHERE unit IS NOT NULL
    ), symbol AS (
        SELECT subject AS unit, arg_min(value, (side, language <> 'en', value)) AS symbol
        FROM (SELECT 1 AS side, * FROM new_claims UNION ALL SELECT 2 AS side, * FROM old_claims)
        WHERE property = '{UNIT_SYMBOL}' AND snak = 'value' AND rank <> 'deprecated' AND subject IN (FROM used)
        GROUP BY subject
    )
    SELECT unit, coalesce(label, symbol) AS unit_name
    FROM used LEFT JOIN known ON id = unit LEFT JOIN symbol USING (unit)
"""
"""Name of a unit: its label, or its symbol if it has no label."""


def prepare_templates(
    workspace: duckdb.DuckDBPyConnection, catalogue: Path | None, *, as_of: date | None = None
) -> pa.Table:
    """Create ``template``: property and its wordings with {subject}, for every property in table ``asked_property``.

    Args:
        workspace: Workspace with the table ``asked_property``.
        catalogue: Catalogue of question templates; None means the shipped one.
        as_of: Day that the wordings name; None means that they name none.

    Returns:
        The templates of all properties, without a day.
    """
    asked = workspace.sql(
        "SELECT property, coalesce(label, property) AS property_label "
        "FROM asked_property LEFT JOIN known ON id = property"
    ).to_arrow_table()
    templates = choose_templates(asked, catalogue=catalogue)
    workspace.register("chosen_templates", templates if as_of is None else date_templates(templates, as_of))
    workspace.execute("CREATE TABLE template AS FROM chosen_templates SEMI JOIN asked_property USING (property)")
    workspace.unregister("chosen_templates")
    workspace.execute(f"CREATE MACRO say(wording, name) AS {begun('wording', 'name')}")
    workspace.execute("CREATE MACRO say_all(wordings, name) AS list_transform(wordings, lambda w: say(w, name))")
    return templates


def prepare_subjects(workspace: duckdb.DuckDBPyConnection, facts: str) -> None:
    """Create ``named``: id, label, description, name, subject_class and ambiguous of the subjects of some facts.

    A name has the first hint that contains no accepted answer about its subject. It is ambiguous if another item has
    it, and no hint is left.

    Args:
        workspace: Workspace with ``known``.
        facts: SQL with the columns id, answer and aliases (of the answer).
    """
    workspace.execute(f"CREATE TABLE asked_subject AS {facts}")
    labels = workspace.sql(
        "SELECT id AS subject, label AS subject_label FROM known "
        "WHERE id IN (SELECT id FROM asked_subject) AND label IS NOT NULL"
    ).to_arrow_table()
    workspace.register("described", describe_subjects(workspace, labels))
    workspace.execute(
        f"""
        CREATE TABLE named AS
        WITH hint AS (
            SELECT subject, unnest(hinted_names) AS hinted_name, generate_subscripts(hinted_names, 1) AS place
            FROM described
        ), telling AS (
            SELECT subject, hinted_name FROM hint JOIN asked_subject a ON a.id = subject JOIN known k ON k.id = subject
            WHERE {gives_any_away("hinted_name", "answer", beyond_subject("a.aliases", "k.label"))}
        ), chosen AS (
            SELECT subject, arg_min(hinted_name, place) AS hinted_name
            FROM hint ANTI JOIN telling USING (subject, hinted_name) GROUP BY subject
        )
        SELECT id, label, description, subject_class, shared AND hinted_name IS NULL AS ambiguous,
               coalesce(hinted_name, name) AS name
        FROM described JOIN known ON id = subject LEFT JOIN chosen USING (subject)
        """
    )
    workspace.unregister("described")
