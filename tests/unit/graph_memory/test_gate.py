"""The gate: weights from a file, by embedder, and what they make of evidence."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgedit.errors import KgeditError
from kgedit.graph_memory.gate import DEFAULT_EMBEDDER, FEATURES, Evidence, Gate, Logistic, read_gate
from kgedit.graph_memory.relations import question_word


def _evidence(*, margin: float, hops: int) -> Evidence:
    """A path that exceeds its rivals by as much in every respect."""
    margins = {name: margin for name in FEATURES if name.endswith("margin")}
    others = {name: 0.0 for name in FEATURES if name not in margins}
    return Evidence(**{**others, **margins, "similarity": 0.9, "words": 1.0, "covered": 1.0}, hops=hops)


def test_paths_of_one_relation_and_longer_ones_have_weights_of_their_own() -> None:
    by_margin = tuple(1.0 if name == "margin" else 0.0 for name in FEATURES)
    gate = Gate(short=Logistic(0.0, by_margin), long=Logistic(-40.0, by_margin))
    assert gate.probability(_evidence(margin=0.0, hops=1)) == 0.5
    assert gate.probability(_evidence(margin=0.2, hops=1)) == pytest.approx(0.5498, abs=1e-4)
    assert gate.probability(_evidence(margin=0.2, hops=2)) < 1e-9


@pytest.mark.parametrize("embedder", [DEFAULT_EMBEDDER, "character-ngrams"])
def test_a_shipped_gate_passes_the_likelier_the_more_a_path_exceeds_its_rivals(embedder: str) -> None:
    gate = read_gate(embedder)
    probabilities = [gate.probability(_evidence(margin=margin, hops=1)) for margin in (-0.3, 0.0, 0.3)]
    assert probabilities == sorted(probabilities)
    assert probabilities[0] < probabilities[2]


def test_an_embedder_without_a_gate_takes_the_default_one() -> None:
    assert read_gate("all-mpnet-base-v2") == read_gate(DEFAULT_EMBEDDER)


def test_a_file_that_holds_no_gate_is_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "gates.yaml"
    path.write_text("gates: {all-minilm-l6-v2: {short: {intercept: 1}}}\n", encoding="utf-8")
    with pytest.raises(KgeditError, match=r"gates\.yaml contains no gate"):
        read_gate(DEFAULT_EMBEDDER, path)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Who leads X?", "who"),
        ("By whom was X written?", "who"),
        ("Tell me when X began.", "when"),
        ("In which year was X founded?", "when"),
        ("Where is X?", "where"),
        ("How many people live in X?", "how many"),
        ("Whose shirt does X wear?", ""),
        ("The whole of X", ""),
    ],
)
def test_the_first_question_word_says_what_type_of_answer_is_asked_for(text: str, word: str) -> None:
    assert question_word(text) == word
