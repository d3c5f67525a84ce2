"""Examples at the end of every command's help."""

from __future__ import annotations


def examples(*commands: str, before: str = "") -> str:
    """Epilog of a command's help; lines are not rewrapped.

    Args:
        commands: Commands that a user can type.
        before: Text above the examples, also not rewrapped.
    """
    title = "Example" if len(commands) == 1 else "Examples"
    paragraphs = [*before.strip().split("\n\n"), "\n".join([f"{title}:", *(f"  {command}" for command in commands)])]
    return "\n\n".join(f"\b\n{paragraph}" for paragraph in paragraphs if paragraph)
