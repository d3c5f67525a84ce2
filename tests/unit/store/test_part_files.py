"""Part files: the claims that queries over the whole dump must find."""

from __future__ import annotations

import sys
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kgedit.store.bucket_numbers import bucket_of, order_by_bucket
from kgedit.store.engine import select
from kgedit.store.part_files import may_concern_all
from kgedit.store.planning import NORMAL_ID
from kgedit.store.schemas import CLAIMS

_SUBJECTS = st.from_regex(r"[QPL][0-9]{1,4}", fullmatch=True) | st.text("Qq1\u212a", max_size=4)
_ROWS = st.lists(st.tuples(_SUBJECTS, st.text("QqPl019$-#\u212a\x11\n", max_size=6), st.booleans()), max_size=20)


def _claims(*rows: tuple[str, str, str, str | None]) -> pa.Table:
    names = ("statement_id", "subject", "property", "object")
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=CLAIMS)


@given(_ROWS)
@example([("Q1", "$a", True), ("Q12", "", True), ("Q1", "2$a", True), ("", "Q1$a", False), ("K1", "$a", True)])
def test_claims_with_odd_ids_may_concern_all(rows: list[tuple[str, str, bool]]) -> None:
    claims = _claims(*(((subject if begins else "") + rest, subject, "P1", "Q5") for subject, rest, begins in rows))
    odd = select(f"SELECT NOT {NORMAL_ID} AS odd FROM claims", claims=claims)["odd"].to_pylist()
    assert may_concern_all(claims).tolist() == odd
    assert may_concern_all(claims[3:]).tolist() == odd[3:]


@pytest.mark.parametrize(
    ("property_id", "item", "concerns"),
    [
        ("P31", "Q61719275", True),
        ("P31", "Q5", False),
        ("P31", None, False),
        ("P571", None, True),
        ("P31x", "Q5", False),
    ],
)
def test_restrictive_qualifiers_and_beginnings_concern_all(property_id: str, item: str | None, concerns: bool) -> None:
    assert may_concern_all(_claims(("P1$a", "P1", property_id, item))).tolist() == [concerns]


def test_no_claims_concern_nothing() -> None:
    assert may_concern_all(CLAIMS.empty_table()).tolist() == []


@given(st.lists(st.text("Q12\u212a", max_size=4), max_size=50), st.sampled_from([1, 2, 16, 256]), st.integers(0, 3))
def test_rows_are_divided_by_the_bucket_of_their_subject(texts: list[str], buckets: int, start: int) -> None:
    ids = pa.array(["before", *texts], pa.string())[1:]
    of = bucket_of(ids, buckets).to_numpy()
    step = min(buckets, 4)
    ids = ids.filter(pa.array(of % step == start % step))
    of = of[of % step == start % step]
    order, ends = order_by_bucket(ids, buckets, start=start % step, step=step)
    numbers = np.repeat(np.arange(start % step, buckets, step), np.diff([0, *ends]))
    assert of[order].tolist() == numbers.tolist()
    assert all((np.diff(order[numbers == number]) > 0).all() for number in set(numbers.tolist()))
    with patch.dict(sys.modules, {"kgedit_native": None}):
        in_python = order_by_bucket(pa.chunked_array([ids], pa.string()), buckets, start=start % step, step=step)
    assert (order.tolist(), ends) == (in_python[0].tolist(), in_python[1])
