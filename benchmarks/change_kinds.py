"""Kinds of change on human-labelled edits: the rules alone, and the classifier with five folds over entities.

    OMP_NUM_THREADS=1 python benchmarks/change_kinds.py --edits ../shared/data/wd_change_gold/edits.csv

The rules were developed on the entities whose id has an even CRC-32 and are evaluated on the others; both halves are
printed. The classifier is never evaluated on entities it was trained on. The file has no snapshots, so containment,
dates of statements, ranks and history are unknown here, and its "update" is any other value, including corrections: it
does not record when a value became true. For edits with several labels, the first one counts.

With ``--snapshots``, real data about the items is joined (classes, containment, descriptions), just as an export joins
labelled changes with its snapshots: each given file is loaded by the loader of its format into a snapshot of a
temporary home. Several KGTK tables form one dump. Lines with "both known" cover item edits for which the surroundings
of both values are known.

Text similarity needs an embedder (``--embedder all-minilm-l6-v2``, a few minutes of CPU) and is left out without one.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.metrics import f1_score, precision_recall_curve
from sklearn.model_selection import GroupKFold

from kgedit.llm.embeddings import load_embedder
from kgedit.loaders.detection import load_with
from kgedit.store.ingest import ingest
from kgedit.store.schemas import LoaderOptions
from kgedit.store.snapshots import Snapshot
from kgedit.store.sources import DumpFile
from kgedit.timesteps.kinds import RULES, judge_kinds, judge_with_classifier, read_labelled, train_classifier
from kgedit.timesteps.kinds.classifier import Embedder
from kgedit.timesteps.kinds.signals import VALUES, signals_of_known_values, signals_of_values

SHOWN = ("all", "string", "time", "quantity", "item", "both known")
RECALL = 0.8


@dataclass(frozen=True)
class Edits:
    """Labelled edits as columns VALUES, with their kinds, the ids of their entities, and their signals."""

    values: pa.Table
    kinds: NDArray[np.str_]
    entities: NDArray[np.str_]
    signals: pa.Table

    def take(self, rows: NDArray[np.int64]) -> Edits:
        return Edits(self.values.take(rows), self.kinds[rows], self.entities[rows], self.signals.take(rows))

    @property
    def labelled(self) -> pa.Table:
        return self.values.append_column("kind", pa.array(self.kinds))

    @property
    def both_known(self) -> NDArray[np.bool_]:
        """Mask of edits for which the surroundings of both values are known."""
        within, around = (self.signals[name].is_valid().to_numpy() for name in ("new_within_old", "old_within_new"))
        known: NDArray[np.bool_] = within & around
        return known


def read_edits(path: Path, dumps: Sequence[Path] = ()) -> Edits:
    """Read the labelled edits, with values in the store's spelling, and join data from the dumps."""
    with path.open(encoding="utf-8", newline="") as file:
        entities = np.array([row["entity_id"] for row in csv.DictReader(file)])
    labelled = read_labelled(path)
    values, kinds = labelled.select(VALUES.names), np.array(labelled["kind"].to_pylist())
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        snapshots = load_dumps(home, dumps)
        signals = (
            signals_of_known_values(values, snapshots, spill=home / "spill") if dumps else signals_of_values(values)
        )
    return Edits(values, kinds, entities, signals)


def load_dumps(home: Path, dumps: Sequence[Path]) -> list[Snapshot]:
    """Load each dump as a snapshot, with dates in the given order. KGTK tables form one dump."""
    tables = [path for path in dumps if path.name.endswith(".tsv.gz")]
    others = [path for path in dumps if path not in tables]
    sources = [("wikidata_json", path) for path in others]
    if tables:
        sources.append(("kgtk", write_edges(tables, home / "edges.tsv")))
    snapshots = []
    for number, (loader, path) in enumerate(sources):
        day = datetime.date(2015, 1, 1) + datetime.timedelta(days=number)
        order = load_with(loader, LoaderOptions(), date=day, slice_of=path.name)
        source = DumpFile(path)
        snapshots.append(ingest(home, order, source, workers=1, overwrite=False, progress=lambda _done, _counted: None))
    return snapshots


def write_edges(tables: Sequence[Path], path: Path) -> Path:
    """Write all edges of KGTK tables to one file, in the order required by the loader."""
    read = "read_csv($tables, delim='\t', quote='', all_varchar=true, union_by_name=true)"
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.execute(
            f"COPY (SELECT DISTINCT id, node1, label, node2 FROM {read} WHERE node1 SIMILAR TO '[QP][0-9]+' "
            f"ORDER BY node1, id) TO '{path}' (HEADER, DELIMITER '\t', QUOTE '', ESCAPE '')",
            {"tables": [str(table) for table in tables]},
        )
    return path


def measure(edits: Edits, kinds: NDArray[np.str_], update: NDArray[np.float64]) -> dict[str, tuple[int, float, float]]:
    """Number of edits, precision of "update" at recall RECALL, and macro-F1; overall and by value type."""
    types = np.array(edits.values["value_type"].to_pylist())
    measured = {}
    for name in SHOWN:
        rows = np.ones(len(types), bool) if name == "all" else types == name
        rows = (types == "item") & edits.both_known if name == "both known" else rows
        if not rows.any():
            continue
        precision, recall, _ = precision_recall_curve(edits.kinds[rows] == "update", update[rows])
        macro = f1_score(
            edits.kinds[rows], kinds[rows], average="macro", labels=np.unique(edits.kinds[rows]), zero_division=0
        )
        measured[name] = (int(rows.sum()), float(precision[recall >= RECALL].max()), float(macro))
    return measured


def show(title: str, measured: dict[str, tuple[int, float, float]]) -> None:
    for name, (count, precision, macro) in measured.items():
        print(f"{title:34} {name:9} {count:6} {precision:10.3f} {macro:9.3f}")


def by_rules(edits: Edits, *, show_rules: bool = False) -> dict[str, tuple[int, float, float]]:
    judged = judge_kinds(edits.signals)
    kinds, confidence = np.array(judged["kind"].to_pylist()), np.array(judged["confidence"].to_pylist())
    rules = np.array(judged["rule"].to_pylist())
    for rule in RULES if show_rules else ():
        decided = rules == rule.name
        if decided.any():
            shares = f"right {(edits.kinds[decided] == rule.kind).mean():.2f} said {rule.confidence:.2f}"
            print(f"    {rule.name:40} {rule.kind:13} {decided.sum():5} {shares}")
    return measure(edits, kinds, np.where(kinds == "update", confidence, -confidence))


def halves(edits: Edits) -> tuple[Edits, Edits]:
    """Edits on which the rules were developed, and edits on which they are evaluated."""
    developed = np.array([zlib.crc32(str(entity).encode()) % 2 == 0 for entity in edits.entities])
    return edits.take(np.flatnonzero(developed)), edits.take(np.flatnonzero(~developed))


def by_classifier(edits: Edits, folds: int, seed: int, embed: Embedder | None) -> dict[str, tuple[int, float, float]]:
    names = np.unique(edits.kinds)
    probabilities = np.zeros((len(edits.kinds), len(names)))
    for train, test in GroupKFold(folds).split(edits.kinds, groups=edits.entities):
        learnt, tested = edits.take(train), edits.take(test).signals
        classifier = train_classifier(learnt.labelled, signals=learnt.signals, seed=seed, embed=embed)
        found = classifier.probabilities(tested)
        judged = judge_with_classifier(classifier, tested).to_pylist()
        for row, of_classifier, verdict in zip(test, found, judged, strict=True):
            probabilities[row, np.searchsorted(names, classifier.kinds)] = of_classifier
            if verdict["rule"] != "classifier":
                probabilities[row] = (1 - verdict["confidence"]) / len(names)
                probabilities[row, list(names).index(verdict["kind"])] = verdict["confidence"]
    return measure(edits, names[probabilities.argmax(axis=1)], probabilities[:, list(names).index("update")])


def embedding_once(embed: Embedder) -> Embedder:
    """The embedder, with each text embedded once over all folds."""
    remembered: dict[str, NDArray[np.float32]] = {}

    def embedded(texts: Sequence[str]) -> NDArray[np.float32]:
        new = [text for text in dict.fromkeys(texts) if text not in remembered]
        if new:
            remembered.update(zip(new, embed(new), strict=True))
        return np.stack([remembered[text] for text in texts])

    return embedded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = Path(__file__).resolve().parents[2] / "shared" / "data" / "wd_change_gold" / "edits.csv"
    parser.add_argument("--edits", type=Path, default=shared, help="the labelled edits")
    parser.add_argument(
        "--snapshots", type=Path, nargs="*", default=[], help="JSON dumps and KGTK tables (.tsv.gz) to join"
    )
    parser.add_argument("--embedder", help="embedder for meanings of texts; none without")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("rules", "classifier"), help="leave the other one out")
    parser.add_argument("--show-rules", action="store_true", help="how often each rule was right")
    options = parser.parse_args()
    if not options.edits.is_file():
        print(f"No labelled edits at {options.edits}: nothing is measured.")
        return
    edits = read_edits(options.edits, options.snapshots)
    counted = ", ".join(
        f"{row['values']} {row['counts']}" for row in pc.value_counts(pa.array(edits.kinds)).to_pylist()
    )
    print(f"{len(edits.kinds)} edits of {len(set(edits.entities))} entities: {counted}")
    print(f"something lies around both values of {edits.both_known.sum()} edits")
    print(f"{'':34} {'':9} {'edits':>6} {f'P at R {RECALL:g}':>10} {'macro-F1':>9}")
    if options.only != "classifier":
        for title, half in zip(
            ("rules, half of their development", "rules, the other half"), halves(edits), strict=True
        ):
            show(title, by_rules(half, show_rules=options.show_rules))
        naive = measure(edits, np.full(len(edits.kinds), "update"), np.ones(len(edits.kinds)))
        show("everything is an update", naive)
    if options.only != "rules":
        embed = embedding_once(load_embedder(options.embedder, device="cpu")) if options.embedder else None
        title = f"classifier, {options.embedder or 'no embedder'}"
        show(title, by_classifier(edits, options.folds, options.seed, embed))


if __name__ == "__main__":
    main()
