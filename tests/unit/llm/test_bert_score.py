"""BERTScore: a hand-worked example, and a plain slow implementation as the oracle."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoTokenizer
from world.small_encoders import save_small_bert

from kgedit.errors import ModelError
from kgedit.llm.bert_score import (
    EncodedText,
    Encoder,
    bert_scores,
    compare,
    inverse_document_frequencies,
    read_baseline,
    rescaled,
)
from kgedit.records.runs import BertScore

TEXTS = ["asta wik", "the mayor of mora is asta wik", "axel hed", "yes", "who was it the mayor of mora", "asta"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small_bert(tmp_path_factory.mktemp("models") / "bert")


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Encoder:
    return Encoder(folder)


def text_of(*vectors: tuple[float, float], ids: tuple[int, ...]) -> EncodedText:
    return EncodedText(ids, torch.tensor(vectors))


# Unit vectors at 0 and 90 degrees against one at 3-4-5: cosines .8 and .6.
CANDIDATE = text_of((1.0, 0.0), (0.0, 1.0), ids=(7, 8))
REFERENCE = text_of((0.8, 0.6), ids=(9,))


def test_an_example_worked_by_hand() -> None:
    score = compare(CANDIDATE, REFERENCE)
    assert score.precision == pytest.approx((0.8 + 0.6) / 2)
    assert score.recall == pytest.approx(0.8)
    assert score.f1 == pytest.approx(2 * 0.7 * 0.8 / 1.5)
    swapped = compare(REFERENCE, CANDIDATE)
    assert (swapped.precision, swapped.recall) == pytest.approx((0.8, 0.7))


def test_tokens_count_by_their_weights() -> None:
    score = compare(CANDIDATE, REFERENCE, weights={7: 3.0, 8: 1.0, 9: 5.0})
    assert score.precision == pytest.approx((3 * 0.8 + 0.6) / 4)
    assert score.recall == pytest.approx(0.8)
    assert compare(CANDIDATE, REFERENCE, weights={7: 0.0, 8: 0.0, 9: 0.0}) == compare(CANDIDATE, REFERENCE)


def test_idf_is_the_papers_with_plus_one_smoothing() -> None:
    weights = inverse_document_frequencies([(1, 2, 2), (1, 3), (1,)])
    assert weights[1] == pytest.approx(0.0)
    assert weights[2] == pytest.approx(math.log(4 / 2)), "twice in one reference counts once"
    assert weights[99] == pytest.approx(math.log(4))


@cache
def parts(folder: Path) -> tuple[Any, Any]:
    return AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()


def slow_score(
    folder: Path, candidate: str, reference: str, *, layer: int, idf: dict[int, float] | None
) -> list[float]:
    """Section 3 of the paper, a text at a time, in loops."""
    tokenizer, model = parts(folder)

    def read(text: str) -> list[tuple[int, list[float]]]:
        ids = tokenizer(text)["input_ids"]
        with torch.no_grad():
            states = model(torch.tensor([ids]), output_hidden_states=True).hidden_states[layer][0]
        return [(token, state.tolist()) for token, state in zip(ids, states, strict=True) if token > 2]

    def cosine(one: list[float], other: list[float]) -> float:
        dot = sum(a * b for a, b in zip(one, other, strict=True))
        return dot / math.sqrt(sum(a * a for a in one) * sum(b * b for b in other))

    def side(own: list[tuple[int, list[float]]], others: list[tuple[int, list[float]]]) -> float:
        weights = [1.0 if idf is None else idf[token] for token, _ in own]
        best = [max(cosine(vector, other) for _, other in others) for _, vector in own]
        return sum(w * b for w, b in zip(weights, best, strict=True)) / sum(weights)

    x, y = read(candidate), read(reference)
    precision, recall = side(x, y), side(y, x)
    return [precision, recall, 2 * precision * recall / (precision + recall)]


@pytest.mark.parametrize("layer", [0, 1, 2])
@pytest.mark.parametrize("with_idf", [False, True])
def test_batches_give_what_the_slow_implementation_gives(folder: Path, layer: int, with_idf: bool) -> None:
    encoder = Encoder(folder, layer=layer, batch_tokens=20)
    references = [encoder.tokens(text) for text in TEXTS]
    weights = inverse_document_frequencies(references) if with_idf else None
    known = {token: weights[token] for ids in references for token in ids} if weights else None
    pairs = [(one, other) for one in TEXTS for other in TEXTS]
    found = bert_scores(encoder, [(one, [other]) for one, other in pairs], weights=weights)
    for (one, other), score in zip(pairs, found, strict=True):
        expected = slow_score(folder, one, other, layer=layer, idf=known)
        assert [score.precision, score.recall, score.f1] == pytest.approx(expected, abs=2e-6), (one, other)


def test_the_same_text_scores_one_and_the_nearest_reference_counts(encoder: Encoder) -> None:
    (same, near, far) = bert_scores(
        encoder, [("asta wik", ["asta wik"]), ("asta", ["yes no", "asta wik"]), ("asta", ["yes no"])]
    )
    assert same.f1 == pytest.approx(1.0)
    assert near == bert_scores(encoder, [("asta", ["asta wik"])])[0]
    assert near.f1 > far.f1


def test_an_empty_text_scores_nothing_and_a_long_one_is_cut(encoder: Encoder) -> None:
    empty, long = bert_scores(encoder, [(" \n", ["asta wik"]), ("yes no " * 100, ["asta wik"])])
    assert empty == BertScore(precision=0.0, recall=0.0, f1=0.0)
    assert len(encoder.tokens("yes no " * 100)) == 36, "40 positions less two, less [CLS] and [SEP]"
    assert 0 < long.f1 < 1


def test_a_layer_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(ModelError, match="hidden layers 0 to 2"):
        Encoder(folder, layer=3)


def test_a_folder_without_an_encoder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no encoder that transformers can read"):
        Encoder(tmp_path)
    with pytest.raises(ModelError, match="There is no folder"):
        Encoder(tmp_path / "nowhere")


def test_scores_are_rescaled_by_the_baseline_of_their_layer(tmp_path: Path) -> None:
    table = tmp_path / "baseline.csv"
    table.write_text("LAYER,P,R,F\n0,0.3,0.3,0.3\n1,0.5,0.6,0.75\n", encoding="utf-8")
    baseline = read_baseline(table, 1)
    assert baseline == BertScore(precision=0.5, recall=0.6, f1=0.75)
    score = rescaled(BertScore(precision=0.9, recall=0.6, f1=0.5), baseline)
    assert (score.precision, score.recall, score.f1) == pytest.approx((0.8, 0.0, -1.0))
    with pytest.raises(ModelError, match="no baseline for layer 2"):
        read_baseline(table, 2)
