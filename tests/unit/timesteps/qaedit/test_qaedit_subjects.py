"""Subjects of questions: by rules of word order, and by names that a store knows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgedit.store.schemas import ENTITIES
from kgedit.store.snapshots import Snapshot
from kgedit.timesteps.qaedit.question_rules import Subject, SubjectFinder, read_names


def snapshot(folder: Path, *items: tuple[str, str, list[str]]) -> Snapshot:
    """A snapshot with labels and aliases, and nothing else."""
    columns = {name: pa.nulls(len(items), ENTITIES.field(name).type) for name in ENTITIES.names}
    columns["id"], columns["label"], columns["aliases"] = (list(column) for column in zip(*items, strict=True))
    columns["kind"] = ["property" if name.startswith("P") else "item" for name in columns["id"]]
    folder.mkdir(parents=True)
    pq.write_table(pa.table(columns, schema=ENTITIES), folder / "entities.parquet")
    return Snapshot(folder, {})


@pytest.mark.parametrize(
    ("question", "text", "rule"),
    [
        ('Who painted "The Mill at Dusk" in 1901?', '"The Mill at Dusk"', "quotation"),
        ("Which singer recorded 'Stay, Won't You' first?", "'Stay, Won't You'", "quotation"),
        ("In what year did Ada Crane first visit Norway?", "Ada Crane", "capitals"),
        ("Who was Ada Crane's second wife?", "Ada Crane", "capitals"),
        ("What did Ada Crane's brother Tom build?", "Ada Crane's brother Tom", "capitals"),
        ("On what day was John Hay, 3rd Earl of Lowick, born?", "John Hay, 3rd Earl of Lowick", "capitals"),
        ("When was Dunmore, Tasmania, Australia, founded?", "Dunmore, Tasmania, Australia", "capitals"),
        ("Which museum bought the Skipjack engine in 1960?", "Skipjack engine", "capitals"),
        ("Which Norwegian architect built Hay House?", "Hay House", "capitals"),
        ("In May 1990, which German player left Dynamo Lowick?", "Dynamo Lowick", "capitals"),
        ("In what year was the moth species Agrotis tarda described?", "Agrotis tarda", "capitals"),
        ("What is the only bridge in town that opens twice?", "only bridge in town that opens twice", "rank"),
        ("Which wood was used for oars by German carpenters?", "wood", "what is asked for"),
        ("who wrote the song down by the old pier?", "down by the old pier", "phrase"),
        ("when did the old pier open?", "old pier", "phrase"),
        ("where is the hay house located?", "hay house", "phrase"),
        ("what is the meaning of lowick?", "lowick", "phrase"),
        ("who is the mayor of lowick that resigned?", "lowick that resigned", "phrase"),
        ("how many rooms does hay house have and who built it?", "hay house", "phrase"),
    ],
)  # fmt: skip
def test_a_subject_is_a_span_of_the_question(question: str, text: str, rule: str) -> None:
    assert SubjectFinder().find(question) == Subject(text, rule)
    assert text in question


@pytest.mark.parametrize("question", ["", "?", "of what?", "who is it?", "Who was she, and when?"])
def test_a_question_about_nothing_has_no_subject(question: str) -> None:
    assert SubjectFinder().find(question) is None


def test_names_of_the_store_say_where_a_subject_ends(tmp_path: Path) -> None:
    store = snapshot(
        tmp_path / "20240101",
        ("Q1", "Watermark inquiry of 1954", ["Watermark inquiry"]),
        ("Q2", "Watermark", []),
        ("Q3", "Norway", []),
        ("P4", "led", []),
    )
    question = "Who led the Watermark inquiry in Norway?"
    names = read_names([store], pa.chunked_array([[question]]))

    assert SubjectFinder().find(question) == Subject("Watermark inquiry", "capitals")
    assert SubjectFinder(names).find("Who led the watermark inquiry?") == Subject("watermark inquiry", "name", "Q1")
    assert SubjectFinder(names).find(question) == Subject("Watermark inquiry", "name", "Q1")
    assert SubjectFinder(names).find("Who led Watermark Inquiry Ltd in Oslo?") == Subject(
        "Watermark Inquiry Ltd", "capitals"
    )


def test_a_name_that_several_items_bear_gives_no_id(tmp_path: Path) -> None:
    store = snapshot(tmp_path / "20240101", ("Q1", "Lowick", []), ("Q2", "Lowick Hall", ["LOWICK"]))
    question = "Who founded Lowick?"
    names = read_names([store], pa.chunked_array([[question]]))
    assert SubjectFinder(names).find(question) == Subject("Lowick", "name", "")


def test_only_names_that_occur_in_a_question_become_the_dictionary(tmp_path: Path) -> None:
    long = "A Very Long Account of All the Bridges Between Lowick and the Northern Sea"
    first = snapshot(tmp_path / "20230101", ("Q1", "São Paulo", []), ("Q2", "Oslo", []), ("Q3", "Q3", []))
    second = snapshot(tmp_path / "20240101", ("Q1", "Sao Paulo", []), ("Q4", long, ["Norway's king"]), ("Q5", "Q4", []))
    questions = pa.chunked_array([["who runs SÃO  PAULO?", f"Who wrote {long.lower()} for Norway's king?", "is q3 Q4"]])

    names = read_names([first, second], questions)

    assert len(names.index) == 4, "São Paulo, the book, the king, and the label Q4 of another item"
    assert names.ids == ("Q4", "Q5", "Q1")
    (mention,) = [one for one in names.index.find(questions[1].as_py()) if one.subjects == (0,)][:1]
    assert questions[1].as_py()[mention.start : mention.end] == long.lower()


def test_common_words_are_no_subject_although_they_are_names(tmp_path: Path) -> None:
    store = snapshot(tmp_path / "20240101", ("Q1", "what", []), ("Q2", "the year", []), ("Q3", "German", []))
    question = "what was the year?"
    names = read_names([store], pa.chunked_array([[question]]))
    found = SubjectFinder(names).find(question)
    assert found is None or found.rule != "name"
