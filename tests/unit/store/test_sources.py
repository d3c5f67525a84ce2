"""A dump file gives whole lines, or an error that says what is wrong with it."""

from __future__ import annotations

import hashlib
import io
import random
import sys
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from world.dumps import COMPRESSIONS, entity, lines, write_dump

from kgedit.errors import SourceError
from kgedit.store import framing, sources
from kgedit.store.sources import DumpFile

DUMP = lines(entity(f"Q{number}", label="x" * (number % 90)) for number in range(1, 400))


@pytest.fixture(params=["one core", "many cores", "Python alone"], autouse=True)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test reads gzip and bzip2 in each way in which they can be read."""
    monkeypatch.setattr(sources, "usable_cores", lambda: 1 if request.param == "one core" else 8)
    if request.param == "Python alone":
        for module in ("isal.igzip", "rapidgzip"):
            monkeypatch.setitem(sys.modules, module, None)


def blocks(path: Path, block_bytes: int = 4096) -> list[bytes]:
    return list(DumpFile(path, block_bytes).blocks())


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_all_compressions_give_the_same_blocks(tmp_path: Path) -> None:
    plain = blocks(write_dump(tmp_path / "dump.json", DUMP))
    assert b"".join(plain) == DUMP
    assert len(plain) > 5
    assert all(block.endswith(b"\n") for block in plain)
    for suffix in COMPRESSIONS:
        assert blocks(write_dump(tmp_path / f"dump{suffix}", DUMP)) == plain, suffix


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=30)), st.integers(1, 50))
def test_blocks_are_the_file_cut_after_line_ends(tmp_path: Path, texts: list[bytes], block_bytes: int) -> None:
    content = b"{" + b"\n".join(texts) + b"}"
    found = blocks(written(tmp_path / "dump.json", content), block_bytes)
    assert b"".join(found) == content
    assert all(block.endswith(b"\n") for block in found[:-1])
    assert all(found)


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_position_and_hash_are_those_of_the_file(tmp_path: Path, suffix: str) -> None:
    path = write_dump(tmp_path / f"dump{suffix}", DUMP)
    source = DumpFile(path, 1000)
    assert (source.size, source.position) == (path.stat().st_size, 0)
    for _ in source.blocks():
        assert 0 < source.position <= source.size
    assert (source.position, source.sha256) == (source.size, hashlib.sha256(path.read_bytes()).hexdigest())


@pytest.mark.parametrize("suffix", [".json.gz", ".json.bz2", ".json.zst"])
def test_parts_compressed_one_by_one_are_one_dump(tmp_path: Path, suffix: str) -> None:
    compress = COMPRESSIONS[suffix]
    path = written(tmp_path / f"dump{suffix}", compress(DUMP[:1000]) + compress(DUMP[1000:]))
    assert b"".join(blocks(path)) == DUMP


def test_zstd_frames_without_content_are_passed_over(tmp_path: Path) -> None:
    skippable = b"\x50\x2a\x4d\x18\x02\x00\x00\x00ab"
    frame = COMPRESSIONS[".json.zst"](DUMP)
    assert b"".join(blocks(written(tmp_path / "dump.json.zst", frame + skippable + frame))) == DUMP + DUMP


@pytest.mark.parametrize("share", [0.3, 0.9, 0.999])
@pytest.mark.parametrize("suffix", [".json.gz", ".json.bz2", ".json.zst"])
@pytest.mark.slow
def test_a_truncated_archive_is_an_error_even_if_it_holds_no_array(tmp_path: Path, suffix: str, share: float) -> None:
    compressed = COMPRESSIONS[suffix](b"\n".join(DUMP.splitlines()[1:-1]) * 20)
    path = written(tmp_path / f"dump{suffix}", compressed[: int(len(compressed) * share)])
    with pytest.raises(SourceError, match=r"is truncated or damaged .* Download it again"):
        blocks(path)


@pytest.mark.parametrize("suffix", [".json.gz", ".json.bz2"])
@pytest.mark.parametrize("whole_members", [0, 1])
@pytest.mark.slow
def test_no_truncation_of_a_large_archive_passes_for_its_end(tmp_path: Path, suffix: str, whole_members: int) -> None:
    lots = random.Random(0)
    member = COMPRESSIONS[suffix](b"{" + bytes(lots.choices(b"abcdefghij\n", k=500_000)) + b"}")
    for _ in range(8):
        kept = lots.randrange(100, len(member))
        path = written(tmp_path / f"dump{suffix}", member * whole_members + member[:kept])
        with pytest.raises(SourceError, match="is truncated or damaged"):
            blocks(path, 1 << 20)


@pytest.mark.parametrize("zeros", [10, 512])
@pytest.mark.parametrize("suffix", [".json.gz", ".json.bz2"])
def test_zeros_after_an_archive_are_padding_as_for_the_tools_that_write_it(
    tmp_path: Path, suffix: str, zeros: int
) -> None:
    content = COMPRESSIONS[suffix](DUMP) * 2 + bytes(zeros)
    path = written(tmp_path / f"dump{suffix}", content)
    file = DumpFile(path, 4096)
    assert b"".join(file.blocks()) == DUMP * 2
    assert file.sha256 == hashlib.sha256(content).hexdigest()


def test_a_truncated_zstd_stream_of_several_blocks_is_an_error(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zstandard.ZstdCompressor().stream_writer(out, closefd=False) as writer:
        for _ in range(20):
            writer.write(DUMP)
            writer.flush(zstandard.FLUSH_BLOCK)
    path = written(tmp_path / "dump.json.zst", out.getvalue()[:-3])
    with pytest.raises(SourceError, match="the last zstd frame is not complete"):
        blocks(path)


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_an_array_that_does_not_end_is_an_error_after_its_last_block(tmp_path: Path, suffix: str) -> None:
    source = DumpFile(write_dump(tmp_path / f"dump{suffix}", DUMP[: DUMP.rfind(b"\n", 0, 9000) + 1]), 4096)
    given = []
    with pytest.raises(SourceError, match="begins a JSON array and does not end it"):
        given.extend(source.blocks())
    assert b"".join(given) == DUMP[: len(b"".join(given))] != b""


def test_a_byte_order_mark_hides_no_truncated_array(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="begins a JSON array and does not end it"):
        blocks(written(tmp_path / "dump.json", b"\xef\xbb\xbf[\n{},\n{}"))


@pytest.mark.parametrize("end", [b"]", b"]\n", b"]\r\n\r\n", b"]" + b"\n" * 5000, b" \n]  \n "])
def test_an_array_may_end_in_white_space(tmp_path: Path, end: bytes) -> None:
    assert b"".join(blocks(written(tmp_path / "dump.json", b"[\n{}\n" + end), 64)) == b"[\n{}\n" + end


@pytest.mark.parametrize("suffix", [".json.gz", ".json.bz2", ".json.zst"])
def test_damage_in_the_middle_is_an_error(tmp_path: Path, suffix: str) -> None:
    content = bytearray(COMPRESSIONS[suffix](DUMP))
    middle = len(content) // 2
    content[middle : middle + 8] = b"\0" * 8
    with pytest.raises(SourceError):
        blocks(written(tmp_path / f"dump{suffix}", bytes(content)))


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_an_html_page_is_named_as_such_whatever_the_name(tmp_path: Path, suffix: str) -> None:
    page = b"\n<!DOCTYPE html><html><title>404 Not Found</title></html>"
    for text in (page, b"\xef\xbb\xbf" + page):
        with pytest.raises(SourceError, match="is an HTML or XML page"):
            blocks(written(tmp_path / f"dump{suffix}", text))


@pytest.mark.parametrize("named", COMPRESSIONS)
@pytest.mark.parametrize("held", COMPRESSIONS)
def test_a_name_that_does_not_fit_the_content_is_an_error(tmp_path: Path, named: str, held: str) -> None:
    path = written(tmp_path / f"dump{named}", COMPRESSIONS[held](DUMP))
    if named == held:
        assert blocks(path)
        return
    with pytest.raises(SourceError, match=r"The name of .* says .*, its content is .*Rename it"):
        blocks(path)


def test_capitals_in_the_name_do_not_matter(tmp_path: Path) -> None:
    assert b"".join(blocks(written(tmp_path / "DUMP.JSON.GZ", COMPRESSIONS[".json.gz"](DUMP)))) == DUMP


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_an_empty_file_is_an_error(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(SourceError, match="is empty"):
        blocks(written(tmp_path / f"dump{suffix}", b""))


@pytest.mark.parametrize("suffix", COMPRESSIONS)
@pytest.mark.parametrize("content", [b"\n", b" \n\n"])
def test_a_file_of_nothing_but_white_space_is_an_error(tmp_path: Path, suffix: str, content: bytes) -> None:
    with pytest.raises(SourceError, match="contains nothing"):
        blocks(written(tmp_path / f"dump{suffix}", COMPRESSIONS[suffix](content)))


def test_no_file_is_an_error_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "absent.json", tmp_path, tmp_path / "file" / "dump.json"):
        with pytest.raises(SourceError, match=f"There is no file {path}|{path} is not a file"):
            DumpFile(path)


def test_a_file_without_lines_is_not_read_into_memory_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framing, "LONGEST_ENTITY", 10_000)
    path = written(tmp_path / "dump.json", b"[" + b'{"id":"Q1"},' * 2000 + b"]")
    with pytest.raises(SourceError, match=r"has a line longer than 10,000 bytes.*jq -c '\.\[\]'"):
        blocks(path, 1000)
