"""Instructions for models that judge answers or word questions: files under prompts, or a user's replacements."""

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
"""Name of a folder under prompts."""

_SLOT = re.compile(r"\{\w+\}")


@dataclass(frozen=True, slots=True)
class Instructions:
    """The texts of a group.

    Attributes:
        texts: Name of a file without .txt -> its text below the header, with slots such as {question}.
        own: Names whose shipped text was replaced.
    """

    texts: Mapping[str, str]
    own: tuple[str, ...] = ()

    def sha256(self, name: str) -> str:
        """Hash of a text: replies to different instructions are not comparable."""
        return hashlib.sha256(self.texts[name].encode()).hexdigest()


def read_instructions(group: Group, folder: Path | None = None) -> Instructions:
    """Read the shipped texts, replaced by those of a folder where it has them.

    Args:
        group: Group of texts.
        folder: Folder with files named like the shipped ones, all or some; None means the shipped texts only.

    Raises:
        ModelError: if it is not a folder, contains a text with another name, or a text lacks a slot or has an extra
            one.
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
