"""A timestep on disk, a folder of Parquet tables and ``timestep.json``, and how to find the one that a user names.

``timestep.json`` is written last: a folder without it is unfinished and is never read. Names and dates refer to the
folders that `export_timestep` writes by default, under ``timesteps/`` in the home.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgedit.checksums import check_folder, decoding
from kgedit.errors import DamagedFileError, TimestepError, did_you_mean
from kgedit.html_tables import html_table
from kgedit.records.cases import AXES, SPECIFICITY, Axis, Case, Chain, Fact, KnownFact, Probe, Specificity
from kgedit.resources import as_typed, home
from kgedit.timesteps.tables import CHANGED, OPTIONAL_TABLES, TABLES, Rows, answers_in, fact_in, read_parts
from kgedit.timesteps.wikifactdiff import (
    has_neighbours,
    neighbour_probes,
    replaced,
    subject_popularities,
    update_scenarios,
)
from kgedit.untrusted import path_component
from kgedit.wikidata.times import day_number, read_day

EXPORT_AGAIN = "Export it again: kgedit export-timestep with --overwrite, or fetch it again from where it was published"
"""Remedy for a damaged timestep, for error messages."""


@dataclass(frozen=True, slots=True, repr=False)
class Timestep:
    """A finished timestep folder.

    Attributes:
        folder: The folder with its files.
        manifest: Content of timestep.json: snapshot dates, profile, funnel, versions, hashes.
    """

    folder: Path
    manifest: dict[str, Any]

    @classmethod
    def open(cls, folder: str | Path) -> Timestep:
        """Open a finished timestep, and check its files before their first use in this process.

        Args:
            folder: Its folder, its name in the home, or its two dates (kgedit.timesteps.timestep).

        Raises:
            TimestepError: if it is none of these (the message lists the existing timesteps), or if its name or profile
                is not a valid folder name.
            DamagedFileError: if a file differs from what was exported.
        """
        found = find_timestep(folder)
        path = found / MANIFEST
        manifest = read_manifest(path, key="timestep", fix=EXPORT_AGAIN)
        check_folder(found, fix=EXPORT_AGAIN, also=table_checksums(manifest))
        # Both become parts of paths of publications and reports.
        path_component(manifest.get("timestep"), of=f"the timestep in {path}", error=TimestepError)
        path_component(manifest.get("profile", "wikibigedit"), of=f"the profile in {path}", error=TimestepError)
        return cls(found, manifest)

    def __repr__(self) -> str:
        return f"<Timestep {self.name} in {str(self.folder)!r}>"

    @property
    def name(self) -> str:
        """ "yyyymmdd_yyyymmdd", the dates of the older and the newer snapshot."""
        return str(self.manifest["timestep"])

    @property
    def is_projected(self) -> bool:
        """Whether one of its snapshots is projected from a later dump (kgedit.store.as_of)."""
        return any("projected" in snapshot for snapshot in self.manifest.get("snapshots", ()))

    @property
    def sha256(self) -> str:
        """Hash of timestep.json, which contains the hashes of the tables."""
        return hashlib.sha256((self.folder / "timestep.json").read_bytes()).hexdigest()

    @property
    def has_checksums(self) -> bool:
        """Whether its manifest has the hashes of its tables, which `open` checks; earlier versions wrote none."""
        return bool(self.manifest.get("tables"))

    @property
    def unused_fields(self) -> tuple[str, ...]:
        """Always empty: kgedit uses every field of a timestep."""
        return ()

    def _repr_html_(self) -> str:
        """Row counts of the tables, for notebooks."""
        counts = [(name, pq.read_metadata(self.folder / f"{name}.parquet").num_rows) for name in TABLES]
        return html_table(f"Timestep {self.name}", ("table", "rows"), counts, note=str(self.folder))

    def table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Read one of TABLES, or one of OPTIONAL_TABLES, which is empty if the export did not write it.

        Args:
            name: Name of the table.
            columns: Columns to read; None means all.
        """
        path, schema = self._path(name), (TABLES | OPTIONAL_TABLES)[name]
        wanted = schema if columns is None else pa.schema([schema.field(column) for column in columns])
        if path is None:
            return wanted.empty_table()
        with decoding(path, fix=EXPORT_AGAIN):
            return pq.read_table(path, schema=wanted)

    def _path(self, name: str) -> Path | None:
        """Path of a table; None if the export did not write it."""
        is_missing = name in OPTIONAL_TABLES and name not in self.manifest.get("tables", {})
        return None if is_missing else self.folder / f"{name}.parquet"

    def _rows_of(self, name: str, case_ids: Sequence[str]) -> Rows:
        """Rows of a table about some cases, in the table's order."""
        import pyarrow.dataset as ds  # loads pandas, which takes longer than the other imports of this file together

        path, case = self._path(name), pc.field("case_id")
        if path is None or not case_ids:
            return []
        # By their range, whole row groups are skipped.
        wanted = (case >= min(case_ids)) & (case <= max(case_ids)) & case.isin(case_ids)
        # By default, a whole file is read into memory before its first row.
        in_parts = ds.ParquetFileFormat(default_fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=False))
        with decoding(path, fix=EXPORT_AGAIN):
            found = ds.dataset(path, schema=(TABLES | OPTIONAL_TABLES)[name], format=in_parts)
            rows: Rows = found.to_table(filter=wanted).to_pylist()
        return rows

    def known_facts(self) -> list[KnownFact]:
        """Facts of the older snapshot with questions, in file order."""
        return [
            KnownFact(fact_in(row), row["question"], row["rephrase"], row["cloze"], row["object_label"])
            for row in self.table("known_facts").to_pylist()
        ]

    @property
    def options(self) -> frozenset[str]:
        """Parameters of `cases` that have an effect: neighbours only in the profile WikiFactDiff."""
        return frozenset(("neighbours", "two_hop_rephrases") if has_neighbours(self) else ("two_hop_rephrases",))

    def cases(
        self,
        *,
        neighbours: int | None = None,
        archive_as: str | None = None,  # noqa: ARG002 - the signature of EditFile.cases
        two_hop_rephrases: bool = False,
    ) -> Iterator[Case]:
        """Every case with its probes, ordered by case_id.

        Args:
            neighbours: Maximum number of nearest and of random neighbours of each case, in the profile WikiFactDiff;
                None means one of each.
            archive_as: Ignored: only the folder's wikifactdiff.jsonl has archived facts.
            two_hop_rephrases: Whether to add paraphrases of two-hop questions, on a separate axis.
        """
        popularity, replacements = subject_popularities(self), replaced(self)
        scenarios = update_scenarios(self)
        near = self._neighbour_probes(neighbours) if has_neighbours(self) else None
        for rows in read_parts(self.folder / "cases.parquet", TABLES["cases"], fix=EXPORT_AGAIN):
            facts = {row["case_id"]: fact_in(row) for row in rows}
            probes = self._probes_of(facts, near, two_hop_rephrases=two_hop_rephrases)
            for row in rows:
                fact = facts[row["case_id"]]
                about = {"update": row["question"], "rephrase": row["rephrase"], "personas": row["personas"]}
                own = tuple(Probe(axis, about[axis], answers_in(row), (fact,)) for axis in AXES if about.get(axis))
                yield Case(
                    case_id=row["case_id"],
                    timestep=self.name,
                    tag=row["tag"],
                    fact=fact,
                    question=row["question"],
                    answer=row["object_label"],
                    cloze=row["cloze"],
                    old_objects=tuple(row["old_objects"]),
                    old_answers=tuple(row["old_answers"]),
                    probes=own + tuple(probes[row["case_id"]]),
                    start_time=row["start_time"],
                    point_in_time=row["point_in_time"],
                    kind=row["kind"],
                    as_of=row["as_of"],
                    clozes=tuple(row["clozes"] or ()),
                    popularity=popularity.get((row["subject"], row["property"])),
                    scenario=row["scenario"] or scenarios.get((row["subject"], row["property"])),
                    subject_aliases=tuple(row["subject_aliases"] or ()),
                    subject_description=row["subject_description"] or "",
                    in_replacement_set=replacements.get((row["subject"], row["property"])),
                    specificity=Specificity(*(row[name] for name in SPECIFICITY)),
                )

    def _probes_of(
        self, facts: Mapping[str, Fact], near: Mapping[str, Sequence[Probe]] | None, *, two_hop_rephrases: bool
    ) -> dict[str, list[Probe]]:
        """Probes of some cases beside those about their own facts, by case id.

        Args:
            facts: Facts of the cases.
            near: Locality probes of all cases; None means those of locality.parquet.
            two_hop_rephrases: As in `cases`.
        """
        probes: dict[str, list[Probe]] = defaultdict(list)
        case_ids = list(facts)
        for row in self._rows_of("two_hops", case_ids):
            if row["chosen"]:
                hops = (facts[row["case_id"]], fact_in(row))
                asked: list[tuple[Axis, str]] = [("mhop", row["question"])]
                if two_hop_rephrases:
                    asked += [("mhop_rephrase", question) for question in row["rephrases"] or ()]
                probes[row["case_id"]] += [
                    Probe(axis, question, answers_in(row), hops, row["second_case_id"]) for axis, question in asked
                ]
        for row in self._rows_of("chains", case_ids):
            probes[row["case_id"]] += _chain_probes(row, probes[row["case_id"]], rephrased=two_hop_rephrases)
        for row in self._rows_of("crosslingual", case_ids):
            probes[row["case_id"]].append(_crosslingual_probe(row))
        if near is not None:
            for case_id in case_ids:
                probes[case_id] += near.get(case_id, ())
            return probes
        for row in self._rows_of("locality", case_ids):
            probes[row["case_id"]].append(_locality_probe(row))
        return probes

    def _neighbour_probes(self, most: int | None) -> dict[str, list[Probe]]:
        """Locality probes of the profile WikiFactDiff by case id."""
        probes: dict[str, list[Probe]] = defaultdict(list)
        for case_id, probe in neighbour_probes(self, 1 if most is None else most):
            probes[case_id].append(probe)
        return probes


def _locality_probe(row: dict[str, Any]) -> Probe:
    return Probe(
        "locality",
        row["question"],
        answers_in(row),
        (fact_in(row),),
        changed=row["basis"] == CHANGED,
        similarity=row["similarity"],
        basis=row["basis"],
        evidence=row["evidence"],
    )


def _chain_probes(row: dict[str, Any], earlier: Sequence[Probe], *, rephrased: bool) -> Iterator[Probe]:
    """Yield the question about a chain, and those about its single facts that no earlier chain of the case has."""
    facts = tuple(fact_in(fact) for fact in row["facts"])
    singles = tuple(fact["question"] for fact in row["facts"])
    chain = Chain(f"{row['case_id']}-{row['hops']}", row["hops"], singles, tuple(row["old_answers"]))
    asked: list[tuple[Axis, str]] = [("mhop", row["question"])]
    if rephrased:
        asked += [("mhop_rephrase", question) for question in row["rephrases"]]
    for axis, question in asked:
        yield Probe(axis, question, answers_in(row), facts, chain=chain)
    known = {probe.question for probe in earlier if probe.axis == "hop"}
    for fact, single in zip(facts, row["facts"], strict=True):
        if single["question"] not in known:
            known.add(single["question"])
            yield Probe("hop", single["question"], answers_in(single), (fact,), cloze=single["cloze"])


def _crosslingual_probe(row: dict[str, Any]) -> Probe:
    """The question about an edit in another language, whose old answers are in that language too."""
    own = Chain(f"{row['case_id']}-{row['language']}", 1, (), tuple(row["old_answers"]))
    return Probe("crosslingual", row["question"], answers_in(row), (fact_in(row),), chain=own)


def read_manifest(path: Path, *, key: str, fix: str) -> dict[str, Any]:
    """Read a folder's JSON file.

    Args:
        path: The file.
        key: Key that it must contain.
        fix: What to do if it is damaged, as a sentence for the message.

    Raises:
        DamagedFileError: if it cannot be decoded, or lacks the key.
    """
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise DamagedFileError(path, f"it is not JSON ({error})", fix) from error
    if not isinstance(content, dict) or key not in content:
        raise DamagedFileError(path, f"it has no '{key}'", fix)
    return content


def table_checksums(manifest: Mapping[str, Any]) -> dict[str, str]:
    """File -> SHA-256 of the tables that a manifest lists; manifests of earlier versions list none."""
    return {f"{name}.parquet": table["sha256"] for name, table in manifest.get("tables", {}).items()}


def timestep_folder(timesteps: Path, older: int, newer: int, profile: str) -> Path:
    """Path of the timestep of two snapshots in a folder of timesteps."""
    return timesteps / (f"{older}_{newer}" + ("" if profile == "wikibigedit" else f"_{profile}"))


MANIFEST = "timestep.json"
"""Written last: a folder without it is not a finished timestep."""

_DATES = re.compile(r"(\d{4}[-\d]*\d)\.\.(\d{4}[-\d]*\d)", re.ASCII)
_EDIT_FILES = (".json", ".jsonl", ".csv", ".parquet")
_MOST_LISTED = 12
"""Timesteps that a message lists: about two lines of a terminal."""


def timesteps_folder(home: Path) -> Path:
    """Folder of a home's timesteps: ``timesteps``, or ``benchmark`` in a home of an earlier version."""
    earlier = home / "benchmark"
    return earlier if earlier.is_dir() and not (home / "timesteps").is_dir() else home / "timesteps"


def find_timestep(given: str | Path) -> Path:
    """Find the folder of a finished timestep.

    Args:
        given: A folder; the name of one in the home's `timesteps`, such as ``20210104_20230227``; or two dates, such as
            ``2021-01-04..2023-02-27``. Two dates mean the timestep of the default profile; if there is none, that of
            the only other profile.

    Raises:
        TimestepError: if it is none of these; the message lists the existing timesteps.
    """
    folder = Path(given)
    if (folder / MANIFEST).is_file():
        return folder
    dates = _DATES.fullmatch(str(given))
    named = _of_dates(dates[1], dates[2]) if dates else _of_name(str(given))
    if named is None:
        raise TimestepError(_why_none(folder))
    return as_typed(named)


def list_timesteps() -> list[str]:
    """Names of the finished timesteps in the home, sorted."""
    return sorted(path.parent.name for path in (timesteps_folder(home())).glob(f"*/{MANIFEST}"))


def timesteps_there_are() -> str:
    """The timesteps in the home, as a sentence, or how to export one."""
    names, folder = list_timesteps(), as_typed(timesteps_folder(home()))
    if not names:
        return f"There is no timestep in {folder} yet; export one with kgedit export-timestep."
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return f"Timesteps in {folder}: {', '.join(names[:_MOST_LISTED])}{more}."


def _of_name(name: str) -> Path | None:
    folder = timesteps_folder(home()) / name
    return folder if Path(name).name == name and (folder / MANIFEST).is_file() else None


def _of_dates(older: str, newer: str) -> Path | None:
    """The timestep between two days.

    Raises:
        TimestepError: if one is not a day, or timesteps of several profiles have these dates.
    """
    try:
        pair = "_".join(str(day_number(read_day(day))) for day in (older, newer))
    except ValueError as error:
        raise TimestepError(str(error)) from error
    names = list_timesteps()
    of_pair = [pair] if pair in names else [name for name in names if name.startswith(f"{pair}_")]
    if len(of_pair) > 1:
        raise TimestepError(f"Several timesteps have the dates {older}..{newer}: give one of {', '.join(of_pair)}.")
    return _of_name(of_pair[0]) if of_pair else None


def _why_none(folder: Path) -> str:
    if folder.suffix in _EDIT_FILES and not folder.exists():
        return f"There is no file {folder}."
    if folder.is_dir():
        what = f"The folder {folder} is not a finished timestep: it has no {MANIFEST}."
        inside = sorted(path.parent.name for path in folder.glob(f"*/{MANIFEST}"))
        if inside:
            return (
                f"{what} These in it are: {', '.join(inside[:_MOST_LISTED])}. Give {folder / inside[0]}, for instance."
            )
    else:
        what = f"There is no timestep {folder}.{did_you_mean(folder.name, list_timesteps())}"
    return f"{what} {timesteps_there_are()} Give a folder, a name or two dates (2021-01-04..2023-02-27)."
