"""A corpus is counted by table (JSON, tabs, commas, with or without a heading) or in texts: whole words, in order."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgedit.errors import TimestepError
from kgedit.timesteps.specificity import corpus_counts, corpus_version, count_in_texts, read_counts

WORDS = st.sampled_from(["New", "York", "new", "São", "Q1", "a"])
BETWEEN = st.sampled_from([" ", ", ", "\n", ". ", " – "])
TEXTS = st.lists(st.tuples(WORDS, BETWEEN), max_size=30).map(lambda parts: "".join(a + b for a, b in parts))
NAMES = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)


def counted_one_by_one(texts: list[str], name: str) -> int:
    words = re.findall(r"\w+", name)
    read = [re.findall(r"\w+", text) for text in texts]
    return sum(text[i : i + len(words)] == words for text in read for i in range(len(text)))


@given(
    texts=st.lists(TEXTS, min_size=1, max_size=3),
    names=st.sets(NAMES, min_size=1, max_size=6),
    block=st.integers(8, 99),
)
@pytest.mark.slow
def test_every_occurrence_counts_whatever_the_size_of_a_block(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], names: set[str], block: int
) -> None:
    folder = tmp_path_factory.mktemp("texts")
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("kgedit.timesteps.specificity._BLOCK", block)
        found = corpus_counts(folder, names)
    assert found == {name: counted_one_by_one(texts, name) for name in names}


def test_all_forms_of_texts_count_alike_and_other_files_are_left_out(tmp_path: Path) -> None:
    texts = ["New York is large.", "York, not New\nYork!"]
    (tmp_path / "a.txt").write_text(texts[0], encoding="utf-8")
    (tmp_path / "b").mkdir()
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (tmp_path / "b" / "c.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    pq.write_table(pa.table({"id": [1, 2], "text": texts}), tmp_path / "d.parquet")
    (tmp_path / "README.md").write_text("New York", encoding="utf-8")
    names = ["New York", "York", "large York", "!"]
    found = corpus_counts(tmp_path, names)
    assert found == {"New York": 5, "York": 7, "large York": 0}, "no name reaches into the next text"
    assert list(corpus_version(tmp_path)) == ["a.txt", "b/c.jsonl.gz", "d.parquet"]


@pytest.mark.parametrize(("name", "content"), [("a.txt", b"\xff"), ("a.jsonl", b"{}\n"), ("a.parquet", b"PAR1")])
def test_a_text_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TimestepError, match=re.escape(str(path))):
        count_in_texts([path], ["York"])


def test_a_folder_without_texts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TimestepError, match="has no texts"):
        corpus_counts(tmp_path, ["York"])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("counts.json", '{"Canada": 12, "Q9": 3}'),
        ("counts.tsv", "label\tcount\nCanada\t12\nQ9\t3\n"),
        ("counts.csv", "Canada,12\n\nQ9,3\n"),
        ("counts.csv", "label,language,count\nCanada,en,12\nQ9,en,3\n"),
    ],
)
def test_a_label_and_its_count(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert read_counts(path) == {"Canada": 12, "Q9": 3}


def test_a_label_may_have_quotation_marks_and_line_separators(tmp_path: Path) -> None:
    path = tmp_path / "counts.tsv"
    path.write_text('"Heroes" (album)\t7\n"Heroes\t5\nNew\u2028York\t9\n"Weird Al" Yankovic\t4\n', encoding="utf-8")
    found = {'"Heroes" (album)': 7, '"Heroes': 5, "New\u2028York": 9, '"Weird Al" Yankovic': 4}
    assert read_counts(path) == found


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("counts.tsv", "Canada\t12\nFrance\tmany\n", "Line 2"),
        ("counts.tsv", "Canada\t12\nFrance\n", "Line 2"),
        ("counts.json", '{"Canada": "12"}', "The object"),
        ("counts.json", "{", "Line 1"),
    ],
)
def test_what_is_no_count_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TimestepError, match=message):
        read_counts(path)
