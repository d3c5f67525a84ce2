"""Rules that decide the kind of a change, as one ordered table: the first rule that holds decides.

A condition is SQL over signals (kgedit.timesteps.kinds.signals). A signal that is unknown is null, which makes the
condition not true: the rule does not hold. The last rule always holds, so every change has a kind.

Confidences of BY_LIKENESS and OTHERWISE are the precision of the rule on one half of human-labelled edits, at most 0.98
(docs/kinds-of-change.md); the others are estimates, because no labelled edits come with snapshots.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from kgedit.store.engine import open_in_memory
from kgedit.timesteps.kinds.signals import KINDS_OF_CHANGES, SIGNALS


@dataclass(frozen=True, slots=True)
class KindRule:
    """One row of the table.

    Attributes:
        name: Unique name that describes the rule.
        condition: SQL over signals.
        kind: Verdict, one of KINDS.
        confidence: Confidence of the verdict, in [0, 1].
    """

    name: str
    condition: str
    kind: str
    confidence: float

    @property
    def signals(self) -> list[str]:
        """Names of the signals in the condition, in order."""
        words = re.findall(r"[a-z_]+", self.condition)
        return list(dict.fromkeys(word for word in words if word in _NAMES))


_NAMES = frozenset(signal.name for signal in SIGNALS)

BY_SNAPSHOTS = (
    KindRule("merged", "merged", "link repair", 0.98),
    KindRule("begins in the window", "starts_in_window", "update", 0.95),
    KindRule("begins after the older snapshot", "starts_after_old", "update", 0.85),
    KindRule("old value ends in the window", "old_ends_in_window", "update", 0.9),
    KindRule("old value deprecated", "old_deprecated", "retraction", 0.95),
    KindRule("back again", "held_earlier", "revert", 0.85),
    KindRule("removed: had ended before", "added = 0 AND old_ended_before", "backfill", 0.9),
    KindRule("removed: ended, undecided when", "added = 0 AND old_ended", "update", 0.6),
    KindRule("removed: still stated, not current", "added = 0 AND old_still_stated", "retraction", 0.6),
    KindRule("removed", "added = 0", "retraction", 0.8),
    KindRule("within the old value", "new_within_old", "refinement", 0.93),
    KindRule("around the old value", "old_within_new", "unrefinement", 0.93),
    KindRule("alias or label of the other", "namesake AND classes_differ", "link repair", 0.8),
)
"""Identity, dates in the window, ranks, history, containment."""

BY_LIKENESS = (
    # Quantities.
    KindRule("sign flipped", "is_quantity AND sign_flipped AND NOT unit_changed", "reformatting", 0.98),
    KindRule("same number", "is_quantity AND same_number AND whole_number AND NOT unit_changed", "reformatting", 0.98),
    KindRule("more digits", "more_digits AND NOT unit_changed", "refinement", 0.97),
    KindRule("fewer digits", "fewer_digits AND NOT unit_changed", "unrefinement", 0.98),
    # Dates.
    KindRule("era flipped", "era_flipped", "reformatting", 0.98),
    KindRule("same days", "same_days", "reformatting", 0.95),
    KindRule("1 January for a year", "old_is_new_year AND old_date_within_new", "reformatting", 0.98),
    KindRule("first day for a month", "old_is_first_of_month AND old_date_within_new", "reformatting", 0.8),
    KindRule("part of the old date", "new_date_within_old", "refinement", 0.98),
    KindRule("a day for 1 January", "old_is_new_year AND same_year", "refinement", 0.89),
    KindRule("around the old date", "old_date_within_new", "unrefinement", 0.98),
    # Items.
    KindRule("one label, two items", "same_label", "link repair", 0.98),
    KindRule("page for its topic", "old_is_page", "link repair", 0.75),
    KindRule("old value in the new one's description", "new_described_by_old", "refinement", 0.79),
    KindRule("wider place", "old_is_narrower_place", "unrefinement", 0.7),
    KindRule("narrower place", "new_is_narrower_place", "refinement", 0.62),
    KindRule("wider class by its label", "is_item AND old_says_more AND new_is_class_term", "unrefinement", 0.76),
    KindRule(
        "new value in the old one's description", "old_described_by_new AND NOT old_says_more", "unrefinement", 0.67
    ),
    KindRule("another thing with a part of the name", "is_item AND old_says_more", "link repair", 0.68),
    KindRule("longer label", "is_item AND new_says_more", "refinement", 0.88),
    KindRule(
        "classes with a word in common",
        "is_item AND old_is_class_term AND new_is_class_term AND shared_words > 0",
        "refinement",
        0.46,
    ),
    # Texts.
    KindRule("other case, spaces or punctuation", "is_text AND same_accents", "reformatting", 0.93),
    KindRule("same address", "is_text AND same_address", "reformatting", 0.93),
    KindRule("other accents", "is_text AND same_letters", "text edit", 0.78),
    KindRule("same digits", "is_text AND one_word AND same_digits", "reformatting", 0.78),
    KindRule("more words", "is_text AND new_says_more", "refinement", 0.87),
    KindRule("fewer words", "is_text AND old_says_more", "unrefinement", 0.83),
    KindRule("few other letters", "is_text AND text_likeness > 0.88", "text edit", 0.79),
    KindRule(
        "longer text", "is_text AND NOT one_word AND NOT texts_unlike AND length_ratio > 1.15", "refinement", 0.74
    ),
    KindRule(
        "shorter text", "is_text AND NOT one_word AND NOT texts_unlike AND length_ratio < 0.85", "unrefinement", 0.44
    ),
    KindRule("text of about the same length", "is_text AND NOT one_word AND NOT texts_unlike", "refinement", 0.51),
)
"""The new value means the same as the old one."""

BY_TIME = (
    KindRule("contradiction", "starts_before_old_value", "backfill", 0.9),
    KindRule("late entry", "starts_before", "backfill", 0.93),
    KindRule("a date in the window", "date_in_window", "update", 0.95),
    KindRule("a date before the window", "date_before", "backfill", 0.9),
    KindRule("old value had ended before", "old_ended_before", "backfill", 0.85),
    KindRule("subject ended in the window", "fixed_at_end AND subject_ended_in_window", "update", 0.95),
    KindRule("subject had ended before", "subject_ended_before", "backfill", 0.9),
    KindRule("subject began in the window", "subject_began_in_window", "update", 0.85),
    KindRule("fixed since the subject began", "fixed_at_beginning AND subject_began_before", "backfill", 0.97),
    KindRule("fixed, of a subject without dates", "fixed_at_beginning", "backfill", 0.9),
    KindRule("rarely changes", "slow", "backfill", 0.75),
    KindRule("preferred rank moved on", "preferred_rank_moved", "update", 0.8),
    KindRule("stated before", "new_stated_before", "backfill", 0.7),
    KindRule("outranked", "added > 0 AND old_still_stated", "update", 0.8),
    KindRule("added without dates", "gone = 0", "backfill", 0.6),
)
"""A different value; dates, or the kind of property, show when it became true."""

OTHERWISE = (
    KindRule("another number", "is_quantity", "update", 0.98),
    KindRule("another date", "is_time", "update", 0.98),
    KindRule("another thing, rewritten in place", "is_item AND statement_kept", "update", 0.6),
    KindRule(
        "another thing by its name",
        "is_item AND NOT (old_is_class_term AND new_is_class_term) AND shared_words = 0",
        "update",
        0.76,
    ),
    KindRule("another thing, names akin", "is_item AND NOT (old_is_class_term AND new_is_class_term)", "update", 0.67),
    KindRule("another class", "is_item", "update", 0.44),
    KindRule("another identifier", "is_text AND one_word AND text_likeness < 0.75", "update", 0.89),
    KindRule("identifier, akin", "is_text AND one_word", "update", 0.5),
    KindRule("another text", "is_text AND texts_unlike", "update", 0.72),
    KindRule("nothing known", "true", "update", 0.3),
)
"""A different value, without evidence of when."""

RULES: tuple[KindRule, ...] = (*BY_SNAPSHOTS, *BY_LIKENESS, *BY_TIME, *OTHERWISE)
"""The table: the first rule whose condition holds decides."""


def judge_kinds(signals: pa.Table, *, rules: tuple[KindRule, ...] = RULES) -> pa.Table:
    """Decide the kind of each change, by the first rule that holds.

    Args:
        signals: Columns SIGNALS_OF_CHANGES, from find_signals or signals_of_values.
        rules: The table; its last condition must be "true".

    Returns:
        Columns KINDS_OF_CHANGES, row by row.
    """
    cases = " ".join(f"WHEN {rule.condition} THEN {number}" for number, rule in enumerate(rules))
    with open_in_memory() as connection:
        connection.register("signals", signals.append_column("row_", pa.array(range(signals.num_rows), pa.int64())))
        found = connection.sql(f"SELECT CASE {cases} END AS rule FROM signals ORDER BY row_").to_arrow_table()
    numbers = found["rule"].combine_chunks()
    columns = {
        "kind": pa.array([rule.kind for rule in rules]),
        "confidence": pa.array([rule.confidence for rule in rules], pa.float64()),
        "signals": pa.array([rule.signals for rule in rules], pa.list_(pa.string())),
        "rule": pa.array([rule.name for rule in rules]),
    }
    judged = {name: values.take(numbers) for name, values in columns.items()}
    table = pa.table({"subject": signals["subject"], "property": signals["property"], **judged})
    return table.cast(KINDS_OF_CHANGES)
