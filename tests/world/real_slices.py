"""Real slices as snapshots and timesteps, made once per worker: several files of tests compare them with others.

Three threads of DuckDB make the timesteps, and one those that tests compare with them: the bytes are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import pytest
from world.dumps import load
from world.shared_data import SHARED

from kgedit.exporters.wikibigedit import export as wikibigedit
from kgedit.exporters.wikifactdiff import export as wikifactdiff
from kgedit.store.snapshots import Snapshot
from kgedit.timesteps.engines.store import StoreEngine
from kgedit.timesteps.export import WikiBigEditSettings, export_timestep
from kgedit.timesteps.timestep import Timestep
from kgedit.timesteps.wikifactdiff.export import WikiFactDiffSettings
from kgedit.timesteps.wikifactdiff.export import export_timestep as export_wikifactdiff

DATES = {
    "pat": ("2021-12-30", "2023-12-30", "2024-03-31"),
    "w12k": ("2005-01-01", "2010-01-01", "2014-01-01"),
}
_BUCKETS = {"pat": (4, 4), "w12k": (4, 2)}
EDITS = (
    WikiBigEditSettings(),
    WikiBigEditSettings(functional_by="data", changed_locality=True, max_df=500, pool=20),
)


def tables_of(timestep: Timestep) -> dict[str, bytes]:
    """Bytes of a timestep's tables by name."""
    return {path.name: path.read_bytes() for path in sorted(timestep.folder.glob("*.parquet"))}


@contextmanager
def _three_threads() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KGEDIT_STORE_THREADS", "3")
        yield


class RealSlice:
    """A slice of Wikidata at three dates; everything is made on first use, and only read afterwards."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self._folder = name, folder

    @cached_property
    def snapshots(self) -> list[Snapshot]:
        """All three, each in one bucket."""
        return [self._load("home", date, 1) for date in DATES[self.name]]

    @cached_property
    def in_buckets(self) -> list[Snapshot]:
        """The first two, in several buckets."""
        dated = zip(DATES[self.name], _BUCKETS[self.name], strict=False)
        return [self._load("buckets", date, buckets) for date, buckets in dated]

    @cached_property
    def edits(self) -> list[Timestep]:
        """The first window in the profile wikibigedit, with the settings of EDITS."""
        with _three_threads():
            return [
                export_timestep(
                    StoreEngine(),
                    *self.snapshots[:2],
                    self._folder / f"edits {number}",
                    settings=settings,
                    writers=(wikibigedit,),
                )
                for number, settings in enumerate(EDITS)
            ]

    @cached_property
    def updates(self) -> list[Timestep]:
        """Both windows in the profile wikifactdiff."""
        with _three_threads():
            return [
                export_wikifactdiff(
                    old, new, self._folder / new.name, settings=WikiFactDiffSettings(), writers=(wikifactdiff,)
                )
                for old, new in pairwise(self.snapshots)
            ]

    def _load(self, home: str, date: str, buckets: int) -> Snapshot:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("kgedit.store.builds.bucket_count", lambda _text_bytes: buckets)
            dump = SHARED / "slices" / self.name / f"{date.replace('-', '')}.json.gz"
            snapshot = load(self._folder / home, dump, date)
        assert snapshot.buckets == buckets
        return snapshot
