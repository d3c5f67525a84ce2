"""What a publisher says of a data set, and the facts of it that card and Croissant share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import pyarrow as pa

from kgedit.exporters.publication.questions import PublishedTimestep

LICENSE_URLS = {
    "cc0-1.0": "https://creativecommons.org/publicdomain/zero/1.0/",
    "cc-by-4.0": "https://creativecommons.org/licenses/by/4.0/",
    "cc-by-sa-4.0": "https://creativecommons.org/licenses/by-sa/4.0/",
    "apache-2.0": "https://www.apache.org/licenses/LICENSE-2.0",
    "mit": "https://opensource.org/license/mit",
}
"""The hub's name of a licence -> its text; others are named by the hub's name alone."""

RUNS_CONFIG = "runs"
RUNS_SPLIT = "scores"


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What the publisher says.

    Attributes:
        name: Of the data set: letters, digits, "-", "_" and ".".
        version: Of the data set.
        license: As the hub names it (lower case).
        url: Where it will be found; None if nobody knows yet.
        date: Day of publication (YYYY-MM-DD); None if it is not said, so that the same input gives the same bytes.
    """

    name: str
    version: str = "1.0.0"
    license: str = "cc0-1.0"
    url: str | None = None
    date: str | None = None


@dataclass(frozen=True, slots=True)
class Publication:
    """Everything that is published.

    Attributes:
        about: What the publisher says.
        timesteps: By name of their configurations.
        results: Rows of kgedit.records.result_table.RESULTS; None without runs.
    """

    about: About
    timesteps: Sequence[PublishedTimestep]
    results: pa.Table | None = None

    @property
    def tables(self) -> dict[PurePosixPath, pa.Table]:
        """Every table of the data set by its path in the folder, in order."""
        tables = {
            data_path(step.config, axis): rows for step in self.timesteps for axis, rows in step.questions.items()
        }
        return tables if self.results is None else tables | {data_path(RUNS_CONFIG, RUNS_SPLIT): self.results}

    @property
    def summary(self) -> str:
        """One paragraph."""
        first, last = min(step.dates[0] for step in self.timesteps), max(step.dates[1] for step in self.timesteps)
        cases = sum(step.cases for step in self.timesteps)
        questions = sum(rows.num_rows for step in self.timesteps for rows in step.questions.values())
        return (
            f"What changed in Wikidata between {first} and {last}, as edits for language models: {cases:,} changed "
            f"facts and {questions:,} questions about them, in English. Made with kgedit."
        )


def data_path(config: str, split: str) -> PurePosixPath:
    """Where the rows of a configuration's split lie in the folder."""
    return PurePosixPath("data", config, f"{split}.parquet")
