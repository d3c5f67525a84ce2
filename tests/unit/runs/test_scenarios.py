"""Scenarios of WikiFactDiff from a file to the report."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from world.edit_files import WIKIFACTDIFF, Json, write_lines
from world.small_models import save, small_model

from kgedit.analysis.tables import Estimate
from kgedit.analysis.wikifactdiff import scenarios_table
from kgedit.llm.backends.contract import TransformersBackend
from kgedit.llm.generation import PresetQuestion, Question
from kgedit.llm.presets import PRESETS
from kgedit.runs.run_files import read_answers, read_runs
from kgedit.runs.runner import run
from kgedit.runs.scoring import write_scores
from kgedit.runs.spec import resolve, write_spec


def row(subject: str, *objects: tuple[str, str]) -> Json:
    things = [{"id": f"Q{label}", "label": label, "decision": decision} for label, decision in objects]
    changed = {"subject": {"id": f"Q{subject}", "label": subject}, "objects": things}
    return copy.deepcopy(WIKIFACTDIFF) | changed | {"update_prompt": f"The mayor of {subject} is ____"}


ROWS = (
    WIKIFACTDIFF,
    row("Hjo", ("Ada Holm", "new"), ("Per Lund", "static")),
    row("Falun", ("Eva Berg", "new")),
    row("Luleå", ("Jan Sjö", "obsolete")),
)


SCENARIOS = ("AddObject", "AddRelation", "Archive")


def test_every_answer_that_is_fed_has_the_probability_that_it_has_alone() -> None:
    model = small_model()
    question = Question(
        "The mayor of Hjo is", "Ada Holm", ("Nils Ek",), ("Per Lund", "Eva Berg"), ("Ida Ask", "Ulf Rask")
    )
    backend = TransformersBackend(model)
    (together,) = backend.ask([PresetQuestion(question, PRESETS["synthetic"])])
    alone = {
        text: backend.ask([PresetQuestion(Question(question.prompt, text), PRESETS["synthetic"])])[0].probability or 0
        for text in question.fed
    }
    assert together.probability == pytest.approx(alone["Ada Holm"], rel=1e-4)
    assert together.old_probability == pytest.approx(alone["Nils Ek"], rel=1e-4)
    assert together.static_probability == pytest.approx((alone["Per Lund"] + alone["Eva Berg"]) / 2, rel=1e-4)
    assert together.alternative_probability == pytest.approx((alone["Ida Ask"] + alone["Ulf Rask"]) / 2, rel=1e-4)
    assert together.highest_alternative == pytest.approx(max(alone["Ida Ask"], alone["Ulf Rask"]), rel=1e-4)


def test_a_run_scores_added_and_archived_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    raw = {
        "timesteps": [str(write_lines(tmp_path / "edits.jsonl", *ROWS))],
        "model": str(save(small_model(), tmp_path / "model")),
        "method": "ft_m",
        "settings": {"steps": 20, "learning_rate": 0.01},
        "presets": ["synthetic", "wild"],
        "device": "cpu",
        "archive_as": "nobody",
    }
    spec = resolve(raw)
    assert "archive_as: nobody" in write_spec(spec)
    folder = run(spec, tmp_path / "run")
    write_scores(folder)
    answers = list(read_answers(folder))
    result = {(one.preset, one.scenario) for one in answers if one.axis == "update"}
    assert result == {(preset, name) for preset in ("synthetic", "wild") for name in ("ReplaceObject", *SCENARIOS)}
    assert all(one.alternative_probability is None for one in answers if one.preset == "wild")

    table = scenarios_table(read_runs([folder]), "synthetic")
    assert table is not None
    assert scenarios_table(read_runs([folder]), "wild") is None
    columns = [column.name for column in table.columns]
    rows = [dict(zip(columns, cells, strict=True)) for cells in table.rows]
    update = {cells["scenario"]: cells for cells in rows if cells["axis"] == "update"}
    assert set(update) == set(SCENARIOS)
    measured = {
        name: {key for key, cell in cells.items() if isinstance(cell, Estimate)} for name, cells in update.items()
    }
    assert measured == {
        "AddObject": {"gain", "preferred", "static loss"},
        "AddRelation": {"gain", "preferred"},
        "Archive": {"archive drop", "archived", "replaced"},
    }
    gain = update["AddRelation"]["gain"]
    assert isinstance(gain, Estimate)
    probability = {
        one.model_state.timestep is None: one.probability
        for one in answers
        if (one.axis, one.preset, one.scenario) == ("update", "synthetic", "AddRelation")
    }
    assert gain.mean == pytest.approx((probability[False] or 0) - (probability[True] or 0))
    assert gain.mean > 0, "it was trained"
