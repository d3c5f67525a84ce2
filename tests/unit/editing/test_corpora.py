"""Text that statistics are built from, and its rows of tokens."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from world.small_models import small_model
from world.small_timestep import write_timestep

from kgedit.editing.corpora import Corpus, TextBudget, corpus_of, corpus_of_facts, corpus_of_files, pack
from kgedit.errors import ModelError
from kgedit.records.cases import KnownFact
from kgedit.timesteps.known_facts import sample_facts


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
    with pytest.raises(ModelError, match="corpus=prose"):
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
    sample = corpus_of("sample", timestep_facts)
    assert sample == corpus_of("sample", ())
    assert sample.texts == corpus_of_facts(sample_facts()).texts
    assert not set(sample.texts) & set(facts.texts)


def test_the_same_texts_are_read_from_every_form_of_file(tmp_path: Path) -> None:
    texts = ["One line.", "Åre lies at a lake.", "Another."]
    lines = "\n\n".join(texts) + "\n"
    rows = "".join(json.dumps({"id": number, "text": text}) + "\n" for number, text in enumerate(texts))
    (tmp_path / "a.txt").write_text(lines, encoding="utf-8")
    (tmp_path / "b.jsonl").write_text(rows, encoding="utf-8")
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(rows.encode()))
    pq.write_table(pa.table({"title": ["x"] * 4, "text": [*texts, None]}), tmp_path / "e.parquet")

    found = {path.name: corpus_of_files([path]) for path in sorted(tmp_path.iterdir())}
    assert {name: corpus.texts for name, corpus in found.items()} == dict.fromkeys(found, tuple(texts))
    assert len(found) == 5
    assert len({corpus.sha256 for corpus in found.values()}) == 1
    assert corpus_of(str(tmp_path / "e.parquet"), ()).texts == tuple(texts)


def test_a_file_that_is_not_of_its_form_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "fine"}\n{"content": "x"}\n', encoding="utf-8")
    (tmp_path / "b.txt.gz").write_bytes(b"plain")
    (tmp_path / "c.txt").write_bytes(b"\xff\xfe")
    (tmp_path / "d.parquet").write_bytes(b"PAR1")
    pq.write_table(pa.table({"title": ["x"]}), tmp_path / "e.parquet")
    for name, reason in (
        ("a.jsonl", "line 2 has no text in 'text'"),
        ("b.txt.gz", "Not a gzipped file"),
        ("c.txt", "not UTF-8"),
        ("d.parquet", "cannot be read"),
        ("e.parquet", "its columns are title, without 'text'"),
    ):
        with pytest.raises(ModelError, match=reason):
            corpus_of_files([tmp_path / name])


def test_of_a_large_file_a_sample_is_kept_that_the_order_does_not_change(tmp_path: Path) -> None:
    texts = [f"Text number {number} of many." for number in range(400)]
    (tmp_path / "a.txt").write_text("\n".join(texts), encoding="utf-8")
    (tmp_path / "b.txt").write_text("\n".join(reversed(texts)), encoding="utf-8")
    one, other = (corpus_of_files([tmp_path / name], most_characters=2000) for name in ("a.txt", "b.txt"))

    assert 1900 < sum(map(len, one.texts)) <= 2000
    assert set(one.texts) == set(other.texts)
    assert list(one.texts) == [text for text in texts if text in set(one.texts)], "in the file's order"
    numbers = sorted(int(text.split()[2]) for text in one.texts)
    assert numbers[0] < 100, "from the whole file"
    assert numbers[-1] > 300
    assert corpus_of_files([tmp_path / "a.txt"]).texts == tuple(texts)
