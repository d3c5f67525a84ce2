"""A memory with a few facts about Norway and Sweden, as a file."""

from __future__ import annotations

from pathlib import Path

from world.small_cases import plain_case

from kgedit.graph_memory.gate import read_gate
from kgedit.graph_memory.graph_memory import GraphMemory
from kgedit.graph_memory.memory_file import write_memory_file
from kgedit.llm.embeddings import load_embedder
from kgedit.records.cases import Case, Fact

EMBED = load_embedder("character-ngrams", device="cpu")
NORWAY = "Who is the head of government of Norway?"
SPOUSE = "Who is the spouse of the head of government of Norway?"
_QUESTIONS = {
    "P6": ("head of government", "Who is the head of government of {}?"),
    "P26": ("spouse", "Who is the spouse of {}?"),
}


def edit(subject: str, relation: str, thing: str, *, at: str = "20210101_20220101") -> Case:
    """An edit whose ids are labels in lower case."""
    name, question = _QUESTIONS[relation]
    fact = Fact(subject.lower(), subject, relation, name, thing.lower(), thing)
    return plain_case(fact, timestep=at, tag="new", question=question.format(subject))


def small_memory(*more: Case, leader: str = "Jonas") -> GraphMemory:
    """Heads of government of Norway and Sweden and a spouse, with further facts."""
    memory = GraphMemory(EMBED, gate=read_gate("character-ngrams"))
    memory.learn([edit("Norway", "P6", leader), edit(leader, "P26", "Marit"), edit("Sweden", "P6", "Magdalena"), *more])
    return memory


def write_small_memory(path: Path, *more: Case, leader: str = "Jonas") -> str:
    """Write the memory; returns the file's hash."""
    memory = small_memory(*more, leader=leader)
    return write_memory_file(path, memory.tables(), {"sources": [{"kind": "test"}], "counts": memory.counts()})
