"""Agreement of build-qaedit's subjects with those of a QAEdit file, and its speed compared with looking up each name.

The rules were written using one half of the file (``--half look``); the other half (``--half report``) is for figures.
A hash of its id decides which half a row belongs to.
Run: python benchmarks/qaedit.py agreement QAEDIT.json [--home FOLDER] [--half report] [--rows]
     python benchmarks/qaedit.py speed [--questions 20000] [--entities 1000000]
     python benchmarks/qaedit.py build [--questions 95000]
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import random
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.clustered_statistics import wilson_interval
from kgedit.store.schemas import ENTITIES
from kgedit.store.snapshots import Snapshot, list_snapshots
from kgedit.timesteps.qaedit import english_categorizer, word_by_rules
from kgedit.timesteps.qaedit.question_rules import Names, SubjectFinder, english_rephraser, read_names
from kgedit.verbs.build_qaedit import build_qaedit
from kgedit.wording.name_index import NameIndex, composed

Row = dict[str, Any]


def half_of(row: Row) -> str:
    """Half that a row belongs to."""
    digest = hashlib.sha256(f"kgedit-qaedit:{row['id']}".encode()).hexdigest()
    return "report" if int(digest, 16) % 2 else "look"


def same_name(text: str) -> str:
    """A subject without case, punctuation and leading article."""
    return re.sub(r"^(?:the|a|an) ", "", re.sub(r"[^\w ]+", "", text.lower())).strip()


def difference(ours: str, theirs: str) -> str:
    """Kind of difference between two subjects."""
    one, other = same_name(ours), same_name(theirs)
    if ours == theirs:
        return "the same"
    if one == other:
        return "only article, case or marks"
    if not one:
        return "none found"
    if f" {one} " in f" {other} ":
        return "a part of theirs"
    if f" {other} " in f" {one} ":
        return "theirs and more"
    return "overlapping" if set(one.split()) & set(other.split()) - {"the", "of", "in", "and"} else "another thing"


def agreement(rows: list[Row], names: Names | None) -> list[Row]:
    """Each row with the subject found and the kind of difference."""
    finder = SubjectFinder(names)
    compared = []
    for row in rows:
        question, theirs = composed(row["prompt"]), composed(row["subject"]).strip()
        found = finder.find(question)
        ours = found.text if found else ""
        compared.append(
            {
                "source": row["source"],
                "rule": found.rule if found else "none",
                "question": question,
                "ours": ours,
                "theirs": theirs,
                "difference": difference(ours, theirs),
                "rephrase": english_rephraser().rephrase(question, ours).text if ours else "",
                "category": english_categorizer().categorize(question).name,
            }
        )
    return compared


def share(count: int, total: int) -> str:
    """A share with its Wilson interval at 95 %."""
    if not total:
        return "none"
    low, high = wilson_interval(count, total)
    return f"{count:4} of {total:4}  {count / total:6.1%}  ({low:.1%} to {high:.1%})"


def print_agreement(compared: list[Row]) -> None:
    """Shares of exact and similar subjects, by source and rule, and the other differences."""
    exact = {"the same"}
    alike = exact | {"only article, case or marks"}

    def line(title: str, chosen: Iterable[Row]) -> None:
        kept = [row["difference"] for row in chosen]
        print(f"{title:<32} exact {share(sum(one in exact for one in kept), len(kept))}")
        print(f"{'':<32} alike {share(sum(one in alike for one in kept), len(kept))}")

    line("all", compared)
    for field in ("source", "rule"):
        for value in sorted({row[field] for row in compared}):
            line(f"{field} {value}", (row for row in compared if row[field] == value))
    for field in ("difference", "category"):
        print(f"{field}: {dict(Counter(row[field] for row in compared).most_common())}")


def run_agreement(given: argparse.Namespace) -> None:
    rows = json.loads(given.file.read_text(encoding="utf-8"))
    chosen = [row for row in rows if given.half in ("both", half_of(row))]
    names = None
    if given.home:
        snapshots = list_snapshots(given.home)
        names = read_names(snapshots, pa.chunked_array([[row["prompt"] for row in chosen]]))
        mentioned = sum(_mentions(names, row) for row in chosen)
        print(f"dictionary: {len(names.index):,} names that may occur, of {', '.join(one.name for one in snapshots)}")
        print(f"their subject is a name of it: {share(mentioned, len(chosen))}")
    compared = agreement(chosen, names)
    print_agreement(compared)
    if given.rows:
        writer = csv.DictWriter(sys.stdout, list(compared[0]), delimiter="\t")
        writer.writeheader()
        writer.writerows(row for row in compared if row["difference"] != "the same")


def _mentions(names: Names, row: Row) -> bool:
    text, theirs = composed(row["prompt"]), composed(row["subject"]).strip()
    return any(text[one.start : one.end] == theirs for one in names.index.find(text))


def made_up_words(chance: random.Random, number: int) -> list[str]:
    """Pronounceable words; the first ones are frequent in texts made from them."""
    syllables = [first + vowel for first in "bcdfghklmnprstvw" for vowel in "aeiou"]
    return ["".join(chance.choices(syllables, k=chance.randint(2, 4))) for _ in range(number)]


def prepare(folder: Path, entities: int, questions: int, seed: int) -> list[str]:
    """Write a snapshot and questions about its items; in a separate process, so that its memory is released."""
    chance = random.Random(seed)
    labels = write_snapshot(folder, entities, chance)
    made: list[str] = made_up_questions(questions, labels, chance)["question"].to_pylist()
    return made


def write_snapshot(folder: Path, entities: int, chance: random.Random) -> list[str]:
    """Write a snapshot of made-up items with labels of one to four words and an alias each; returns the labels."""
    words = made_up_words(chance, 50_000)
    labels = [" ".join(chance.choices(words, k=chance.choice((1, 2, 2, 2, 3, 4)))).title() for _ in range(entities)]
    aliases = [[f"{label} {chance.choice(words)}"] for label in labels]
    columns: dict[str, Any] = {name: pa.nulls(entities, ENTITIES.field(name).type) for name in ENTITIES.names}
    columns |= {
        "id": [f"Q{number}" for number in range(1, entities + 1)],
        "kind": ["item"] * entities,
        "label": labels,
        "aliases": aliases,
    }
    folder.mkdir(parents=True)
    pq.write_table(pa.table(columns, schema=ENTITIES), folder / "entities.parquet", compression="zstd")
    return labels


def made_up_questions(number: int, labels: list[str], chance: random.Random) -> pa.Table:
    """Questions about the labels, in the columns that wording needs."""
    forms = ("Who wrote {}?", "In what year was {} founded?", "What is the capital of {}?", "Where does {} take place?")
    texts = [chance.choice(forms).format(chance.choice(labels)) for _ in range(number)]
    return pa.table({"question": texts, "topic": pa.nulls(number, pa.string())})


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Result of a function, and its CPU seconds."""
    begun = time.process_time()
    made = work()
    return made, time.process_time() - begun


def index_of_all(snapshot: Snapshot) -> NameIndex:
    """Baseline: a dictionary of all names in the store."""
    index = NameIndex()
    table = pq.read_table(snapshot.entities, columns=["label", "aliases"]).to_pydict()
    for number, (label, aliases) in enumerate(zip(table["label"], table["aliases"], strict=True)):
        for name in (label, *aliases):
            index.add(name, number)
    return index


def run_speed(given: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        snapshot = Snapshot(Path(folder) / "20240101", {"date": "2024-01-01"})
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
            texts = apart.submit(prepare, snapshot.folder, given.entities, given.questions, given.seed).result()
        questions = pa.table({"question": texts, "topic": pa.nulls(len(texts), pa.string())})
        before = peak()
        names, joined = timed(lambda: read_names([snapshot], questions["question"]))
        after_join = peak()
        worded, wording = timed(lambda: list(word_by_rules(questions, SubjectFinder(names))))
        print(f"{given.entities:,} entities, {given.questions:,} questions, {2 * given.entities:,} names")
        print(
            f"  names joined         {joined:8.1f} s   {len(names.index):,} kept, {before:.0f} -> {after_join:.0f} MB"
        )
        print(
            f"  questions worded     {wording:8.1f} s   {given.questions / wording:,.0f} a second, peak {peak():.0f} MB"
        )
        found = sum(one.subject is not None for one in worded)
        print(f"  with a subject       {found:,}")
        if given.baseline:
            _, built = timed(lambda: index_of_all(snapshot))
            print(f"  all names indexed    {built:8.1f} s   peak {peak():.0f} MB; ratio {built / joined:.1f}")


def run_build(given: argparse.Namespace) -> None:
    chance = random.Random(given.seed)
    words = made_up_words(chance, 50_000)
    labels = [" ".join(chance.choices(words, k=chance.choice((2, 3)))).title() for _ in range(given.questions)]
    texts = made_up_questions(given.questions, labels, chance)["question"].to_pylist()
    with tempfile.TemporaryDirectory() as name:
        source, out = Path(name) / "made-up-train.json", Path(name) / "qaedit.json"
        pages = [{"Title": "a page", "Snippet": "what a search found " * 60, "Rank": 0}]
        rows = (
            {"Question": text, "Answer": {"Value": word, "Aliases": [word.upper()]}, "SearchResults": pages}
            for text, word in zip(texts, chance.choices(words, k=given.questions), strict=True)
        )
        with source.open("w", encoding="utf-8") as file:
            file.write('{"Data": [' + json.dumps(next(rows)))
            file.writelines(f",{json.dumps(row)}" for row in rows)
            file.write("]}")
        before = peak()
        made, seconds = timed(lambda: build_qaedit([source], out, locality=source))
        size = source.stat().st_size / 1e6
        print(f"left out: {made.provenance['left_out']}")
        rate = given.questions / seconds
        print(
            f"{given.questions:,} questions, {size:.0f} MB: {made.provenance['rows']:,} rows in {seconds:.1f} s", end=""
        )
        print(f" ({rate:,.0f} a second), peak {before:.0f} -> {peak():.0f} MB, mapped pages of the source included")


def peak() -> float:
    """Peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    agree = commands.add_parser("agreement")
    agree.add_argument("file", type=Path)
    agree.add_argument("--home", type=Path)
    agree.add_argument("--half", choices=("look", "report", "both"), default="report")
    agree.add_argument("--rows", action="store_true")
    agree.set_defaults(run=run_agreement)
    speed = commands.add_parser("speed")
    speed.add_argument("--questions", type=int, default=20_000)
    speed.add_argument("--entities", type=int, default=1_000_000)
    speed.add_argument("--seed", type=int, default=0)
    speed.add_argument("--baseline", action=argparse.BooleanOptionalAction, default=True)
    speed.set_defaults(run=run_speed)
    build = commands.add_parser("build")
    build.add_argument("--questions", type=int, default=95_000)
    build.add_argument("--seed", type=int, default=0)
    build.set_defaults(run=run_build)
    given = parser.parse_args()
    given.run(given)


if __name__ == "__main__":
    main()
