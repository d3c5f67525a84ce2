"""Environment of a run: versions, machine, model revision, hashes of timesteps and contexts, git commit."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from kgedit.editing.editor import Editor
from kgedit.llm.contexts import Context
from kgedit.llm.devices import device_name
from kgedit.records.runs import HashedInput, ModelRecord, RunEnvironment, RunSpec
from kgedit.timesteps.edit_files import Edits

_PACKAGES = (
    "kgedit",
    "torch",
    "transformers",
    "tokenizers",
    "peft",
    "safetensors",
    "sentence-transformers",
    "faiss-cpu",
    "openai",
    "vllm",
    "numpy",
)


def describe_environment(
    spec: RunSpec, editor: Editor[Any], *, timesteps: Sequence[Edits], contexts: Mapping[str, Context]
) -> RunEnvironment:
    """Collect the content of environment.json; call it before the first edit.

    Args:
        contexts: Contexts by preset.
    """
    model = editor.model
    return RunEnvironment(
        packages={name: _version(name) for name in _PACKAGES},
        python=platform.python_version(),
        platform=platform.platform(),
        device=device_name(spec.device),
        threads=torch.get_num_threads(),
        git_commit=_git_commit(),
        seed=spec.seed,
        model=ModelRecord(
            name=model.name,
            class_name=type(model.module).__name__,
            revision=model.revision,
            fingerprint=model.fingerprint,
            parameters=model.module.num_parameters(),
        ),
        source=editor.capabilities.source,
        settings=editor.settings.model_dump(),
        timesteps=tuple(
            HashedInput(name=step.name, sha256=step.sha256, unused_fields=step.unused_fields) for step in timesteps
        ),
        contexts={preset: context.sha256 for preset, context in contexts.items()},
        trained_in=tuple(HashedInput(name=one.name, sha256=one.sha256) for one in editor.contexts),
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    """Commit of the checkout that kgedit runs from; None for an installed wheel or without git."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    try:
        command = ["git", "-C", str(root), "rev-parse", "HEAD"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
