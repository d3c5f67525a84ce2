"""Scopes: their descriptions, and invalid combinations."""

from __future__ import annotations

import pytest

from kgedit.errors import GraphError
from kgedit.store.scope import Scope, keep_scope, kept_scope, scope_from, scope_properties

SCOPES = [
    Scope(),
    Scope(evidence=False),
    Scope(items_only=True, properties=("P6", "P39")),
    Scope(around_changes=True),
    Scope(changed_pairs=True, evidence=False),
]


@pytest.mark.parametrize("scope", SCOPES, ids=Scope.describe)
def test_a_scope_is_read_back_from_a_node_and_from_the_file(scope: Scope, tmp_path: object) -> None:
    assert scope_from(scope_properties(scope)) == scope
    from pathlib import Path

    home = Path(str(tmp_path))
    assert kept_scope(home) is None
    keep_scope(home, scope)
    assert kept_scope(home) == scope


def test_every_scope_has_words_of_its_own() -> None:
    assert len({scope.describe() for scope in SCOPES}) == len(SCOPES)


@pytest.mark.parametrize("name", ["Q6", "P", "P6; DROP", "P06", "'"])
def test_what_is_no_property_is_refused(name: str) -> None:
    with pytest.raises(GraphError, match="is not a property"):
        Scope(properties=(name,))


def test_the_order_in_which_properties_are_given_does_not_matter() -> None:
    assert Scope(properties=("P39", "P6", "P6")) == Scope(properties=("P6", "P39"))
