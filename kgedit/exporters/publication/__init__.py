"""A folder for the Hugging Face hub, made from finished timesteps: tables, card, Croissant, harness tasks, other forms.

It contains the complete timesteps under timesteps/, so that kgedit can edit with the published data. It is written
under a temporary name and then renamed; the same input gives the same bytes.

``publication.json`` is written last and lists all other files with their hashes; a folder without it is not a
publication.

The folder includes a task of lm-evaluation-harness for each axis of a timestep, and one on whether the new answer is
likelier than the old. They work from any folder: harness_data.py is copied next to them as questions.py and locates the
data.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgedit import __version__
from kgedit.checksums import decoding, sha256_of
from kgedit.errors import TimestepError
from kgedit.exporters import EXPORTERS
from kgedit.exporters.publication.card import card, croissant
from kgedit.exporters.publication.content import TASK_FOLDER, Publication, PublishedTimestep, citation_text, task_tag
from kgedit.progress import step
from kgedit.store.disk import disk_errors
from kgedit.store.files import replace_folder, working_folder, write_json, write_text
from kgedit.timesteps.timestep import Timestep

MANIFEST = "publication.json"
FORMAT = "kgedit-publication-1"


def write_publication(publication: Publication, folder: Path, *, overwrite: bool = False) -> dict[str, Any]:
    """Write the publication into a folder.

    Args:
        publication: The publication.
        folder: Destination; missing parents are created.
        overwrite: Whether to replace an earlier publication there.

    Returns:
        Content of publication.json.

    Raises:
        TimestepError: if the folder exists, or contains files that kgedit did not write or that were changed since.
        StoreError: if writing fails.
    """
    folder = folder.absolute()
    refuse_to_replace(folder, overwrite=overwrite)
    _refuse_twins(publication.timesteps)
    with disk_errors(folder, again="give the same command again"), working_folder(folder) as aside:
        _write(publication, aside)
        manifest = _manifest(publication, aside)
        write_json(aside / MANIFEST, manifest)
        replace_folder(aside, folder)
    return manifest


def refuse_to_replace(folder: Path, *, overwrite: bool) -> None:
    """Accept an empty folder and, with `overwrite`, a publication without added or changed files.

    Raises:
        TimestepError: otherwise.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not overwrite:
        raise TimestepError(f"{folder} already exists. Replace it: --overwrite")
    if not (folder / MANIFEST).is_file():
        raise TimestepError(f"{folder} was not written by kgedit publish (no {MANIFEST}). Name another folder.")
    with decoding(folder / MANIFEST, fix="Remove the folder, or publish to another one."):
        listed = json.loads((folder / MANIFEST).read_bytes())["files"]
        written = {name: about["sha256"] for name, about in listed.items()}
    found = [str(path) for path in _files(folder) if str(path) != MANIFEST]
    others = [name for name in found if name not in written]
    if others:
        raise TimestepError(
            f"{folder} contains what kgedit did not write: {', '.join(others[:5])}. Nothing was changed. Publish to "
            "another folder and copy it over."
        )
    changed = [name for name in found if sha256_of(folder / name) != written[name]]
    if changed:
        raise TimestepError(
            f"{folder} contains files that were changed since kgedit wrote them: {', '.join(changed[:5])}. Nothing was "
            "replaced. Move these files out of the folder to keep the changes, or delete them; then give the command "
            "again."
        )


def _refuse_twins(timesteps: Iterable[PublishedTimestep]) -> None:
    seen: dict[str, Path] = {}
    for one in timesteps:
        other = seen.setdefault(one.config, one.timestep.folder)
        if other is not one.timestep.folder:
            raise TimestepError(f"{other} and {one.timestep.folder} are both called {one.config}. Leave one out.")


def _write(publication: Publication, folder: Path) -> None:
    total = len(publication.timesteps) + 2
    step("writing questions", 0, total)
    for path, rows in publication.tables.items():
        _write_table(rows, folder / path)
    tasks = folder / TASK_FOLDER
    tasks.mkdir()
    for done, timestep in enumerate(publication.timesteps, start=1):
        step(f"writing {timestep.config}", done, total)
        _write_timestep(timestep, folder / "timesteps" / timestep.config)
        for name, text in task_files(timestep).items():
            write_text(tasks / name, text)
    name, text = loader_file()
    write_text(tasks / name, text)
    step("writing metadata", total - 1, total)
    hashes = {path: sha256_of(folder / path) for path in publication.tables}
    write_json(folder / "croissant.json", croissant(publication, hashes))
    write_text(folder / "README.md", card(publication))
    write_text(folder / "CITATION.cff", citation_text())


def _write_table(rows: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path, compression="zstd")


def _write_timestep(step: PublishedTimestep, folder: Path) -> None:
    """Copy the timestep's own files unchanged, and write the other forms next to them."""
    folder.mkdir(parents=True)
    source = step.timestep.folder
    for path in (*sorted(source.glob("*.parquet")), source / "timestep.json"):
        shutil.copyfile(path, folder / path.name)
    copy = Timestep.open(folder)
    for export in EXPORTERS.values():
        export(copy)


def _manifest(publication: Publication, folder: Path) -> dict[str, Any]:
    about = publication.about
    files = {str(path): {"sha256": sha256_of(folder / path), "bytes": (folder / path).stat().st_size}
             for path in _files(folder)}  # fmt: skip
    return {
        "format": FORMAT,
        "kgedit": __version__,
        "name": about.name,
        "version": about.version,
        "license": about.license,
        "url": about.url,
        "date": about.date,
        "timesteps": [_describe(one) for one in publication.timesteps],
        "runs": [] if publication.results is None else _runs(publication.results),
        "files": files,
    }


def _describe(step: PublishedTimestep) -> dict[str, Any]:
    return {
        "config": step.config,
        "profile": step.timestep.manifest.get("profile"),
        "sha256": step.timestep.sha256,
        "snapshots": [
            {"date": snapshot.get("date"), "source": snapshot.get("source")}
            for snapshot in step.timestep.manifest.get("snapshots", ())
        ],
        "cases": step.cases,
        "questions": {axis: rows.num_rows for axis, rows in step.questions.items()},
    }


def _runs(results: pa.Table) -> list[dict[str, Any]]:
    names = ("run", "model", "method", "protocol", "edits", "seed", "answers_sha256", "cases_sha256")
    rows = {row["run"]: row for row in results.select(names).to_pylist()}
    return list(rows.values())


def _files(folder: Path) -> Iterator[PurePosixPath]:
    """All files by their path in the folder, sorted."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield PurePosixPath(path.relative_to(folder).as_posix())


_PROMPT = '"Question: {{question}}\\nAnswer:"'
_LOADER = "questions"


def task_files(timestep: PublishedTimestep) -> dict[str, str]:
    """File name -> content, for the tasks of a timestep."""
    tasks = {axis: _generated(timestep.config, axis) for axis in timestep.questions}
    if _has_old_answers(timestep.questions["update"]):
        tasks["new_or_old"] = _new_or_old(timestep.config)
    return {f"{task_tag(timestep.config)}_{name}.yaml": text for name, text in tasks.items()}


def loader_file() -> tuple[str, str]:
    """Name and content of the module with which the tasks read their questions."""
    path = Path(__file__).with_name("harness_data.py")
    return f"{_LOADER}.py", path.read_text(encoding="utf-8")


def _has_old_answers(updates: pa.Table) -> bool:
    return bool(pc.any(pc.greater(pc.list_value_length(updates["old_answers"]), 0)).as_py())


def _generated(config: str, axis: str) -> str:
    return f"""\
{_head(config, axis, loader="questions")}  axis: {axis}
output_type: generate_until
doc_to_text: {_PROMPT}
doc_to_target: answers
generation_kwargs:
  until: ["\\n"]
  do_sample: false
  max_gen_toks: 50
filter_list:
  - name: first_line
    filter:
      - function: regex
        regex_pattern: '^\\s*(.*\\S)'
      - function: take_first
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
    ignore_case: true
    ignore_punctuation: true
metadata:
  version: 1.0
"""


def _new_or_old(config: str) -> str:
    return f"""\
{_head(config, "new_or_old", loader="new_or_old")}output_type: multiple_choice
doc_to_text: {_PROMPT}
doc_to_choice: choices
doc_to_target: right
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
metadata:
  version: 1.0
"""


def _head(config: str, name: str, *, loader: str) -> str:
    """The configuration is quoted because YAML reads 20210104_20230227 as a number."""
    return f"""\
task: {task_tag(config)}_{name}
tag:
  - kgedit
  - {task_tag(config)}
custom_dataset: !function {_LOADER}.{loader}
test_split: test
dataset_kwargs:
  config: "{config}"
"""
