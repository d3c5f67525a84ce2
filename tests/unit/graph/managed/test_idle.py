"""How long a server may be unused, as users write it."""

from __future__ import annotations

import pytest

from kgedit.errors import GraphError
from kgedit.graph.managed.processes import idle_stop_from_environment, parse_idle_stop


@pytest.mark.parametrize(("text", "seconds"), [("30m", 1800), ("3s", 3), (" 2H ", 7200), ("off", 0)])
def test_a_time_is_a_number_with_its_unit(text: str, seconds: float) -> None:
    assert parse_idle_stop(text, "--idle-stop") == seconds


@pytest.mark.parametrize("text", ["", "30", "0m", "-1m", "soon", "1.5h", "99999999h"])
def test_what_is_not_a_time_is_refused(text: str) -> None:
    with pytest.raises(GraphError, match="idle_stop is"):
        parse_idle_stop(text, "--idle-stop")


def test_without_the_variable_a_server_never_stops_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KGEDIT_GRAPH_IDLE_STOP", raising=False)
    assert idle_stop_from_environment() == 0
    monkeypatch.setenv("KGEDIT_GRAPH_IDLE_STOP", "30m")
    assert idle_stop_from_environment() == 1800
    monkeypatch.setenv("KGEDIT_GRAPH_IDLE_STOP", "half an hour")
    with pytest.raises(GraphError, match="KGEDIT_GRAPH_IDLE_STOP is 'half an hour'"):
        idle_stop_from_environment()
