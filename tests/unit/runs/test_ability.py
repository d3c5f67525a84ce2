"""General ability before and after the edits of a run, and the data of its cases in the run folder."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from world.small_models import save, small_model
from world.small_timestep import write_timestep

from kgedit.analysis.overviews import ability_table
from kgedit.errors import SpecError
from kgedit.llm.ability import TextLoss
from kgedit.metrics.scores import ability_scores
from kgedit.records.answer_table import case_hash
from kgedit.records.runs import UNEDITED, AbilityMeasurement, ModelState
from kgedit.records.scores import AbilityScore
from kgedit.runs import ability
from kgedit.runs.ability import HIGHEST_LOSS, PROSE, AbilityMeter, read_ability_text
from kgedit.runs.run_files import old_answers, read_ability, read_edited_cases, read_runs
from kgedit.runs.runner import run
from kgedit.runs.scoring import write_scores
from kgedit.runs.spec import resolve


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    write_timestep(tmp_path / "one", towns=range(3))
    save(small_model(), tmp_path / "model")
    (tmp_path / "text.txt").write_text("The mayor of Hjo was born in Falun.\n" * 4, encoding="utf-8")
    return {
        "timesteps": [str(tmp_path / "one")],
        "model": str(tmp_path / "model"),
        "method": "ft_m",
        "settings": {"steps": 8, "learning_rate": 0.01},
        "presets": ["synthetic"],
        "ability": str(tmp_path / "text.txt"),
        "device": "cpu",
    }


def measured(folder: Path) -> list[AbilityMeasurement]:
    return list(read_ability(folder))


def test_perplexity_is_measured_before_and_after_and_a_second_call_adds_nothing(
    spec: dict[str, object], tmp_path: Path
) -> None:
    folder = run(resolve(spec), tmp_path / "run")
    before, after = measured(folder)
    assert before.model_state == UNEDITED
    assert after.model_state.timestep is not None
    assert before.loss != after.loss
    assert (before.text, before.text_bytes) == ("text.txt", 144)
    run(resolve(spec), tmp_path / "run")
    assert measured(folder) == [before, after]

    write_scores(folder)
    table = ability_table(read_runs([folder]))
    assert table is not None
    row = dict(zip([column.name for column in table.columns], table.rows[0], strict=True))
    assert row["ratio"] == pytest.approx(2.718281828 ** (after.loss - before.loss), rel=1e-4)
    assert "worst" not in row


def test_single_edits_are_measured_each_while_they_are_in_the_model(spec: dict[str, object], tmp_path: Path) -> None:
    folder = run(resolve(spec | {"protocol": "single"}), tmp_path / "run")
    found = measured(folder)
    assert [item.case_id is None for item in found] == [True, False, False, False]
    assert len({item.loss for item in found}) == 4
    write_scores(folder)
    (score,) = [item for item in read_runs([folder])[0].scores.ability if item.model_state != UNEDITED]
    assert score.measured == 3
    assert score.worst_perplexity >= score.perplexity
    table = ability_table(read_runs([folder]))
    assert table is not None
    assert [table.rows[0][-2], table.rows[0][-1]] == [3, score.worst_perplexity]


@pytest.mark.slow
def test_a_killed_run_measures_each_state_once(spec: dict[str, object], tmp_path: Path) -> None:
    whole = [(item.model_state, item.loss) for item in measured(run(resolve(spec), tmp_path / "whole"))]
    calls = []
    run(resolve(spec), tmp_path / "counted", progress=lambda stage, done, total: calls.append(stage))
    for killed_at in [number for number, stage in enumerate(calls, start=1) if "ability" in stage]:
        left = killed_at

        def progress(stage: str, done: int, total: int) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise KeyboardInterrupt

        folder = tmp_path / f"killed-{killed_at}"
        with pytest.raises(KeyboardInterrupt):
            run(resolve(spec), folder, progress=progress)
        run(resolve(spec), folder)
        assert [(item.model_state, item.loss) for item in measured(folder)] == whole


def test_answers_of_the_unedited_model_take_no_time_in_a_second_run(spec: dict[str, object], tmp_path: Path) -> None:
    run(resolve(spec), tmp_path / "first")
    folder = run(resolve(spec | {"seed": 1}), tmp_path / "second")
    write_scores(folder)
    before, after = read_runs([folder])[0].scores.speed
    assert (before.edited, before.questions, before.seconds) == (False, 0, 0.0)
    assert before.cached > 0
    assert after.questions == before.cached
    assert after.seconds > 0


def test_without_the_option_nothing_is_measured(spec: dict[str, object], tmp_path: Path) -> None:
    folder = run(resolve(spec | {"ability": None}), tmp_path / "run")
    assert measured(folder) == []
    write_scores(folder)
    assert ability_table(read_runs([folder])) is None


def test_a_text_that_is_not_there_is_told_before_the_run(spec: dict[str, object]) -> None:
    with pytest.raises(SpecError, match=r"ability: there is no file nowhere\.txt"):
        resolve(spec | {"ability": "nowhere.txt"})


def test_the_prose_is_some_1500_words_of_plain_text() -> None:
    text = read_ability_text(PROSE)
    assert 1400 <= len(text.split()) <= 1700
    assert text.isascii()


def test_a_destroyed_model_has_a_score_that_json_can_hold() -> None:
    broken = AbilityMeasurement(
        model_state=ModelState("T"),
        case_id=None,
        text="t",
        text_sha256="0",
        tokens=10,
        text_bytes=40,
        loss=5000.0,
        seconds=1.0,
    )
    (score,) = ability_scores([broken])
    assert score.perplexity > 1e300
    assert msgspec.json.decode(msgspec.json.encode(score), type=AbilityScore) == score


def test_a_loss_that_is_no_number_is_the_highest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ability, "text_loss", lambda model, text: TextLoss(10, float("nan")))
    AbilityMeter(tmp_path, small_model(), PROSE).measure(UNEDITED)
    assert [item.loss for item in measured(tmp_path)] == [HIGHEST_LOSS]


def test_the_folder_knows_its_cases(spec: dict[str, object], tmp_path: Path) -> None:
    folder = run(resolve(spec | {"ability": None, "method": "none", "settings": {}}), tmp_path / "run")
    rows = read_edited_cases(folder).to_pylist()
    first = min(rows, key=lambda row: row["case_id"])
    assert (first["subject_label"], first["object_label"]) == ("Arvika", "Olof Gren")
    assert first["case"] == case_hash(first["timestep"], first["case_id"])
    assert old_answers(read_edited_cases(folder))[first["case"]] == ("Nils Ek",)
