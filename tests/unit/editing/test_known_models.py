"""Published hyperparameters: found by what a model is, and good for its method."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import transformers
from world.small_models import small_model

from kgedit.editing import METHODS
from kgedit.editing.known_models import CONFIGS, fill, published_configs, published_for, read_config
from kgedit.editing.locate_then_edit import parse_layers
from kgedit.editing.settings import read_settings
from kgedit.errors import SpecError

KNOWN = {
    "gpt2-xl": transformers.GPT2Config(n_embd=1600, n_layer=48),
    "gpt-j-6b": transformers.GPTJConfig(),
    "llama-2-7b": transformers.LlamaConfig(vocab_size=32000),
    "llama-3-8b": transformers.LlamaConfig(vocab_size=128256),
    "mistral-7b": transformers.MistralConfig(),
}
FILES = sorted(path.relative_to(CONFIGS) for path in CONFIGS.glob("*/*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_published_config_is_one_of_its_methods_and_fits_its_model(file: Path) -> None:
    published = read_config(CONFIGS / file)
    settings, problems = read_settings(METHODS[file.parent.name].settings_type, published.settings, method=str(file))
    config = KNOWN[published.model]

    assert problems == []
    layers = parse_layers(getattr(settings, "layers", None) or str(getattr(settings, "layer", 0)))
    assert max(layers) < config.num_hidden_layers
    assert published_for(file.parent.name, config) == published
    assert (CONFIGS / file).read_text(encoding="utf-8").startswith(f"# {file.parent.name} on ")


def test_every_model_is_told_from_every_other() -> None:
    assert {item.model for item in published_configs("memit")} == KNOWN.keys()
    for name, config in KNOWN.items():
        found = published_for("memit", config)
        assert found is not None
        assert found.model == name
    assert published_for("memit", small_model().module.config) is None
    assert published_for("memit", transformers.LlamaConfig(num_hidden_layers=30)) is None


def test_a_setting_that_was_given_wins_over_the_published_and_that_over_the_derived() -> None:
    kind: Any = METHODS["memit"].settings_type
    published = published_for("memit", KNOWN["gpt2-xl"])
    settings, filled = fill(kind(steps=3), published, {"steps": 9, "preserve": 1.0, "together": 2})

    assert (settings.steps, settings.layers, settings.preserve, settings.together) == (3, "13-17", 20000, 2)
    assert "steps" not in filled
    assert filled["published_for"] == "gpt2-xl"
    assert filled.keys() - {"published_for"} <= {item.name for item in fields(kind)}


def test_a_file_that_is_no_config_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("steps: 3\n", encoding="utf-8")
    with pytest.raises(SpecError, match="'settings'"):
        read_config(tmp_path / "x.yaml")
