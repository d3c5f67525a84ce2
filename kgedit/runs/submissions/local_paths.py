"""Specs and settings without paths of the machine, for entries of a board; files are identified by name and hash."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from kgedit.llm.contexts import CHAT, context_names
from kgedit.records.runs import RunSpec, Setting


def without_folders(spec: RunSpec) -> RunSpec:
    """The spec with names of files instead of paths, and without addresses of servers."""
    return replace(
        spec,
        model=file_name(spec.model),
        timesteps=tuple(map(file_name, spec.timesteps)),
        settings=settings_without_folders(spec.settings),
        presets=tuple(replace(one, context=context_without_folder(one.context)) for one in spec.presets),
        train_context=spec.train_context and context_without_folder(spec.train_context),
        only_cases=spec.only_cases and file_name(spec.only_cases),
        ability=spec.ability and file_name(spec.ability),
        ability_tasks=tuple(map(file_name, spec.ability_tasks)),
        backend_url=None,
    )


def settings_without_folders(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """Settings with names of files instead of paths; several are separated by commas.

    >>> settings_without_folders({"corpus": "prose,/home/ada/news.txt", "embedder": "intfloat/e5-small-v2"})
    {'corpus': 'prose,news.txt', 'embedder': 'intfloat/e5-small-v2'}
    """
    return {
        name: value if not isinstance(value, str) or (name == "embedder" and _is_on_hub(value)) else _file_names(value)
        for name, value in settings.items()
    }


def _is_on_hub(name: str) -> bool:
    """Whether a name can be that of a model of an organisation on the hub, and is no folder here."""
    return re.fullmatch(r"[A-Za-z0-9][\w.-]*/[\w.-]+", name) is not None and not Path(name).exists()


def _file_names(paths: str) -> str:
    return ",".join(map(file_name, paths.split(",")))


def context_without_folder(context: str) -> str:
    """A context with the name of its file instead of the path; "./NAME" is a file with the name of a shipped context.

    >>> context_without_folder("chat:/home/ada/plain.txt"), context_without_folder("chat:question_only")
    ('chat:plain.txt', 'chat:question_only')
    """
    chat, path = _parts(context)
    name = file_name(path)
    return f"{chat}{'./' if name != path and name in context_names() else ''}{name}"


def is_context_file(context: str) -> bool:
    """Whether a context is a file of the user's, not one that is shipped."""
    return _parts(context)[1] not in (CHAT, *context_names())


def _parts(context: str) -> tuple[str, str]:
    """The prefix "chat:", or "", and the name or path."""
    name = context.removeprefix(f"{CHAT}:")
    return context.removesuffix(name), name


def file_name(path: str) -> str:
    """Last part of a POSIX or Windows path; other text is returned unchanged.

    >>> file_name("/home/ada/prose.txt"), file_name("C:\\\\Ada\\\\models\\\\"), file_name("prose")
    ('prose.txt', 'models', 'prose')
    """
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]
