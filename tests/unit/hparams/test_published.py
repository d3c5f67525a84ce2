"""Published hyperparameters: found by what a model is, and good for its method."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import transformers
import yaml
from world.small_models import small_model

from kgedit.editing import METHODS
from kgedit.errors import SpecError
from kgedit.hparams.published import CONFIGS, fill, published_configs, published_for, read_config
from kgedit.hparams.settings import read_settings
from kgedit.llm.contexts import read_context

KNOWN = {
    "gpt2-xl": transformers.GPT2Config(n_embd=1600, n_layer=48),
    "gpt-j-6b": transformers.GPTJConfig(),
    "llama-2-7b": transformers.LlamaConfig(vocab_size=32000),
    "llama-3-8b": transformers.LlamaConfig(vocab_size=128256),
    "mistral-7b": transformers.MistralConfig(),
    "qwen2.5-7b": transformers.Qwen2Config(hidden_size=3584, num_hidden_layers=28),
    "phi-4": transformers.Phi3Config(hidden_size=5120, num_hidden_layers=40),
    "gemma-3-27b": transformers.Gemma3TextConfig(hidden_size=5376, num_hidden_layers=62),
}
FILES = sorted(path.relative_to(CONFIGS) for path in CONFIGS.glob("*/*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_published_config_is_one_of_its_methods_and_fits_its_model(file: Path) -> None:
    name, published = file.parent.name, read_config(CONFIGS / file)
    kind = METHODS[name].settings_type
    settings, problems = read_settings(kind, published.settings, method=name)
    config = KNOWN[published.model]

    assert problems == []
    layers = getattr(settings, "layers", None) or str(getattr(settings, "layer", 0))
    assert max(int(number) for number in re.findall(r"\d+", layers)) < config.num_hidden_layers
    assert published_for(name, config) == published
    assert METHODS[name].method == name
    assert published.about.startswith(f"{name} on ")
    assert {item.default for item in fields(kind) if item.name in published.settings} == {None}


def test_every_model_is_told_from_every_other() -> None:
    assert {published.model for method in METHODS for published in published_configs(method)} == KNOWN.keys()
    for method in METHODS:
        own = {published.model for published in published_configs(method)}
        found = {name: published_for(method, config) for name, config in KNOWN.items()}
        assert {name: published.model for name, published in found.items() if published} == {name: name for name in own}
    assert published_for("memit", small_model().module.config) is None
    assert published_for("memit", transformers.LlamaConfig(num_hidden_layers=30)) is None


def test_a_setting_that_was_given_wins_over_the_published_and_that_over_the_derived() -> None:
    kind: Any = METHODS["memit"].settings_type
    published = published_for("memit", KNOWN["gpt2-xl"])
    settings, filled = fill(kind(steps=3), published, {"steps": 9, "preserve": 1.0, "search_batch": 2})

    assert (settings.steps, settings.layers, settings.preserve, settings.search_batch) == (3, "13-17", 20000, 2)
    assert "steps" not in filled
    assert filled["published_for"] == "gpt2-xl"
    assert filled.keys() - {"published_for"} <= {item.name for item in fields(kind)}


@pytest.mark.parametrize("name", list(METHODS))
def test_a_method_takes_what_is_published_for_its_model_and_says_so(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = METHODS[name].settings_type
    layers = {"layer": 2, "layers": "1,2"}
    settings = {item.name: layers[item.name] for item in fields(kind) if item.name in layers}
    (tmp_path / name).mkdir()
    applies_to = {"hidden_size": 32, "num_hidden_layers": 3}
    text = yaml.safe_dump({"applies_to": applies_to, "settings": settings})
    (tmp_path / name / "small.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setattr("kgedit.hparams.published.CONFIGS", tmp_path)
    editor = METHODS[name](small_model(), kind(), asked=(read_context("question_only"),), seed=0)

    assert editor.derived()["published_for"] == "small"
    assert {setting: getattr(editor.settings, setting) for setting in settings} == settings
    if "layers" in settings:
        assert editor.derived()["layers"] == [1, 2]
    elif settings:
        assert editor.derived()["layer"] == 2


@pytest.mark.parametrize("name", list(METHODS))
def test_a_method_on_a_model_that_is_not_known_derives_everything(name: str) -> None:
    kind = METHODS[name].settings_type
    editor = METHODS[name](small_model(), kind(), asked=(read_context("question_only"),), seed=0)
    assert editor.derived()["published_for"] is None


def test_a_depth_that_was_given_goes_before_the_published_layer_and_before_nothing_else() -> None:
    kind: Any = METHODS["ft_l"].settings_type
    published = published_for("ft_l", KNOWN["mistral-7b"])
    assert fill(kind(), published, {})[0].layer == 21
    settings, filled = fill(kind(depth=0.5), published, {})
    assert (settings.layer, settings.norm) == (None, 5e-5)
    assert "layer" not in filled
    for name in ("first", "last"):
        ultraedit: Any = METHODS["ultraedit"].settings_type
        assert fill(ultraedit(**{name: 0.7}), published_for("ultraedit", KNOWN["mistral-7b"]), {})[0].layers is None


def test_blocks_that_the_model_does_not_have_are_refused() -> None:
    kind: Any = METHODS["ultraedit"].settings_type
    with pytest.raises(SpecError, match="the model has blocks 0 to 2, not"):
        METHODS["ultraedit"](small_model(), kind(layers="1-3"), asked=(read_context("question_only"),), seed=0)


def test_a_file_that_is_no_config_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("steps: 3\n", encoding="utf-8")
    with pytest.raises(SpecError, match="'settings'"):
        read_config(tmp_path / "x.yaml")
