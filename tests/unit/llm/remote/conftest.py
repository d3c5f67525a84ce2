"""Clients retry at once, and no key of the user is sent."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgedit.llm.remote.server._FIRST_WAIT", 0.01)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
