"""The shipped question templates keep their contract; a catalogue that breaks it is refused with every reason."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from world.shared_data import SHARED

from kgedit.errors import BenchmarkError
from kgedit.prompts.templates import (
    TEMPLATES,
    WORDINGS,
    entry_problems,
    generic_template,
    shipped_templates,
    template_table,
    template_version,
)

CATALOGUE = yaml.safe_load(shipped_templates().read_text(encoding="utf-8"))
ROWS = template_table().to_pylist()
SLICE_PROPERTIES = "P6 P26 P35 P39 P54 P102 P108 P115 P127 P159 P169 P190 P286 P463 P488 P512 P551 P1346 P1376 P1435"


def test_the_table_is_ordered_by_property_and_names_each_template() -> None:
    table = template_table()
    assert table.schema == TEMPLATES
    numbers = [int(name[1:]) for name in table["property"].to_pylist()]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == len(CATALOGUE["templates"]) > 150
    assert {row["property"]: row["template"] for row in ROWS}["P6"] == "en-1:P6"
    assert set(SLICE_PROPERTIES.split()) <= set(table["property"].to_pylist())


@pytest.mark.parametrize("row", ROWS, ids=[row["property"] for row in ROWS])
def test_each_entry_keeps_the_contract(row: dict[str, str]) -> None:
    for wording in WORDINGS:
        text = row[wording]
        assert text.count("{subject}") == 1
        assert not set("{}") & set(text.replace("{subject}", ""))
        # A phrase that ends in a name would read "the mayor of Rome's": no possessives.
        assert "{subject}'" not in text
        # Nor an article before a phrase, which brings its own.
        assert not re.search(r"\b(a|an|the) {subject}", text)
        assert "  " not in text
        assert text == text.strip()
    for asking in (row["question"], row["rephrase"]):
        assert asking.endswith("?")
        assert asking.count("?") == 1
        # A phrase in place of the subject begins in lower case, so it must not come first.
        assert asking[0].isupper()
    assert row["question"].casefold() != row["rephrase"].casefold()
    assert row["cloze"][-1].isalnum() or row["cloze"].endswith("{subject}")
    assert row["phrase"].startswith("the ")
    assert row["phrase"][-1] not in ".?!,:"


@pytest.mark.parametrize("row", ROWS, ids=[row["property"] for row in ROWS])
def test_each_entry_has_the_catalogue_label_and_an_example(row: dict[str, str]) -> None:
    entry = CATALOGUE["templates"][row["property"]]
    assert set(entry) == {"label", "example", *WORDINGS}
    assert entry["example"].strip()


def test_no_two_properties_ask_the_same_question() -> None:
    for wording in WORDINGS:
        texts = [row[wording].casefold() for row in ROWS]
        assert sorted({text for text in texts if texts.count(text) > 1}) == []


@pytest.mark.shared
def test_labels_and_datatypes_are_those_of_wikidata() -> None:
    path = SHARED / "wikidata_properties" / "properties-2022-01-16.json"
    known = {entry["id"]: entry for entry in json.loads(path.read_text(encoding="utf-8"))}
    for name, entry in CATALOGUE["templates"].items():
        assert known[name]["dataType"] == "WikibaseItem"
        assert known[name]["label"] == entry["label"]


@pytest.mark.shared
@pytest.mark.parametrize("name", ["pat/20231230", "w12k/20140101"])
def test_every_item_property_of_the_slices_has_a_template(name: str) -> None:
    path = SHARED / "slices" / f"{name}.json.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        found = {
            match.group(1)
            for line in lines
            for match in re.finditer(
                r'"mainsnak":{"snaktype":"value","property":"(P\d+)","datavalue":{"value":{"entity-type":"item"', line
            )
        }
    assert len(found) > 5
    # P2302 stands on properties, which no question is about.
    assert found - {row["property"] for row in ROWS} <= {"P2302"}


def test_a_phrase_makes_a_two_hop_question() -> None:
    rows = {row["property"]: row for row in ROWS}
    phrase = rows["P6"]["phrase"].format(subject="France")
    assert rows["P26"]["question"].format(subject=phrase) == "Who is the spouse of the head of government of France?"


def test_the_generic_template_holds_both_slots_and_says_that_it_is_generic() -> None:
    generic = generic_template()
    assert generic.template == "en-1:generic"
    assert generic.question.format(property="mascot", subject="Yale") == "What is the mascot of Yale?"
    assert generic.phrase.format(property="mascot", subject="Yale") == "the mascot of Yale"
    for wording in WORDINGS:
        assert getattr(generic, wording).count("{property}") == 1


def test_the_version_is_a_hash_of_the_content(tmp_path: Path) -> None:
    copy = tmp_path / "en.yaml"
    copy.write_bytes(shipped_templates().read_bytes())
    assert template_version(copy) == template_version()
    assert re.fullmatch("[0-9a-f]{16}", template_version())
    copy.write_bytes(copy.read_bytes() + b"\n")
    assert template_version(copy) != template_version()


GOOD = {
    "question": "Wer leitet die Regierung von {subject}?",
    "rephrase": "Welche Person steht der Regierung von {subject} vor?",
    "cloze": "Die Regierung von {subject} wird geleitet von",
    "phrase": "der Regierungschef von {subject}",
}
GENERIC = {wording: text.replace("{subject}", "{subject} ({property})") for wording, text in GOOD.items()}


def write(folder: Path, **changes: object) -> Path:
    path = folder / "de.yaml"
    content = {"name": "de", "version": 3, "generic": GENERIC, "templates": {"P6": GOOD}} | changes
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def test_a_catalogue_of_another_language_is_read(tmp_path: Path) -> None:
    table = template_table(write(tmp_path))
    assert table.to_pylist() == [{"property": "P6", **GOOD, "template": "de-3:P6"}]
    assert isinstance(table, pa.Table)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"question": "Wer leitet die Regierung?"}, "P6: question must hold {subject} exactly once"),
        ({"question": "Wer ist {subject} von {subject}?"}, "P6: question must hold {subject} exactly once"),
        ({"question": "Wer leitet {subject}"}, 'P6: question does not end in "?"'),
        ({"rephrase": "Wer leitet {subject} {now}?"}, "P6: rephrase holds a stray brace"),
        ({"rephrase": "wer leitet  die Regierung von {subject}?"}, "P6: rephrase holds spaces"),
        ({"rephrase": "Wer leitet die Regierung von: {subject}?"}, "P6: rephrase says the same words as question"),
        ({"cloze": "Die Regierung von {subject} leitet:"}, "P6: cloze ends in a punctuation mark"),
        ({"phrase": 7}, "P6: phrase is missing or no text"),
        ({"hint": "x"}, "P6: unknown key 'hint'"),
    ],
)
def test_an_entry_that_breaks_the_contract_is_named(tmp_path: Path, change: dict[str, object], message: str) -> None:
    assert entry_problems("P6", GOOD, slots=("subject",)) == []
    with pytest.raises(BenchmarkError, match=re.escape(message)):
        template_table(write(tmp_path, templates={"P6": GOOD | change}))


def test_all_problems_of_a_catalogue_are_reported_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, templates={"Q6": GOOD, "P7": {"question": "?"}, "P8": None}, generic={})
    with pytest.raises(BenchmarkError) as caught:
        template_table(path)
    message = str(caught.value)
    for part in (str(path), "'Q6' is no property id", "P7: rephrase is missing", "P8: is no mapping"):
        assert part in message


def test_an_empty_or_missing_generic_entry_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="generic: question is missing"):
        template_table(write(tmp_path, generic={}))


def test_a_property_written_twice_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_text(path.read_text(encoding="utf-8").replace("name: de", "name: de\nname: fr"), encoding="utf-8")
    with pytest.raises(BenchmarkError, match="written twice: name"):
        template_table(path)


@pytest.mark.parametrize("content", [b"a: [", b"\xff\xfe\x00", b"just words"])
def test_what_is_no_catalogue_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.yaml"
    path.write_bytes(content)
    with pytest.raises(BenchmarkError, match=r"broken\.yaml"):
        template_table(path)
    with pytest.raises(BenchmarkError, match=r"missing\.yaml cannot be read"):
        template_table(tmp_path / "missing.yaml")
