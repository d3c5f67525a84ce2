"""Timesteps of a home: exports and opens them, and checks edits against its snapshots."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.extras import names_extra
from kgedit.resources import use_home
from kgedit.verbs.home_folder import Date, HomeFolder, read_date

if TYPE_CHECKING:
    from kgedit.timesteps.audit import Audit
    from kgedit.timesteps.stream import Stream
    from kgedit.timesteps.timestep import Timestep


class HomeTimesteps(HomeFolder):
    """Part of a home that exports timesteps from pairs of its snapshots."""

    @names_extra
    def export_timestep(
        self,
        older: Date,
        newer: Date,
        *,
        out: str | Path | None = None,
        seed: int = 0,
        known_facts: int = 2000,
        templates: str | Path | None = None,
        personas: str | Path | None = None,
        forms: Iterable[str] | None = None,
        overwrite: bool = False,
        profile: str = "wikibigedit",
        compat: str | None = None,
        pageviews: Iterable[str | Path] = (),
        kinds: Iterable[str] = (),
        labelled_changes: str | Path | None = None,
        kind_embedder: str | None = None,
        persona_style: str = "reworded",
        functional_by: str | None = None,
        ask_as_of: bool = False,
        changed_locality: bool = False,
        only: str | Path | None = None,
        counts: str | Path | None = None,
        engine: str = "auto",
    ) -> Timestep:
        """Export the changes between two snapshots as questions; the output is byte-identical every time.

        A folder that already contains the same timestep is kept.

        Args:
            older: Day of the older snapshot.
            newer: Day of the newer snapshot.
            out: Folder to write; None means `benchmark/FROM_TO` in this home, or `benchmark/FROM_TO_PROFILE` for
                profiles other than wikibigedit.
            seed: Seed of all random draws: personas, second hops, random neighbours.
            known_facts: Maximum number of facts of the older snapshot to put into words.
            templates: Template catalogue; None means the built-in one.
            personas: Folder of personas; None means the built-in ones.
            forms: Further formats to write in addition to the tables; None means the profile's own.
            overwrite: Whether to replace the folder if it contains anything else.
            profile: Definition of a change: "wikibigedit" or "wikifactdiff".
            compat: wikifactdiff: "wikifactdiff-2024" reproduces the behaviour of its released code.
            pageviews: Monthly files of page views, for views of subjects and objects, and wikifactdiff's popularity.
            kinds: wikibigedit: kinds of change to keep, such as "update" (`docs/kinds-of-change.md`); empty means all.
            labelled_changes: wikibigedit: CSV or JSON lines of labelled changes that train a classifier of kinds
                (requires kgedit[classifier]); None means the built-in rules alone.
            kind_embedder: wikibigedit: embedder with which that classifier compares meanings (requires kgedit[rag]);
                None means all-minilm-l6-v2, "none" compares words alone.
            persona_style: "reworded", or "framed": the unchanged question inside a frame, which is easier.
            functional_by: Criterion for functional relations: "constraints" (default of wikifactdiff), "data", or
                "values" (default of wikibigedit: each subject's own values); None means the default.
            ask_as_of: Whether questions include the day that they refer to: "As of 27 February 2023, who ...?".
            changed_locality: wikibigedit: whether locality probes are preferably drawn from the facts that changed in
                the window and are not cases.
            only: CSV file of the subjects and relations whose changes count (from `kgedit explore`); None means all.
            counts: Mentions of subjects and objects in a corpus: a file of labels or ids with their counts, or texts in
                which labels are counted (.txt, .jsonl, .parquet, or a folder of these); None means no counts.
            engine: Engine of the export: "graph" uses Cypher; "store" uses SQL over the snapshots, without a server;
                "auto" uses the graph if this home has a suitable one and the window is small enough (docs/graph.md),
                else the store. The tables are byte-identical.

        Raises:
            StoreError: if a snapshot is not loaded.
            TimestepError: if the folder contains anything else, the dates are reversed, the graph lacks a snapshot, or
                an option is not one of the profile's.
        """
        from kgedit.store.snapshots import open_snapshot
        from kgedit.verbs.exporting import ExportOptions, export_pair, keep_exported

        options = ExportOptions(
            profile=profile,
            seed=seed,
            known_facts=known_facts,
            templates=None if templates is None else Path(templates),
            personas=None if personas is None else Path(personas),
            forms=None if forms is None else tuple(forms),
            compat=compat,
            pageviews=tuple(Path(file) for file in pageviews),
            kinds=tuple(kinds),
            labelled_changes=None if labelled_changes is None else Path(labelled_changes),
            kind_embedder=kind_embedder,
            functional_by=functional_by,
            ask_as_of=ask_as_of,
            changed_locality=changed_locality,
            persona_style=persona_style,
            only=None if only is None else Path(only),
            counts=None if counts is None else Path(counts),
            engine=engine,
        )
        old, new = (open_snapshot(self.path, read_date(date)) for date in (older, newer))
        folder = self._timestep_folder(old.date, new.date, profile) if out is None else Path(out)
        if folder.exists() and not overwrite:
            return keep_exported(self.path, old, new, folder, options=options)
        return export_pair(self.path, old, new, folder, options=options)

    @names_extra
    def export_all(
        self,
        *,
        out: str | Path | None = None,
        seed: int = 0,
        known_facts: int = 2000,
        templates: str | Path | None = None,
        personas: str | Path | None = None,
        forms: Iterable[str] | None = None,
        overwrite: bool = False,
        profile: str = "wikibigedit",
        compat: str | None = None,
        pageviews: Iterable[str | Path] = (),
        kinds: Iterable[str] = (),
        labelled_changes: str | Path | None = None,
        kind_embedder: str | None = None,
        functional_by: str | None = None,
        ask_as_of: bool = False,
        changed_locality: bool = False,
        persona_style: str = "reworded",
        only: str | Path | None = None,
        counts: str | Path | None = None,
        engine: str = "auto",
        told: Callable[[str, bool], None] | None = None,
    ) -> Stream:
        """Export timesteps between all consecutive snapshots, and the stream that links them (docs/how-to/streams.md).

        Each is byte-identical to the output of `export_timestep`. An existing identical timestep is kept, so an
        interrupted call resumes.

        Args:
            out: Folder for the folders of the timesteps and of the stream; None means `benchmark` in this home.
                Remaining arguments: see `export_timestep`.
            overwrite: Whether to replace a timestep that was exported with other options.
            told: Called with each timestep's name, and whether it was kept.

        Raises:
            TimestepError: if there are fewer than two snapshots, a folder contains a timestep exported with other
                options, the graph lacks a snapshot, or an option is not one of the profile's.
        """
        from kgedit.timesteps.timestep_names import timesteps_folder
        from kgedit.verbs.exporting import ExportOptions, export_stream

        options = ExportOptions(
            profile=profile,
            seed=seed,
            known_facts=known_facts,
            templates=None if templates is None else Path(templates),
            personas=None if personas is None else Path(personas),
            forms=None if forms is None else tuple(forms),
            compat=compat,
            pageviews=tuple(Path(file) for file in pageviews),
            kinds=tuple(kinds),
            labelled_changes=None if labelled_changes is None else Path(labelled_changes),
            kind_embedder=kind_embedder,
            functional_by=functional_by,
            ask_as_of=ask_as_of,
            changed_locality=changed_locality,
            persona_style=persona_style,
            only=None if only is None else Path(only),
            counts=None if counts is None else Path(counts),
            engine=engine,
        )
        folder = timesteps_folder(self.path) if out is None else Path(out)
        return export_stream(
            self.path, folder, options=options, overwrite=overwrite, told=told or (lambda _name, _kept: None)
        )

    def timestep(self, older: Date, newer: Date, *, profile: str = "wikibigedit") -> Timestep:
        """Open the timestep that `export_timestep` wrote into this home.

        Raises:
            TimestepError: if there is none.
        """
        from kgedit.timesteps.timestep import Timestep
        from kgedit.wikidata.times import day_number

        days = (day_number(read_date(older)), day_number(read_date(newer)))
        with use_home(self.path):
            return Timestep.open(self._timestep_folder(*days, profile))

    def audit(self, path: str | Path, older: Date, newer: Date) -> Audit:
        """Check a file of edits, or a timestep, against two snapshots; does not need a graph.

        Args:
            path: A file in any form that `run` accepts, or a timestep: its folder, its name in this home, or its dates
                (2021-01-04..2023-02-27).
            older: Day of the snapshot in which the edits must not hold yet.
            newer: Day of the snapshot in which they must hold.

        Raises:
            StoreError: if a snapshot is not loaded.
            TimestepError: if the file cannot be read, or the dates are reversed.
        """
        from kgedit.store.disk import disk_errors
        from kgedit.store.snapshots import list_snapshots, open_snapshot
        from kgedit.timesteps.audit import audit_edits
        from kgedit.timesteps.edit_files import open_edits

        old, new = (open_snapshot(self.path, read_date(date)) for date in (older, newer))
        earlier = [snapshot for snapshot in list_snapshots(self.path) if snapshot.date < old.date]
        spill = self.path / "snapshots" / f".audit-{os.getpid()}"
        with use_home(self.path), disk_errors(self.path, again="give the same command again"):
            return audit_edits(open_edits(Path(path)), old, new, earlier, spill=spill)

    def _timestep_folder(self, older: int, newer: int, profile: str) -> Path:
        from kgedit.timesteps.timestep import timestep_folder
        from kgedit.timesteps.timestep_names import timesteps_folder

        return timestep_folder(timesteps_folder(self.path), older, newer, profile)
