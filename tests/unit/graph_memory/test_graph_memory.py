"""The graph memory finds what a question needs: both hops, current values, nothing for a stranger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from world.edit_files import write_json

from kgedit.graph_memory.gate import read_gate
from kgedit.graph_memory.graph_memory import GraphMemory
from kgedit.graph_memory.memory_file import read_memory_file, write_memory_file
from kgedit.graph_memory.relations import CatalogueWordings
from kgedit.graph_memory.retrieval import Search
from kgedit.llm.embeddings import Vectors, load_embedder
from kgedit.records.cases import Case, Fact
from kgedit.timesteps.edit_files import EditFile

EMBED = load_embedder("character-ngrams", device="cpu")
OPEN = Search(gate=0.0)
QUESTIONS = {
    "P6": ("head of government", "Who is the head of government of {}?"),
    "P19": ("place of birth", "Where was {} born?"),
    "P26": ("spouse", "Who is the spouse of {}?"),
    "P36": ("capital", "What is the capital of {}?"),
    "P47": ("shares border with", "Which country shares a border with {}?"),
}


def _case(
    subject: str, relation: str, thing: str, *, old: Sequence[str] = (), at: str = "20210101_20220101", key: str = ""
) -> Case:
    """An edit; ids are names in lower case, except for a key that distinguishes namesakes."""
    name, question = QUESTIONS[relation]
    subject_id = key or subject.lower()
    return Case(
        case_id=f"{subject_id}:{relation}:{thing.lower()}",
        timestep=at,
        tag="update" if old else "new",
        fact=Fact(subject_id, subject, relation, name, thing.lower(), thing),
        question=question.format(subject),
        answer=thing,
        cloze="",
        old_objects=tuple(value.lower() for value in old),
        old_answers=tuple(old),
        probes=(),
    )


def _memory(*cases: Case) -> GraphMemory:
    memory = GraphMemory(EMBED, gate=read_gate("character-ngrams"))
    memory.learn(cases)
    return memory


def _rows(memory: GraphMemory, question: str, search: Search = OPEN, *, as_of: str = "") -> list[list[tuple[str, str]]]:
    """Question and answer of each row of each path."""
    [finding] = memory.find([question], search, as_of=as_of)
    return [[(row.question, row.answer) for row in path.rows] for path in finding.paths]


NORWAY = (
    _case("Norway", "P6", "Jonas", old=["Erna"]),
    _case("Jonas", "P26", "Marit"),
    _case("Jonas", "P19", "Oslo"),
    _case("Norway", "P36", "Oslo"),
    _case("Sweden", "P6", "Magdalena"),
    _case("Magdalena", "P26", "Richard"),
)


def test_both_facts_of_a_two_hop_question_are_found_in_reading_order() -> None:
    assert _rows(_memory(*NORWAY), "Who is the spouse of the head of government of Norway?") == [
        [
            ("Who is the head of government of Norway?", "Jonas"),
            ("Who is the spouse of Jonas?", "Marit"),
        ]
    ]


def test_a_question_gets_the_row_of_its_relation() -> None:
    assert _rows(_memory(*NORWAY), "What is the capital of Norway?") == [[("What is the capital of Norway?", "Oslo")]]


def test_a_superseded_value_is_no_answer_and_is_one_as_of_its_day() -> None:
    memory = _memory(
        _case("Norway", "P6", "Erna", old=["Jens"], at="20130101_20140101"),
        _case("Norway", "P6", "Jonas", old=["Erna"], at="20210101_20220101"),
    )
    question = "Who is the head of government of Norway?"
    assert [rows[0][1] for rows in _rows(memory, question)] == ["Jonas"]
    result = {day: _rows(memory, question, as_of=day)[0][0][1] for day in ("2012-05-05", "2014-01-01", "2021-12-31")}
    assert result == {"2012-05-05": "Jens", "2014-01-01": "Erna", "2021-12-31": "Erna"}
    assert _rows(memory, question, as_of="2022-01-01")[0][0][1] == "Jonas"


def test_a_question_that_names_a_date_gets_what_held_then() -> None:
    memory = _memory(
        _case("Norway", "P6", "Erna", old=["Jens"], at="20130101_20140101"),
        _case("Norway", "P6", "Jonas", old=["Erna"], at="20210101_20220101"),
    )
    question = "Who is the head of government of Norway"
    result = {
        date: [row[1] for rows in _rows(memory, f"{question} {date}?") for row in rows]
        for date in ("in 2012", "in June 2015", "as of 2022", "on 5 May 2023")
    }
    assert result == {
        "in 2012": ["Jens"],
        "in June 2015": ["Erna"],
        "as of 2022": ["Jonas"],
        "on 5 May 2023": ["Jonas"],
    }
    assert _rows(memory, f"{question} in 2012?", Search(gate=0.0, dated=False))[0][0][1] == "Jonas"


def test_a_year_in_which_the_value_changed_tells_both() -> None:
    memory = _memory(
        _case("Norway", "P6", "Erna", at="20130101_20140101"),
        replace(_case("Norway", "P6", "Jonas", old=["Erna"], at="20210101_20220101"), start_time="2021-10-14"),
    )
    question = "Who is the head of government of Norway?"
    answers = {day: _rows(memory, question, as_of=day)[0][0][1] for day in ("2021", "2021-10-13", "2021-10-14", "2022")}
    assert answers == {"2021": "Erna; Jonas", "2021-10-13": "Erna", "2021-10-14": "Jonas", "2022": "Jonas"}


@pytest.mark.parametrize("start", ["2021", "2021-03"])
def test_an_edit_of_the_same_year_or_month_ends_the_value_that_began_in_it(start: str) -> None:
    memory = _memory(
        replace(_case("Norway", "P6", "Erna", at="20210101_20220101"), start_time="2021-03-05"),
        replace(_case("Norway", "P6", "Jonas", old=["Erna"], at="20210101_20220101"), start_time=start),
    )
    question = "Who is the head of government of Norway?"
    answers = {day: _rows(memory, question, as_of=day)[0][0][1] for day in ("", "2021-03-06", "2022")}
    assert answers == {"": "Jonas", "2021-03-06": "Erna; Jonas", "2022": "Jonas"}
    assert len(memory) == 2


def test_edits_that_come_in_the_wrong_order_leave_the_newest_value() -> None:
    later = _case("Norway", "P6", "Jonas", old=["Erna"], at="20210101_20220101")
    earlier = _case("Norway", "P6", "Erna", old=["Jens"], at="20130101_20140101")
    memory, question = _memory(later, earlier), "Who is the head of government of Norway?"
    result = {day: _rows(memory, question, as_of=day)[0][0][1] for day in ("", "2013", "2015")}
    assert result == {"": "Jonas", "2013": "Jens", "2015": "Erna"}
    assert memory.conflicts().num_rows == 0


def test_a_value_that_came_back_is_the_current_one_in_whatever_order_its_edits_come() -> None:
    gone = _case("Norway", "P6", "Jonas", old=["Erna"], at="20210101_20220101")
    back = _case("Norway", "P6", "Erna", old=["Jonas"], at="20230101_20240101")
    question = "Who is the head of government of Norway?"
    for edits in ((gone, back), (back, gone), (gone, back, gone)):
        memory = _memory(*edits)
        answers = {day: _rows(memory, question, as_of=day)[0][0][1] for day in ("", "2020", "2022-06", "2025")}
        assert answers == {"": "Erna", "2020": "Erna", "2022-06": "Jonas", "2025": "Erna"}
        assert memory.conflicts().num_rows == 0


def test_two_values_at_once_of_a_relation_that_has_one_are_listed_as_a_conflict() -> None:
    borders = [_case("Norway", "P47", thing) for thing in ("Sweden", "Finland", "Russia")]
    memory = _memory(*NORWAY, *borders, _case("Norway", "P36", "Bergen"), _case("Sweden", "P47", "Norway"))
    result = {(row["subject_label"], row["relation"], row["object_label"]) for row in memory.conflicts().to_pylist()}
    assert ("Norway", "P36", "Oslo") in result
    assert ("Norway", "P36", "Bergen") in result
    assert not {row for row in result if row[1] == "P6"}


def test_an_old_answer_of_an_edit_is_not_retrieved() -> None:
    [finding] = _memory(*NORWAY).find(["Who is the head of government of Norway?"], OPEN)
    assert [row.case_ids for path in finding.paths for row in path.rows] == [("norway:P6:jonas",)]


def test_several_values_are_told_together() -> None:
    memory = _memory(_case("Norway", "P47", "Sweden"), _case("Norway", "P47", "Finland"))
    [finding] = memory.find(["Which country shares a border with Norway?"], OPEN)
    [path] = finding.paths
    assert [row.answer for row in path.rows] == ["Sweden; Finland"]
    assert path.rows[0].case_ids == ("norway:P47:sweden", "norway:P47:finland")


def test_both_of_two_namesakes_are_told_the_later_learned_first() -> None:
    memory = _memory(_case("Georgia", "P36", "Atlanta", key="q1"), _case("Georgia", "P36", "Tbilisi", key="q2"))
    assert [rows[0][1] for rows in _rows(memory, "What is the capital of Georgia?")] == ["Tbilisi", "Atlanta"]


def test_namesakes_are_told_apart_by_their_descriptions() -> None:
    memory = _memory(
        replace(_case("Georgia", "P36", "Atlanta", key="q1"), subject_description="state of the USA"),
        replace(_case("Georgia", "P36", "Tbilisi", key="q2"), subject_description="country in the Caucasus"),
    )
    assert {row for rows in _rows(memory, "What is the capital of Georgia?") for row in rows} == {
        ("What is the capital of Georgia (state of the USA)?", "Atlanta"),
        ("What is the capital of Georgia (country in the Caucasus)?", "Tbilisi"),
    }
    [[(question, answer)]] = _rows(memory, "What is the capital of Georgia, the country in the Caucasus?")
    assert (question, answer) == ("What is the capital of Georgia (country in the Caucasus)?", "Tbilisi")


def test_a_namesake_without_the_fact_is_a_reason_for_a_description_too() -> None:
    memory = _memory(
        replace(_case("Georgia", "P6", "Brian", key="q1"), subject_description="state of the USA"),
        replace(_case("Georgia", "P36", "Tbilisi", key="q2"), subject_description="country in the Caucasus"),
        replace(_case("Armenia", "P36", "Yerevan"), subject_description="country in the Caucasus"),
    )
    described = "What is the capital of Georgia (country in the Caucasus)?"
    assert _rows(memory, "What is the capital of Georgia?") == [[(described, "Tbilisi")]]
    assert _rows(memory, "What is the capital of Armenia?") == [[("What is the capital of Armenia?", "Yerevan")]]


def test_of_namesakes_the_one_that_has_the_relation_is_told() -> None:
    memory = _memory(_case("Georgia", "P36", "Atlanta", key="q1"), _case("Georgia", "P6", "Irakli", key="q2"))
    assert _rows(memory, "What is the capital of Georgia?") == [[("What is the capital of Georgia?", "Atlanta")]]


def test_a_circle_is_not_walked_back() -> None:
    memory = _memory(_case("Norway", "P47", "Sweden"), _case("Sweden", "P47", "Norway"))
    question = "Which country shares a border with the country that Norway shares a border with?"
    # Every walk is taken, however little it fits.
    assert _rows(memory, question, Search(gate=0.0, near=9.0)) == [
        [("Which country shares a border with Norway?", "Sweden")]
    ]


def test_of_paths_that_fit_equally_well_the_longer_comes_first() -> None:
    """To this embedder all texts are alike, and no word of the question is one of a relation."""

    def alike(texts: Sequence[str]) -> Vectors:
        return np.tile(np.array([1.0, 0.0], dtype=np.float32), (len(texts), 1))

    memory = GraphMemory(alike, gate=read_gate("character-ngrams"))
    memory.learn(NORWAY[:2])
    [finding] = memory.find(["Norway, please!"], OPEN)
    assert [[row.answer for row in path.rows] for path in finding.paths] == [["Jonas", "Marit"]]


def test_no_more_rows_are_taken_than_asked_for_and_paths_stay_whole() -> None:
    memory = _memory(*NORWAY)
    question = "Who is the spouse of the head of government of Norway?"
    assert _rows(memory, question, Search(gate=0.0, k=2))
    for path in _rows(memory, question, Search(gate=0.0, k=1, near=9.0)):
        assert len(path) == 1


@pytest.mark.parametrize("question", ["Who is the head of government of Peru?", "What is two plus two?", ""])
def test_a_question_without_a_known_name_gets_nothing(question: str) -> None:
    [finding] = _memory(*NORWAY).find([question], OPEN)
    assert finding.paths == ()
    assert finding.probability is None


def test_the_gate_passes_a_known_fact_and_closes_on_talk_about_a_known_name() -> None:
    memory = _memory(*NORWAY)
    [kept, closed] = memory.find(
        ["Who is the head of government of Norway?", "Sing me a song about snow and Norway, please!"]
    )
    assert kept.paths
    assert closed.paths == ()
    assert kept.probability is not None
    assert closed.probability is not None
    assert closed.probability < 0.5 <= kept.probability


def test_a_question_about_a_relation_that_the_subject_lacks_gets_nothing() -> None:
    memory = _memory(_case("Norway", "P6", "Jonas"), _case("Jonas", "P19", "Oslo"))
    questions = ["What is the official language of Norway?", "Where was Norway born?"]
    assert [finding.paths for finding in memory.find(questions)] == [(), ()]
    [finding] = memory.find(questions[:1])
    assert finding.evidence is not None
    assert finding.evidence.margin < 0


def test_the_aliases_of_a_case_are_names_of_its_subject() -> None:
    memory = _memory(*NORWAY)
    assert _rows(memory, "What is the capital of Noreg?") == []
    memory = _memory(replace(_case("Norway", "P36", "Oslo"), subject_aliases=("Norge", "Noreg")))
    assert _rows(memory, "What is the capital of Noreg?") == [[("What is the capital of Norway?", "Oslo")]]


def test_a_misspelt_name_is_found_unless_that_is_switched_off() -> None:
    memory = _memory(*NORWAY)
    assert _rows(memory, "What is the capital of Norwey?") == [[("What is the capital of Norway?", "Oslo")]]
    assert _rows(memory, "What is the capital of Norwey?", Search(gate=0.0, misspelt=False)) == []


def test_findings_do_not_depend_on_what_else_is_asked_nor_on_saving() -> None:
    memory = _memory(*NORWAY, _case("Norway", "P6", "Kari", old=["Jonas"], at="20220101_20230101"))
    questions = [case.question for case in NORWAY] + ["Who is the spouse of the head of government of Sweden?"]
    together = memory.find(questions, OPEN)
    loaded = GraphMemory(EMBED, gate=read_gate("character-ngrams"))
    loaded.load(memory.state())
    assert loaded.state() == memory.state()
    assert loaded.find(questions, OPEN) == together
    assert [memory.find([question], OPEN)[0] for question in questions] == together


def test_files_without_ids_are_learned_beside_one_another(tmp_path: Path) -> None:
    def asked(name: str, wording: str, targets: Sequence[str], old: Sequence[str] = ("Ek", "Holm")) -> list[Case]:
        rows = [
            {"prompt": wording.format(town), "subject": town, "target_new": target, "ground_truth": before}
            for town, target, before in zip(("Arvika", "Borgholm"), targets, old, strict=True)
        ]
        return list(EditFile.open(write_json(tmp_path / name, *rows)).cases())

    leaders = asked("leaders.json", "Who is the mayor of {}?", ("Olof Gren", "Tove Friis"))
    rivers = asked("rivers.json", "Which river flows through {}?", ("Byälven", "Solgenån"))
    later = asked("later.json", "Who is the mayor of {}?", ("Karl Ros", "Lena Ström"), ("Olof Gren", "Tove Friis"))
    memory = _memory(*leaders, *rivers, *later)
    answers = [_rows(memory, case.question)[0][0][1] for case in (*leaders, *rivers)]
    assert answers == ["Karl Ros", "Lena Ström", "Byälven", "Solgenån"]


def test_edits_without_ids_chain_by_their_labels() -> None:
    first, second = (
        Case(
            case_id=str(number),
            timestep="edits.json",
            tag="new",
            fact=Fact("", subject, "", "", "", thing),
            question=question,
            answer=thing,
            cloze="",
            old_objects=(),
            old_answers=(),
            probes=(),
        )
        for number, (subject, question, thing) in enumerate(
            [
                ("Norway", "Who is the head of government of Norway?", "Jonas"),
                ("Jonas", "Who is the spouse of Jonas?", "Marit"),
            ]
        )
    )
    memory = _memory(first, second)
    [finding] = memory.find(["Who is the spouse of the head of government of Norway?"], OPEN)
    assert [row.case_ids for row in finding.paths[0].rows] == [("0",), ("1",)]


def test_a_memory_is_read_back_from_its_file(tmp_path: Path) -> None:
    memory = _memory(*NORWAY, replace(_case("Finland", "P36", "Helsinki"), subject_aliases=("Suomi",)))
    write_memory_file(tmp_path / "memory", memory.tables(), {})
    loaded = _memory()
    loaded.load_tables(read_memory_file(tmp_path / "memory").tables)
    questions = ["What is the capital of Suomi?", "Who is the spouse of the head of government of Norwey?"]
    assert loaded.find(questions, OPEN) == memory.find(questions, OPEN)
    assert all(finding.paths for finding in loaded.find(questions, OPEN))


def test_facts_learned_at_once_or_one_by_one_answer_alike() -> None:
    cases = [*NORWAY, _case("Norway", "P6", "Kari", old=["Jonas"], at="20220101_20230101")]
    together, apart = _memory(*cases), _memory()
    for case in cases:
        apart.learn([case])
    for question in [case.question for case in cases]:
        assert _rows(together, question) == _rows(apart, question)


def test_a_second_hop_says_how_the_first_one_led_to_its_subject() -> None:
    [finding] = _memory(*NORWAY).find(["Who is the spouse of the head of government of Norway?"], OPEN)
    first, second = finding.paths[0].rows
    assert first.bridged == first.question
    assert second.bridged == second.question.replace("?", " (the head of government of Norway)?")


def test_a_catalogue_that_has_changed_on_disk_has_the_words_of_its_new_content(tmp_path: Path) -> None:
    def stems_with(verb: str, noun: str) -> set[str]:
        entry = {
            "question": f"Who {verb} {{subject}}?",
            "rephrase": f"Who is the {noun} of {{subject}}?",
            "cloze": f"The {noun} of {{subject}} is",
            "phrase": f"the {noun} of {{subject}}",
            "answer": "person",
        }
        generic = {name: text.replace("{subject}", "{subject} ({property})") for name, text in entry.items()}
        content = {"name": "own", "version": 1, "generic": generic, "templates": {"P6": entry}}
        (tmp_path / "own.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        return set(CatalogueWordings(EMBED, tmp_path / "own.yaml").postings)

    first, second = stems_with("governs", "governor"), stems_with("chairs", "chairman")
    assert ("govern" in first, "chair" in first) == (True, False)
    assert ("govern" in second, "chair" in second) == (False, True)
