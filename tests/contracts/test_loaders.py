"""Contract of every source format (kgedit.store.schemas.Loader)."""

from __future__ import annotations

import inspect
import pickle
from functools import partial
from typing import get_type_hints

import pytest

from kgedit.loaders import LOADERS
from kgedit.store.schemas import CLAIMS, ENTITIES, Loader, LoaderOptions


@pytest.mark.parametrize("name", list(LOADERS))
def test_it_has_every_attribute_and_method_of_the_contract(name: str) -> None:
    loader = LOADERS[name]
    for attribute in get_type_hints(Loader):
        assert hasattr(loader, attribute), attribute
    for method in ("__init__", "parse"):
        assert list(inspect.signature(getattr(loader, method)).parameters) == list(
            inspect.signature(getattr(Loader, method)).parameters
        )


@pytest.mark.parametrize("name", list(LOADERS))
def test_it_states_its_source_licence_and_version(name: str) -> None:
    loader = LOADERS[name]
    assert loader.source.startswith("https://")
    assert loader.licence
    assert loader.version


@pytest.mark.parametrize("name", list(LOADERS))
def test_each_reason_has_one_meaning(name: str) -> None:
    loader = LOADERS[name]
    reasons = [*loader.bad_lines, *loader.bad_statements, *loader.notes]
    assert loader.bad_lines
    assert len(reasons) == len({*reasons, "lines", "statements", "entities"}) - 3


@pytest.mark.parametrize("name", list(LOADERS))
def test_it_can_be_made_in_a_worker_process(name: str) -> None:
    make = pickle.loads(pickle.dumps(partial(LOADERS[name], LoaderOptions(("fr", "en"), "frwiki"))))
    assert isinstance(make(), LOADERS[name])


@pytest.mark.parametrize("name", list(LOADERS))
def test_it_yields_the_stores_columns_even_of_nothing(name: str) -> None:
    parsed = LOADERS[name](LoaderOptions()).parse(b"[\n]\n")
    assert parsed.claims.schema == CLAIMS
    assert parsed.entities.schema == ENTITIES
    assert parsed.claims.num_rows == parsed.entities.num_rows == 0


@pytest.mark.parametrize("name", list(LOADERS))
def test_it_counts_what_it_cannot_read_under_a_reason_that_it_declares(name: str) -> None:
    loader = LOADERS[name]
    counts = loader(LoaderOptions()).parse(b"this is no entity\n\xff\xfe\n").counts
    assert counts["lines"] == 2
    assert sum(counts[reason] for reason in loader.bad_lines) == 2
