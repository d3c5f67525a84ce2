"""Signals of an old and a new value as text: they need no snapshot, so labelled edits of any source have them too.

Each signal is one SQL expression over the columns VALUES and a few that are derived from them (_DERIVED). An unknown
signal is null, and a rule that needs it does not hold.

A date in the store is text truncated at its precision ("1999", "1999-05", "-0044-03-15") with that precision; decades
and coarser dates are years with a precision below nine (kgedit.wikidata.times).
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pyarrow as pa

from kgedit.store.engine import add_columns, open_in_memory
from kgedit.wikidata.times import DAY

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


@dataclass(frozen=True, slots=True)
class Signal:
    """An observable property of a change.

    Attributes:
        name: Name in rules and results.
        meaning: Meaning if it is true; for a number, the quantity.
        sql: Expression that computes it.
        number: Whether it is a number; otherwise it is true, false or null.
    """

    name: str
    meaning: str
    sql: str
    number: bool = False


_LEVELS = (
    (2, "sovereign state|country|nation|kingdom|empire|republic"),
    (5, "city|town|municipality|commune|comune|county seat|settlement|capital|village|locality"),
    (6, "quarter|borough|suburb|neighbou?rhood|arrondissement|hamlet|frazione|ward"),
    (4, "county|district|department|raion|governorate|regency|parish|canton|prefecture"),
    (3, "state|province|region|oblast|territory|land"),
    (7, "building|church|cemetery|hospital|castle|street|stadium|house"),
)
"""Words for places, from wide (2) to narrow (7), in the order in which they are searched."""

_PLACE_LEVEL = "CASE " + " ".join(
    f"WHEN regexp_matches({{head}}, '\\b({words})\\b') THEN {level}" for level, words in _LEVELS
) + " END"  # fmt: skip

_HEAD = "lower(split_part(split_part(split_part({side}_description, ',', 1), ' in ', 1), ' of ', 1))"


def _both(name: str, sql: str) -> dict[str, str]:
    """One column for the old side and one for the new."""
    return {f"{side}_{name}": sql.replace("{side}", side) for side in ("old", "new")}


_DERIVED: tuple[dict[str, str], ...] = (
    {
        # One expression for all texts: DuckDB compiles a pattern with classes of Unicode in 5 ms wherever it occurs.
        "plain_": "list_transform([old_text, new_text, old_description, new_description], lambda t: plain(t))",
        "letters_": "list_transform([old_text, new_text], lambda t: letters_of(t))",
        "small_": "list_transform([old_text, new_text], lambda t: regexp_matches(t, '^\\p{Ll}'))",
    },
    {
        **_both("name", "name_of({side}_text)"),
        "old_plain": "plain_[1]",
        "new_plain": "plain_[2]",
        "old_said": "plain_[3]",
        "new_said": "plain_[4]",
        **_both("digits", "regexp_replace({side}_text, '[^0-9]+', '', 'g')"),
        **_both("number", "CASE WHEN value_type = 'quantity' THEN TRY_CAST({side}_text AS DOUBLE) END"),
        **_both("decimals", "decimals({side}_text)"),
        **_both("p", f"CASE WHEN value_type = 'time' THEN coalesce(TRY_CAST({{side}}_precision AS BIGINT), {DAY}) END"),
        **_both("level", _PLACE_LEVEL.replace("{head}", _HEAD)),
        "is_text_": "value_type IN ('string', 'monolingualtext')",
        "is_item_": "value_type = 'item'",
    },
    {
        **_both("words", "words_of({side}_plain)"),
        **_both("first", "first_day({side}_text, {side}_p)"),
        **_both("last", "last_day({side}_text, {side}_p)"),
    },
    {"both_words": "list_intersect(old_words, new_words)"},
)
"""Derived columns (see `add_columns`)."""

_SHARED = "len(both_words) / nullif(len(old_words) + len(new_words) - len(both_words), 0)"

VALUE_SIGNALS = (
    # Texts, and the labels of items.
    Signal("same_letters", "texts are equal except for case, accents, spaces and punctuation",
           "replace(old_plain, ' ', '') = replace(new_plain, ' ', '')"),
    Signal("same_accents", "texts are equal except for case, spaces and punctuation",
           "letters_[1] = letters_[2]"),
    Signal("same_address", "web addresses are equal except for scheme, www and a slash at the end",
           "CASE WHEN old_text LIKE 'http%' THEN address_of(old_text) = address_of(new_text) END"),
    Signal("one_word", "neither text has a space, as identifiers and addresses have none",
           "NOT contains(old_text, ' ') AND NOT contains(new_text, ' ')"),
    Signal("is_text", "the values are texts: strings, names in a language, identifiers, addresses", "is_text_"),
    Signal("is_item", "the values are items", "is_item_"),
    Signal("text_likeness", "share of letters that need no change",
           "likeness(old_name, new_name)", number=True),
    Signal("shared_words", "share of all words that both texts have",
           _SHARED, number=True),
    Signal("new_says_more", "every word of the old text is in the new one, which has more",
           "len(both_words) = len(old_words) AND len(new_words) > len(old_words)"),
    Signal("old_says_more", "every word of the new text is in the old one, which has more",
           "len(both_words) = len(new_words) AND len(old_words) > len(new_words)"),
    Signal("texts_unlike", "texts have next to no words and few letters in common",
           f"({_SHARED} = 0 AND likeness(old_name, new_name) < 0.3) "
           f"OR ({_SHARED} < 0.2 AND likeness(old_name, new_name) < 0.2)"),
    Signal("same_digits", "identifiers of four digits or more are equal except for letters and leading zeros",
           "CASE WHEN is_text_ AND length(old_plain) < 40 THEN length(old_digits) > 3 "
           "AND ltrim(old_digits, '0') = ltrim(new_digits, '0') END"),
    Signal("length_ratio", "length of the new text to that of the old one",
           "length(new_text) / nullif(length(old_text), 0)", number=True),
    # Items.
    Signal("same_label", "labels are equal except for case, accents and spaces",
           "CASE WHEN is_item_ THEN old_name = new_name END"),
    Signal("old_is_class_term", "the old label begins with a small letter, as terms for classes do in English",
           "CASE WHEN is_item_ THEN small_[1] END"),
    Signal("new_is_class_term", "the new label begins with a small letter",
           "CASE WHEN is_item_ THEN small_[2] END"),
    Signal("new_described_by_old", "the new value's description names the old value",
           "CASE WHEN is_item_ THEN has_phrase(new_said, old_plain) END"),
    Signal("old_described_by_new", "the old value's description names the new value",
           "CASE WHEN is_item_ THEN has_phrase(old_said, new_plain) END"),
    Signal("descriptions_alike", "share of words that both descriptions have",
           "CASE WHEN is_item_ THEN len(list_intersect(words_of(old_said), words_of(new_said))) "
           "/ nullif(len(list_distinct(words_of(old_said) || words_of(new_said))), 0) END", number=True),
    Signal("old_is_page", "the old value is a page of a Wikimedia project",
           "CASE WHEN is_item_ THEN old_description ILIKE 'Wikimedia%' END"),
    Signal("new_is_narrower_place", "by their descriptions the new value is a place of a narrower kind",
           "new_level > old_level"),
    Signal("old_is_narrower_place", "by their descriptions the old value is a place of a narrower kind",
           "old_level > new_level"),
    # Quantities.
    Signal("same_number", "the numbers are equal", "old_number = new_number"),
    Signal("whole_number", "the old number has no fraction", "old_number = round(old_number)"),
    Signal("sign_flipped", "the numbers differ by their sign alone", "old_number = -new_number AND old_number <> 0"),
    Signal("more_digits", "the new number has more digits and rounds to the old one",
           "new_decimals > old_decimals AND rounds(old_number, new_number, old_decimals)"),
    Signal("fewer_digits", "the new number has fewer digits, and the old one rounds to it",
           "new_decimals < old_decimals AND rounds(old_number, new_number, new_decimals)"),
    Signal("is_quantity", "the values are quantities", "value_type = 'quantity'"),
    Signal("unit_changed", "the unit is another one",
           "CASE WHEN value_type = 'quantity' THEN old_unit IS DISTINCT FROM new_unit END"),
    # Dates.
    Signal("is_time", "the values are dates", "value_type = 'time'"),
    Signal("same_days", "the dates mean the same days",
           "old_first = new_first AND old_last = new_last"),
    Signal("new_date_within_old", "the new date is a part of the old one",
           "new_first >= old_first AND new_last <= old_last AND (new_first, new_last) <> (old_first, old_last)"),
    Signal("old_date_within_new", "the old date is a part of the new one",
           "old_first >= new_first AND old_last <= new_last AND (new_first, new_last) <> (old_first, old_last)"),
    Signal("same_year", "the dates begin in the same year", "old_first // 10000 = new_first // 10000"),
    Signal("old_is_new_year", "the old date is a 1 January, often written for a year alone",
           "old_p >= 11 AND old_text LIKE '%-01-01'"),
    Signal("old_is_first_of_month", "the old date is the first day of the month that the new date names",
           "old_text = new_text || '-01'"),
    Signal("era_flipped", "the years differ by their sign alone",
           "year_of(old_text) = -year_of(new_text) AND value_type = 'time'"),
)  # fmt: skip


def add_value_signals(relation: str) -> str:
    """SQL query that adds a column for each of VALUE_SIGNALS to a relation.

    Args:
        relation: SQL with the columns VALUES and any others, on a connection with the macros.
    """
    derived = ", ".join(name for group in _DERIVED for name in group)
    signals = ", ".join(f"{signal.sql} AS {signal.name}" for signal in VALUE_SIGNALS)
    return f"SELECT * EXCLUDE ({derived}), {signals} FROM ({add_columns(relation, _DERIVED)})"


def compare_values(values: pa.Table) -> pa.Table:
    """Compute the value signals of pairs of texts, row by row.

    Args:
        values: Columns VALUES; others are kept.
    """
    with open_in_memory() as connection:
        define_macros(connection)
        connection.register("compared", values.append_column("row_", pa.array(range(values.num_rows), pa.int64())))
        query = add_value_signals("SELECT * FROM compared")
        found: pa.Table = connection.sql(f"SELECT * EXCLUDE (row_) FROM ({query}) ORDER BY row_").to_arrow_table()
    return found
