"""MEND: the network starts as plain gradient descent, learns, is saved, and applies the update that training saw."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from world.small_models import ARCHITECTURES, changed, small_model, weights

from kgedit.editing import make_editor
from kgedit.editing.gradient_transform import hypernetwork
from kgedit.editing.gradient_transform.hypernetwork import Hypernetworks, updated, vectors_of
from kgedit.editing.gradient_transform.mend import Mend
from kgedit.errors import SpecError
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.forward_above import gradient_factors
from kgedit.llm.training import encode_targets, target_loss
from kgedit.progress import ignore
from kgedit.records.cases import Case
from kgedit.resources import home
from kgedit.timesteps.timestep import Timestep

pytestmark = pytest.mark.usefixtures("own_home")


def _editor(model: LanguageModel, timestep: Timestep, **given: Any) -> Mend:
    editor = make_editor("mend", model, {"blocks": 2, "rank": 8, "train_steps": 3} | given, seed=7)
    editor.prepare(timestep.known_facts(), advance=ignore)
    return editor


def _loss(model: LanguageModel, case: Case) -> float:
    targets = encode_targets(model, [(case.question, case.answer)], learn_end=False)
    with torch.no_grad():
        return float(target_loss(model.forward(targets.ids, targets.mask, last=targets.last).logits, targets))


@pytest.mark.parametrize("roles", ["up,down", "down"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_update_of_an_edit_is_the_one_that_training_sees(
    architecture: str, roles: str, timestep: Timestep, cases: list[Case]
) -> None:
    model = small_model(architecture)
    editor = _editor(model, timestep, edit_rate=1e-2, matrices=roles)
    network = editor._network
    assert network is not None
    targets = encode_targets(model, [(cases[0].question, cases[0].answer)], learn_end=False)
    parts, before = gradient_factors(model, editor.matrices, targets)
    updates = [network(vectors_of(part, targets), number) for number, part in enumerate(parts)]
    with updated(editor.matrices, updates):
        expected = _loss(model, cases[0])
    untouched = weights(model)
    applied = editor.apply(cases[:1])

    assert applied.loss == pytest.approx(before)
    assert _loss(model, cases[0]) == pytest.approx(expected, rel=1e-4)
    assert abs(expected - before) > 1e-3
    assert len(changed(untouched, model)) == 2 * len(roles.split(","))


def test_an_untrained_network_descends_along_the_normalized_gradient(timestep: Timestep) -> None:
    network = _editor(small_model(), timestep, matrices="down")._new_network()
    vectors = torch.randn((40, 48 + 32), generator=torch.Generator().manual_seed(0)) * 3 + 1
    network.watch([vectors, vectors])
    inputs, outputs = network(vectors, 1)
    scores = ((vectors - vectors.mean(0)) / vectors.std(0)).detach()

    torch.testing.assert_close(inputs, scores[:, :48], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(outputs, scores[:, 48:] * 1e-4, atol=1e-8, rtol=1e-4)


def test_each_matrix_has_its_own_learning_rate() -> None:
    network = Hypernetworks([(4, 3), (4, 3)], rank=2, learning_rate=1e-4)
    vectors = torch.randn((40, 4 + 3), generator=torch.Generator().manual_seed(0))
    network.watch([vectors, vectors])
    (own,) = network._each()
    own.log_rate.data[1] += math.log(100)
    (inputs, outputs), (other_inputs, other_outputs) = (network(vectors, number) for number in (0, 1))

    torch.testing.assert_close(other_inputs, inputs)
    torch.testing.assert_close(other_outputs, 100 * outputs)


def test_the_first_step_of_training_changes_what_the_network_does(timestep: Timestep) -> None:
    """It begins where it changes nothing; a gradient must get through there."""
    network = _editor(small_model(), timestep, train_steps=1, learning_rate=1e-3)._network
    assert network is not None
    for own in network._each():
        assert all(up.abs().median().item() == pytest.approx(1e-3, rel=0.1) for up in own.up), "Adam's first step"


@pytest.mark.slow
def test_training_makes_better_edits(timestep: Timestep, cases: list[Case]) -> None:
    after = {}
    for steps in (1, 75):
        model = small_model()
        editor = _editor(model, timestep, train_steps=steps, learning_rate=1e-3, edit_weight=1.0, edit_rate=1e-3)
        losses = []
        for case in cases[:4]:
            editor.apply([case])
            losses.append(_loss(model, case))
            editor.restore()
        after[steps] = sum(losses) / len(losses)

    assert after[75] < after[1] - 0.5


def test_a_network_is_trained_once_and_kept(
    timestep: Timestep, cases: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _editor(small_model(), timestep)
    first.apply(cases[:1])
    kept = list((tmp_path / "home" / "networks").iterdir())
    assert len(kept) == 1
    assert kept[0].suffix == ".safetensors"

    monkeypatch.setattr("kgedit.editing.gradient_transform.mend.train", None)
    again = _editor(small_model(), timestep)
    again.apply(cases[:1])
    from_file = _editor(small_model(), timestep, network=str(kept[0]), train_steps=0)
    from_file.apply(cases[:1])

    assert changed(weights(first.model), again.model) == []
    assert changed(weights(first.model), from_file.model) == []


def test_training_the_same_twice_gives_the_same_network(
    timestep: Timestep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = []
    for name in ("one", "two"):
        monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / name))
        _editor(small_model(), timestep)
        files += list((tmp_path / name / "networks").iterdir())

    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("half", [False, True])
def test_training_that_was_interrupted_goes_on_to_the_same_bytes(
    half: bool, timestep: Timestep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float16 also with the scale of the losses, which falls in the first steps when it begins too high."""
    monkeypatch.setattr("kgedit.editing.gradient_transform.hypernetwork._STEPS_BETWEEN_WRITES", 2)
    monkeypatch.setattr("kgedit.llm.training._FIRST_SCALE", 2.0**24)

    def model() -> LanguageModel:
        made = small_model()
        made.module.to(torch.float16 if half else torch.float32)
        return made

    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "whole"))
    _editor(model(), timestep, train_steps=7)
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "cut"))
    steps: list[int] = []

    def killed_at(last: int) -> None:
        def advance(done: int, total: int) -> None:
            steps.append(done)
            if done == last:
                raise KeyboardInterrupt

        editor = make_editor("mend", model(), {"blocks": 2, "rank": 8, "train_steps": 7}, seed=7)
        with pytest.raises(KeyboardInterrupt):
            editor.prepare(timestep.known_facts(), advance=advance)

    killed_at(3)
    killed_at(5)
    _editor(model(), timestep, train_steps=7)
    whole, cut = (list((tmp_path / name / "networks").iterdir()) for name in ("whole", "cut"))

    assert steps == [0, 1, 2, 3, 2, 3, 4, 5], "each goes on from the last even number of steps"
    assert [path.name for path in whole] == [path.name for path in cut]
    assert whole[0].read_bytes() == cut[0].read_bytes()


def test_a_training_far_from_the_published_length_is_marked_in_the_results(
    timestep: Timestep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = _editor(small_model(), timestep).details()
    assert (short["train_steps"], short["published_train_steps"]) == (3, 100_000)
    assert short["notes"][0].startswith("the network was trained on 3 edits, 3e-05 of the published 100,000")

    monkeypatch.setattr("kgedit.editing.gradient_transform.mend.PUBLISHED_STEPS", 6)
    (kept,) = (home() / "networks").iterdir()
    assert _editor(small_model(), timestep, network=str(kept), train_steps=0).details()["notes"] == []
    save_file(load_file(kept), tmp_path / "unsaid.safetensors")
    unsaid = _editor(small_model(), timestep, network=str(tmp_path / "unsaid.safetensors")).details()
    assert (unsaid["train_steps"], unsaid["notes"]) == (None, [])


def test_matrices_of_one_shape_share_a_network_and_keep_their_own_statistics(timestep: Timestep) -> None:
    editor = _editor(small_model(), timestep, matrices="up,gate,down")
    network = editor._network
    assert network is not None
    assert [matrix.name for matrix in editor.matrices] == ["1.up", "1.gate", "1.down", "2.up", "2.gate", "2.down"]
    assert [(own.inputs, len(own.seen)) for own in network._each()] == [(32, 4), (48, 2)]
    means = [seen.mean for own in network._each() for seen in own.seen]
    assert not any(torch.equal(one, other) for one, other in pairwise(means) if len(one) == len(other))


def test_unknown_matrices_are_refused(timestep: Timestep) -> None:
    with pytest.raises(SpecError, match="expected up, gate, down"):
        _editor(small_model(), timestep, matrices="up,side")
    with pytest.raises(SpecError, match="have no gate"):
        _editor(small_model("gpt2"), timestep, matrices="gate")


def test_what_is_missing_is_said(
    timestep: Timestep, cases: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path))
    with pytest.raises(SpecError, match="needs a trained network"):
        _editor(small_model(), timestep, train_steps=0)
    with pytest.raises(SpecError, match="there is no file"):
        _editor(small_model(), timestep, network=str(tmp_path / "nowhere"))
    _editor(small_model(), timestep)
    (kept,) = (home() / "networks").iterdir()
    _editor(small_model(), timestep, network=str(kept))
    with pytest.raises(SpecError, match="contains no network"):
        _editor(small_model(), timestep, rank=9, network=str(kept))
    bare = make_editor("mend", small_model())
    with pytest.raises(SpecError, match="the timestep has 0"):
        bare.prepare([], advance=ignore)


def _zsre(path: Path, count: int) -> Path:
    rows = [
        {
            "subject": f"Town {number}",
            "src": f"Who is the mayor of Town {number}?",
            "alt": f"Olof {number}",
            "rephrase": f"Town {number} has which mayor?",
            "answers": [f"Asta {number}"],
            "loc": f"nq question: where does river {number} flow",
            "loc_ans": f"Falun {number}",
        }
        for number in range(count)
    ]
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path


def test_the_network_trains_on_a_file_of_edits_with_its_own_questions(
    timestep: Timestep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _zsre(tmp_path / "train.json", 6)
    drawn: list[list[tuple[str, str]]] = []
    draw = hypernetwork._draw

    def noted(*given: Any, **named: Any) -> Any:
        found = draw(*given, **named)
        drawn.append([asked.pair for asked in found])
        return found

    monkeypatch.setattr(hypernetwork, "_draw", noted)
    editor = _editor(small_model(), timestep, train_file=str(file), train_steps=4)

    assert len(drawn) == 4
    for edit, rephrased, kept in drawn:
        number = edit[1].removeprefix("Olof ")
        assert f"Who is the mayor of Town {number}?" in edit[0]
        assert f"Town {number} has which mayor?" in rephrased[0]
        assert rephrased[1] == edit[1]
        assert f"river {number} flow" in kept[0]
        assert kept[1] == f"Falun {number}"
    details = editor.details()["train_file"]
    assert (details["name"], details["edits"]) == ("train", 6)
    assert len(details["sha256"]) == 64


def test_a_network_is_kept_by_what_its_training_file_says(
    timestep: Timestep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    networks = home() / "networks"

    def kept(path: Path) -> set[str]:
        _editor(small_model(), timestep, train_file=str(path), train_steps=2)
        return {found.name for found in networks.iterdir()}

    first = kept(_zsre(tmp_path / "one.json", 3))
    assert kept(_zsre(tmp_path / "same.json", 3)) == first, "the same edits in another file"
    assert len(kept(_zsre(tmp_path / "more.json", 4)) - first) == 1
    with pytest.raises(SpecError, match=r"settings.train_file: there is no file"):
        _editor(small_model(), timestep, train_file=str(tmp_path / "none.json"))
    with pytest.raises(SpecError, match="at least two edits"):
        _editor(small_model(), timestep, train_file=str(_zsre(tmp_path / "single.json", 1)))
