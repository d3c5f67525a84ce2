"""Models that reason before they answer: where a chat template opens the passage, and answers without it.

Asked with reasoning, a model first writes up to `Preset.thinking_tokens` tokens. If it has not closed the passage by
then, it is closed, so that an answer follows in any case (budget forcing: Muennighoff et al. 2025, s1). Asked without,
the prompt contains an empty passage, so that the first sentence of an answer is not one of thoughts, and edits are
trained on answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_MARKS = (
    ("<think>", "</think>"),  # DeepSeek-R1, Qwen 3, QwQ, SmolLM3, GLM
    ("[THINK]", "[/THINK]"),  # Magistral
    ("<seed:think>", "</seed:think>"),  # Seed-OSS
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Command A Reasoning
)
"""Texts that open and close a passage of reasoning, with the models that have them."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """How a model reasons in a chat.

    Attributes:
        opens: Text that opens the passage.
        closes: Text that closes it.
        before: Text of the chat template before the user turn, when the model is to reason.
        after: Text after the user turn up to the first thought; it ends with the opening mark.
        has_switch: Whether the template has `enable_thinking`, so that a server can be asked for either.
    """

    opens: str
    closes: str
    before: str
    after: str
    has_switch: bool

    @property
    def closing(self) -> str:
        """Text from the last thought to the answer."""
        return f"{self.closes}\n\n"


def find_thinking(tokenizer: Any, *, without: str, reasoning: str, asked: str) -> Thinking | None:
    """How a model reasons; None if its tokenizer has no marks for it.

    Args:
        without: A chat up to the answer, rendered with ``enable_thinking=False``.
        reasoning: The same chat, rendered with ``enable_thinking=True``.
        asked: The user's turn in both.
    """
    known = {token.content for token in tokenizer.added_tokens_decoder.values()}
    marks = next((pair for pair in _MARKS if pair[1] in known or any(m in without + reasoning for m in pair)), None)
    if marks is None:
        return None
    before, _, after = reasoning.partition(asked)
    opened = after if is_open(after, marks) else f"{after}{marks[0]}\n"
    return Thinking(*marks, before, opened, has_switch=without != reasoning)


def is_open(text: str, marks: tuple[str, str]) -> bool:
    """Whether a text ends where a passage of reasoning begins."""
    return text.rstrip().endswith(marks[0])


def without_thoughts(text: str) -> tuple[str, str]:
    """Split a server's reply into thoughts and answer; an unclosed passage leaves no answer."""
    for opens, closes in _MARKS:
        thoughts, closed, answer = text.partition(closes)
        if closed:
            return thoughts.replace(opens, "", 1).strip(), answer.lstrip()
        if text.lstrip().startswith(opens):
            return text.replace(opens, "", 1).strip(), ""
    return "", text
