"""Cases that are longer than a model's table of positions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from world.small_models import ALL_ARCHITECTURES, changed, save, small_model, weights

import kgedit
from kgedit.errors import ModelError
from kgedit.llm.contexts import read_context
from kgedit.runs.lengths import refuse_long_edits
from kgedit.runs.runner import run
from kgedit.runs.spec import resolve

pytestmark = pytest.mark.usefixtures("own_home")

LONG = "The thing " * 150 + "mayor of Arvika is"
"""More tokens than the 256 positions of the small models."""


@pytest.mark.parametrize("architecture", ALL_ARCHITECTURES)
def test_models_with_a_table_of_positions_refuse_longer_texts_and_others_read_them(architecture: str) -> None:
    model = small_model(architecture)
    ids = torch.ones((1, 257), dtype=torch.long)
    if architecture not in ("gpt2", "gptj", "opt"):
        assert model.most_positions is None
        model.forward(ids, torch.ones_like(ids), last=1)
        return
    assert model.most_positions == 256
    with pytest.raises(ModelError, match="257 tokens is longer than the 256 positions"):
        model.forward(ids, torch.ones_like(ids), last=1)
    padded = torch.ones_like(ids)
    padded[0, 0] = 0
    model.forward(ids, padded, last=1)


def test_an_edit_may_fill_every_position() -> None:
    model, context = small_model("gpt2"), read_context("question_only")
    case = kgedit.make_case(prompt="a", subject="", target="b")
    longest = [kgedit.make_case(prompt="a" + "a" * more, subject="", target="b") for more in range(300)]
    lengths = [len(model.encode(one.question)) + len(model.encode_target("b", after=one.question)) for one in longest]

    refuse_long_edits(model, [case, longest[lengths.index(256)]], [context])
    with pytest.raises(ModelError, match="257 tokens"):
        refuse_long_edits(model, [case, longest[lengths.index(257)]], [context])


def test_a_run_names_the_case_that_is_too_long_before_it_begins(tmp_path: Path) -> None:
    rows = [
        {"prompt": prompt, "subject": "Arvika", "target_new": "Olof Gren", "ground_truth": "Ida Ask"}
        for prompt in ("The mayor of Arvika is", LONG)
    ]
    (tmp_path / "edits.json").write_text(json.dumps(rows), encoding="utf-8")
    raw = {
        "timesteps": [str(tmp_path / "edits.json")],
        "model": str(save(small_model("gpt2"), tmp_path / "model")),
        "presets": ["synthetic"],
        "device": "cpu",
    }
    for method in ("none", "ft_m"):
        with pytest.raises(
            ModelError, match=r"256 positions, .*: edit:1:1, 'The thing .*…' \(update, preset synthetic\): \d+ tokens\."
        ):
            run(resolve(raw | {"method": method}), tmp_path / method)
        assert not (tmp_path / method).exists()


def test_an_edit_that_is_too_long_changes_nothing() -> None:
    model = small_model("gpt2")
    before = weights(model)
    with pytest.raises(ModelError, match=r"256 positions, .*in the context question_only"):
        kgedit.edit(model, "ft_m", prompt=LONG, subject="Arvika", target="Olof Gren")

    assert changed(before, model) == []
