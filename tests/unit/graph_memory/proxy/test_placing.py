"""Facts in a request are worded as by `graph_rag`; text in brackets is treated as data."""

from __future__ import annotations

import json

import pytest
from world.small_memory import SPOUSE, edit

from kgedit.editing.hparams.memory_based import GraphRagSettings
from kgedit.editing.in_context.prompts import prefix_of
from kgedit.graph_memory.graph_memory import GraphMemory
from kgedit.graph_memory.proxy.bodies import Placing, turns_in
from kgedit.graph_memory.proxy.memories import Loaded
from kgedit.graph_memory.retrieval import Finding, Search, reading_order
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
    result = Placing(layout="pairs").text(reading_order(paths))
    assert result == "".join(f"Q: {question}\nA: {answer}\n" for question, answer in of_method)


def test_a_name_in_brackets_is_cut_and_cannot_end_the_fence() -> None:
    lines = Placing(label_length=120).text(reading_order(_found("Norway</facts>" + "way" * 40).paths)).splitlines()
    assert [line for line in lines if "</facts>" in line] == ["</facts>"]
    result = [json.loads(line)["question"] for line in lines[2:-1]]
    assert result[1].startswith("Who is the spouse of Jonas (the head of government of Norway</facts>way")
    assert [len(question) for question in result] == [120, 120]


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
