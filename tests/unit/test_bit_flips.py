"""No flipped bit in a home changes an output in silence; `tests/campaigns/bit_flips.py --flips 900` for many."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaigns.bit_flips import campaign

pytestmark = pytest.mark.slow


def test_no_flipped_bit_changes_an_output_in_silence(tmp_path: Path) -> None:
    counted = campaign(tmp_path, flips=24, seed=1)
    assert [ended for _, ended in counted if ended.startswith("FAILED")] == []
    assert sum(count for (_, ended), count in counted.items() if ended == "refused") > 10
