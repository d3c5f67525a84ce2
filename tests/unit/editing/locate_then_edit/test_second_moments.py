"""Statistics of a layer's inputs, against a plain forward pass."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from safetensors import safe_open
from world.small_models import ALL_ARCHITECTURES, changed, save, small_model, weights
from world.small_timestep import write_timestep

from kgedit.cli import main
from kgedit.editing.corpora import Corpus, TextBudget, pack
from kgedit.editing.hparams.locate_then_edit import statistics_tokens
from kgedit.editing.locate_then_edit import second_moments as statistics
from kgedit.editing.locate_then_edit.second_moments import (
    null_space,
    second_moments,
)
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.structure import by_row, hooks
from kgedit.resources import home

pytestmark = pytest.mark.usefixtures("own_home")

CORPUS = Corpus(
    "towns",
    (
        "The mayor of Falun is Axel Hed.",
        "Where was the mayor of Hjo born?",
        "Luleå lies far away. Mora, Hjo, Kalix, Arvika.",
    ),
)


def _dense(model: LanguageModel, layer: int, rows: list[list[int]]) -> torch.Tensor:
    """C from each row alone, without padding."""
    seen: list[torch.Tensor] = []
    handle = model.blocks[layer].down_projection.register_forward_pre_hook(
        lambda _, inputs: seen.append(by_row(inputs[0], 1)[0].double())
    )
    with hooks(handle), torch.no_grad():
        for row in rows:
            model.module(torch.tensor([row]))
    every = torch.cat(seen)
    return every.T @ every / len(every)


@pytest.mark.parametrize("architecture", ALL_ARCHITECTURES)
def test_the_second_moment_is_that_of_each_row_alone_padding_left_out(architecture: str) -> None:
    model = small_model(architecture)
    before = weights(model)
    rows = pack(model, CORPUS, TextBudget(tokens=50, length=16))
    found = second_moments(model, [0, 2], CORPUS, budget=TextBudget(tokens=50, length=16))

    assert len(rows[-1]) < len(rows[0]) == 16
    for layer in (0, 2):
        assert found[layer].tokens == sum(map(len, rows)) > 40
        assert found[layer].matrix.dtype == torch.float64
        assert torch.allclose(found[layer].matrix, _dense(model, layer, rows), rtol=1e-4, atol=1e-5)
    assert changed(before, model) == []


def test_statistics_are_kept_by_what_they_were_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model()
    first = second_moments(model, [1], CORPUS, budget=TextBudget(50, 16))[1]
    monkeypatch.setattr(statistics, "accumulate", None)  # a second pass over the text would fail
    again = second_moments(model, [1], CORPUS, budget=TextBudget(50, 16))[1]

    assert torch.equal(first.matrix, again.matrix)
    assert first.path == again.path
    assert first.path.is_relative_to(home() / "stats" / model.fingerprint)
    assert [path.name for path in first.path.parent.iterdir()] == [first.path.name]
    monkeypatch.undo()
    for corpus, budget in (
        (CORPUS, TextBudget(40, 16)),
        (CORPUS, TextBudget(50, 8)),
        (Corpus("x", ("Hjo",)), TextBudget(50, 16)),
    ):
        monkeypatch.setenv("KGEDIT_HOME", str(first.path.parents[2]))
        assert second_moments(model, [1], corpus, budget=budget)[1].path != first.path


def test_the_null_space_is_where_text_hardly_goes() -> None:
    moment = second_moments(small_model(), [1], CORPUS, budget=TextBudget(200, 32))[1]
    relative = null_space(moment, threshold=0.05, relative=True)
    absolute = null_space(moment, threshold=1e-3, relative=False)
    one = torch.eye(relative.shape[1], dtype=torch.float64)

    assert torch.allclose(relative.T @ relative, one, atol=1e-9)
    assert torch.trace(relative.T @ moment.matrix @ relative) <= 0.05 * moment.matrix.trace()
    assert torch.linalg.eigvalsh(absolute.T @ moment.matrix @ absolute).max() < 1e-3
    wider = null_space(moment, threshold=0.5, relative=True)
    assert 0 < relative.shape[1] < wider.shape[1] < len(moment.matrix)


def test_the_command_builds_statistics_and_says_where_they_are(tmp_path: Path) -> None:
    folder = save(small_model(), tmp_path / "model")
    timestep = write_timestep(tmp_path / "t")
    asked = ["stats", "--model", str(folder), "--layers", "0-1", "--device", "cpu", "--length", "32"]
    done = CliRunner().invoke(main, [*asked, "--timestep", str(timestep.folder), "--null-space", "0.1"])

    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert "null space" in lines[0]
    assert Path(lines[1].split("\t")[-1]).is_file()
    neither = CliRunner().invoke(main, asked)
    assert neither.exit_code == 1
    assert "either --timestep" in neither.output
    high = CliRunner().invoke(main, [*asked[:3], "--layers", "0-9", "--timestep", str(timestep.folder)])
    assert "blocks 0 to 2" in high.output


def test_statistics_say_how_many_tokens_they_have_for_each_dimension() -> None:
    found = second_moments(small_model(), [1], CORPUS, budget=TextBudget(tokens=48, length=16))[1]
    with safe_open(found.path, framework="pt") as file:
        said = file.metadata()

    assert found.tokens_per_dimension == found.tokens / 48
    assert (said["width"], float(said["tokens_per_dimension"])) == ("48", round(found.tokens / 48, 2))


def test_tokens_are_counted_by_width() -> None:
    assert [statistics_tokens(width) for width in (48, 1_536, 14_336)] == [40_000, 40_000, 26 * 14_336]
