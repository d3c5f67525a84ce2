"""Questions with a date."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
import yaml

from kgedit.errors import TimestepError
from kgedit.wording.dates import date_templates, dates_version, lead, shipped_dates
from kgedit.wording.templates import template_table

DAY = date(2023, 12, 30)
CATALOGUE = yaml.safe_load(shipped_dates().read_text(encoding="utf-8"))


def test_a_question_and_a_cloze_begin_with_the_day_and_a_phrase_does_not() -> None:
    rows = {row["property"]: row for row in date_templates(template_table(), DAY).to_pylist()}
    assert rows["P6"]["question"] == "As of 30 December 2023, who is the head of government of {subject}?"
    undated = {row["property"]: row for row in template_table().to_pylist()}
    assert rows["P6"]["phrase"] == undated["P6"]["phrase"]
    assert rows["P6"]["template"] == undated["P6"]["template"]
    assert all(
        row[name].startswith("As of 30 December 2023, ") for row in rows.values() for name in ("rephrase", "cloze")
    )


def test_a_label_at_the_beginning_keeps_its_letters() -> None:
    clozes = [row["cloze"] for row in date_templates(template_table(), DAY).to_pylist()]
    begun = [cloze for cloze in clozes if "{subject}" in cloze[: len(lead(DAY)) + 9]]
    assert begun
    assert all(cloze.startswith(lead(DAY) + "{subject}") for cloze in begun)


def test_a_catalogue_of_another_language_is_taken_and_has_another_version(tmp_path: Path) -> None:
    path = tmp_path / "sv.yaml"
    path.write_text(
        yaml.safe_dump(
            CATALOGUE
            | {"name": "sv", "wording": "Den {date}: {text}", "date": "{day} {month} {year}"}
            | {"months": [f"månad {number}" for number in range(1, 13)]}
        ),
        encoding="utf-8",
    )
    assert lead(DAY, catalogue=path) == "Den 30 månad 12 2023: "
    assert dates_version(path) != dates_version()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"wording": "As of {date}"}, "'wording' must hold {text} exactly once"),
        ({"date": "{day}/{year}"}, "'date' must hold {month} exactly once"),
        ({"months": ["January"]}, "'months' must be twelve names"),
        ({"wording": 3}, "'wording' is not text"),
    ],
)
def test_a_catalogue_that_breaks_its_contract_is_refused(
    tmp_path: Path, change: dict[str, object], problem: str
) -> None:
    path = tmp_path / "en.yaml"
    path.write_text(yaml.safe_dump(CATALOGUE | change), encoding="utf-8")
    with pytest.raises(TimestepError) as raised:
        lead(DAY, catalogue=path)
    assert problem in str(raised.value)
