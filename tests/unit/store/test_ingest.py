"""A load ends in the same bytes however it got there, or leaves the store as it was."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from world.dumps import Json, entity, entity_value, hashes, lines, load, snak, statement, write_dump
from world.parsers import PARSERS, python_parser
from world.patience import wait_until

from kgedit.errors import SourceError, StoreError
from kgedit.store.frames import LAYOUT
from kgedit.store.ingest import content_difference, load_differences
from kgedit.store.schemas import LoaderOptions
from kgedit.store.snapshots import Snapshot, list_snapshots, open_snapshot

DATE = "2021-01-04"
SMALL = 6000
"""Bytes of a block in these tests; the dump has about ten of them."""


def about(object_id: str, *qualifiers: Json, property_id: str = "P31", **more: Any) -> Json:
    return statement(snak(property_id, entity_value(object_id)), *qualifiers, **more)


def items(numbers: Iterable[int]) -> Iterator[Json]:
    for number in numbers:
        yield entity(f"Q{number}", about("Q5"), about(f"Q{number * 7919 % 5000}", rank="preferred"), label=f"n{number}")


def rows(path: Path, columns: str, order: str = "ALL") -> list[tuple[Any, ...]]:
    return duckdb.sql(f"SELECT {columns} FROM '{path}' ORDER BY {order}").fetchall()


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return write_dump(tmp_path / "dump.json.gz", items(range(1, 200)))


# Counts


def test_counts_add_up(tmp_path: Path) -> None:
    lexeme = {"type": "lexeme", "id": "L1", "claims": []}
    broken = entity("Q8", about("Q5"))
    broken["claims"]["P1"] = ["broken", {"mainsnak": snak("P1", "nonsense")}]
    content = [
        *items((3, 1, 20000001)), lexeme, broken, *items((1,)), entity("Q9", about("Q5"), about("Q6"), about("Q5")),
        entity("Q10") | {"claims": []},
    ]  # fmt: skip
    content[-2]["claims"]["P31"][2] = content[-2]["claims"]["P31"][0]
    text = lines(content).replace(b"]\n", b"not json,\r\n\r\n]\n")
    dump = write_dump(tmp_path / "dump.json", text)
    manifest = load(tmp_path, dump, DATE, max_error_rate=0.5).manifest
    assert (manifest["lines"], manifest["entities"]) == (9, 6)
    assert (manifest["statements"], manifest["claims"], manifest["claims_with_value"]) == (14, 9, 9)
    assert manifest["left_out"] == {
        "lexeme": 1,
        "malformed JSON": 1,
        "malformed statement": 1,
        "repeated entity": 1,
        "repeated statement": 1,
        "statement of a repeated entity": 2,
        "unknown snak type": 1,
    }
    assert manifest["complete"] is True


@pytest.mark.parametrize("block_bytes", [200, 3000, 1 << 20])
def test_what_occurs_twice_is_left_out_wherever_blocks_are_cut(tmp_path: Path, block_bytes: int) -> None:
    first, again = entity("Q1", about("Q5"), label="first"), entity("Q1", about("Q6"), about("Q5"), label="again")
    second = entity("Q2", about("Q5", statement_id="Q1$S0"), about("Q5", statement_id="Q1$S0"))
    dump = write_dump(tmp_path / "dump.json", [*items((7,)), first, *items((8,)), second, again])
    snapshot = load(tmp_path, dump, DATE, block_bytes=block_bytes)
    assert snapshot.manifest["left_out"] == {
        "repeated entity": 1,
        "repeated statement": 1,
        "statement of a repeated entity": 2,
    }
    claims = rows(snapshot.claims, "subject, object, statement_id")
    assert [row for row in claims if row[0] in ("Q1", "Q2")] == [("Q1", "Q5", "Q1$S0"), ("Q2", "Q5", "Q1$S0#2")]
    assert ("Q1", "first") in rows(snapshot.entities, "id, label")


def test_different_statements_with_one_id_are_all_kept(tmp_path: Path) -> None:
    twice = [about(name, statement_id="Q1$A") for name in ("Q5", "Q6", "Q7")]
    dump = write_dump(tmp_path / "dump.json", [entity("Q1", *twice)])
    snapshot = load(tmp_path, dump, DATE)
    assert {row[0] for row in rows(snapshot.claims, "statement_id")} == {"Q1$A", "Q1$A#2", "Q1$A#3"}
    assert "repeated statement" not in snapshot.manifest["left_out"]


@pytest.mark.parametrize("first", [True, False])
def test_a_statement_is_restricted_by_any_restrictive_qualifier(tmp_path: Path, first: bool) -> None:
    restrictive = entity("P1", about("Q61719275"))
    former = entity("P2", about("Q61719275", rank="deprecated"))
    start = entity("P580", about("Q61719275"))
    item = entity(
        "Q1",
        about("Q5", snak("P580", "somevalue")),
        about("Q6", snak("P9", "somevalue"), snak("P1", "somevalue")),
        about("Q7", snak("P2", "somevalue")),
    )
    properties = [restrictive, former, start]
    dump = write_dump(tmp_path / "dump.json", [*properties, item] if first else [item, *properties])
    found = rows(load(tmp_path, dump, DATE, block_bytes=300).claims, "object, restricted")
    assert dict(row for row in found if row[0] != "Q61719275") == {"Q5": False, "Q6": True, "Q7": False}


def test_rows_keep_the_order_of_the_dump(tmp_path: Path) -> None:
    order = [30, 4, 20000001, 100, 3]
    snapshot = load(tmp_path, write_dump(tmp_path / "dump.json", items(order)), DATE, block_bytes=300)
    assert [row[0] for row in duckdb.sql(f"SELECT id FROM '{snapshot.entities}'").fetchall()] == [
        f"Q{number}" for number in order
    ]


# The same and another


def test_the_same_command_twice_changes_nothing(tmp_path: Path, dump: Path) -> None:
    load(tmp_path / "home", dump, DATE)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "home").rglob("*.*")}
    load(tmp_path / "home", dump, DATE)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "home").rglob("*.*")} == before


PROCESSES = partial(python_parser, LoaderOptions())
"""A loader that needs processes, even if the compiled parser is installed."""


@pytest.mark.slow
def test_every_way_to_load_a_dump_gives_the_same_bytes(tmp_path: Path, dump: Path) -> None:
    home = "it's a [home]"
    load(tmp_path / "one", dump, DATE, block_bytes=SMALL)
    expected = hashes(tmp_path / "one")
    assert set(expected) == {
        f"snapshots/20210104/{name}"
        for name in ("SHA256SUMS", "claims.parquet", "entities.parquet", "facts.parquet", "manifest.json")
    }
    load(tmp_path / home, dump, DATE, block_bytes=SMALL, workers=2, make_loader=PROCESSES)
    assert hashes(tmp_path / home) == expected
    load(tmp_path / home, dump, DATE, block_bytes=SMALL, workers=2, overwrite=True)
    assert hashes(tmp_path / home) == expected
    load(tmp_path / home, dump, DATE, block_bytes=SMALL, overwrite=True)
    assert hashes(tmp_path / home) == expected


@pytest.mark.slow
def test_rows_do_not_depend_on_the_size_of_blocks(tmp_path: Path, dump: Path) -> None:
    small, large = (load(tmp_path / str(size), dump, DATE, block_bytes=size) for size in (SMALL, 1 << 20))
    for name in ("claims.parquet", "facts.parquet", "entities.parquet"):
        assert (small.folder / name).read_bytes() == (large.folder / name).read_bytes()


def test_many_row_groups_are_cut_in_the_same_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dump: Path
) -> None:
    monkeypatch.setattr("kgedit.store.bucket_files.ROW_GROUP_ROWS", 100)
    small, large = (load(tmp_path / str(size), dump, DATE, block_bytes=size) for size in (SMALL, 1 << 20))
    groups = duckdb.sql(
        f"SELECT DISTINCT row_group_id, row_group_num_rows FROM parquet_metadata('{small.claims}') ORDER BY 1"
    )
    assert groups.fetchall() == [(0, 100), (1, 100), (2, 100), (3, 98)]
    assert small.claims.read_bytes() == large.claims.read_bytes()


@pytest.mark.slow
def test_bytes_of_long_columns_do_not_depend_on_how_many_parts_are_joined_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels of more than the megabyte that a Parquet dictionary may have."""
    many = [entity(f"Q{n}", label=f"{n} ".ljust(300, "x") + str(n)) for n in range(1, 6000)]
    dump = write_dump(tmp_path / "dump.json", many)
    written = []
    for rows_at_once in (1, 1000, 10**6):
        monkeypatch.setattr("kgedit.store.bucket_rows._ROWS_AT_ONCE", rows_at_once)
        snapshot = load(tmp_path / str(rows_at_once), dump, DATE, block_bytes=200_000)
        written.append(snapshot.entities.read_bytes())
    assert written[0] == written[1] == written[2]


@pytest.mark.parametrize(
    "changes",
    [
        {"options": {"languages": ["de"], "wiki": "enwiki"}},
        {"limit": 5},
        {"loader_version": "0"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_other_options_under_the_same_date_are_refused(tmp_path: Path, dump: Path, changes: Json) -> None:
    load(tmp_path / "home", dump, DATE)
    before = hashes(tmp_path / "home")
    with pytest.raises(StoreError, match=r"Nothing was changed.*overwrite=True"):
        load(tmp_path / "home", dump, DATE, **changes)
    assert hashes(tmp_path / "home") == before


def test_another_dump_under_the_same_date_is_refused_and_may_overwrite(tmp_path: Path, dump: Path) -> None:
    load(tmp_path / "home", dump, DATE)
    before = hashes(tmp_path / "home")
    plain = lines(items(range(1, 200)))
    other = write_dump(tmp_path / "other" / "dump.json", plain)
    same_size = write_dump(tmp_path / "third" / "dump.json", plain.replace(b"n17", b"n71"))
    with pytest.raises(StoreError, match=r"Nothing was changed.*overwrite=True"):
        load(tmp_path / "home", other, DATE)
    assert hashes(tmp_path / "home") == before
    load(tmp_path / "home", other, DATE, overwrite=True)
    assert hashes(tmp_path / "home") != before
    with pytest.raises(StoreError, match="Nothing was changed"):
        load(tmp_path / "home", same_size, DATE)


def test_a_limit_takes_the_first_lines(tmp_path: Path, dump: Path) -> None:
    for block_bytes in (SMALL, 1 << 20):
        snapshot = load(tmp_path / str(block_bytes), dump, DATE, limit=25, block_bytes=block_bytes)
        assert (snapshot.manifest["lines"], snapshot.manifest["entities"]) == (25, 25)
        assert snapshot.manifest["source"]["sha256"] is None
    assert load(tmp_path / "all", dump, DATE, limit=10**6).manifest["lines"] == 199


# What fails leaves the store as it was


@pytest.mark.parametrize("there_before", [True, False])
def test_too_many_bad_lines_fail_and_leave_the_store_as_it_was(tmp_path: Path, dump: Path, there_before: bool) -> None:
    home = tmp_path / "home"
    if there_before:
        load(home, dump, DATE)
    found = list_snapshots(home)
    bad = write_dump(tmp_path / "bad.json", lines(items(range(1, 50))) + b"broken\n" * 2 + b"]")
    with pytest.raises(SourceError, match=r"2 of 51 lines .*2 malformed JSON.*3.0%.*raise max_error_rate"):
        load(home, bad, DATE, overwrite=True, max_error_rate=0.03)
    assert list_snapshots(home) == found
    assert load(home, bad, DATE, overwrite=True, max_error_rate=0.05).manifest["left_out"] == {"malformed JSON": 2}


def test_too_many_bad_statements_fail(tmp_path: Path) -> None:
    item = entity("Q1", *[about("Q5")] * 9)
    item["claims"]["P1"] = [{"mainsnak": snak("P1", "nonsense")}]
    with pytest.raises(SourceError, match=r"1 of 10 statements .*1 unknown snak type"):
        load(tmp_path, write_dump(tmp_path / "dump.json", [item]), DATE)
    assert list_snapshots(tmp_path) == []


def test_a_dump_without_lines_fails(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="contains no line that could be an entity"):
        load(tmp_path, write_dump(tmp_path / "dump.json", b"[\n]\n"), DATE)


LEXEME = {"type": "lexeme", "id": "L1", "claims": []}


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (lines([LEXEME, LEXEME]), "2 lines .*2 lexeme"),
        (b"once\nupon\na time\n", "3 lines .*3 malformed JSON"),
        (
            json.dumps([entity("Q1")], indent=1).encode(),
            "6 lines .*2 malformed JSON, 4 not an entity.*one entity a line",
        ),
        (lines([entity("Q1")]).decode().encode("utf-16"), "4 lines .*4 malformed JSON"),
    ],
    ids=["lexemes", "prose", "indented", "UTF-16"],
)
def test_a_dump_of_which_no_entity_can_be_read_fails_whatever_the_error_rate(
    tmp_path: Path, content: bytes, found: str
) -> None:
    dump = write_dump(tmp_path / "dump.json", content)
    with pytest.raises(SourceError, match=rf"No item or property is among the {found}"):
        load(tmp_path, dump, DATE, max_error_rate=1.0)
    assert list_snapshots(tmp_path) == []


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("between", [b",", b",\n"])
@pytest.mark.slow
def test_an_array_loads_with_its_brackets_on_the_lines_of_entities(tmp_path: Path, mark: bytes, between: bytes) -> None:
    content = mark + b"[" + between.join(json.dumps(item).encode() for item in items(range(1, 200))) + b"]"
    snapshot = load(tmp_path, write_dump(tmp_path / "dump.json", content), DATE)
    assert (snapshot.manifest["lines"], snapshot.manifest["entities"], snapshot.manifest["left_out"]) == (199, 199, {})
    limited = load(tmp_path, tmp_path / "dump.json", DATE, limit=7, overwrite=True)
    assert (limited.manifest["lines"], limited.manifest["entities"]) == (7, 7)


@pytest.mark.slow
def test_a_line_nested_deep_costs_only_itself(tmp_path: Path) -> None:
    deep = b'{"id":"Q0","type":"item","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    dump = write_dump(tmp_path / "dump.json", deep + lines(items(range(1, 200))))
    manifest = load(tmp_path, dump, DATE, workers=2, block_bytes=SMALL).manifest
    assert (manifest["entities"], manifest["left_out"]) == (199, {"nested too deeply": 1})


def test_a_truncated_dump_fails_and_the_whole_one_loads(tmp_path: Path, dump: Path) -> None:
    content = dump.read_bytes()
    dump.write_bytes(content[:-500])
    with pytest.raises(SourceError, match="truncated or damaged"):
        load(tmp_path / "home", dump, DATE, block_bytes=SMALL)
    assert list_snapshots(tmp_path / "home") == []
    dump.write_bytes(content)
    load(tmp_path / "home", dump, DATE, block_bytes=SMALL)
    load(tmp_path / "undisturbed", dump, DATE, block_bytes=SMALL)
    assert hashes(tmp_path / "home") == hashes(tmp_path / "undisturbed")


# Interrupted loads

LOAD = """
import sys
from functools import partial
from pathlib import Path
from world.dumps import load
from world.parsers import make_parser
if __name__ == "__main__":
    home, dump, date, workers, parser = sys.argv[1:]
    make = partial(make_parser, parser)
    load(Path(home), Path(dump), date, workers=int(workers), block_bytes=6000, make_loader=make)
"""


def start(folder: Path, home: Path, dump: Path, workers: int, parser: str) -> subprocess.Popen[str]:
    script = folder / "load.py"
    script.write_text(LOAD)
    tests = Path(__file__).parents[2]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(tests), str(tests.parent)]))
    arguments = [sys.executable, str(script), str(home), str(dump), DATE, str(workers), parser]
    return subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def parts_of(home: Path, kind: str) -> set[Path]:
    return set(home.glob(f"snapshots/.20210104.loading/parts/{kind}-*"))


def children(process: subprocess.Popen[str]) -> list[int]:
    """Processes that a process has started, and those that they have."""
    found: list[int] = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, rest = status.parent.name, status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(rest[1]) == process.pid:
            found.append(int(pid))
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.slow
def test_a_killed_load_goes_on_and_ends_in_the_same_bytes(tmp_path: Path, workers: int, parser: str) -> None:
    dump = write_dump(tmp_path / "dump.json.gz", items(range(1, 700)))
    home = tmp_path / "home"
    process = start(tmp_path, home, dump, workers, parser)
    while len(parts_of(home, "counts")) < 5 and process.poll() is None:
        time.sleep(0.002)
    workers_of_it = children(process)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert list_snapshots(home) == []
    wait_until(lambda: not any(map(alive, workers_of_it)))
    done = {path: path.stat().st_mtime_ns for path in parts_of(home, "counts")}
    assert len(done) >= 5
    resumed = start(tmp_path, home, dump, workers, parser)
    _, errors = resumed.communicate()
    assert resumed.returncode == 0, errors
    load(tmp_path / "undisturbed", dump, DATE, block_bytes=SMALL)
    assert hashes(home) == hashes(tmp_path / "undisturbed")


def interrupt(home: Path, dump: Path, after: int) -> None:
    """Read a number of blocks, then stop as Ctrl-C does."""

    class Stopped(BaseException):
        pass

    def stop(done: int, counted: int) -> None:
        if len(parts_of(home, "counts")) >= after:
            raise Stopped

    from world.dumps import load_of

    from kgedit.store.ingest import ingest
    from kgedit.store.sources import DumpFile

    with pytest.raises(Stopped):
        ingest(home, load_of(DATE), DumpFile(dump, SMALL), workers=1, overwrite=False, progress=stop)


@pytest.mark.parametrize(("layout", "done"), [(LAYOUT, 4), (LAYOUT + 1, 0)])
def test_blocks_that_are_done_are_not_parsed_again_unless_their_files_have_another_layout(
    layout: int, done: int, tmp_path: Path, dump: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kgedit.loaders.wikidata_json import JsonParser

    home = tmp_path / "home"
    interrupt(home, dump, 4)
    monkeypatch.setattr("kgedit.store.builds.LAYOUT", layout)
    parsed = []
    parse = JsonParser.parse
    monkeypatch.setattr(JsonParser, "parse", lambda self, block: parsed.append(block) or parse(self, block))
    load(home, dump, DATE, block_bytes=SMALL)
    from kgedit.store.sources import DumpFile

    assert parsed == list(DumpFile(dump, SMALL).blocks())[done:]


def test_blocks_of_another_file_of_the_same_name_and_size_are_parsed_again(tmp_path: Path) -> None:
    plain = lines(items(range(1, 200)))
    dump, other = (
        write_dump(tmp_path / name / "dump.json", text)
        for name, text in (("a", plain), ("b", plain.replace(b"n17", b"n71")))
    )
    interrupt(tmp_path / "home", dump, 4)
    load(tmp_path / "home", other, DATE, block_bytes=SMALL)
    load(tmp_path / "undisturbed", other, DATE, block_bytes=SMALL)
    assert hashes(tmp_path / "home") == hashes(tmp_path / "undisturbed")


def test_a_load_with_other_options_discards_old_parts_and_says_why(
    tmp_path: Path, dump: Path, caplog: pytest.LogCaptureFixture
) -> None:
    interrupt(tmp_path / "home", dump, 4)
    load(tmp_path / "home", dump, DATE, limit=50, block_bytes=SMALL)
    (said,) = caplog.messages
    assert said.splitlines()[0].endswith("is discarded, because it is of another load:")
    assert said.splitlines()[1:] == ["  - limit: none then, 50 now"]
    load(tmp_path / "undisturbed", dump, DATE, limit=50, block_bytes=SMALL)
    assert hashes(tmp_path / "home") == hashes(tmp_path / "undisturbed")


@pytest.mark.parametrize("content", ["{}", "[]", "null", '{"source": {"name": "d"}}', "{"])
def test_an_unfinished_load_whose_marker_is_damaged_is_discarded(
    content: str, tmp_path: Path, dump: Path, caplog: pytest.LogCaptureFixture
) -> None:
    interrupt(tmp_path / "home", dump, 4)
    (marker,) = (tmp_path / "home").rglob("load.json")
    marker.write_text(content, encoding="utf-8")
    load(tmp_path / "home", dump, DATE, block_bytes=SMALL)
    assert caplog.messages[0].splitlines()[1:] == ["  - load.json is damaged"]


def test_two_loads_of_one_date_at_once_are_refused(tmp_path: Path, dump: Path) -> None:
    import fcntl

    lock = tmp_path / "snapshots" / ".20210104.lock"
    lock.parent.mkdir()
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match=f"Another kgedit is writing the snapshot of {DATE}"):
            load(tmp_path, dump, DATE)
    assert load(tmp_path, dump, DATE).manifest["entities"] == 199


class _Dying:
    """A loader whose process is killed, as by a system without memory left."""

    def parse(self, block: bytes) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_killed_worker_is_an_error_that_says_what_to_do(tmp_path: Path, dump: Path) -> None:
    with pytest.raises(StoreError, match=r"memory ran out.*workers 1"):
        load(tmp_path, dump, DATE, make_loader=_Dying, workers=2, block_bytes=SMALL)
    assert multiprocessing.active_children() == []
    assert load(tmp_path, dump, DATE, workers=1, block_bytes=SMALL).manifest["entities"] == 199


# Redirects


def redirected(tmp_path: Path, text: str, date: str = DATE) -> Snapshot:
    file = tmp_path / "redirects.tsv"
    file.write_text(text)
    return load(tmp_path, write_dump(tmp_path / "dump.json", items((1, 2))), date, redirects=file, overwrite=True)


def test_redirects_become_rows_from_their_date_on_unless_the_dump_holds_the_entity(tmp_path: Path) -> None:
    text = "from\tto\nQ30\tQ1\nQ31\tQ1\t2021-01-04\nQ32\tQ1\t20210105\n\nP3\tP4\t2020-01-01\r\nQ2\tQ1\nL7\tL8\n"
    snapshot = redirected(tmp_path, text)
    expected = [("L7", "item", "L8"), ("P3", "property", "P4"), ("Q30", "item", "Q1"), ("Q31", "item", "Q1")]
    found = [row for row in rows(snapshot.entities, "id, kind, redirect_target") if row[2]]
    assert found == expected
    assert (snapshot.manifest["redirected"], snapshot.manifest["entities"]) == (4, 2)


def test_of_several_redirects_of_one_id_the_latest_known_counts(tmp_path: Path) -> None:
    text = "Q30\tQ1\t2020-01-01\nQ30\tQ2\t2020-06-01\nQ30\tQ3\t2022-01-01\n"
    assert redirected(tmp_path, text).manifest["redirected"] == 1
    found = rows(open_snapshot(tmp_path, load_date()).entities, "id, redirect_target")
    assert ("Q30", "Q2") in found


def load_date() -> Any:
    import datetime

    return datetime.date.fromisoformat(DATE)


@pytest.mark.parametrize("line", ["Q1", "Q1 Q2", "Q1\tnowhere", "Q1\tQ2\tyesterday", "Q1\tQ2\t2021-01-04\tmore"])
def test_a_line_that_is_no_redirect_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(SourceError, match=r"Line 2 of .*redirects.tsv is not a redirect"):
        redirected(tmp_path, f"Q30\tQ1\n{line}\n")
    assert list_snapshots(tmp_path) == []


def test_changed_redirects_under_the_same_date_are_refused(tmp_path: Path) -> None:
    redirected(tmp_path, "Q30\tQ1\n")
    (tmp_path / "redirects.tsv").write_text("Q30\tQ2\n")
    with pytest.raises(StoreError, match="Nothing was changed"):
        load(tmp_path, tmp_path / "dump.json", DATE, redirects=tmp_path / "redirects.tsv")


def test_no_redirects_file_is_an_error(tmp_path: Path, dump: Path) -> None:
    with pytest.raises(SourceError, match=r"redirects .* cannot be read"):
        load(tmp_path, dump, DATE, redirects=tmp_path / "absent.tsv")


def test_a_manifest_says_where_a_snapshot_comes_from(tmp_path: Path, dump: Path) -> None:
    snapshot = load(tmp_path, dump, DATE)
    manifest = json.loads((snapshot.folder / "manifest.json").read_text())
    assert manifest == snapshot.manifest
    assert manifest["source"] | {"sha256": ""} == {"name": "dump.json.gz", "size": dump.stat().st_size, "sha256": ""}
    assert manifest["loader"]["name"] == "wikidata_json"
    assert "/" not in json.dumps(manifest)


LOADED: dict[str, Any] = {
    "source": {"name": "old.json", "size": 1000, "sha256": "ab" * 32},
    "loader": {"name": "wikidata_json", "version": "3", "languages": ["en", "mul"], "wiki": "enwiki"},
    "limit": None,
    "redirects": None,
    "slice_of": None,
}


@pytest.mark.parametrize(
    ("changes", "differences"),
    [
        ({}, []),
        ({"source": {"name": "copy.json", "size": 1000}}, []),
        (
            {"source": {"name": "new.json", "size": 2000}},
            ["dump: old.json with 1,000 bytes then, new.json with 2,000 bytes now"],
        ),
        ({"limit": 5}, ["limit: none then, 5 now"]),
        ({"slice_of": "towns"}, ["slice of: none then, towns now"]),
        (
            {"redirects": {"name": "redirects.tsv", "sha256": "cd" * 32}},
            ["redirects: none then, redirects.tsv (SHA-256 cdcdcdcdcdcd…) now"],
        ),
        (
            {"loader": LOADED["loader"] | {"languages": ["de"], "version": "4"}},
            ["version of the loader (kgedit was updated): 3 then, 4 now", "languages: en, mul then, de now"],
        ),
        (
            {"loader": {"name": "kgtk", "version": "3", "languages": ["en", "mul"], "wiki": "dewiki"}},
            ["source format: wikidata_json then, kgtk now", "wiki: enwiki then, dewiki now"],
        ),
    ],
)
def test_each_difference_has_its_old_and_its_new_value(changes: dict[str, Any], differences: list[str]) -> None:
    assert load_differences(LOADED, LOADED | changes, as_of=False) == differences


def test_a_projection_differs_from_the_dump_of_a_day() -> None:
    assert load_differences(LOADED, LOADED, as_of=True) == [
        "kind: a dump of this day then, projected from a later dump now"
    ]
    assert load_differences(LOADED | {"projected": {}}, LOADED, as_of=True) == []


def test_equal_sizes_with_other_content_are_told_apart_by_hash() -> None:
    assert content_difference("ab" * 32, "cd" * 32).endswith("(SHA-256 abababababab… then, cdcdcdcdcdcd… now)")
