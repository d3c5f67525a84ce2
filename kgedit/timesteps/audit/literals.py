"""Comparison of literals with answers in words: true, false, or null if it cannot be decided.

A literal has the spellings of kgedit's exports and the forms of Wikidata and published sets. An answer with another
unit or another precision than the statement's is not decided.
"""

from __future__ import annotations

import duckdb

from kgedit.store.facts import TERM
from kgedit.timesteps.wikifactdiff.values import CANONICAL_VALUE, prepare_wording_of_literals, word_literals

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]

_FORMS = (
    (r"^(\d{1,2})(?:st|nd|rd|th)? ([a-z]{3})[a-z]*\.? (\d+)$", r"\3 \2 \1"),
    (r"^([a-z]{3})[a-z]*\.? (\d{1,2})(?:st|nd|rd|th)? (\d+)$", r"\3 \1 \2"),
    (r"^([a-z]{3})[a-z]*\.? (\d{3,})$", r"\2 \1"),
    (r"^(\d\d)-(\d\d)-(\d{4})$", r"\3 \2 \1"),
    (r"^(\d\d)-(\d{4})$", r"\2 \1"),
    (r"^(-?\d+)-(\d\d)(?:-(\d\d))?$", r"\1 \2 \3"),
)
"""Forms of dates, and their year, month and day."""


def _in_order(text: str) -> str:
    for form, ordered in _FORMS:
        text = f"regexp_replace({text}, '{form}', '{ordered}')"
    return f"trim({text})"


_ERA = r"regexp_replace(regexp_replace(text, '^ad (\d)', '\1'), '(\d) (a\.?d|b\.?c\.?e?|c\.?e)$', '\1')"

MACROS = rf"""
    CREATE MACRO plain(text) AS lower(rtrim(replace(ltrim(trim(text), '+'), ',', ''), '.'));
    CREATE MACRO number_in(text) AS
        CASE WHEN regexp_full_match(text, '-?\d+(\.\d+)?( \D*)?')
             THEN try_cast(regexp_extract(text, '^-?\d+(\.\d+)?') AS DOUBLE) END;
    CREATE MACRO unit_in(text) AS trim(regexp_extract(text, '^-?\d+(?:\.\d+)?(.*)$', 1));
    CREATE MACRO parts_of(ordered) AS
        CASE WHEN regexp_full_match(ordered, '-?\d+( ([a-z]+|\d+)){{0,2}}')
             THEN list_transform(string_split(ordered, ' '),
                                 lambda x: coalesce(try_cast(x AS BIGINT), list_position({_MONTHS}, x), 0)) END;
    CREATE MACRO in_era(parts, is_before_christ) AS CASE WHEN coalesce(list_contains(parts, 0), true) THEN NULL
        WHEN is_before_christ THEN list_prepend(-parts[1], parts[2:]) ELSE parts END;
    -- Year, month and day, as many as the text has: [-44, 3, 15] of "15 March 44 BC".
    CREATE MACRO date_in(text) AS in_era(parts_of({_in_order(_ERA)}), regexp_matches(text, '\d b\.?c\.?e?$'));
    CREATE MACRO same_date(one, other) AS CASE WHEN one IS NULL OR other IS NULL THEN NULL
        WHEN one[:len(other)] = other[:len(one)] THEN CASE WHEN len(one) = len(other) THEN true END ELSE false END;
    CREATE MACRO same_literal(l, said) AS CASE
        WHEN list_contains(l.spelled, said) THEN true
        WHEN l.type = 'quantity' THEN
            CASE WHEN unit_in(said) = '' OR l.units IS NULL OR list_contains(l.units, unit_in(said))
                 THEN number_in(said) = l.number END
        WHEN l.type = 'time' THEN same_date(l.date, date_in(said))
        WHEN bare(l.value) = bare(said) AND (l.value[1] = '-') = (said[1] = '-') THEN true
        WHEN l.type <> 'globe-coordinate' THEN false END;
    CREATE MACRO says_the_same(literal, answer) AS same_literal(literal, plain(answer));
    CREATE MACRO may_say(literal, answer) AS coalesce(says_the_same(literal, answer), literal IS NOT NULL);
"""

_HELD = " UNION ".join(
    f"SELECT object, value_type, value, unit, language, precision, calendar FROM {table} WHERE value IS NOT NULL"
    for table in ("old_facts", "new_facts", "new_statements")
)

_LITERALS = f"""
    CREATE TABLE literal AS
    WITH held AS MATERIALIZED ({_HELD}), canonical AS (
        SELECT object AS id, NULL::VARCHAR AS object, 'value' AS snak, value_type AS datatype, value_type,
               {CANONICAL_VALUE} AS value, unit, language, precision, calendar
        FROM (SELECT *, value_type AS datatype FROM held) c
    ), unit_name AS (
        SELECT id AS unit, any_value(label ORDER BY side) AS unit_name, flatten(list(aliases ORDER BY side)) AS aliases
        FROM (SELECT 1 AS side, * FROM new_entities UNION ALL SELECT 2, * FROM old_entities)
        WHERE id IN (SELECT unit FROM held) GROUP BY id
    ), worded AS ({word_literals("SELECT * FROM canonical LEFT JOIN unit_name USING (unit)")})
    SELECT id, {TERM} AS term, {{
        'type': value_type, 'value': plain(value), 'number': number_in(plain(value)),
        'date': CASE WHEN value_type = 'time' AND precision::INTEGER >= 9 THEN date_in(plain(value)) END,
        'units': CASE WHEN unit IS NOT NULL THEN list_transform(
            [unit_name, say_unit('2', unit_name)] || coalesce(aliases, []), lambda x: lower(x)) END,
        'spelled': list_transform(spelled || [said], lambda x: plain(x))
    }} AS literal
    FROM worded
"""


def add_literals(connection: duckdb.DuckDBPyConnection) -> None:
    """Add ``literal`` and ``stored`` to old_facts, new_facts and new_statements, and redirects to canonical literals.

    Args:
        connection: With these tables, redirects, and the macros. ``stored`` is the store's id; the profile wikifactdiff
            identifies literals without insignificant zeros and spaces.
    """
    prepare_wording_of_literals(connection)
    connection.execute(_LITERALS)
    connection.execute("INSERT INTO redirects SELECT id, term FROM literal WHERE id <> term")
    for table in ("old_facts", "new_facts", "new_statements"):
        connection.execute(
            f"""
            CREATE OR REPLACE TABLE {table} AS
            SELECT f.* REPLACE (coalesce(term, object) AS object), object AS stored, literal
            FROM {table} f LEFT JOIN literal ON id = object
            """
        )
