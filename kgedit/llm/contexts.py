"""Contexts: the files under prompts/contexts that turn a question into the prompt sent to a model.

A file is a header of `#` lines, a line `---`, and the text; the newline at the file's end is no part of the text.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from kgedit.errors import SpecError
from kgedit.resources import data_folder

_SLOT = "{question}"


@dataclass(frozen=True, slots=True)
class Context:
    """A text with one slot for a question.

    Attributes:
        name: File name without its ending, or the path of the user's own file.
        template: The text, holding "{question}" once.
        sha256: Hash of the text, for the run's environment.json.
    """

    name: str
    template: str
    sha256: str

    def prompt(self, question: str) -> str:
        """The question in its context; braces within the question stay as they are."""
        before, after = self.template.split(_SLOT)
        return before + question + after


def context_names() -> list[str]:
    """Names of the contexts that come with kgedit."""
    return sorted(path.stem for path in (data_folder("prompts") / "contexts").glob("*.txt"))


def read_context(name: str) -> Context:
    """A context by name, or by the path of a file of the user's own.

    Raises:
        SpecError: if there is none, or if it lacks its slot for the question.
    """
    shipped = data_folder("prompts") / "contexts" / f"{name}.txt"
    path = shipped if name in context_names() else Path(name)
    if not path.is_file():
        raise SpecError([f"there is no context '{name}'; known: {', '.join(context_names())}, or give a file's path"])
    template = read_template(path)
    if template.count(_SLOT) != 1:
        raise SpecError([f"the context {path} must hold {_SLOT} exactly once, after the line '---'"])
    return Context(name, template, hashlib.sha256(template.encode()).hexdigest())


def read_template(path: Path) -> str:
    """The text of a prompt file below its header."""
    text = path.read_text(encoding="utf-8")
    _, line, body = text.partition("\n---\n")
    return (body if line else text).removesuffix("\n")
