"""The publisher's description of a data set, its citation, and facts shared by card and Croissant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import yaml

from kgedit.exporters.publication.questions import PublishedTimestep
from kgedit.resources import citation_file

LICENSE_URLS = {
    "cc0-1.0": "https://creativecommons.org/publicdomain/zero/1.0/",
    "cc-by-4.0": "https://creativecommons.org/licenses/by/4.0/",
    "cc-by-sa-4.0": "https://creativecommons.org/licenses/by-sa/4.0/",
    "apache-2.0": "https://www.apache.org/licenses/LICENSE-2.0",
    "mit": "https://opensource.org/license/mit",
}
"""Name of a licence on the hub -> URL of its text; other licences are only named."""

RUNS_CONFIG = "runs"
RUNS_SPLIT = "scores"


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Description given by the publisher.

    Attributes:
        name: Name of the data set: letters, digits, "-", "_" and ".".
        version: Version of the data set.
        license: Licence, as named by the hub (lower case).
        url: Future address; None if unknown.
        date: Day of publication (YYYY-MM-DD); None if not given, so that the same input gives the same bytes.
    """

    name: str
    version: str = "1.0.0"
    license: str = "cc0-1.0"
    url: str | None = None
    date: str | None = None


@dataclass(frozen=True, slots=True)
class Publication:
    """Content of a publication.

    Attributes:
        about: The publisher's description.
        timesteps: Timesteps, ordered by the name of their configuration.
        results: Rows of kgedit.records.published.RESULTS; None without runs.
    """

    about: About
    timesteps: Sequence[PublishedTimestep]
    results: pa.Table | None = None

    @property
    def tables(self) -> dict[PurePosixPath, pa.Table]:
        """All tables of the data set by their path in the folder, in order."""
        tables = {
            data_path(step.config, axis): rows for step in self.timesteps for axis, rows in step.questions.items()
        }
        return tables if self.results is None else tables | {data_path(RUNS_CONFIG, RUNS_SPLIT): self.results}

    @property
    def summary(self) -> str:
        """Description in one paragraph."""
        first, last = min(step.dates[0] for step in self.timesteps), max(step.dates[1] for step in self.timesteps)
        cases = sum(step.cases for step in self.timesteps)
        questions = sum(rows.num_rows for step in self.timesteps for rows in step.questions.values())
        return (
            f"What changed in Wikidata between {first} and {last}, as edits for language models: {cases:,} changed "
            f"facts and {questions:,} questions about them, in English. Made with kgedit."
        )


def data_path(config: str, split: str) -> PurePosixPath:
    """Path in the folder of the rows of a configuration's split."""
    return PurePosixPath("data", config, f"{split}.parquet")


def citation_text() -> str:
    """Content of CITATION.cff."""
    return citation_file().read_text(encoding="utf-8")


def citation_bibtex() -> str:
    """CITATION.cff as a BibTeX entry."""
    cited: dict[str, Any] = yaml.safe_load(citation_text())
    fields = {
        "title": f"{{{cited['title']}}}",
        "author": " and ".join(map(_author, cited["authors"])),
        "version": str(cited["version"]),
        **({"year": str(cited["date-released"])[:4]} if "date-released" in cited else {}),
        **({"doi": cited["doi"]} if "doi" in cited else {}),
        **({"url": cited["repository-code"]} if "repository-code" in cited else {}),
    }
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    return f"@misc{{{cited['title']},\n{lines}\n}}"


def _author(author: dict[str, str]) -> str:
    """A person by family name and given names; braces keep an organisation's name whole."""
    if "family-names" in author:
        return ", ".join(author[part] for part in ("family-names", "given-names") if part in author)
    return f"{{{author['name']}}}"
