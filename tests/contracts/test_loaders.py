"""What every source format owes the store."""

from __future__ import annotations

import pytest

from kgedit.loaders import LOADERS
from kgedit.store.schemas import CLAIMS, ENTITIES


@pytest.mark.parametrize("name", list(LOADERS))
def test_it_yields_the_stores_columns_even_of_nothing(name: str) -> None:
    loader = LOADERS[name]
    parsed = loader(loader.options()).parse(b"[\n]\n")
    assert parsed.claims.schema == CLAIMS
    assert parsed.entities.schema == ENTITIES
    assert parsed.claims.num_rows == parsed.entities.num_rows == 0


@pytest.mark.parametrize("name", list(LOADERS))
def test_it_counts_what_it_cannot_read_under_a_reason_that_it_declares(name: str) -> None:
    loader = LOADERS[name]
    counts = loader(loader.options()).parse(b"this is no entity\n").counts
    assert counts["lines"] == 1
    assert sum(counts[reason] for reason in loader.bad_lines) == 1


@pytest.mark.parametrize("name", list(LOADERS))
def test_it_states_its_version(name: str) -> None:
    assert LOADERS[name].version
