"""Sets of questions and answers are recognised by content; unusable rows are counted by reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kgedit.errors import TimestepError
from kgedit.timesteps.qaedit.sources import plain_question, read_questions

OPEN = '{"question": "who built the old pier", "answer": ["Ada Crane", "A. Crane"]}\n'
TRIVIA = {
    "Data": [
        {
            "Question": '"Who sang ""The Tide"" in 1971?"',
            "QuestionId": "x_1",
            "Answer": {"Value": "Ida Moss", "Aliases": ["Ida Moss", "I. Moss"], "NormalizedAliases": ["ida moss"]},
            "SearchResults": [{"Title": "a page", "Rank": 0}],
        }
    ],
    "Version": 1.0,
}
TIDE = ('Who sang "The Tide" in 1971?', "Ida Moss", ["I. Moss"], None)
SIMPLE = """metadata,problem,answer
"{'topic': 'Geography', 'answer_type': 'Place', 'urls': []}","In which town, exactly, is ""Hay House""?",Lowick
"""


@pytest.mark.parametrize(
    ("content", "form", "name", "first"),
    [
        (OPEN, "NQ-open", "NQ", ("who built the old pier?", "Ada Crane", ["A. Crane"], None)),
        (json.dumps(TRIVIA), "TriviaQA", "TQA", TIDE),
        (json.dumps(TRIVIA, indent=4), "TriviaQA", "TQA", TIDE),
        (SIMPLE, "SimpleQA", "SQA", ('In which town, exactly, is "Hay House"?', "Lowick", [], "Geography")),
        (
            '{"question": "Who?", "answer": {"value": "Ann", "aliases": ["A."]}, "question_id": "1"}\n',
            "rows",
            "set",
            ("Who?", "Ann", ["A."], None),
        ),
        (
            '[{"question": "Where?", "answer": {"value": "Paris", "aliases": "City of Light"}}]',
            "rows",
            "set",
            ("Where?", "Paris", ["City of Light"], None),
        ),
        ('[{"query": "How many?", "answers": 7}]', "rows", "set", ("How many?", "7", [], None)),
        (
            '[{"subject": "x", "loc": "nq question: who won", "loc_ans": "Ann"}]',
            "locality questions",
            "set",
            ("who won?", "Ann", [], None),
        ),
        ("question,answer\nWho?,Ann\n", "rows", "set", ("Who?", "Ann", [], None)),
        ("question,answer\rWho?,Ann\r", "rows", "set", ("Who?", "Ann", [], None)),
        ("question,answer,\nWho?,Ann,\n", "rows", "set", ("Who?", "Ann", [], None)),
    ],
)  # fmt: skip
def test_a_form_is_recognised_by_its_content(
    content: str, form: str, name: str, first: tuple[object, ...], tmp_path: Path
) -> None:
    path = tmp_path / "set.data"
    path.write_text(content, encoding="utf-8")

    read = read_questions(path)

    (row,) = read.questions.to_pylist()
    assert (read.form, read.name) == (form, name)
    assert (row["question"], row["answer"], row["aliases"], row["topic"]) == first


def test_a_mark_of_byte_order_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text("\ufeff" + OPEN * 2, encoding="utf-8")
    assert read_questions(path).questions.num_rows == 2


def test_rows_that_cannot_be_used_are_counted_by_reason(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    bad = [
        '{"question": " ", "answer": ["x"]}',
        '{"question": "who?", "answer": []}',
        "{torn",
        '{"answer": ["x"]}',
        "[1]",
    ]
    path.write_text(OPEN + "\n".join(bad) + "\n", encoding="utf-8")  # fmt: skip

    read = read_questions(path)

    assert read.left_out == {"no answer": 1, "no question": 2, "not an object": 2}
    assert read.rows == 6 == read.questions.num_rows + sum(read.left_out.values())


def test_rows_keep_their_numbers_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text(OPEN + "{torn\n" + OPEN.replace("pier", "mill"), encoding="utf-8")
    assert read_questions(path).questions["row"].to_pylist() == [0, 2]
    assert read_questions(path, limit=2).rows == 2


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("once upon a time\n", "it begins 'once upon a time'"),
        ('[{"a": 1}]', "its first object has a"),
        ('{"Data": 3}', "`array`"),
        ('[{"question": "who?"', "it begins as a JSON list does"),
        ("", "it begins ''"),
    ],
)
def test_a_file_of_another_kind_is_refused_with_the_forms_that_are_read(
    content: str, found: str, tmp_path: Path
) -> None:
    path = tmp_path / "set.data"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(TimestepError, match="NQ-open: JSON Lines") as refused:
        read_questions(path)
    assert found in str(refused.value)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ("question,answer\nWho leads Acme, of Paris?,Ann\n", "line 2 has 3 cells, its header 2"),
        ('question,answer\nWho?,Ann\n"Who runs it?,Bo\nWhere?,Rome\n', "the row of line 3 cannot be read"),
        ("question,answer,answer\nWho?,Ann,Bo\n", "its header has answer more than once"),
    ],
)
def test_a_table_with_irregular_rows_is_refused(rows: str, found: str, tmp_path: Path) -> None:
    path = tmp_path / "set.csv"
    path.write_text(rows, encoding="utf-8")
    with pytest.raises(TimestepError, match=found):
        read_questions(path)


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(TimestepError, match="No such file"):
        read_questions(tmp_path / "absent.jsonl")


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("who built\x07 the  pier\n", "who built the pier?"),
        ("Name the pier.", "Name the pier."),
        ('Who said "stay"', 'Who said "stay"'),
        ('"Stay", who said it?', '"Stay", who said it?'),
        ("", ""),
    ],
)
def test_a_question_is_one_line_with_its_mark(given: str, plain: str) -> None:
    assert plain_question(given) == plain
