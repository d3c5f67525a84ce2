"""What models are told that judge answers or word questions: files under prompts, or a user's own in their place."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from kgedit.errors import ModelError
from kgedit.llm.contexts import read_template
from kgedit.resources import data_folder

Group = Literal["judge", "qaedit"]
"""A folder under prompts."""

_SLOT = re.compile(r"\{\w+\}")


@dataclass(frozen=True, slots=True)
class Instructions:
    """The texts of a group.

    Attributes:
        texts: Name of a file without .txt -> its text below the header, with slots such as {question}.
        own: Names that are not the shipped ones.
    """

    texts: Mapping[str, str]
    own: tuple[str, ...] = ()

    def sha256(self, name: str) -> str:
        """Hash of a text: replies to different ones do not compare."""
        return hashlib.sha256(self.texts[name].encode()).hexdigest()


def read_instructions(group: Group, folder: Path | None = None) -> Instructions:
    """The shipped texts, those that a folder has replaced by the folder's.

    Args:
        group: Which.
        folder: Holds files that are called as the shipped ones, all or some; None for the shipped ones alone.

    Raises:
        ModelError: if it is no folder, holds a text of another name, or a text lacks a slot or has one too many.
    """
    shipped = _shipped(group)
    if folder is None:
        return Instructions(shipped)
    if not folder.is_dir():
        raise ModelError(f"There is no folder {folder} for --prompts.")
    found = {path.stem: path for path in sorted(folder.glob("*.txt"))}
    known = ", ".join(f"{name}.txt" for name in shipped)
    if not found or found.keys() - shipped.keys():
        wrong = next((path.name for name, path in found.items() if name not in shipped), "no .txt file")
        raise ModelError(f"{folder} holds {wrong}. The files that it may replace are {known}.")
    own = {name: read_template(path) for name, path in found.items()}
    for name, text in own.items():
        wanted, there = (set(_SLOT.findall(one)) for one in (shipped[name], text))
        if wanted != there:
            raise ModelError(
                f"{found[name]} needs the slots {', '.join(sorted(wanted))} and no others; it has "
                f"{', '.join(sorted(there)) or 'none'}. The shipped file shows them: "
                f"{data_folder('prompts') / group / found[name].name}"
            )
    return Instructions({**shipped, **own}, tuple(own))


@cache
def _shipped(group: Group) -> Mapping[str, str]:
    return {path.stem: read_template(path) for path in sorted((data_folder("prompts") / group).glob("*.txt"))}
