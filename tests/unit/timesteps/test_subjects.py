"""Subjects in questions: their class, the article, a hint where another item bears the label; labels that are ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from world.dumps import Json, entity, load, write_dump
from world.two_days import about, item, two_snapshots

from kgedit.store.window import Window
from kgedit.timesteps.labels import describe_subjects
from kgedit.timesteps.relation_words import RelationWords
from kgedit.timesteps.wording import choose_templates, word_cases
from kgedit.wording.personas import voices


def entity_line(name: str, label: str, *statements: Json, description: str = "") -> Json:
    return entity(name, *statements, label=label, descriptions={"en": {"language": "en", "value": description}})


WORLD = [
    item("Q5", label="human"),
    item("Q32", label="Luxembourg"),
    item("Q43229", label="organization"),
    item("Q70", about("P279", "Q43229"), label="chamber"),
    entity_line("Q1", "Chamber of Deputies", about("P31", "Q70"), about("P17", "Q32"), description="lower house"),
    entity_line("Q2", "Chamber of Deputies", about("P31", "Q70"), description="lower house of Italy"),
    entity_line("Q3", "Ann Lee", about("P31", "Q5"), about("P17", "Q32"), description="Danish swimmer"),
    entity_line(
        "Q4", "Ann Lee", about("P106", "Q70"), description="a very long story of a singer from the far north of all"
    ),
    entity_line("Q6", "Netherlands", about("P36", "Q32")),
    item("Q7", about("P286", "Q3"), label="Ajax"),
    item("Q7278", about("P279", "Q43229"), label="political party"),
    item("Q8", about("P31", "Q7278"), label="Forza Italia"),
    item("Q9", about("P31", "Q7278"), label="Labour Party"),
]


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("named")
    before, after = two_snapshots(folder, WORLD, WORLD)
    with Window(before, after, spill=Path(folder) / "spill") as opened:
        yield opened


def described(window: Window) -> dict[str, dict[str, Any]]:
    names = {entry["id"]: entry["labels"]["en"]["value"] for entry in WORLD}
    asked = pa.table({"subject": list(names), "subject_label": list(names.values())})
    return {row["subject"]: row for row in describe_subjects(window.connection, asked).to_pylist()}


def test_a_class_is_found_over_subclass_of_or_by_what_an_item_has(window: Window) -> None:
    classes = {name: row["subject_class"] for name, row in described(window).items()}
    assert classes["Q1"] == "organization"  # by way of chamber
    assert classes["Q3"] == "person"
    assert classes["Q4"] == "person"  # it has an occupation
    assert classes["Q7"] == "team"  # it has a head coach
    assert classes["Q32"] == ""


def test_shared_labels_get_a_hint_by_country_or_description(window: Window) -> None:
    rows = described(window)
    assert rows["Q1"]["hinted_names"] == [
        f"the Chamber of Deputies {hint}" for hint in ("of Luxembourg", "(lower house)")
    ]
    assert rows["Q2"]["hinted_names"] == ["the Chamber of Deputies (lower house of Italy)"]
    assert rows["Q3"]["hinted_names"] == ["Ann Lee (Danish swimmer)", "Ann Lee (Luxembourg)"]
    assert (rows["Q4"]["shared"], rows["Q4"]["hinted_names"]) == (True, [])
    assert (rows["Q6"]["name"], rows["Q6"]["shared"], rows["Q6"]["hinted_names"]) == ("the Netherlands", False, [])


def test_a_label_that_one_of_the_snapshots_shares_gets_a_hint(tmp_path: Path) -> None:
    first = entity_line("Q201", "John Carter", description="British sailor")
    second = entity_line("Q202", "John Carter", description="Irish judge")
    renamed = entity_line("Q202", "John Carter Cash", description="Irish judge")
    before, after = two_snapshots(tmp_path, [first, second], [first, renamed])
    with Window(before, after, spill=tmp_path / "spill") as window:
        asked = pa.table({"subject": ["Q201", "Q202"], "subject_label": ["John Carter", "John Carter"]})
        rows = describe_subjects(window.connection, asked).to_pylist()
    assert [row["hinted_names"] for row in rows] == [["John Carter (British sailor)"], ["John Carter (Irish judge)"]]


@pytest.mark.parametrize("merged", [False, True])
def test_a_duplicate_that_was_merged_or_deleted_is_no_namesake(tmp_path: Path, *, merged: bool) -> None:
    town = [entity_line(name, "Falun", about("P17", "Q30"), description="city in Sweden") for name in ("Q1", "Q2")]
    redirects = tmp_path / "redirects.tsv"
    redirects.write_text("Q2\tQ1\n" if merged else "")
    before = load(tmp_path, write_dump(tmp_path / "before.json", town), "2021-01-04")
    after = load(tmp_path, write_dump(tmp_path / "after.json", town[:1]), "2023-02-27", redirects=redirects)
    asked = pa.table({"subject": ["Q1"], "subject_label": ["Falun"]})
    with Window(before, after, spill=tmp_path / "spill") as window:
        (row,) = describe_subjects(window.connection, asked).to_pylist()
    assert (row["name"], row["shared"]) == ("Falun", False)


def alike(name: str, country: str, description: str) -> Json:
    statements = about("P31", "Q43229"), about("P17", country)
    return entity_line(name, "Ministry of Justice", *statements, description=description)


@pytest.fixture(scope="module")
def namesakes(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Q1 and Q2 share their country, Q3 and Q4 their description, and Q5 and Q6 both, one of them as it was earlier."""
    folder = tmp_path_factory.mktemp("alike")
    rest = [
        *(item(name, label=label) for name, label in (("Q30", "Spain"), ("Q31", "Peru"), ("Q32", "Chile"))),
        alike("Q1", "Q30", "Spanish ministry until 1939"),
        alike("Q2", "Q30", "Spanish ministry since 1977"),
        alike("Q3", "Q31", "government agency"),
        alike("Q4", "Q32", "Government agency"),
        entity_line("Q5", "Loja", about("P17", "Q30"), description="city"),
    ]
    before = entity_line("Q6", "Loja", about("P17", "Q30"), description="city")
    after = entity_line("Q6", "Loja Nueva", about("P17", "Q31"), description="town")
    with Window(*two_snapshots(folder, [*rest, before], [*rest, after]), spill=folder / "spill") as opened:
        yield opened


def test_a_hint_that_a_namesake_shares_is_passed_over(namesakes: Window) -> None:
    asked = pa.table({"subject": ["Q1", "Q3", "Q5"], "subject_label": ["Ministry of Justice"] * 2 + ["Loja"]})
    rows = describe_subjects(namesakes.connection, asked).to_pylist()
    assert [(row["shared"], row["hinted_names"]) for row in rows] == [
        (True, ["the Ministry of Justice (Spanish ministry until 1939)"]),
        (True, ["the Ministry of Justice of Peru"]),
        (True, []),
    ]


def test_no_question_is_asked_about_one_of_several_namesakes_that_nothing_distinguishes(window: Window) -> None:
    asked = worded(window, "P26", "spouse", "Bo", subject="Q4")
    assert asked.kept.num_rows == 0
    assert asked.funnel["another item has the same name"] == 1


def test_a_party_takes_an_article_by_its_name_and_not_by_its_class(window: Window) -> None:
    rows = described(window)
    assert (rows["Q8"]["name"], rows["Q9"]["name"]) == ("Forza Italia", "the Labour Party")


def worded(
    window: Window, property_id: str, label: str, answer: str, subject: str = "Q3", aliases: tuple[str, ...] = ()
) -> Any:
    case = {
        "case_id": f"{subject}:{property_id}:Q9",
        "subject": subject,
        "subject_label": described(window)[subject]["name"].removeprefix("the "),
        "property": property_id,
        "property_label": label,
        "object_label": answer,
    }
    cases = pa.Table.from_pylist([case]).append_column("object_aliases", pa.array([aliases], pa.list_(pa.string())))
    templates = choose_templates(cases, catalogue=None)
    subjects = describe_subjects(window.connection, cases)
    words = RelationWords(templates, voices())
    return word_cases(cases, templates, subjects, words, seed=0, personas=None)


def test_a_hint_that_gives_the_answer_away_is_passed_over(window: Window) -> None:
    (first,) = worded(window, "P108", "employer", "Odense").kept.to_pylist()
    assert first["question"] == "Who is the employer of Ann Lee (Danish swimmer)?"
    (second,) = worded(window, "P106", "occupation", "swimmer").kept.to_pylist()
    assert second["question"] == "What is the occupation of Ann Lee (Luxembourg)?"


@pytest.mark.parametrize(
    ("aliases", "hint"),
    [(("Swimmer",), "Luxembourg"), (("swim", "DK", "Ann", "Lee"), "Danish swimmer"), (("Lee Danish",), "Luxembourg")],
)
def test_a_hint_that_contains_an_alias_of_the_answer_is_passed_over(
    window: Window, aliases: tuple[str, ...], hint: str
) -> None:
    (row,) = worded(window, "P106", "occupation", "athlete", aliases=aliases).kept.to_pylist()
    assert row["question"] == f"What is the occupation of Ann Lee ({hint})?"


def test_an_alias_in_the_label_of_the_subject_is_no_accepted_answer(window: Window) -> None:
    (row,) = worded(window, "P26", "spouse", "Bo Lee", aliases=("Lee", "LEE, Ann", "Lee B.", "B")).kept.to_pylist()
    assert row["object_aliases"] == ["LEE, Ann", "Lee B.", "B"]


def test_a_namesake_whose_only_hint_contains_an_alias_of_the_answer_is_not_asked_about(window: Window) -> None:
    asked = worded(window, "P17", "country", "Italian Republic", subject="Q2", aliases=("Italy",))
    assert asked.funnel["another item has the same name"] == 1


def test_a_namesake_whose_only_hint_gives_the_answer_away_is_not_asked_about(window: Window) -> None:
    asked = worded(window, "P17", "country", "Italy", subject="Q2")
    assert asked.kept.num_rows == 0
    assert asked.funnel["another item has the same name"] == 1


def test_a_sentence_begins_with_a_capital_article_and_ends_in_one_full_stop(window: Window) -> None:
    (row,) = worded(window, "P190", "twinned", "Chelsea F.C.", subject="Q6").kept.to_pylist()
    assert row["cloze"] == "The Netherlands is twinned with"
    assert row["statement"] == "The Netherlands is twinned with Chelsea F.C."


@pytest.mark.parametrize(
    ("property_id", "answer", "sentence"),
    [
        ("P39", "President of Ukraine", "Ann Lee (Danish swimmer) holds the position of President of Ukraine."),
        ("P106", "actor", "Ann Lee (Danish swimmer) works as an actor."),
        ("P26", "Frank Ocean", "The spouse of Ann Lee (Danish swimmer) is Frank Ocean."),
        ("P69", "University of Oslo", "Ann Lee (Danish swimmer) was educated at the University of Oslo."),
        ("P102", "Green Party", "The political party of Ann Lee (Danish swimmer) is the Green Party."),
        ("P144", "Quo Vadis?", "The work on which Ann Lee (Danish swimmer) is based is Quo Vadis?"),
    ],
)
@pytest.mark.slow
def test_an_update_sentence_brings_the_article_that_its_answer_takes(
    window: Window, property_id: str, answer: str, sentence: str
) -> None:
    (row,) = worded(window, property_id, "-", answer).kept.to_pylist()
    assert row["statement"] == sentence


def test_no_property_id_reaches_a_question(window: Window) -> None:
    (row,) = worded(window, "P26", "P26", "Bo").kept.to_pylist()
    assert row["property_label"] == "spouse"  # the catalogue's, where the snapshot has none
    dropped = worded(window, "P9999", "P9999", "Bo")
    assert dropped.kept.num_rows == 0
    assert dropped.funnel["no label of the property"] == 1
