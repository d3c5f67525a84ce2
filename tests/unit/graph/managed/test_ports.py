"""The ports of the managed server."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kgedit.graph.managed.ports import Ports, choose_ports, is_free


def test_ports_are_kept_while_they_are_free_and_chosen_again_when_taken(tmp_path: Path) -> None:
    kept = choose_ports(tmp_path / "ports.json")
    assert kept.bolt != kept.http
    assert choose_ports(tmp_path / "ports.json") == kept
    with socket.create_server(("127.0.0.1", kept.http)):
        assert not is_free(kept.http)
        other = choose_ports(tmp_path / "ports.json")
    assert other.http != kept.http
    assert Ports.read(tmp_path / "ports.json") == other


@pytest.mark.parametrize("text", ["", "{", "[]", '{"bolt": 1}'])
def test_a_ports_file_that_is_broken_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "ports.json").write_text(text, encoding="utf-8")
    assert Ports.read(tmp_path / "ports.json") is None
