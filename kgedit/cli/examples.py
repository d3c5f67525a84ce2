"""The examples in which every command's help ends."""

from __future__ import annotations


def examples(*commands: str, before: str = "") -> str:
    """An epilog for a command's help; lines are not rewrapped.

    Args:
        commands: What a user can type.
        before: Text above the examples; not rewrapped either.
    """
    title = "Example" if len(commands) == 1 else "Examples"
    paragraphs = [*before.strip().split("\n\n"), "\n".join([f"{title}:", *(f"  {command}" for command in commands)])]
    return "\n\n".join(f"\b\n{paragraph}" for paragraph in paragraphs if paragraph)
