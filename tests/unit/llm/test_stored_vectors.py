"""Vectors of a fixed list of texts are read from disk by later processes, and are those that would be computed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from kgedit.llm.embeddings import Vectors, embedder_on_demand, load_embedder, read_or_compute, stored_vectors

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
