"""Published hyperparameters, hparams/configs/METHOD/MODEL.yaml, for models that the papers used.

A model is recognised by its configuration (type, width, depth, vocabulary), never by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kgedit.errors import SpecError
from kgedit.hparams.yaml_errors import why_unreadable
from kgedit.records.runs import Setting

CONFIGS = Path(__file__).parent / "configs"


@dataclass(frozen=True, slots=True)
class PublishedConfig:
    """One config file.

    Attributes:
        model: The file's name without its ending.
        about: The file's first line: method, model and source.
        applies_to: Fields of a model's configuration with the values that they must have.
        settings: Hyperparameters.
    """

    model: str
    about: str
    applies_to: Mapping[str, Setting]
    settings: Mapping[str, Setting]


def published_configs(method: str) -> list[PublishedConfig]:
    """All that are known for a method, by name of the model; none for the method ""."""
    return [read_config(path) for path in sorted((CONFIGS / method).glob("*.yaml"))]


def read_config(path: Path) -> PublishedConfig:
    """A config file.

    Raises:
        SpecError: if it is not a mapping with `settings`.
    """
    try:
        text = path.read_text(encoding="utf-8")
        raw = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SpecError([why_unreadable(path, error)]) from error
    if not isinstance(raw, dict) or not isinstance(raw.get("settings"), dict):
        raise SpecError([f"{path} must be a mapping with 'settings' (and 'applies_to' for the models it is for)"])
    about = text.partition("\n")[0].removeprefix("#").strip()
    return PublishedConfig(path.stem, about, raw.get("applies_to") or {}, raw["settings"])


def published_for(method: str, config: Any) -> PublishedConfig | None:
    """What is published for the model with this transformers configuration, or None."""
    own = config.get_text_config()
    for published in published_configs(method):
        if all(getattr(own, name, None) == value for name, value in published.applies_to.items()):
            return published
    return None
