"""Checks before a run begins that its backend suits its method, presets and model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.editing.hparams.settings import unknown
from kgedit.errors import MissingExtraError, UnknownNameError
from kgedit.llm.backends import BACKENDS
from kgedit.records.runs import Preset

if TYPE_CHECKING:
    from kgedit.editing.editor import Capabilities

DEFAULT = "transformers"


def problems_of_backend(
    name: str, url: str | None, *, model: str | None, capabilities: Capabilities | None, presets: Sequence[Preset]
) -> list[str]:
    """Every reason why a backend cannot carry out a run.

    Args:
        url: Address of the server, if given.
        model: Name or folder, if known.
        capabilities: Capabilities of the method; None if unknown.
    """
    if name == DEFAULT:  # known to torch alone, which may be missing where a spec is checked
        return [] if url is None else ["backend_url is for a backend that asks a server: give --backend openai"]
    try:
        backend = BACKENDS[name]
    except UnknownNameError:
        return [unknown("backend", name, list(BACKENDS))]
    found = []
    if backend.needs_url and not url:
        found.append(f"the backend {name} needs the server's address: give --backend-url http://HOST:PORT/v1")
    if url and not backend.needs_url:
        found.append(f"the backend {name} asks no server: leave out --backend-url")
    package, extra = backend.package
    if find_spec(package) is None:
        found.append(str(MissingExtraError(package, extra)))
    forced = [preset.name for preset in presets if preset.is_forced]
    if forced and not backend.feeds_answers:
        found.append(
            f"the backend {name} does not report the probability of a given answer, which {', '.join(forced)} needs: "
            "ask in presets that decode, such as wild or wild_chat"
        )
    stopping = [preset.name for preset in presets if preset.stop_entropy is not None]
    if stopping and not backend.returns_distributions:
        found.append(
            f"the backend {name} does not return the distribution of the next token, which the stop_entropy of "
            f"{', '.join(stopping)} needs: take the backend {DEFAULT}, or leave out stop_entropy"
        )
    if not backend.needs_weights:
        found += _problems_of_serving(name, model, capabilities)
    return found


def _problems_of_serving(name: str, model: str | None, capabilities: Capabilities | None) -> list[str]:
    found = []
    if capabilities is not None and not capabilities.lives_in_prompts:
        found.append(
            f"this method edits the model itself, and the backend {name} answers with its own model: save the "
            "edited model (--save-model), serve its folder, and ask it with the method 'none'"
        )
    saved = Path(model or "") / "kgedit.json"
    if saved.is_file() and json.loads(saved.read_text(encoding="utf-8")).get("weights") != "model":
        found.append(
            f"{model} contains edits beside the weights, which the backend {name} does not read: take the backend "
            f"{DEFAULT}, or save a model that was edited by a method that changes weights"
        )
    return found
