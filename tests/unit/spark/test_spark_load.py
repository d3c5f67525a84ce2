"""Snapshots built by Spark equal local loads byte for byte, also after failures; a real session in local mode."""

from __future__ import annotations

import bz2
import gzip
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from generated_dumps import write_dumps
from kgedit.loaders.wikidata_json import JsonParser
from world.shared_data import SHARED

import kgedit
from kgedit.errors import SourceError, StoreError
from kgedit.spark.load import SparkBuild
from kgedit.spark.session import open_session
from kgedit.spark.tasks import FinishTask, run_parts, write_delta_on_spark
from kgedit.store.blocks import Loader
from kgedit.store.delta import delta_folder, missing_parts, write_delta
from kgedit.store.ingest import ingest
from kgedit.store.schemas import NODES, WAITING, LoaderOptions, Parsed, Waiting
from kgedit.store.scope import Scope
from kgedit.store.snapshots import Snapshot
from kgedit.store.sources import DumpFile
from kgedit.store.tasks import read_share
from kgedit.timesteps.changes_only import run_changes_task, take_changes, take_changes_on_spark
from tests.world.dumps import Json, entity, entity_value, hashes, load, load_of, snak, statement, write_dump

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

DATE = "2021-01-04"
MASTER = "local[2,2]"  # two workers, two attempts at a task: each imports kgedit in a new process


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session, because starting Java takes as long as all tests."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors do not import tests
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # compiling more takes longer than it saves here
        "spark.local.dir": str(tmp_path_factory.mktemp("spark")),
    }
    with open_session(MASTER, settings) as opened:
        yield opened


@pytest.fixture
def four_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgedit.store.builds.bucket_count", lambda _text_bytes: 4)


def on_spark(
    session: SparkSession, home: Path, dump: Path, *, split_bytes: int = 1 << 20, **changes: object
) -> Snapshot:
    source = DumpFile(dump, 1 << 20)
    return ingest(home, load_of(DATE, **changes), source, overwrite=False, build=SparkBuild(session, split_bytes))


def about(item: str, *qualifiers: Json, **more: object) -> Json:
    return statement(snak("P31", entity_value(item)), *qualifiers, **more)


def hostile_dump(folder: Path) -> Path:
    """Repeated entities far apart, ids shared between buckets, bad lines, and a restrictive qualifier at the end."""
    many = [
        entity(f"Q{number}", about("Q5"), about("Q6", snak("P1", "somevalue")), label="long " * 20)
        for number in range(10, 400)
    ]
    odd = [
        entity("Q1", about("Q5", statement_id="Q1$A"), about("Q6", statement_id="x"), label="first"),
        entity("Q2", about("Q5", statement_id="Q1$A"), about("Q7", statement_id="x")),
        entity("Q3", about("Q5", statement_id="Q1$A"), about("Q5", statement_id="Q1$A")),
        {"type": "lexeme", "id": "L1"},
    ]
    again = [
        entity("Q1", about("Q9", statement_id="Q1$A"), label="again"),
        entity("Q15", about("Q9", statement_id="x")),
        entity("P1", about("Q61719275")),
        {"type": "item", "id": "Q399", "claims": {"P31": [{"mainsnak": {"snaktype": "value", "property": "P31"}}]}},
    ]
    return write_dump(folder / "dump.json", [*odd, *many, *again])


@pytest.mark.parametrize("suffix", ["", ".bz2", ".gz"])
def test_a_hostile_dump_in_many_splits_has_the_bytes_of_a_local_load(
    session: SparkSession, tmp_path: Path, four_buckets: None, suffix: str
) -> None:
    dump = hostile_dump(tmp_path)
    compress: Callable[[bytes], bytes] = {"": bytes, ".bz2": bz2.compress, ".gz": gzip.compress}[suffix]
    path = dump.with_name(f"my dump, é 5% [1]{{a}}*?{suffix}")
    path.write_bytes(compress(dump.read_bytes()))
    redirects = tmp_path / "redirects.tsv"
    redirects.write_text("Q1010\tQ10\nQ1011\tQ1010\nQ12\tQ13\n", encoding="utf-8")
    local = load(tmp_path / "local", path, DATE, redirects=redirects)
    spark = on_spark(session, tmp_path / "spark", path, split_bytes=20_000, redirects=redirects)
    assert hashes(spark.folder) == hashes(local.folder)
    assert (spark.manifest["buckets"], len(list(spark.folder.glob("claims-*.parquet")))) == (4, 4)
    left_out = spark.manifest["left_out"]
    assert {name: left_out[name] for name in ("lexeme", "repeated entity", "statement of a repeated entity")} == {
        "lexeme": 1, "repeated entity": 3, "statement of a repeated entity": 3,
    }  # fmt: skip


@pytest.mark.shared
def test_a_real_slice_has_the_bytes_of_a_local_load(session: SparkSession, tmp_path: Path, four_buckets: None) -> None:
    text = gzip.decompress((SHARED / "slices" / "w12k" / "20100101.json.gz").read_bytes())
    # Blocks of bzip2 have at least 100,000 bytes, so that several splits have some.
    dump = tmp_path / "slice.json.bz2"
    dump.write_bytes(bz2.compress(text, 1))
    local = load(tmp_path / "local", dump, DATE)
    spark = on_spark(session, tmp_path / "spark", dump, split_bytes=max(dump.stat().st_size // 5, 50_000))
    assert hashes(spark.folder) == hashes(local.folder)


def test_generated_dumps_have_the_bytes_of_a_local_load(
    session: SparkSession, tmp_path: Path, four_buckets: None
) -> None:
    (dump,) = write_dumps(tmp_path, statements=30_000, dates=1)
    local = load(tmp_path / "local", dump, DATE)
    home = kgedit.Home(tmp_path / "spark")
    spark = home.load_dump(dump, DATE, engine="spark", master=MASTER, graph=False)
    assert hashes(spark.folder) == hashes(local.folder) | {
        name: digest for name, digest in hashes(spark.folder).items() if name in ("manifest.json", "SHA256SUMS")
    }
    assert {**spark.manifest, "block_bytes": 1 << 20} == local.manifest


@pytest.mark.parametrize("master", [None, MASTER])
def test_a_session_of_another_thread_is_used_and_not_stopped(session: SparkSession, master: str | None) -> None:
    def contexts_id() -> str:
        with open_session(master) as opened:
            return str(opened.sparkContext.applicationId)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(contexts_id).result() == session.sparkContext.applicationId
    assert session.range(3).count() == 3


def test_a_limit_counts_lines_from_the_beginning(session: SparkSession, tmp_path: Path) -> None:
    dump = hostile_dump(tmp_path)
    local = load(tmp_path / "local", dump, DATE, limit=30)
    spark = on_spark(session, tmp_path / "spark", dump, split_bytes=20_000, limit=30)
    assert hashes(spark.folder) == hashes(local.folder)
    assert spark.manifest["lines"] == 30


@dataclass(frozen=True)
class KillsItsProcess:
    """Kills the first process that it is called in, as a machine would that runs out of memory."""

    marker: Path

    def __call__(self) -> None:
        try:
            self.marker.touch(exist_ok=False)
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


class KilledParser:
    def __init__(self, kill: KillsItsProcess) -> None:
        self._kill, self._parser = kill, JsonParser(LoaderOptions())

    def parse(self, block: bytes) -> Parsed:
        parsed = self._parser.parse(block)
        self._kill()
        return parsed


class KilledFinish(FinishTask):
    """Leaves files in the folder before it is killed."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        aside = self.target.folder / ".00000-killed"
        aside.mkdir(exist_ok=True)
        (aside / "claims.parquet").write_bytes(b"half")
        KillsItsProcess(self.target.folder.parent / "finishing was killed")()
        yield from FinishTask.__call__(self, batches)


def test_killed_tasks_are_repeated_and_give_the_same(
    session: SparkSession, tmp_path: Path, four_buckets: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = hostile_dump(tmp_path)
    local = load(tmp_path / "local", dump, DATE)
    monkeypatch.setattr("kgedit.spark.load.FinishTask", KilledFinish)
    kill = KillsItsProcess(tmp_path / "parser was killed")
    killed: Callable[[], Loader] = partial(KilledParser, kill)
    spark = on_spark(session, tmp_path / "spark", dump, split_bytes=20_000, make_loader=killed)
    assert kill.marker.exists()
    assert hashes(spark.folder) == hashes(local.folder)
    assert not list(spark.folder.glob(".*"))


def test_a_damaged_dump_is_reported_with_its_path(session: SparkSession, tmp_path: Path) -> None:
    whole = bz2.compress(hostile_dump(tmp_path).read_bytes())
    damaged = tmp_path / "damaged.json.bz2"
    damaged.write_bytes(whole[: len(whole) // 2] + bytes(100) + whole[len(whole) // 2 + 100 :])
    with pytest.raises(SourceError, match=r"damaged\.json\.bz2 is truncated or damaged"):
        on_spark(session, tmp_path / "home", damaged)
    assert not list((tmp_path / "home").rglob("manifest.json"))


def test_a_truncated_array_is_reported(session: SparkSession, tmp_path: Path) -> None:
    dump = hostile_dump(tmp_path)
    dump.write_bytes(dump.read_bytes().rstrip().removesuffix(b"]"))
    with pytest.raises(SourceError, match="begins a JSON array and does not end it"):
        on_spark(session, tmp_path / "home", dump)


def test_files_that_the_driver_does_not_see_are_reported(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgedit.spark.load.FinishTask", LosesAFile)
    with pytest.raises(StoreError, match=r"does not have it\. The home must be in a folder that the driver and all"):
        on_spark(session, tmp_path / "home", hostile_dump(tmp_path))
    assert not list((tmp_path / "home").rglob("manifest.json"))


class LosesAFile(FinishTask):
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from FinishTask.__call__(self, batches)
        (self.target.folder / "facts.parquet").unlink()


class ParserThatWaits:
    """Leaves statements to other blocks, as parsers of RDF do."""

    def __init__(self) -> None:
        self._parser = JsonParser(LoaderOptions())

    def parse(self, block: bytes) -> Parsed:
        return replace(self._parser.parse(block), waiting=Waiting(WAITING.empty_table(), NODES.empty_table()))


def test_formats_that_describe_values_elsewhere_are_refused(session: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="Load it on one machine"):
        on_spark(session, tmp_path / "home", hostile_dump(tmp_path), make_loader=ParserThatWaits)


def test_a_delta_on_spark_has_the_bytes_of_a_local_one(
    session: SparkSession, tmp_path: Path, four_buckets: None
) -> None:
    home = tmp_path / "home"
    older = load(home, hostile_dump(tmp_path), DATE)
    newer = load(home, write_dump(tmp_path / "newer.json", [entity("Q15", about("Q5"))]), "2023-02-27")
    local, shared = tmp_path / "local", delta_folder(home, newer)
    local.mkdir()
    whole = write_delta(older, newer, Scope(), local)
    assert write_delta_on_spark(session, home, older, newer, Scope()) == 4
    assert missing_parts(older, newer, Scope(), shared) == []
    found = write_delta(older, newer, Scope(), shared)
    assert {step: path.read_bytes() for step, path in found.items()} == {
        step: path.read_bytes() for step, path in whole.items()
    }


def test_what_changed_taken_on_spark_has_the_bytes_of_a_local_call(
    session: SparkSession, tmp_path: Path, four_buckets: None
) -> None:
    store = tmp_path / "store"
    older = load(store, hostile_dump(tmp_path), DATE)
    newer = load(store, write_dump(tmp_path / "newer.json", [entity("Q15", about("Q5"))]), "2023-02-27")
    local, shared = tmp_path / "local", tmp_path / "shared"
    wanted = take_changes(local, older, newer)
    with pytest.raises(StoreError, match="kgedit task select-changes"):
        take_changes_on_spark(session, shared, older, newer)
    run_changes_task(shared, older, newer, "select-changes", read_share("1/1"))
    assert take_changes_on_spark(session, shared, older, newer) == 4
    taken = list((shared / "snapshots").glob(".*.changes/facts-*.parquet"))
    assert len(taken) == 8
    made = {path: path.stat().st_mtime_ns for path in taken}
    found = take_changes(shared, older, newer)
    assert [hashes(part.folder) for part in found] == [hashes(part.folder) for part in wanted]
    moved = {part.folder / path.name: path.parent for part in found for path in taken if part.folder.name in str(path)}
    assert [path.stat().st_mtime_ns for path in moved] == [made[aside / path.name] for path, aside in moved.items()]
    assert take_changes_on_spark(session, shared, older, newer) == 4, "it is there already"


def test_parts_that_the_driver_does_not_find_are_an_error(session: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="2 parts are not in"):
        run_parts(session, str, 3, folder=tmp_path, missing=lambda: [0, 2])
