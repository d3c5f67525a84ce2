"""Contract of every form of edit files."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from world.edit_files import HALLUEDIT, ROWS, TEXT, Json, write_csv, write_json, write_lines, write_parquet

from kgedit.errors import TimestepError
from kgedit.timesteps.edit_files import EDIT_FORMATS, EditFile, open_edits

NAMES = list(EDIT_FORMATS)


def test_every_form_has_an_object_to_be_tested_with() -> None:
    assert sorted(ROWS) == NAMES


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("write", [write_json, write_lines, write_parquet])
def test_a_file_is_recognised_by_its_content_however_it_is_stored(name: str, write: Any, tmp_path: Path) -> None:
    edits = EditFile.open(write(tmp_path / "edits.data", ROWS[name]))
    (case,) = edits.cases()

    assert edits.edit_format.name == name
    assert [each for each in NAMES if EDIT_FORMATS[each].recognises(ROWS[name])] == [name]
    answer = TEXT if name in ("akew", "unke") else "Olof Gren"
    subject = "" if name == "unke" else "Arvika"  # its texts are about more than one
    assert (case.fact.subject_label, case.answer, case.timestep) == (subject, answer, "edits")
    assert list(case.case_id).count(":") == 2
    assert case.probes[0].axis == "update"
    assert all(probe.answers and probe.question and probe.facts for probe in case.probes)
    assert len(list(edits.cases())) == 1, "the cases can be read again"


def test_a_table_is_read_without_its_empty_cells(tmp_path: Path) -> None:
    second = HALLUEDIT | {"question_3hop": "", "answer_3hop": "", "subject": "Arvika, in Värmland"}
    edits = EditFile.open(write_csv(tmp_path / "towns.csv", HALLUEDIT, second))

    first, other = edits.cases()
    assert edits.edit_format.name == "halluedit"
    assert other.fact.subject_label == "Arvika, in Värmland"
    assert [probe.chain.hops for probe in first.probes if probe.chain] == [3]
    assert [probe.axis for probe in other.probes] == ["update", "rephrase", "consequence", "mhop"]
    assert not edits.left_out


def test_a_row_of_a_table_may_end_early(tmp_path: Path) -> None:
    file = tmp_path / "towns.csv"
    file.write_text(",prompt,target_new,subject\n0,Who?,Ada\n\n1,Whose?,Bea,Arvika\n", encoding="utf-8")
    assert [(case.answer, case.fact.subject_label) for case in EditFile.open(file).cases()] == [
        ("Ada", ""),
        ("Bea", "Arvika"),
    ]


def _paths(value: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Keys that lead to each text, number or list of texts."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, (*prefix, key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, inner in enumerate(value):
            yield from _paths(inner, (*prefix, index))
    else:
        yield prefix


def _without(row: Json, path: tuple[Any, ...]) -> Json:
    """The object without what is there; a truth value becomes the other one."""
    changed = copy.deepcopy(row)
    inner: Any = changed
    for key in path[:-1]:
        inner = inner[key]
    value = inner.pop(path[-1])
    if isinstance(value, bool):
        inner[path[-1]] = not value
    return changed


@pytest.mark.parametrize("name", NAMES)
def test_a_field_is_part_of_what_is_read_or_is_listed_as_unused(name: str, tmp_path: Path) -> None:
    row = ROWS[name]
    file = tmp_path / "edits.json"
    whole = EditFile.open(write_json(file, row))
    unused = {field.path for field in whole.unused}
    assert all(field.rows == 1 and field.reason for field in whole.unused)
    for path in _paths(row):
        dotted = ".".join(key for key in path if isinstance(key, str))
        try:
            read = EditFile.open(write_json(file, _without(row, path))).read
        except TimestepError:
            read = ()  # a field that an edit cannot do without
        assert (read == whole.read) == (dotted in unused), dotted


@pytest.mark.parametrize("name", NAMES)
def test_an_edit_that_lacks_what_it_needs_is_counted_by_reason(name: str, tmp_path: Path) -> None:
    empty = copy.deepcopy(ROWS[name])
    nothing: dict[str, Json] = {
        "akew": {"requested_rewrite": {"fact_new_uns": ""}},
        "counterfact": {"requested_rewrite": {}},
        "mquake": {"requested_rewrite": []},
        "wikifactdiff": {"subject": {}},
    }
    empty |= nothing.get(name, {EDIT_FORMATS[name].needs[0][0]: ""})
    edits = EditFile.open(write_json(tmp_path / "edits.json", ROWS[name], empty, ROWS[name]))

    assert len(edits.read) == 2
    assert len({case.case_id for case in edits.cases()}) == 2
    assert sum(edits.left_out.values()) == 1
    assert next(iter(edits.left_out)).startswith("edits that lack ")
    with pytest.raises(TimestepError, match=f"form {name}, and none of its objects is an edit: edits that lack .*: 1"):
        EditFile.open(write_json(tmp_path / "edits.json", empty))


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ('{"question": "a",\n "answer": "b"}', "it is one JSON dict with question, answer"),
        ('{"question": "a"}\n{"question"', "line 2 is not valid JSON"),
        ("[]", "its list is empty"),
        ('["a", "b"]', "its first entry is a str"),
        ('[{"question": "a", "answer": "b"}]', "its first object has question, answer"),
        ('[{"prompt": "a", "target_new": "b", "target_new": "c"}]', "kgedit reads: an object has target_new more than"),
        ('{\n "prompt": "a",\n "prompt": "b"\n}', "kgedit reads: an object has prompt more than once"),
        (
            '{"ans": "b"}\n{"ans": "b", "loc": {"a": 1, "a": 2}}',
            'line 2: an object has a more than once (\'{"a":',
        ),
        ('[{"question": "a", "answer": "b", "answer": "b"}]', "its first object has question, answer"),
        ("<html>", "it is not valid JSON"),
        ("PAR1 and no more", "it begins as Parquet does"),
        (b"\xff\xfe\x00", "neither Parquet nor text"),
        ('prompt,target_new\n"a\nb",c\nWhere?,Springfield, Illinois\n', "line 4 has 3 cells, its header 2"),
        ('prompt,target_new\n"Who is he,Ada\nWho is she?,Bea\n', "the row of line 2 cannot be read (unexpected end"),
        ('prompt,target_new\na,b\n"Who,Ada\n"Whose,Bea\n', "the row of line 3 cannot be read (',' expected after"),
        ("prompt,prompt,target_new\na,b,c\n", "its header has prompt more than once"),
    ],
)
def test_a_wrong_file_is_refused_with_what_was_found_and_the_forms_there_are(
    content: str | bytes, found: str, tmp_path: Path
) -> None:
    file = tmp_path / "edits.json"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(TimestepError) as refused:
        open_edits(file)
    message = str(refused.value)
    assert found in message
    assert all(f"  {name}: " in message for name in NAMES)


@pytest.mark.parametrize("value", [None, [None], 5, "text", {}, [["text"]]], ids=repr)
@pytest.mark.parametrize("name", NAMES)
def test_a_malformed_value_anywhere_is_no_error_and_leaves_other_objects_alone(
    name: str, value: Any, tmp_path: Path
) -> None:
    row, texts = ROWS[name], EDIT_FORMATS[name].texts  # a file whose texts are no texts is refused with a sentence
    places = [place for place in _every_place(row) if place[0] not in texts]
    edits = EditFile.open(write_json(tmp_path / "edits.json", row, *(_with(row, place, value) for place in places)))
    (alone,) = EditFile.open(write_json(tmp_path / "edits.json", row)).cases()
    assert next(edits.cases()).probes[: len(alone.probes)] == alone.probes


def _every_place(value: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Keys that lead to each value, lists and objects included."""
    if prefix:
        yield prefix
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _every_place(inner, (*prefix, key))


def _with(row: Json, place: tuple[Any, ...], value: Any) -> Json:
    changed = copy.deepcopy(row)
    inner: Any = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed
