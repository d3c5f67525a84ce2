"""Published hyperparameters: found by what a model is, and good for its method."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
import yaml
from world.small_models import small_model
from world.small_timestep import a_case

from kgedit.editing import METHODS, make_editor
from kgedit.editing.hparams.settings import (
    CONFIGS,
    Resolved,
    published_configs,
    published_for,
    read_config,
    read_settings,
)
from kgedit.errors import SpecError
from kgedit.llm.contexts import read_context


class Qwen35Config(transformers.PretrainedConfig):  # type: ignore[misc]
    """Stands in for the class that transformers 4 does not have."""

    model_type = "qwen3_5_text"

    def __init__(self, **given: Any) -> None:
        self.hidden_size, self.num_hidden_layers = 4096, 32
        super().__init__(**given)


KNOWN = {
    "gpt2-xl": transformers.GPT2Config(n_embd=1600, n_layer=48),
    "gpt-j-6b": transformers.GPTJConfig(),
    "llama-2-7b": transformers.LlamaConfig(vocab_size=32000),
    "llama-3-8b": transformers.LlamaConfig(vocab_size=128256, max_position_embeddings=8192),
    "llama-3.1-8b": transformers.LlamaConfig(vocab_size=128256, max_position_embeddings=131072),
    "llama-3.2-3b": transformers.LlamaConfig(vocab_size=128256, hidden_size=3072, num_hidden_layers=28),
    "mistral-7b": transformers.MistralConfig(),
    "gemma-7b": transformers.GemmaConfig(),
    "xgen-7b": transformers.LlamaConfig(vocab_size=51200, max_position_embeddings=8192),
    "qwen2.5-7b": transformers.Qwen2Config(hidden_size=3584, num_hidden_layers=28),
    "qwen3.5-9b": getattr(transformers, "Qwen3_5TextConfig", Qwen35Config)(),
    "phi-4": transformers.Phi3Config(hidden_size=5120, num_hidden_layers=40),
    "gemma-3-27b": transformers.Gemma3TextConfig(hidden_size=5376, num_hidden_layers=62),
}
KIN = {"llama-3.1-8b": "llama-3-8b"}
"""Models with the values of another, except for methods that distinguish the two."""

FILES = sorted(path.relative_to(CONFIGS) for path in CONFIGS.glob("*/*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=str)
@pytest.mark.slow
def test_a_published_config_is_one_of_its_methods_and_fits_its_model(file: Path) -> None:
    name, published = file.parent.name, read_config(CONFIGS / file)
    settings, problems = read_settings(METHODS[name].settings_type, published.settings, method=name)
    config = KNOWN[published.model]

    assert problems == []
    assert settings is not None
    layers = str(settings.values.get("layers", settings.values.get("layer", 0)))
    assert max(int(number) for number in re.findall(r"\d+", layers)) < config.num_hidden_layers
    assert published_for(name, config) == published
    assert published.about.startswith(f"{name} on ")


def test_every_model_is_told_from_every_other() -> None:
    assert {published.model for method in METHODS for published in published_configs(method)} == KNOWN.keys()
    for method in METHODS:
        own = {published.model for published in published_configs(method)}
        expected = {name: name if name in own else KIN.get(name) for name in KNOWN}
        found = {name: published_for(method, config) for name, config in KNOWN.items()}
        assert {name: published.model for name, published in found.items() if published} == {
            name: model for name, model in expected.items() if model in own
        }
    assert published_for("memit", small_model().module.config) is None
    assert published_for("memit", transformers.LlamaConfig(num_hidden_layers=30)) is None


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, dict[str, Any]], None]:
    """Publishes values for models as small as those of the tests."""
    monkeypatch.setattr("kgedit.editing.hparams.settings.CONFIGS", tmp_path)

    def write(method: str, settings: dict[str, Any]) -> None:
        (tmp_path / method).mkdir()
        applies_to = {"hidden_size": 32, "num_hidden_layers": 3}
        text = yaml.safe_dump({"applies_to": applies_to, "settings": settings})
        (tmp_path / method / "small.yaml").write_text(text, encoding="utf-8")

    return write


def _resolve(method: str, given: dict[str, Any]) -> Resolved[Any]:
    settings, problems = read_settings(METHODS[method].settings_type, given, method=method)
    assert settings is not None, problems
    return settings.resolve(small_model())


def test_a_setting_that_was_given_wins_over_the_published_and_that_over_defaults_and_the_derived(
    publish: Callable[[str, dict[str, Any]], None],
) -> None:
    publish("memit", {"steps": 9, "clamp": 0.75, "preserve": 7.0, "layers": "1,2"})
    resolved = _resolve("memit", {"steps": 3})

    own = resolved.settings
    assert (own.steps, own.clamp, own.preserve, own.layers) == (3, 0.75, 7, "1,2")
    assert (own.weight_decay, own.search_batch) == (1e-3, 4)
    assert resolved.published_for == "small"


def _another(value: Any, name: str) -> Any:
    """A legal value that is neither the default nor what would be derived."""
    special = {"layer": 2, "layers": "1-2", "matrices": "up", "index": "hnsw", "length": 17, "stop": "target"}
    special |= {"start": "warm", "merge": "linear", "matrix": "up", "prefixes": 9, "distance": "plain"}
    special |= {"solve_on": "cpu", "embed_on": "cpu", "project": "step", "drift_at": "subject"}
    special |= {"into": "adapter", "wording": "question_answer", "counted": "read", "least": "mean"}
    special |= {"add_biases": True}  # without them the tests' model is refused
    if name in special:
        return special[name]
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return special.get(value, f"{value}x")
    return value + 1 if isinstance(value, int) else value * 0.9375


@pytest.mark.parametrize("name", list(METHODS))
def test_every_published_value_is_the_one_that_the_method_works_with(
    name: str, publish: Callable[[str, dict[str, Any]], None]
) -> None:
    values = {setting: _another(value, setting) for setting, value in _resolve(name, {}).settings if value is not None}
    if name == "locft_bf":
        values["matrices"] = "all"  # the other methods name MLP matrices
    publish(name, values)
    editor = make_editor(name, small_model(), contexts=(read_context("question_only"),))

    assert {setting: getattr(editor.settings, setting) for setting in values} == values
    if "layers" in values:
        assert editor.details()["layers"] == [1, 2]


@pytest.mark.parametrize("name", ["ft", "ft_l", "ft_m", "locft_bf"])
def test_fine_tuning_trains_with_the_published_learning_rate(
    name: str, publish: Callable[[str, dict[str, Any]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(name, {"learning_rate": 0.0123})
    rates: list[float] = []
    adam = torch.optim.Adam

    def watched(parameters: Any, lr: float, fused: bool) -> torch.optim.Adam:
        rates.append(lr)
        return adam(parameters, lr=lr, fused=fused)

    monkeypatch.setattr("torch.optim.Adam", watched)
    make_editor(name, small_model(), {"steps": 1}).apply([a_case()])
    assert rates == [0.0123]


@pytest.mark.parametrize("name", list(METHODS))
def test_a_method_on_a_model_that_is_not_known_derives_everything(name: str) -> None:
    resolved = _resolve(name, {})
    assert resolved.published_for is None
    assert set(resolved.settings.model_dump()) == set(METHODS[name].settings_type.model_fields)


def test_a_depth_that_was_given_goes_before_the_published_layer_and_before_nothing_else(
    publish: Callable[[str, dict[str, Any]], None],
) -> None:
    publish("ft_l", {"layer": 2, "norm": 5e-5})
    assert _resolve("ft_l", {}).settings.layer == 2
    assert _resolve("ft_l", {"depth": 0.65}).settings.layer == 2, "the default is no choice"
    own = _resolve("ft_l", {"depth": 0.1}).settings
    assert (own.layer, own.norm) == (0, 5e-5)
    publish("ultraedit", {"layers": "2"})
    for name, value in (("first", 0.4), ("last", 0.7)):
        assert _resolve("ultraedit", {name: value}).settings.layers != "2"


def test_blocks_that_the_model_does_not_have_are_refused() -> None:
    with pytest.raises(SpecError, match="the model has blocks 0 to 2, not"):
        make_editor("ultraedit", small_model(), {"layers": "1-3"})


def test_a_file_that_is_no_config_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("steps: 3\n", encoding="utf-8")
    with pytest.raises(SpecError, match="'settings'"):
        read_config(tmp_path / "x.yaml")
