"""Settings as users give them: numbers in any form, the reason against each wrong value."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml
from world.small_models import small_model

from kgedit.editing.hparams.fine_tuning import FtmSettings, LoraSettings
from kgedit.editing.hparams.memory_based import RagSettings
from kgedit.editing.hparams.settings import read_settings


def test_numbers_are_numbers_whatever_yaml_makes_of_them() -> None:
    raw = yaml.safe_load("{learning_rate: 5e-4, steps: '30', norm: none, layer: 2.0, learn_end: 'yes'}")
    assert raw["learning_rate"] == "5e-4", "YAML reads this as a string; otherwise this test tests nothing"

    settings, problems = read_settings(FtmSettings, raw, method="ft_m")

    assert problems == []
    assert settings is not None
    assert settings.values == {"learning_rate": 5e-4, "steps": 30, "layer": 2, "learn_end": True}


@pytest.mark.parametrize("null", [None, "null"])
def test_null_turns_off_what_a_setting_does_by_default(null: object) -> None:
    settings, problems = read_settings(LoraSettings, {"max_grad_norm": null, "rank": null}, method="lora")

    assert problems == []
    assert settings is not None
    assert settings.values == {"max_grad_norm": None}, "a rank has to be a number, so null leaves it open"
    assert settings.resolve(small_model()).settings.max_grad_norm is None


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
        ("learning_rte", 1, "did you mean 'learning_rate'"),
    ],
)
def test_a_wrong_value_is_refused_with_the_reason(name: str, value: object, reason: str) -> None:
    settings, problems = read_settings(FtmSettings, {name: value}, method="ft_m")

    assert settings is None
    assert reason in problems[0]


def test_a_number_is_no_text() -> None:
    assert "a text" in read_settings(RagSettings, {"embedder": 5}, method="rag")[1][0]


def test_every_wrong_setting_is_told_at_once() -> None:
    _, problems = read_settings(FtmSettings, {"steps": 0, "depth": 2, "lr": 1, "norm": "wide"}, method="ft_m")
    assert [problem.partition(" ")[0] for problem in problems] == [
        "settings.steps:",
        "settings.depth:",
        "settings.norm:",
        "there",
    ]


@pytest.mark.parametrize(("least", "below"), [("steps", 0), ("stop_loss", -1e-9), ("depth", -1e-9), ("layer", -1)])
def test_the_least_value_of_a_setting_is_taken_and_what_is_below_is_not(least: str, below: float) -> None:
    lowest = 1 if least == "steps" else 0
    assert read_settings(FtmSettings, {least: lowest}, method="ft_m")[1] == []
    assert "must be at least" in read_settings(FtmSettings, {least: below}, method="ft_m")[1][0]


def test_the_greatest_value_is_taken_and_an_excluded_one_is_not() -> None:
    assert read_settings(FtmSettings, {"depth": 1}, method="ft_m")[1] == []
    assert "greater than 0" in read_settings(FtmSettings, {"learning_rate": 0}, method="ft_m")[1][0]


def test_a_copy_of_a_config_needs_no_torch() -> None:
    script = (
        "import sys; sys.argv = ['kgedit', 'configs', 'cp', 'memit/gpt2-xl', '-']\n"
        "from kgedit.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "assert not {'torch', 'transformers', 'peft'} & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "method: memit" in done.stdout
