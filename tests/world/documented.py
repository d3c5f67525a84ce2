"""The Python examples of docs/api.md."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"


def examples(*, graph: bool) -> str:
    """The examples that need a graph server, or those that do not, combined into one program."""
    found = re.findall(r"(<!-- graph -->\n)?```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return "\n".join(code for mark, code in found if bool(mark) == graph)
