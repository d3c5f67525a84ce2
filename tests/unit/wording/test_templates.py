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

from kgedit.errors import TimestepError
from kgedit.wording.catalogues import read_catalogue
from kgedit.wording.grammar import ANSWERS, CLOZES, REPHRASINGS, complete, entry_problems
from kgedit.wording.templates import (
    ANY_CLASS,
    TEMPLATES,
    WORDINGS,
    generic_row,
    read_templates,
    shipped_templates,
    template_table,
    template_version,
)

ENTRIES = {
    name: entry
    for file in shipped_templates().glob("*.yaml")
    for name, entry in read_catalogue(file).get("templates", {}).items()
}
ALL_ROWS = template_table().to_pylist()
ROWS = [row for row in ALL_ROWS if row["subject_class"] == ANY_CLASS]
SLICE_PROPERTIES = "P6 P26 P35 P39 P54 P102 P108 P115 P127 P159 P169 P190 P286 P463 P488 P512 P551 P1346 P1376 P1435"


def test_the_table_is_ordered_by_property_and_names_each_template() -> None:
    table = template_table()
    assert table.schema == TEMPLATES
    numbers = [int(row["property"][1:]) for row in ROWS]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == len(ENTRIES) >= 450
    assert {row["property"]: row["template"] for row in ROWS}["P6"] == "en-4:P6"
    assert set(SLICE_PROPERTIES.split()) <= set(table["property"].to_pylist())


def test_every_entry_and_variant_asks_and_tells_in_full() -> None:
    for row in ALL_ROWS:
        asking, telling = [row["question"], *row["rephrases"]], [*row["clozes"], row["phrase"]]
        assert (len(row["rephrases"]) >= REPHRASINGS, len(row["clozes"])) == (True, CLOZES), row["property"]
        assert (row["rephrase"], row["cloze"]) == (row["rephrases"][0], row["clozes"][0])
        assert row["answer_type"] in ANSWERS
        for text in (*asking, *telling):
            assert text.count("{subject}") == 1
            assert not set("{}") & set(text.replace("{subject}", ""))
            # A phrase that ends in a name would read "the mayor of Rome's": no possessives.
            assert "{subject}'" not in text
            # Nor an article before a phrase, which brings its own.
            assert not re.search(r"\b(a|an|the) {subject}", text)
        for text in asking:
            assert text.endswith("?")
            # A phrase in place of the subject begins in lower case, so it must not come first.
            assert text[0].isupper()
        assert len({text.casefold() for text in (*asking, *telling)}) == len(asking) + len(telling), row["property"]
        assert row["phrase"].startswith("the ")


def test_every_shipped_entry_and_variant_is_written_out_in_full() -> None:
    said = [
        (name, said) for name, entry in ENTRIES.items() for said in (entry, *(entry.get("variants") or {}).values())
    ]
    for name, wordings in said:
        assert {"question", "rephrase", "cloze"} <= set(wordings), name
        assert (len(wordings["rephrase"]), len(wordings["cloze"])) == (REPHRASINGS, CLOZES), name


def test_each_entry_has_a_label_an_answer_type_and_an_example() -> None:
    for name, entry in ENTRIES.items():
        assert {"label", "answer", "example", "phrase"} <= set(entry), name
        assert entry["example"].strip()


def test_no_two_properties_ask_the_same_question() -> None:
    for wording in ("question", "phrase"):
        texts = [row[wording].casefold() for row in ROWS]
        assert sorted({text for text in texts if texts.count(text) > 1}) == []


@pytest.mark.shared
def test_labels_and_datatypes_are_those_of_wikidata() -> None:
    path = SHARED / "wikidata_properties" / "properties-2022-01-16.json"
    known = {entry["id"]: entry for entry in json.loads(path.read_text(encoding="utf-8"))}
    for name, entry in ENTRIES.items():
        literal = {"number": {"Quantity"}, "time": {"Time"}}.get(entry["answer"], {"WikibaseItem"})
        assert known[name]["dataType"] in literal, name
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
    # P2302 is a statement about properties, which are not subjects of questions.
    assert found - {row["property"] for row in ROWS} <= {"P2302"}


def test_a_phrase_makes_a_two_hop_question() -> None:
    rows = {row["property"]: row for row in ROWS}
    phrase = rows["P6"]["phrase"].format(subject="France")
    assert rows["P26"]["question"].format(subject=phrase) == "Who is the spouse of the head of government of France?"


def test_the_generic_template_is_about_the_property_and_says_that_it_is_generic() -> None:
    row = generic_row(read_templates(), "P822", "mascot")
    assert (row["template"], row["question"]) == ("en-4:generic", "What is the mascot of {subject}?")
    assert row["phrase"] == "the mascot of {subject}"
    for text in (*row["rephrases"], *row["clozes"]):
        assert "mascot" in text
        assert "{property}" not in text


@pytest.mark.parametrize(
    "label",
    [
        "has fruit type",
        "Buried here",
        "is proceedings from",
        "killed by",
        "dual to",
        "commander of (DEPRECATED)",
        "set during recurring event",
        "template has topic",
        "relegated",
        "studies",
    ],
)
def test_a_label_that_is_no_noun_phrase_is_quoted_in_the_generic_wording(label: str) -> None:
    row = generic_row(read_templates(), "P1", label)
    assert row["question"] == f'What is the value of "{label}" for {{subject}}?'
    texts = [*row["rephrases"], *row["clozes"], row["phrase"]]
    assert all(f'"{label}"' in text and f"the {label}" not in text for text in texts)


@pytest.mark.parametrize(
    "label",
    ["mascot", "number of wins", "speed of sound", "seed", "author of foreword", "official color(s)", "use status"],
)
def test_a_label_that_is_a_noun_phrase_is_not_quoted(label: str) -> None:
    assert generic_row(read_templates(), "P1", label)["question"] == f"What is the {label} of {{subject}}?"


def test_what_an_entry_leaves_out_is_derived_from_its_phrase() -> None:
    said = complete({"phrase": "the doctoral advisor of {subject}", "answer": "person"})
    assert said.question == "Who is the doctoral advisor of {subject}?"
    assert said.rephrases[0] == "Which person is the doctoral advisor of {subject}?"
    assert said.clozes[0] == "The doctoral advisor of {subject} is"
    past = complete(
        {"phrase": "the judge in {subject}", "answer": "person", "tense": "past", "rephrase": "Who judged?"}
    )
    assert past.question == "Who was the judge in {subject}?"
    assert past.rephrases[0] == "Who judged?"


def test_a_variant_says_what_differs_for_its_class_of_subjects() -> None:
    asked = {row["subject_class"]: row["question"] for row in ALL_ROWS if row["property"] == "P641"}
    assert asked["person"] == "Which sport does {subject} do?"
    assert asked["place"] == "Which sport is practised at {subject}?"
    assert asked[ANY_CLASS] != asked["person"]


def test_the_version_is_a_hash_of_the_content(tmp_path: Path) -> None:
    for file in shipped_templates().glob("*.yaml"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert template_version(tmp_path) == template_version()
    assert re.fullmatch("[0-9a-f]{16}", template_version())
    with (tmp_path / "sport.yaml").open("ab") as file:
        file.write(b"\n")
    assert template_version(tmp_path) != template_version()


def test_a_property_in_two_files_of_a_folder_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "more.yaml").write_text(yaml.safe_dump({"templates": {"P6": GOOD}}), encoding="utf-8")
    with pytest.raises(TimestepError, match="P6 is in another file, too"):
        template_table(tmp_path)


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
    (row,) = table.to_pylist()
    assert {name: row[name] for name in WORDINGS} == GOOD
    assert (row["property"], row["template"]) == ("P6", "de-3:P6")
    assert isinstance(table, pa.Table)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"question": "Wer leitet die Regierung?"}, "P6: question must hold {subject} exactly once"),
        ({"question": "Wer ist {subject} von {subject}?"}, "P6: question must hold {subject} exactly once"),
        ({"question": "Wer leitet {subject}"}, 'P6: question or rephrase does not end in one "?": Wer leitet'),
        ({"rephrase": "Wer leitet {subject} {now}?"}, "P6: rephrase contains a stray brace"),
        ({"rephrase": "wer leitet  die Regierung von {subject}?"}, "P6: rephrase contains spaces"),
        (
            {"rephrase": "Wer leitet die Regierung von: {subject}?"},
            "P6: says the same words twice: Wer leitet die Regierung von {subject}?",
        ),
        ({"cloze": "Die Regierung von {subject} leitet:"}, "P6: cloze or phrase ends in a punctuation mark"),
        ({"phrase": 7}, "P6: phrase is missing or no text"),
        ({"hint": "x"}, "P6: unknown key 'hint'"),
        ({"answer": "colour"}, "P6: answer must be one of person"),
        ({"tense": "future"}, "P6: tense must be present or past"),
        ({"question": "Who leads the {subject}?"}, "P6: question has an article before the subject"),
        ({"cloze": "{subject} is a"}, "P6: cloze ends in an article that the answer decides"),
        ({"cloze": "{subject} has a old chief called"}, "P6: cloze has the wrong one of a and an"),
        ({"rephrase": "Who is who is P26 of {subject}?"}, "P6: rephrase contains the id of an entity"),
        ({"cloze": ["Es leitet {subject}", "Es leitet {subject}"]}, "P6: cloze contains a text twice"),
        ({"cloze": "{subject} is led led by"}, "P6: cloze says a word twice in a row"),
        ({"variants": {"planet": {"question": "x"}}}, "P6 (planet): is not a class of subjects"),
        ({"variants": {"team": {"question": "x"}}}, "P6 (team): question must hold {subject} exactly once"),
    ],
)
def test_an_entry_that_breaks_the_contract_is_named(tmp_path: Path, change: dict[str, object], message: str) -> None:
    assert entry_problems("P6", GOOD, slots=("subject",)) == []
    with pytest.raises(TimestepError, match=re.escape(message)):
        template_table(write(tmp_path, templates={"P6": GOOD | change}))


def test_all_problems_of_a_catalogue_are_reported_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, templates={"Q6": GOOD, "P7": {"question": "?"}, "P8": None}, generic={})
    with pytest.raises(TimestepError) as caught:
        template_table(path)
    message = str(caught.value)
    for part in (str(path), "'Q6' is not a property id", "P7: phrase is missing", "P8: is not a mapping"):
        assert part in message


def test_the_generic_wordings_of_labels_that_are_no_nouns_are_checked_too(tmp_path: Path) -> None:
    path = write(tmp_path, generic_quoted={"phrase": "the {property}"}, not_nouns="(")
    with pytest.raises(TimestepError, match=r"generic_quoted: .* must hold \{subject\} exactly once") as caught:
        template_table(path)
    assert "not_nouns: is not a regular expression" in str(caught.value)
    plain = read_templates(write(tmp_path))
    assert generic_row(plain, "P1", "has fruit type")["question"] == generic_row(plain, "P1", "x")["question"].replace(
        "x", "has fruit type"
    )


def test_an_empty_or_missing_generic_entry_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TimestepError, match="generic: phrase is missing"):
        template_table(write(tmp_path, generic={}))


def test_a_property_written_twice_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_text(path.read_text(encoding="utf-8").replace("name: de", "name: de\nname: fr"), encoding="utf-8")
    with pytest.raises(TimestepError, match="written twice: name"):
        template_table(path)


@pytest.mark.parametrize("content", [b"a: [", b"\xff\xfe\x00", b"just words"])
def test_what_is_no_catalogue_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.yaml"
    path.write_bytes(content)
    with pytest.raises(TimestepError, match=r"broken\.yaml"):
        template_table(path)
    with pytest.raises(TimestepError, match=r"missing\.yaml does not exist"):
        template_table(tmp_path / "missing.yaml")
