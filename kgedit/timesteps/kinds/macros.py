"""SQL macros for comparing values: texts without case and accents, their words, dates as days.

A date in the store is text truncated at its precision ("1999", "1999-05", "-0044-03-15") with that precision; decades
and coarser dates are years with a precision below nine (kgedit.wikidata.times).
"""

from __future__ import annotations

import duckdb

MACROS = (
    # Lower case, no accents, single spaces.
    r"name_of(t) AS lower(strip_accents(trim(regexp_replace(t, '\s+', ' ', 'g'))))",
    # Letters and digits only, single spaces between the words.
    r"plain(t) AS trim(regexp_replace(lower(strip_accents(t)), '[^\p{L}\p{N}]+', ' ', 'g'))",
    r"letters_of(t) AS regexp_replace(lower(nfc_normalize(t)), '[^\p{L}\p{M}\p{N}]+', '', 'g')",
    r"address_of(t) AS regexp_replace(lower(t), '^https?://(www\.)?|/+$', '', 'g')",
    "words_of(p) AS list_distinct(list_filter(string_split(p, ' '), lambda w: w <> ''))",
    # Of two texts: 1 if equal, 0 if their edit distance is the length of the longer one.
    "likeness(a, b) AS CASE WHEN greatest(length(a), length(b)) = 0 THEN 1.0 "
    "ELSE greatest(0.0, 1.0 - levenshtein(a, b) / greatest(strlen(a), strlen(b))) END",
    "has_phrase(t, p) AS length(p) > 2 AND contains(' ' || t || ' ', ' ' || p || ' ')",
    # Numbers. Digits after the decimal point; whether two numbers differ by at most the last digit of the coarser one.
    "decimals(t) AS CASE WHEN contains(t, '.') THEN length(split_part(t, '.', 2)) ELSE 0 END",
    "rounds(a, b, digits) AS abs(a - b) <= 1.000001 * pow(10, -digits)",
    # Dates as days yyyymmdd, the last one included; years BC are negative.
    r"year_of(t) AS TRY_CAST(regexp_extract(t, '^(-?\d+)', 1) AS BIGINT)",
    r"month_of(t) AS TRY_CAST(nullif(regexp_extract(t, '^-?\d+-(\d\d)', 1), '') AS BIGINT)",
    r"day_of(t) AS TRY_CAST(nullif(regexp_extract(t, '^-?\d+-\d\d-(\d\d)', 1), '') AS BIGINT)",
    "years_meant(p) AS CASE WHEN p >= 9 THEN 1 ELSE CAST(pow(10, 9 - p) AS BIGINT) END",
    # Decades count from 0, centuries and millennia from 1; years BC mirror those AD.
    "nearest_year(y, p) AS CASE WHEN p >= 9 THEN abs(y) WHEN p = 8 THEN abs(y) // 10 * 10 "
    "ELSE (abs(y) - 1) // years_meant(p) * years_meant(p) + 1 END",
    "first_year(y, p) AS CASE WHEN y < 0 THEN -(nearest_year(y, p) + years_meant(p) - 1) ELSE nearest_year(y, p) END",
    "last_year(y, p) AS CASE WHEN y < 0 THEN -nearest_year(y, p) ELSE nearest_year(y, p) + years_meant(p) - 1 END",
    "first_day(t, p) AS first_year(year_of(t), p) * 10000 + coalesce(month_of(t), 1) * 100 + coalesce(day_of(t), 1)",
    "last_day(t, p) AS last_year(year_of(t), p) * 10000 + coalesce(month_of(t), 12) * 100 + coalesce(day_of(t), 31)",
)


def define_macros(connection: duckdb.DuckDBPyConnection) -> None:
    """Define the macros in a connection."""
    for macro in MACROS:
        connection.execute(f"CREATE OR REPLACE MACRO {macro}")
