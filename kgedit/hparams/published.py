"""Published hyperparameters (hparams/configs/METHOD/MODEL.yaml) for the models used in the papers.

A model is recognised by its configuration (type, width, depth, vocabulary), never by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kgedit.errors import SpecError
from kgedit.records.runs import Setting

CONFIGS = Path(__file__).parent / "configs"

# In C where PyYAML has it, ten times as fast: every editor reads its method's configs.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class PublishedConfig:
    """One config file.

    Attributes:
        model: File name without extension.
        about: First line of the file: method, model and source.
        applies_to: Fields of the model configuration with their required values.
        settings: Hyperparameters.
    """

    model: str
    about: str
    applies_to: Mapping[str, Setting]
    settings: Mapping[str, Setting]


def published_configs(method: str) -> list[PublishedConfig]:
    """All configs of a method, ordered by model name; empty for the method ""."""
    return [read_config(path) for path in sorted((CONFIGS / method).glob("*.yaml"))]


def read_config(path: Path) -> PublishedConfig:
    """Read a config file.

    Raises:
        SpecError: if it is not a mapping with `settings`.
    """
    try:
        text = path.read_text(encoding="utf-8")
        raw = yaml.load(text, Loader=_LOADER)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SpecError([why_unreadable(path, error)]) from error
    if not isinstance(raw, dict) or not isinstance(raw.get("settings"), dict):
        raise SpecError([f"{path} must be a mapping with 'settings' (and 'applies_to' for the models it is for)"])
    about = text.partition("\n")[0].removeprefix("#").strip()
    return PublishedConfig(path.stem, about, raw.get("applies_to") or {}, raw["settings"])


def published_for(method: str, config: Any) -> PublishedConfig | None:
    """Published config for a model with this transformers configuration, or None."""
    own = config.get_text_config()
    for published in published_configs(method):
        if all(getattr(own, name, None) == value for name, value in published.applies_to.items()):
            return published
    return None


def why_unreadable(path: Path, error: OSError | UnicodeDecodeError | yaml.YAMLError) -> str:
    """Reason without error numbers, and the line where the YAML is invalid."""
    if isinstance(error, FileNotFoundError):
        return f"there is no file {path}"
    if isinstance(error, OSError):
        return f"{path} cannot be read: {error.strerror}"
    if isinstance(error, UnicodeDecodeError):
        return f"{path} is not UTF-8 text"
    mark = getattr(error, "problem_mark", None)
    where = f"{path}, line {mark.line + 1}" if mark else str(path)
    return f"{where}: the YAML is broken: {getattr(error, 'problem', None) or str(error).partition(chr(10))[0]}"
