"""Run spec templates with every setting of a method, its value and its meaning.

METHOD/MODEL is a published config under kgedit/hparams/configs; METHOD/default has the method's defaults.
"""

from __future__ import annotations

import yaml

from kgedit.errors import UnknownNameError
from kgedit.hparams.published import PublishedConfig, published_configs
from kgedit.hparams.settings import Settings, defaults, meanings
from kgedit.records.runs import Setting

DEFAULT = "default"


def spec_text(kind: type[Settings], method: str, model: str, *, file: str) -> str:
    """Text of a run spec with every setting of a method and its meaning, one per line.

    Args:
        kind: Settings class of the method.
        method: Name of the method.
        model: Name of a published config, or DEFAULT or "" for the defaults.
        file: Future file name, for the command in the first lines.

    Raises:
        UnknownNameError: if there is no such config.
    """
    published = _published(method, model or DEFAULT)
    values = {**defaults(kind), **(published.settings if published else {})}
    lines = [
        f"# {published.about if published else f'{method} with its defaults'}",
        f"# kgedit run-edit {file} --model FOLDER --timestep FOLDER",
        f"method: {method}",
        "settings:" if meanings(kind) else "settings: {}",
        *(f"  {name}: {_scalar(values.get(name))}  # {meaning}" for name, meaning in meanings(kind).items()),
    ]
    return "\n".join(lines) + "\n"


def _published(method: str, model: str) -> PublishedConfig | None:
    """Find a published config; None means the defaults."""
    if model == DEFAULT:
        return None
    configs = {config.model: config for config in published_configs(method)}
    if model not in configs:
        known = [DEFAULT, *configs]
        raise UnknownNameError("config", f"{method}/{model}", [f"{method}/{one}" for one in known])
    return configs[model]


def _scalar(value: Setting) -> str:
    return yaml.safe_dump(value, allow_unicode=True, width=1000).removesuffix("...\n").strip()
