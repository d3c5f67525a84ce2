"""Keys of earlier writes, reconstructed without storing them."""

from __future__ import annotations

from kgedit.records.runs import UNEDITED, ModelState
from kgedit.runs.run_folder import AnswerKey, WrittenKeys


def _key(number: int, state: ModelState = UNEDITED) -> AnswerKey:
    return AnswerKey(state, "t", f"Q{number}:P6:Q1", "update", f"Who is the mayor of town {number}?", "wild")


def test_keys_are_found_by_all_of_their_fields_and_by_nothing_else() -> None:
    written = WrittenKeys(_key(number) for number in range(500))

    assert all(_key(number) in written for number in range(500))
    assert not any(_key(number) in written for number in range(500, 1500))
    assert _key(3, ModelState("t")) not in written
    assert _key(3)._replace(preset="synthetic") not in written
    assert _key(3) not in WrittenKeys(())


def test_a_hundred_thousand_keys_take_sixteen_bytes_each() -> None:
    written = WrittenKeys((number,) for number in range(100_000))

    assert len(written) == 100_000
    assert written.nbytes == 1_600_000
    assert (99_999,) in written
