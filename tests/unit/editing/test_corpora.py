"""Text that statistics are built from, and its rows of tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from world.small_models import small_model
from world.small_timestep import write_timestep

from kgedit.editing.corpora import Corpus, TextBudget, corpus_of, corpus_of_facts, corpus_of_files, pack
from kgedit.errors import ModelError
from kgedit.records.cases import KnownFact


@pytest.fixture
def timestep_facts(tmp_path: Path) -> list[KnownFact]:
    return write_timestep(tmp_path / "timestep").known_facts()


def test_a_long_context_does_not_make_long_rows() -> None:
    model = small_model()
    rows = pack(model, Corpus("long", ("The mayor of Mora. " * 700,)), TextBudget(tokens=3000, length=10**6))

    assert max(map(len, rows)) == 256  # what the model has positions for
    assert sum(map(len, rows)) == 3000


def test_text_comes_from_files_or_from_known_facts(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One line.\n\n  Another.  \n", encoding="utf-8")
    facts = write_timestep(tmp_path / "t").known_facts()

    assert corpus_of_files([tmp_path / "a.txt"]).texts == ("One line.", "Another.")
    assert f"{facts[0].question} {facts[0].answer}" in corpus_of_facts(facts).texts
    with pytest.raises(ModelError, match="cannot be read"):
        corpus_of_files([tmp_path / "b.txt"])
    with pytest.raises(ModelError, match="no text"):
        pack(small_model(), Corpus("none", ()), TextBudget())


def test_a_corpus_is_known_facts_prose_files_or_several_of_these(
    timestep_facts: list[KnownFact], tmp_path: Path
) -> None:
    file = tmp_path / "notes, mine.txt"
    file.write_text("A line.\n\nAnother.\n", encoding="utf-8")
    facts, prose = corpus_of("known_facts", timestep_facts), corpus_of("prose", timestep_facts)

    assert facts == corpus_of_facts(timestep_facts)
    assert prose.name == "prose.txt"
    assert len(prose.texts) > 10
    assert not set(prose.texts) & set(facts.texts)
    assert corpus_of("prose, known_facts", timestep_facts).texts == (*prose.texts, *facts.texts)
    assert corpus_of(str(file), timestep_facts).texts == ("A line.", "Another.")
