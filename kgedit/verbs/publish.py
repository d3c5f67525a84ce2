"""Publishes timesteps, and runs on them, as one folder for the Hugging Face hub."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgedit.errors import TimestepError
from kgedit.verbs.home_folder import read_date
from kgedit.verbs.options import (
    AnyFolder,
    Day,
    ManyFolders,
    ManyPaths,
    Verb,
    argument,
    flag,
    function_of,
    options,
)
from kgedit.verbs.shared_options import TIMESTEP_FORMS

if TYPE_CHECKING:
    import pyarrow as pa

    from kgedit.analysis.runs import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFolder:
    """A published folder.

    Attributes:
        folder: Path of the folder.
        manifest: Content of its publication.json.
    """

    folder: Path
    manifest: dict[str, Any]


@options
class Publish(Verb[PublishedFolder]):
    """Write timesteps as a dataset that others can load.

    DIR gets Parquet files with a card (README.md) for the Hugging Face hub, with a configuration per timestep and a
    split per axis; Croissant metadata; tasks of lm-evaluation-harness; the timesteps themselves, with the formats of
    EasyEdit, WikiBigEdit and WikiFactDiff next to them; and the hash of every file. Nothing is uploaded.
    """

    folder: AnyFolder = argument(kw_only=False, metavar="DIR", help="Folder to write, atomically.")
    timesteps: ManyPaths = flag(
        "--timestep",
        kw_only=False,
        metavar="TIMESTEP",
        complete="timesteps",
        help=f"Exported timestep: {TIMESTEP_FORMS}; repeat for several. The first is the default.",
    )
    runs: ManyFolders = flag(
        default=(),
        complete="runs",
        help="Finished run on these timesteps whose scores are published too; repeat for several.",
    )
    name: str | None = flag(default=None, help="Name of the dataset. Default: the folder's name.")
    version: str = flag(default="1.0.0", help="Version of the dataset.")
    license: str = flag(default="cc0-1.0", help="License identifier of the hub.")
    url: str | None = flag(default=None, help="Address where it will be available, for card and metadata.")
    date: Day | None = flag(default=None, help="Day of publication, for the metadata. Default: none.")
    overwrite: bool = flag(default=False, group="Output", help="Replace an earlier publication.")

    def run(self) -> PublishedFolder:
        """Write it.

        Raises:
            DamagedFileError: if a timestep differs from its export.
            TimestepError: if a timestep has no case or no checksums, a run is not on these timesteps, or the folder
                must not be replaced.
        """
        from kgedit.exporters.publication.content import About, Publication, publish_timestep
        from kgedit.exporters.publication.folder import refuse_to_replace, write_publication
        from kgedit.timesteps.timestep import Timestep

        path = Path(self.folder)
        refuse_to_replace(path.absolute(), overwrite=self.overwrite)
        about = About(
            name=_checked_name(self.name or path.absolute().name),
            version=self.version,
            license=self.license.lower(),
            url=self.url,
            date=None if self.date is None else read_date(self.date).isoformat(),
        )
        steps = [Timestep.open(step) for step in self.timesteps]
        for unchecked in (step for step in steps if not step.has_checksums):
            raise TimestepError(
                f"{unchecked.folder}/timestep.json has no hashes of its tables: an earlier kgedit exported it. Export "
                "it again: kgedit export-timestep with --overwrite"
            )
        results = read_results([Path(run) for run in self.runs], steps) if self.runs else None
        publication = Publication(about, [publish_timestep(step) for step in steps], results)
        return PublishedFolder(folder=path, manifest=write_publication(publication, path, overwrite=self.overwrite))


publish = function_of(Publish)


def read_results(folders: Sequence[Path], timesteps: Sequence[Any]) -> pa.Table:
    """Read the scores of finished runs on these timesteps, in report order, as rows of `RESULTS`.

    Raises:
        TimestepError: if a run is not finished or is on other timesteps, or if two runs have the same name.
    """
    import pyarrow as pa

    from kgedit.records.published import RESULTS
    from kgedit.runs.run_files import read_environment, read_runs

    hashes = {step.sha256 for step in timesteps}
    runs = read_runs(folders)
    names = [run.folder.resolve().name for run in runs]
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise TimestepError(f"Two runs are called {twins[0]}. Rename a folder: the name is what readers see.")
    for run in runs:
        environment = read_environment(run.folder)
        made_on = environment.timesteps if environment else ()
        other = [step.name for step in made_on if step.sha256 not in hashes]
        if other or not made_on:
            what = f"on {', '.join(other)}, which is" if other else "on timesteps that it does not name, which are"
            raise TimestepError(f"The run {run.folder} was made {what} not published here. Leave it out.")
    return pa.Table.from_pylist([row for run in runs for row in _rows(run)], schema=RESULTS)


def _rows(run: Run) -> list[dict[str, Any]]:
    common = {
        "run": run.folder.resolve().name,
        "model": run.model,
        "method": run.spec.method,
        "protocol": run.spec.protocol,
        "edits": run.scores.edits.edits,
        "seed": run.spec.seed,
        "answers_sha256": run.scores.answers_sha256,
        "cases_sha256": run.scores.cases_sha256,
    }
    names = ("stage", "timestep", "axis", "preset", "metric", "main", "n", "relations", "mean", "low", "high")
    return [
        common | {"is_share": run.scale_of(score.metric).is_share} | {name: getattr(score, name) for name in names}
        for score in run.scores.scores
    ]


def _checked_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}", name):
        raise TimestepError(
            f"'{name}' is not the name of a dataset: letters, digits, '-', '_' and '.' only. Give another: --name"
        )
    return name
