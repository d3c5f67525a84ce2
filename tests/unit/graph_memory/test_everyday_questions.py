"""A memory of the sample world finds what everyday questions ask for, and nothing for other texts."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

import everyday as measuring
import pytest
from everyday_questions import EverydayQuestion, read_nothing, read_questions
from everyday_transcript import transcript

from kgedit.graph_memory.asking import ask_memory
from kgedit.graph_memory.building import open_memory
from kgedit.graph_memory.graph_memory import GraphMemory
from kgedit.graph_memory.retrieval import Search
from kgedit.sample.generate import write_world
from kgedit.verbs.load_dump import DumpOptions, load_dump
from kgedit.verbs.memory import build_memory

NEAR = ("other relations", "more near misses", "wrong subject", "namesakes and other uses of a name")


@pytest.mark.parametrize("name", ["sample", "pat"])
def test_the_questions_are_many_and_in_two_parts(name: str) -> None:
    questions, nothing = read_questions(name), read_nothing(name)
    for several, least in ((questions, 150), (nothing, 200)):
        tuned = sum(each.is_tuned_on for each in several)
        assert len(several) >= least
        assert 0.4 < tuned / len(several) < 0.6
    assert all(each.needed for each in questions)


@pytest.fixture(scope="module")
def memory_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("everyday")
    for path in write_world(folder / "dumps"):
        if path.name.endswith(".json.gz"):
            day = datetime.date.fromisoformat(path.name.partition(".")[0])
            load_dump(folder / "home", path, day, options=DumpOptions(), steps=lambda *_: lambda *_: None)
    build_memory(folder / "sample.kgmemory", home=folder / "home")
    return folder / "sample.kgmemory"


@pytest.fixture(scope="module")
def memory(memory_file: Path) -> GraphMemory:
    return open_memory(memory_file, embedder="all-minilm-l6-v2", device="cpu")


def _measured(questions: Sequence[EverydayQuestion]) -> list[EverydayQuestion]:
    return [each for each in questions if not each.is_tuned_on]


@pytest.mark.models
def test_most_questions_get_their_facts_and_hardly_others(memory: GraphMemory) -> None:
    asked = measuring.ask_all(memory, _measured(read_questions("sample")))
    single = [each.found for each in asked if not each.question.is_two_hops]
    two_hops = [each.found for each in asked if each.question.is_two_hops]
    assert sum(single) / len(single) > 0.9
    assert sum(two_hops) / len(two_hops) >= 0.8
    assert sum(each.unasked for each in asked) / len(asked) < 0.3


@pytest.mark.models
def test_other_texts_get_nothing(memory: GraphMemory) -> None:
    passed = measuring.ask_all(memory, _measured(read_nothing("sample")))
    unrelated = [bool(each.facts) for each in passed if each.question.kind not in NEAR]
    assert sum(unrelated) / len(unrelated) <= 0.03
    assert sum(bool(each.facts) for each in passed) / len(passed) <= 0.05


@pytest.mark.models
@pytest.mark.parametrize(
    ("turns", "values"),
    [
        (["who's running norway these days?"], {"Jonas Gahr Støre"}),
        (["Is Angela Merkel still chancellor?"], {"Angela Merkel", "Olaf Scholz"}),
        (["Wer ist Bundeskanzler von Deutschland?"], {"Olaf Scholz"}),
        (["Wo wurde der Regierungschef von Norwegen geboren?"], {"Jonas Gahr Støre", "Oslo"}),
        (["Alfa Romeo belongs to a company. In which city does that company sit?"], {"Stellantis", "Amsterdam"}),
        (["Who employs Lionel Messi?"], {"Inter Miami CF"}),
        (["Who was chancellor of Germany in 2019?"], {"Angela Merkel"}),
        (["Who was the German chancellor (2019)?"], {"Angela Merkel"}),
        (["Chancellor of Germany 2019, who?"], {"Angela Merkel"}),
        (["Wer regierte 2019 Deutschland?"], {"Angela Merkel"}),
        (["Bei welchem Verein spielte 2022 Lionel Messi?"], {"Paris Saint-Germain F.C."}),
        (["Who was chancellor of Germany: 2019 vs 2024?"], {"Angela Merkel", "Olaf Scholz"}),
        (
            ["Who is prime minister of Italy?", "Giorgia Meloni.", "And her predecessor?"],
            {"Giuseppe Conte", "Giorgia Meloni"},
        ),
        (["Who runs Norway?", "Jonas Gahr Støre.", "Where was he born?"], {"Oslo"}),
        (["Who is CEO of Apple?", "Tim Cook.", "And Google?"], {"Sundar Pichai"}),
        (["Who was chancellor of Germany in 2020?", "Angela Merkel.", "And Italy?"], {"Giuseppe Conte"}),
        (["Who was chancellor of Germany in 2020?", "Angela Merkel.", "And Italy now?"], {"Giorgia Meloni"}),
        (["Who was chancellor of Germany in 2020?", "Angela Merkel.", "And now?"], {"Olaf Scholz"}),
        (["Who is chancellor of Germany?", "Olaf Scholz.", "And before 2021?"], {"Angela Merkel", "Olaf Scholz"}),
        (["Who was chancellor of Germany in 2020?", "Angela Merkel.", "And in 2022?"], {"Olaf Scholz"}),
        (
            ["Who was chancellor of Germany in 2020?", "Angela Merkel.", "And in Italy before?"],
            {"Giuseppe Conte", "Giorgia Meloni"},
        ),
    ],
)
def test_history_and_follow_ups(memory: GraphMemory, turns: list[str], values: set[str]) -> None:
    [finding] = memory.find([turns])
    assert {value.label for path in finding.paths for row in path.rows for value in row.values} == values


@pytest.mark.models
@pytest.mark.parametrize(
    "turns",
    [["Germany"], ["And the Germany?"], ["Hi", "Which country are you from?", "Germany"], ["Harald V of Norway"]],
)
def test_a_name_alone_asks_for_nothing(memory: GraphMemory, turns: list[str]) -> None:
    assert memory.find([turns])[0].paths == ()
    assert memory.find([turns], Search(gate=0))[0].paths


@pytest.mark.models
@pytest.mark.parametrize(
    "turn",
    [
        "Norway",
        "ok and Norway",
        "Thanks! And Norway?",
        "And what about Norway's one?",
        "Same for Norway",
        "No, I meant Norway.",
    ],
)
def test_a_turn_with_another_name_repeats_the_earlier_question(memory: GraphMemory, turn: str) -> None:
    [finding] = memory.find([["Who is the chancellor of Germany?", "Olaf Scholz.", turn]])
    assert [value.label for path in finding.paths for row in path.rows for value in row.values] == ["Jonas Gahr Støre"]


@pytest.mark.models
@pytest.mark.parametrize(
    "turn",
    [
        "Tell me a joke about Norway.",
        "What is the capital of Norway?",
        "Was she popular?",
        "Explain your answer now in French.",
        "Wie ist das Wetter in Norwegen?",
    ],
)
def test_a_turn_about_something_else_does_not_repeat_the_earlier_question(memory: GraphMemory, turn: str) -> None:
    [finding] = memory.find([["Who is the chancellor of Germany?", "Olaf Scholz.", turn]])
    assert not finding.paths


@pytest.mark.models
def test_a_given_date_or_dates_that_are_not_read_apply_to_a_follow_up_too(memory: GraphMemory) -> None:
    turns = ["Who was chancellor of Germany in 2020?", "Angela Merkel.", "And Italy?"]
    given = memory.find([turns], as_of="2023-05")
    unread = memory.find([turns], Search(dated=False))
    assert [[row.answer for row in each.paths[0].rows] for each in (*given, *unread)] == [["Giorgia Meloni"]] * 2


@pytest.mark.models
@pytest.mark.parametrize(
    ("question", "facts"),
    [
        ("Who chairs the Democratic Party in the United States?", []),
        ("Who chairs the American Democratic Party?", []),
        ("Who chairs the Democratic Party?", ["Democratic Party (party in Italy)"]),
        ("Who chairs the Italian Democratic Party?", ["Democratic Party (party in Italy)"]),
        ("Who chairs the Democratic Party in Italy?", ["Democratic Party (party in Italy)"]),
        ("Who governs Germany?", ["Germany"]),
    ],
)
def test_of_namesakes_the_one_that_is_asked_about_is_named(
    memory: GraphMemory, question: str, facts: list[str]
) -> None:
    [finding] = memory.find([question])
    asked = [row.question.rpartition(" of ")[2].removeprefix("the ") for path in finding.paths for row in path.rows]
    assert asked == [f"{each}?" for each in facts]


@pytest.mark.models
def test_a_longer_name_than_a_label_is_another_entity(memory: GraphMemory) -> None:
    assert [name for name, _ in memory.names_in("Who governs Norway?")] == ["Norway"]
    assert memory.names_in("Who governs New Norway?") == []
    [finding] = memory.find(["Who governs New Norway?"])
    assert finding.paths == ()


@pytest.mark.models
@pytest.mark.parametrize(
    ("question", "unused"),
    [
        ("Who is the chancellor of Austria?", {"chancellor": "excluded"}),
        ("Who is the chancellor of Germany in 1800?", {"chancellor": "excluded", "Germany": "no fact then"}),
        ("Who is the mayor of Berlin, Maryland?", {"Berlin": "excluded"}),
    ],
)
def test_a_name_without_facts_has_its_reason(memory: GraphMemory, question: str, unused: dict[str, str]) -> None:
    assert ask_memory(memory, question, Search()).unused == unused


@pytest.mark.models
def test_an_office_that_a_subject_lacks_gets_no_other_one(memory: GraphMemory) -> None:
    # Lyon is a name of the club, whose country has a head of government.
    for question in ("Who is the mayor of Lyon?", "mayor of Lyon", "Who is the mayor of Marseille?"):
        assert memory.find([question])[0].paths == ()
    [finding] = memory.find(["Who runs Lyon?"])
    assert [row.relation for path in finding.paths for row in path.rows] == ["P286"]


@pytest.mark.models
def test_what_kind_of_thing_something_is_is_asked_in_words_for_kinds(memory: GraphMemory) -> None:
    asked = ("What kind of thing is Oslo?", "Armin Laschet, a Green, or am I wrong?")
    found = [each.paths[0].rows[0].relation for each in memory.find(asked)]
    assert found == ["P31", "P102"]


@pytest.mark.models
@pytest.mark.parametrize(
    "question",
    [
        "Who is the mayor of London, Ontario?",
        "mayor of wiesbaden, minnesota",
        "Who is the mayor of the village near Vienna?",
        "Who is the president of the country south of Kenya?",
        "Who coaches the club from Norway?",
    ],
)
def test_what_is_elsewhere_or_near_gets_nothing(memory: GraphMemory, question: str) -> None:
    assert memory.find([question])[0].paths == ()


@pytest.mark.models
@pytest.mark.parametrize(
    ("question", "values"),
    [
        ("Who is the mayor of Boston, Massachusetts?", {"Michelle Wu"}),
        ("Who is the mayor of Vienna, Austria?", {"Michael Ludwig"}),
        ("who is the mayer of Skopjee", {"Danela Arsovska"}),
        ("Who coaches Portugal?", {"Roberto Martínez"}),
        ("citizenship of the head of government of Andorra", {"Xavier Espot Zamora", "Andorra"}),
        ("Neymar was in Paris, wasn't he? Who coaches Brentford now?", {"Thomas Frank"}),
        ("Who is the prime minister of Sweden and Norway?", {"Ulf Kristersson", "Jonas Gahr Støre"}),
        ("Who is the prime minister of Poland and Norway?", {"Donald Tusk", "Jonas Gahr Støre"}),
        ("Is the capital of Germany Bonn?", {"Berlin"}),
        ("Is the capital of Germany Berlin?", {"Berlin"}),
        ("Was the CEO of Twitter Elon Musk or Jack Dorsey?", {"Linda Yaccarino", "Elon Musk"}),
        ("Who leads Apple, Atlantis and France?", {"Tim Cook", "Gabriel Attal"}),
    ],
)
def test_qualified_misspelt_and_short_names(memory: GraphMemory, question: str, values: set[str]) -> None:
    [finding] = memory.find([question])
    assert {value.label for path in finding.paths for row in path.rows for value in row.values} == values


@pytest.mark.models
def test_the_transcript_in_the_documentation_is_what_the_proxy_sends(memory_file: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "measurements" / "2026-11-25-five-questions.md").read_text("utf-8")
    assert f"```text\n{transcript(memory_file)}```\n" in page
