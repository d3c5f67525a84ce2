"""Files under prompts: contexts, which turn a question into the prompt sent to a model, and instructions.

A context consists of a header of `#` lines, a line `---`, and the text, without the final newline. Facts shown by a
method are inserted between the instruction and the question, in the form of the context's own questions. Instructions
are for models that judge answers or word questions; users can replace them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kgedit.errors import ModelError, SpecError
from kgedit.resources import data_folder

if TYPE_CHECKING:
    from kgedit.llm.tokenization import ChatFormat

BARE = "question_only"
"""Context that adds nothing."""


CHAT = "chat"
"""Context with the bare question as a user turn; "chat:NAME" puts the context NAME into that turn."""


_SLOT = "{question}"
_FACTS = "{facts}"


@dataclass(frozen=True, slots=True)
class Context:
    """A text with one slot for a question.

    Attributes:
        name: File name without extension, or the path of a user's file; prefixed with "chat:" for a user turn.
        template: The text, with "{question}" exactly once. It may contain "{facts}" before that; otherwise facts are
            inserted before the line with the question.
        in_chat: Whether the text is a user turn in the chat template of the model's tokenizer.
        before: Text of the chat template before the user turn; "" until filled in by `for_model`.
        after: Text of the chat template after the user turn, up to the start of the answer.
        demonstrations: Pairs of question and answer shown before every question.
        reasoning: Question -> reasoning that follows `after`, with the mark that closes it.
        no_reasoning: What follows `after` for any other question.
    """

    name: str
    template: str
    in_chat: bool = False
    before: str = ""
    after: str = ""
    demonstrations: tuple[tuple[str, str], ...] = ()
    reasoning: Mapping[str, str] = field(default_factory=dict, compare=False)
    no_reasoning: str = ""

    def prompt(self, question: str, facts: str = "") -> str:
        """Insert a question into the context; braces in the question are left unchanged.

        Args:
            facts: Text from an editing method; the question can follow it directly.
        """
        ahead, rest = self._form
        reasoned = self.reasoning.get(question, self.no_reasoning)
        return f"{self._lead}{facts}{ahead}{question}{rest}{self.after}{reasoned}"

    def answered(self, question: str, answer: str) -> str:
        """A question with its answer, in the form of this context: "Q: Who?\\nA: Ada" or "Who? Ada"."""
        ahead, rest = self._form
        asked = f"{ahead}{question}{rest}"
        return f"{asked}{'' if asked[-1:].isspace() else ' '}{answer}"

    @property
    def before_question(self) -> str:
        """The text before a question without facts."""
        return self._lead + self._form[0]

    @property
    def sha256(self) -> str:
        """Hash of the sent text, for the run's environment.json."""
        return hashlib.sha256(self.prompt(_SLOT, facts=_FACTS).encode()).hexdigest()

    def for_model(self, chat: ChatFormat | None, *, thinking: bool = False) -> Context:
        """Fill in a model's chat template.

        Args:
            chat: Chat format of the model's tokenizer; None if it has no chat template.
            thinking: Whether the prompt ends where the model begins to reason, not where it begins to answer.

        Raises:
            SpecError: if the context needs a chat template and there is none, or the model does not reason.
        """
        if not self.in_chat:
            return self
        if chat is None:
            raise SpecError(
                [
                    f"the context '{self.name}' is a chat's, and the model's tokenizer has no chat template that can "
                    f"be used; ask in '{self.name.partition(':')[2] or BARE}', as the preset wild does"
                ],
                of="The context cannot be used",
            )
        if not thinking:
            return replace(self, before=chat.before, after=chat.after)
        if chat.thinking is None:
            raise SpecError(
                [
                    "the model's tokenizer has no marks for a passage of reasoning; leave out --thinking, and take the "
                    "preset wild_chat in place of thinking_chat"
                ],
                of="The context cannot be used",
            )
        return replace(self, before=chat.thinking.before, after=chat.thinking.after)

    def after_reasoning(self, chat: ChatFormat, thoughts: Mapping[str, str]) -> Context:
        """Return the context with reasoning, whose prompts end where the answer begins.

        Args:
            chat: Chat format of a model that reasons.
            thoughts: Question -> what the model thinks about it; other questions have an empty passage.
        """
        if chat.thinking is None:
            return self.for_model(chat)
        closing = f"\n{chat.thinking.closing}"
        reasoning = {question: f"{own}{closing}" for question, own in thoughts.items()}
        return replace(self.for_model(chat, thinking=True), reasoning=reasoning, no_reasoning=closing)

    def with_demonstrations(self, pairs: tuple[tuple[str, str], ...]) -> Context:
        """Return the context with answered questions before every question."""
        return replace(self, demonstrations=pairs)

    @property
    def _lead(self) -> str:
        """All text before the facts."""
        shown = "".join(f"{self.answered(question, answer)}\n" for question, answer in self.demonstrations)
        return self.before + self._parts[0] + shown

    @property
    def _form(self) -> tuple[str, str]:
        """The line or lines of the question, split into the text before and after the question."""
        ahead, _, rest = self._parts[1].partition(_SLOT)
        return ahead, rest

    @property
    def _parts(self) -> tuple[str, str]:
        """The template, split where facts are inserted."""
        if _FACTS in self.template:
            lead, _, form = self.template.partition(_FACTS)
            return lead, form
        start = self.template.rfind("\n", 0, self.template.index(_SLOT)) + 1
        return self.template[:start], self.template[start:]


def context_names() -> list[str]:
    """Names of the contexts shipped with kgedit; each may be prefixed with "chat:"."""
    return sorted(path.stem for path in (data_folder("prompts") / "contexts").glob("*.txt"))


def read_context(name: str) -> Context:
    """Read a context by name, or from the path of a user's file.

    Args:
        name: Name of a context; "chat" is the bare question as a user turn, "chat:NAME" another context as one.

    Raises:
        SpecError: if there is no such context, or it has no slot for the question.
    """
    in_chat = name.partition(":")[0] == CHAT
    own = (name.partition(":")[2] or BARE) if in_chat else name
    shipped = data_folder("prompts") / "contexts" / f"{own}.txt"
    path = shipped if own in context_names() else Path(own)
    if not path.is_file():
        known = ", ".join([*context_names(), CHAT])
        raise SpecError(
            [f"there is no context '{own}'; known: {known}, chat:NAME, or give a file's path"],
            of="The context cannot be used",
        )
    template = read_template(path)
    if template.count(_SLOT) != 1:
        raise SpecError(
            [f"the context {path} must hold {_SLOT} exactly once, after the line '---'"],
            of="The context cannot be used",
        )
    if template.count(_FACTS) > 1 or _FACTS in template.partition(_SLOT)[2]:
        raise SpecError(
            [f"the context {path} may hold {_FACTS} once, ahead of {_SLOT}"], of="The context cannot be used"
        )
    return Context(name, template, in_chat=in_chat)


def read_template(path: Path) -> str:
    """Read the text of a prompt file below its header."""
    text = path.read_text(encoding="utf-8")
    _, line, body = text.partition("\n---\n")
    return (body if line else text).removesuffix("\n")


Group = Literal["judge", "qaedit"]
"""Name of a folder under prompts."""


_INSTRUCTION_SLOT = re.compile(r"\{\w+\}")


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
        raise ModelError(f"{folder} contains {wrong}. The files that it may replace are {known}.")
    own = {name: read_template(path) for name, path in found.items()}
    for name, text in own.items():
        wanted, there = (set(_INSTRUCTION_SLOT.findall(one)) for one in (shipped[name], text))
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
