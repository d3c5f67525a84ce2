"""Dumps arrive whole and checked from a server that drops connections, lies about lengths and is busy."""

from __future__ import annotations

import datetime
import hashlib
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from world.endpoints import Answer, Recorded, serving

from kgedit.cli import main
from kgedit.errors import SourceError, StoreError
from kgedit.fetching.dumps import DumpOrder, fetch_dump, find_dump, list_days
from kgedit.fetching.manners import Manners

CONTENT = bytes(range(256)) * 2000
NAME = "wikidata-20240603-all.json.gz"
OTHERS = {
    "rdf": "wikidata-20240603-all-BETA.nt.gz",
    "truthy-bz2": "wikidata-20240603-truthy-BETA.nt.bz2",
    "pageviews": "pageviews-202406-user.bz2",
}
MANNERS = Manners(contact="tests", pause=0, attempts=4, sleep=lambda seconds: None)


def page(*links: str) -> bytes:
    return "".join(f'<a href="{link}">{link}</a>' for link in ("../", *links)).encode()


FILES = {
    "/wikidatawiki/entities/": page("20240527/", "20240603/", "20240610/", "latest/"),
    "/wikidatawiki/entities/20240610/": page("wikidata-20240610-lexemes.json.gz"),
    "/wikidatawiki/entities/20240603/": page(
        NAME, OTHERS["rdf"], OTHERS["truthy-bz2"], "wikidata-20240603-sha1sums.txt"
    ),
    "/wikidatawiki/entities/20240527/": page("wikidata-20240527-all.json.gz"),
    "/wikidatawiki/entities/20240603/wikidata-20240603-sha1sums.txt": (
        f"{hashlib.sha1(CONTENT).hexdigest()}  {NAME}\n".encode()
    ),
    "/other/pageview_complete/monthly/2024/2024-06/": page(OTHERS["pageviews"]),
}


def server_of(content: bytes, *faults: Callable[[bytes], Answer]) -> Callable[[str, dict[str, str], bytes], Answer]:
    """A server of dumps with ranges; the first requests for the dump itself (not its size) go wrong like this."""
    left = list(faults)

    def answer(path: str, headers: dict[str, str], body: bytes) -> Answer:
        if path in FILES:
            return 200, {}, FILES[path]
        if not path.endswith((NAME, *OTHERS.values())):
            return 404, {}, b"nothing here"
        first = re.match(r"bytes=(\d+)-", headers.get("range", ""))
        rest = content[int(first[1]) :] if first else content
        if left and "x-size" not in headers:
            return left.pop(0)(rest)
        if first:
            return 206, {"Content-Range": f"bytes {first[1]}-{len(content) - 1}/{len(content)}"}, rest
        return 200, {}, content

    return answer


def whole(rest: bytes) -> Answer:
    """What the request for the size is answered with: HEAD has no body."""
    return 200, {}, CONTENT


def drops(rest: bytes) -> Answer:
    start = len(CONTENT) - len(rest)
    ranges = {"Content-Range": f"bytes {start}-/{len(CONTENT)}"} if start else {}
    return (206 if start else 200), ranges | {"Content-Length": str(len(rest))}, rest[:100_000]


def fetched(folder: Path, server: Recorded, *, manners: Manners = MANNERS, **changes: Any) -> Path:
    order = DumpOrder(day=datetime.date(2024, 6, 3), mirror=f"{server.address}/", manners=MANNERS)
    return fetch_dump(find_dump(order), folder, manners=manners, **changes)


def test_a_dump_arrives_whole(tmp_path: Path) -> None:
    with serving(server_of(CONTENT)) as server:
        path = fetched(tmp_path / "dumps", server)
    assert (path.name, path.read_bytes() == CONTENT) == (NAME, True)
    assert [file.name for file in path.parent.iterdir()] == [NAME]


@pytest.mark.parametrize("kind", OTHERS)
def test_a_dump_of_another_kind_arrives_in_spite_of_a_dropped_connection(kind: str, tmp_path: Path) -> None:
    with serving(server_of(CONTENT, whole, drops)) as server:
        order = DumpOrder(day=datetime.date(2024, 6, 3), kind=kind, mirror=f"{server.address}/", manners=MANNERS)
        path = fetch_dump(find_dump(order), tmp_path, manners=MANNERS)
    assert (path.name, path.read_bytes() == CONTENT) == (OTHERS[kind], True)


def test_dropped_connections_are_resumed_where_they_broke_off(tmp_path: Path) -> None:
    with serving(server_of(CONTENT, whole, *[drops] * 4)) as server:
        assert fetched(tmp_path, server).read_bytes() == CONTENT
    ranges = [headers["range"] for headers in server.headers if "range" in headers]
    assert ranges == [f"bytes={number}00000-" for number in range(1, 5)]


def test_a_server_that_breaks_off_is_left_alone_for_a_while_and_given_up_when_nothing_more_comes(
    tmp_path: Path,
) -> None:
    waits: list[float] = []
    patient = replace(MANNERS, pause=0.5, sleep=waits.append)
    silent = [lambda rest: (drops(rest)[0], drops(rest)[1], b"")] * 6
    with (
        serving(server_of(CONTENT, whole, drops, drops, *silent)) as server,
        pytest.raises(SourceError, match="broke off after 200,000 of 512,000 bytes"),
    ):
        fetched(tmp_path, server, manners=patient)
    # Two parts came in the first round of four attempts, and nothing in the second.
    assert waits == [1.0, 2.0, 4.0] * 2
    assert (tmp_path / f"{NAME}.part").stat().st_size == 200_000


def test_a_part_that_another_process_wrote_to_as_well_is_thrown_away(tmp_path: Path) -> None:
    def second_process(size: int) -> Callable[[int, int], None]:
        def update(done: int, counted: int) -> None:
            if done == size:
                with (tmp_path / f"{OTHERS['pageviews']}.part").open("ab") as file:
                    file.write(b"more")

        return update

    with serving(server_of(CONTENT)) as server:
        order = DumpOrder(day=datetime.date(2024, 6, 3), kind="pageviews", mirror=f"{server.address}/", manners=MANNERS)
        with pytest.raises(SourceError, match="is not as long as the server reports"):
            fetch_dump(find_dump(order), tmp_path, manners=MANNERS, progress=second_process)
    assert list(tmp_path.iterdir()) == []


def test_a_busy_server_is_asked_again_and_one_that_forbids_is_not(tmp_path: Path) -> None:
    with serving(server_of(CONTENT, whole, lambda rest: (503, {"Retry-After": "1"}, b""))) as server:
        assert fetched(tmp_path, server).read_bytes() == CONTENT
    with (
        serving(server_of(CONTENT, whole, lambda rest: (403, {}, b""))) as server,
        pytest.raises(SourceError, match=r"answers HTTP 403 .*Try mirror"),
    ):
        fetched(tmp_path / "forbidden", server)


def test_a_server_that_stays_busy_is_told_and_the_part_that_came_is_resumed_another_day(tmp_path: Path) -> None:
    busy: list[Callable[[bytes], Answer]] = [lambda rest: (503, {}, b"")] * 9
    with (
        serving(server_of(CONTENT, whole, drops, *busy)) as server,
        pytest.raises(SourceError, match=r"failed 4 times, most recently with: HTTP 503 .*resumes"),
    ):
        fetched(tmp_path, server)
    assert [(path.name, path.stat().st_size) for path in tmp_path.iterdir()] == [(f"{NAME}.part", 100_000)]
    with serving(server_of(CONTENT)) as server:
        assert fetched(tmp_path, server).read_bytes() == CONTENT
        assert server.headers[-1]["range"] == "bytes=100000-"


def test_a_server_that_ignores_the_range_begins_anew(tmp_path: Path) -> None:
    with serving(server_of(CONTENT, whole, drops, lambda rest: (200, {}, CONTENT))) as server:
        assert fetched(tmp_path, server).read_bytes() == CONTENT


def test_a_server_that_lies_about_the_length_gives_no_file(tmp_path: Path) -> None:
    with (
        serving(server_of(CONTENT + b"more", whole)) as server,
        pytest.raises(SourceError, match="bytes came instead of"),
    ):
        fetched(tmp_path, server)
    assert list(tmp_path.iterdir()) == []


def test_other_bytes_than_the_checksum_says_are_thrown_away(tmp_path: Path) -> None:
    with (
        serving(server_of(bytes(len(CONTENT)))) as server,
        pytest.raises(SourceError, match=r"The sha1 of .* deleted"),
    ):
        fetched(tmp_path, server)
    assert list(tmp_path.iterdir()) == []


def test_a_part_left_by_a_killed_fetch_is_continued(tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.part").write_bytes(CONTENT[:1234])
    with serving(server_of(CONTENT)) as server:
        assert fetched(tmp_path, server).read_bytes() == CONTENT
        assert server.headers[-1]["range"] == "bytes=1234-"
        with pytest.raises(SourceError, match="already exists"):
            fetched(tmp_path, server)


def test_no_room_is_told_before_anything_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=1000))
    with serving(server_of(CONTENT)) as server, pytest.raises(StoreError, match=r"GB more, .*Make room"):
        fetched(tmp_path, server)
    assert list(tmp_path.iterdir()) == []


def test_the_latest_dump_is_the_last_that_has_a_file_of_the_kind() -> None:
    with serving(server_of(CONTENT)) as server:
        order = DumpOrder(day=None, mirror=f"{server.address}/", manners=MANNERS)
        assert list_days(order) == ["20240527", "20240603", "20240610"]
        found = find_dump(order)
        assert (found.name, found.checksum) == (NAME, f"sha1:{hashlib.sha1(CONTENT).hexdigest()}")
        views = DumpOrder(day=datetime.date(2024, 6, 1), kind="pageviews", mirror=order.mirror, manners=MANNERS)
        assert find_dump(views).name == "pageviews-202406-user.bz2"
        for day, message in ((datetime.date(2024, 6, 4), "has none of 2024-06-04 .*20240610"), (None, "'prose'")):
            with pytest.raises(SourceError, match=message):
                find_dump(DumpOrder(day=day, kind="json" if day else "prose", mirror=order.mirror, manners=MANNERS))


def test_the_command_lists_and_fetches_and_tells_what_to_do_next(tmp_path: Path) -> None:
    with serving(server_of(CONTENT)) as server:
        mirror = ["--mirror", f"{server.address}/"]
        listed = CliRunner().invoke(main, ["fetch-dump", "--list", *mirror])
        assert (listed.exit_code, listed.stdout.split()) == (0, ["2024-05-27", "2024-06-03", "2024-06-10"])
        made = CliRunner().invoke(main, ["fetch-dump", "latest", "--to", str(tmp_path), *mirror])
    assert made.exit_code == 0, made.output
    assert f"kgedit load-dump {tmp_path / NAME} --date 2024-06-03" in made.stderr
    wrong = CliRunner().invoke(main, ["fetch-dump", "last week"])
    assert (wrong.exit_code, "Give latest or a day" in wrong.stderr) == (2, True)
