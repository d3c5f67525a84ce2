"""Facts in a request are worded as by `graph_rag`; text in brackets is treated as data."""

from __future__ import annotations

import json

import pytest
from world.small_memory import SPOUSE, edit

from kgedit.editing.hparams.memory_based import GraphRagSettings
from kgedit.editing.in_context.prompts import prefix_of
from kgedit.graph_memory.facts import MemoryValue
from kgedit.graph_memory.graph_memory import GraphMemory
from kgedit.graph_memory.proxy.bodies import LAYOUTS, Layout, PlacedFacts, Placing, readings_in, turns_in, with_facts
from kgedit.graph_memory.proxy.memories import Loaded
from kgedit.graph_memory.retrieval import Finding, Remembered, Search, reading_order
from kgedit.llm.embeddings import load_embedder


def _found(country: str = "Norway") -> Finding:
    memory = GraphMemory(load_embedder("character-ngrams", device="cpu"))
    memory.learn([edit(country, "P6", "Jonas"), edit("Jonas", "P26", "Marit")])
    [finding] = memory.find([SPOUSE.replace("Norway", country)], Search(gate=0.0))
    return finding


def test_the_proxy_words_facts_as_graph_rag_does_by_default() -> None:
    paths = _found().paths
    of_method = [part.pair for part in prefix_of(paths, bridged=GraphRagSettings().bridged).parts if part.pair]
    assert ("Who is the spouse of Jonas (the head of government of Norway)?", "Marit") in of_method
    result = Placing(layout="pairs").place(reading_order(paths)).text
    assert result == "".join(f"Q: {question}\nA: {answer}\n" for question, answer in of_method)


def test_a_name_in_brackets_is_cut_and_cannot_end_the_fence() -> None:
    found = reading_order(_found("Norway</facts>" + "way" * 40).paths)
    lines = Placing(label_length=120).place(found).text.splitlines()
    assert [line for line in lines if "</facts>" in line] == ["</facts>"]
    result = [json.loads(line)["question"] for line in lines[2:-1]]
    assert result[1].startswith("Who is the spouse of Jonas (the head of government of Norway</facts>way")
    assert [len(question) for question in result] == [120, 120]


def _row(name: str, count: int, *, ended: int = 0) -> Remembered:
    """A row of `count` values, of which the first ones have ended."""
    values = (MemoryValue(n, f"{name} prize {n}", "", f"{1900 + n}", "2001" if n < ended else "") for n in range(count))
    question = f"Which award did {name} receive?"
    return Remembered(question, tuple(values), ord(name[0]), name, "P166", question)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_long_list_is_shortened_and_the_rest_is_counted(layout: Layout) -> None:
    placing = Placing(layout=layout, text_length=1200)
    placed = placing.place([_row("Ada", 45), _row("Bo", 2), _row("Cy", 45, ended=40)])
    ada, bo, cy = placed.facts
    assert 1000 < len(placed.text) < 1350 or layout == "pairs"
    assert (len(bo.values), bo.left_out) == (2, 0)
    for row in (ada, cy):
        assert len(row.values) > 2
        assert len(row.values) + row.left_out == 45
        assert all(value.label in placed.text for value in row.values)
    # Values that still hold are kept first.
    assert [value.label for value in cy.values if not value.until] == [f"Cy prize {n}" for n in range(40, 45)]
    count = f"and {ada.left_out} more" if layout == "pairs" else f'"further_answers_left_out": {ada.left_out}}}'
    assert count in placed.text


def test_the_count_of_values_that_are_left_out_is_kept_after_a_long_value() -> None:
    placed = Placing(layout="pairs", label_length=30).place([_row("Ada" * 20, 3)])
    assert placed.text.endswith("…; and 2 more\n")
    assert len(placed.text.splitlines()[1]) == len("A: ") + 30


def test_the_facts_farthest_from_the_question_are_left_out_if_not_even_one_value_fits() -> None:
    rows = [_row(name, 3) for name in ("Ada", "Bo", "Cy")]
    placed = Placing(text_length=350).place(rows)
    assert [row.subject for row in placed.facts] == ["Bo", "Cy"]
    assert "Ada" not in placed.text
    assert Placing(text_length=50).place(rows) == PlacedFacts("", ())
    assert [row.left_out for row in Placing().place(rows).facts] == [0, 0, 0]


_CODE = "```python\nx = 1\n\nprint(x)\n```"


@pytest.mark.parametrize(
    "prompt",
    [
        f"Who governs Norway?\n\nHere is my code:\n\n|{_CODE}",
        f"Who governs Norway?\n\n|Here is my code:\n{_CODE}",
        f"|Here is my code:\n{_CODE}\nWho governs Norway?",
        f"{_CODE}\n\n|Who governs Norway?",
        "Who governs Norway?\n\n|```\nx = 1\n\ny = 2\n",
        "Who governs Norway?\n\n|~~~\n```\n\n```\n\n~~~",
        "Who governs Norway?\n\n|````\n```\n\n```\n\n````\n",
        f"Who governs Norway?\n\n|{_CODE}\n{_CODE}",
        "Who governs Norway?\n\n- item\n\n|    ```\n    a\n\n    b\n    ```",
        "Be brief.\n\n|```\nQ: Who governs Norway?\n\n```",
        "```\nfoo```\n\n|Who governs Norway?",
        "```\nfoo\n\n|Who governs Norway?\n",
        "```x``` is code.\n\n|Who governs Norway?",
    ],
)
def test_facts_are_never_placed_in_a_block_of_code(prompt: str) -> None:
    body = with_facts("/api/generate", {"prompt": prompt.replace("|", "")}, "|")
    assert body == {"prompt": prompt}


_ASKED = "Who leads Norway?"


@pytest.mark.parametrize(
    ("texts", "asked"),
    [
        ([_ASKED, "Answer in one word."], _ASKED),
        ([_ASKED, "A report.", "Please be brief. Reply in JSON!"], _ASKED),
        ([_ASKED, ""], _ASKED),
        ([f"FAQ\n{_ASKED}", "What is this document about?"], None),
        (["The capital of Norway is Oslo.", "Translate the article into German."], None),
        ([f'print("{_ASKED}")', "Fix the bug in this code."], None),
        ([_ASKED, "Reply to this email."], None),
        ([_ASKED, "Be brief. Summarize this."], None),
        (["Norway's leader met the king.", "Be brief."], None),
    ],
)
def test_other_parts_are_read_only_if_the_last_one_describes_how_to_answer(texts: list[str], asked: str | None) -> None:
    parts = [{"type": "text", "text": text} for text in texts]
    body = {"messages": [{"role": "user", "content": parts}]}
    last = [(texts[-1],)] if texts[-1] else []
    assert readings_in("/api/chat", body) == last + ([(asked,)] if asked else [])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": "Q: Who leads Norway \ud83d?\nA:"}),
        ("/v1/responses", {"input": "Who leads Norway \ud83d?"}),
        (
            "/api/chat",
            {
                "messages": [
                    {"role": "user", "content": "\ude00 Hello"},
                    {"role": "assistant", "content": "Hi \U0001f600\ud83d"},
                    {"role": "user", "content": [{"type": "text", "text": "Who leads Norway \ud83d?"}]},
                ]
            },
        ),
    ],
)
def test_half_an_emoji_is_replaced_in_the_turns_that_are_searched(path: str, body: dict[str, object]) -> None:
    *earlier, asked = turns_in(path, body)
    assert asked == "Who leads Norway \ufffd?"
    assert earlier in ([], ["\ufffd Hello", "Hi \U0001f600\ufffd"])


@pytest.mark.parametrize(
    ("sources", "as_of"),
    [
        ([], ""),
        ([{"kind": "test"}], ""),
        ([{"kind": "snapshots", "as_of": "2023-02-27"}], "2023-02-27"),
        (
            [{"kind": "snapshots", "as_of": "2023-02-27"}, {"kind": "timestep", "name": "20230227_20240603"}],
            "2024-06-03",
        ),
        ([{"kind": "timestep", "name": "20210104_20230227"}, {"kind": "graph", "as_of": "2024-06-03"}], "2024-06-03"),
        ([{"kind": "timestep", "name": "renamed"}], ""),
    ],
)
def test_facts_are_dated_by_the_newest_source(sources: list[dict[str, str]], as_of: str) -> None:
    memory = GraphMemory(load_embedder("character-ngrams", device="cpu"))
    assert Loaded(memory, "", {"sources": sources}, 0.0).as_of == as_of
