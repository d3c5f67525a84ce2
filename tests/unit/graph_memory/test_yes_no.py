"""Yes/no questions that end with the value."""

from __future__ import annotations

import pytest

from kgedit.graph_memory.yes_no import value_first
from kgedit.wording.name_index import NameIndex


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Is the capital of Norway Oslo?", "Is Oslo the capital of Norway?"),
        ("Was the king of Norway Bo or Cy in 2010?", "Was Bo or Cy the king of Norway in 2010?"),
        ("Isn't the CEO of Real Madrid Ada?", "Isn't Ada the CEO of Real Madrid?"),
        ("Is the CEO of Real Madrid Ada Bo Cy?", "Is Ada Bo Cy the CEO of Real Madrid?"),
        ("Is the CEO of Norway Bo Cy Dee?", None),
        ("Is the capital of Norway?", None),
        ("Is the king of Norway ill?", None),
        ("Who is the king of Norway Oslo?", None),
    ],
)
def test_a_value_at_the_end_is_moved_to_the_front(text: str, read: str | None) -> None:
    index = NameIndex()
    index.extend(["Norway", "Real", "Real Madrid", "Ada Bo Cy"], range(4))
    assert value_first(text, lambda: index.find(text)) == (read or text)
