"""Settings and specs: numbers in any form, every problem at once."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from world.small_timestep import write_timestep

from kgedit.editing import METHODS
from kgedit.errors import SpecError
from kgedit.hparams.fine_tuning import FtmSettings
from kgedit.hparams.settings import read_settings
from kgedit.records.runs import RunSpec
from kgedit.runs.spec import read_spec, resolve, spec_schema, write_spec


def test_numbers_are_numbers_whatever_yaml_makes_of_them() -> None:
    raw = yaml.safe_load("{learning_rate: 5e-4, steps: '30', norm: none, layer: 2.0, learn_end: 'yes'}")
    assert raw["learning_rate"] == "5e-4", "YAML reads this as a string; otherwise this test tests nothing"

    settings, problems = read_settings(FtmSettings, raw, method="ft_m")

    assert problems == []
    assert settings is not None
    assert settings.values == {"learning_rate": 5e-4, "steps": 30, "layer": 2, "learn_end": True}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("steps", "many", "a whole number"),
        ("steps", 2.5, "a whole number"),
        ("steps", True, "a whole number"),
        ("steps", 0, "at least 1"),
        ("learning_rate", "-1e-3", "greater than 0"),
        ("learning_rate", "inf", "finite"),
        ("depth", 1.5, "at most 1"),
        ("learn_end", 1, "true or false"),
        ("context", 5, "a text"),
        ("learning_rte", 1, "did you mean 'learning_rate'"),
    ],
)
def test_a_wrong_value_is_refused_with_the_reason(name: str, value: object, reason: str) -> None:
    settings, problems = read_settings(FtmSettings, {name: value}, method="ft_m")

    assert settings is None
    assert reason in problems[0]


def test_all_problems_of_a_spec_are_told_at_once(tmp_path: Path) -> None:
    raw = {
        "timesteps": [str(tmp_path / "nowhere")],
        "method": "ft_m",
        "settings": {"steps": "many", "lr": 1},
        "protocol": "sequentially",
        "presets": ["wilde"],
        "limit": 0,
        "device": "tpu",
        "sed": 3,
    }
    with pytest.raises(SpecError) as caught:
        resolve(raw)

    said = str(caught.value)
    expected = ("nowhere does not exist", "model is missing", "settings.steps", "'lr'", "did you mean 'sequential'")
    expected += ("did you mean 'wild'", "limit: must be at least 1", "tpu", "did you mean 'seed'")
    assert [part for part in expected if part not in said] == []
    assert len(caught.value.problems) == len(expected)


def test_an_unknown_method_is_met_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="Did you mean 'lora_merge'"):
        resolve({"timesteps": [str(tmp_path)], "model": "tiny", "method": "lora-merge"})


def test_batch_size_belongs_to_the_sequential_protocol(tmp_path: Path) -> None:
    write_timestep(tmp_path)
    base = {"timesteps": [str(tmp_path)], "model": "tiny", "method": "ft_m"}

    assert resolve(base).batch_size == 1
    assert resolve(base | {"batch_size": 5}).batch_size == 5
    assert resolve(base | {"protocol": "per_timestep"}).batch_size is None
    with pytest.raises(SpecError, match="batch_size is for the protocol 'sequential'"):
        resolve(base | {"protocol": "single", "batch_size": 5})


def test_a_resolved_spec_resolves_to_itself(tmp_path: Path) -> None:
    write_timestep(tmp_path / "step")
    mine = {
        "name": "mine",
        "context": "few_shot",
        "generation": "greedy",
        "truncation": "newline",
        "metric": "exact_match",
    }
    raw = {"timesteps": [str(tmp_path / "step")], "model": "tiny", "method": "lora", "presets": ["wild", mine]}
    spec = resolve(raw)
    (tmp_path / "spec.yaml").write_text(write_spec(spec), encoding="utf-8")

    assert resolve(read_spec(tmp_path / "spec.yaml").raw) == spec


def test_teacher_forcing_cannot_be_cut_short(tmp_path: Path) -> None:
    preset = {"name": "x", "context": "question_only", "generation": "teacher_forcing", "metric": "token_match"}
    with pytest.raises(SpecError, match="must be gold_length"):
        resolve({"timesteps": [], "model": "m", "method": "none", "presets": [preset | {"truncation": "newline"}]})


@pytest.mark.parametrize(
    ("generation", "metric", "reason"),
    [
        ("greedy", "token_match", "token_match cannot judge greedy; take contains or exact_match"),
        ("greedy", "unchanged", "unchanged judges locality only"),
        ("greedy", "exact_math", "did you mean 'exact_match'"),
    ],
)
def test_a_metric_that_cannot_judge_its_preset_is_refused_before_the_run(
    generation: str, metric: str, reason: str, tmp_path: Path
) -> None:
    write_timestep(tmp_path)
    truncation = "gold_length" if generation == "teacher_forcing" else "newline"
    preset = {"name": "x", "context": "question_only", "generation": generation, "truncation": truncation}
    raw = {"timesteps": [str(tmp_path)], "model": "m", "method": "none", "presets": [preset | {"metric": metric}]}
    with pytest.raises(SpecError, match=f"preset 'x': .*{reason}"):
        resolve(raw)


def test_the_schema_knows_every_field_and_every_methods_settings() -> None:
    schema = spec_schema()
    assert schema["properties"].keys() == {item.name for item in fields(RunSpec)}
    own = {rule["if"]["properties"]["method"]["const"]: rule["then"] for rule in schema["allOf"]}
    assert own.keys() == set(METHODS)
    steps = own["ft_m"]["properties"]["settings"]["properties"]["steps"]
    assert steps["anyOf"] == [{"minimum": 1, "type": "integer"}, {"type": "null"}]
    assert steps["description"] == "most steps of Adam per call"
