"""Real data next to the checkout; tests that read it carry the marker `shared`."""

from __future__ import annotations

from pathlib import Path

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
