"""The jar and the file that open Neo4j Browser connected."""

from __future__ import annotations

import json
import re
import stat
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from kgedit.graph.bolt import Address
from kgedit.graph.browser import entry_jar, write_entry
from kgedit.graph.managed import install

QUERY = "MATCH (n) RETURN '</script>', n"


@pytest.fixture
def browser_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Browser's jar, with one file, in an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    name = next(jar.name for jar in install.read_lock() if jar.artifact == "neo4j-browser")
    install.jar_folder().mkdir(parents=True)
    with zipfile.ZipFile(install.jar_folder() / name, "w") as archive:
        archive.writestr("browser/index.html", "Browser")
    return install.jar_folder() / name


def test_the_jar_is_browsers_own_with_two_more_files(browser_jar: Path) -> None:
    jar = entry_jar()
    assert jar is not None
    assert jar.parent == browser_jar.parent.parent, "every file beside the jars is on the class path"
    with zipfile.ZipFile(jar) as archive:
        assert archive.namelist() == ["browser/index.html", "browser/entry.html", "browser/entry.js"]
    written = jar.read_bytes()
    assert entry_jar() == jar
    jar.unlink()
    assert entry_jar() == jar
    assert jar.read_bytes() == written
    assert sorted(path.name for path in jar.parent.iterdir()) == sorted([jar.name, "jars"])


def test_without_a_place_for_the_jar_there_is_none(browser_jar: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfile", full)
    assert entry_jar() is None
    assert list(browser_jar.parent.parent.iterdir()) == [browser_jar.parent]


@pytest.fixture
def web() -> Iterator[ThreadingHTTPServer]:
    """A server with an entry page and nothing else."""

    class Pages(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200 if self.path == "/browser/entry.html" else 404)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def address_of(server: ThreadingHTTPServer, folder: str) -> Address:
    url = f"http://127.0.0.1:{server.server_port}/{folder}/"
    return Address("bolt://127.0.0.1:7", "neo4j", "s3cret", browser_url=url, managed=True)


def test_the_file_hands_the_password_only_to_the_page_after_the_fragments_mark(
    web: ThreadingHTTPServer, tmp_path: Path
) -> None:
    path, address = tmp_path / "open.html", address_of(web, "browser")
    assert write_entry(path, address, QUERY)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text(encoding="utf-8")
    assert text.count("</script>") == 1
    found = re.search(r'location\.replace\("([^"]+)"\)', text)
    assert found is not None
    page, _, fragment = found[1].partition("#")
    assert page == f"{address.browser_url}entry.html"
    given = json.loads(unquote(fragment))
    assert (given["bolt"], given["user"], given["password"]) == (address.uri, "neo4j", "s3cret")
    assert given["settings"]["initCmd"] == QUERY
    assert given["settings"]["maxFrames"] == 1
    assert given["style"]["node.Snapshot"]["caption"] == "{date}"
    assert given["search"].startswith("?cmd=edit&arg=MATCH")


def test_no_file_is_written_for_a_server_without_the_page(web: ThreadingHTTPServer, tmp_path: Path) -> None:
    path = tmp_path / "open.html"
    assert not write_entry(path, address_of(web, "older"), QUERY)
    web.shutdown()
    assert not write_entry(path, Address("bolt://x", "neo4j", ""), QUERY)
    assert list(tmp_path.iterdir()) == []


def test_a_home_that_cannot_be_written_has_no_file(web: ThreadingHTTPServer, tmp_path: Path) -> None:
    assert not write_entry(tmp_path / "missing" / "open.html", address_of(web, "browser"), QUERY)
    assert list(tmp_path.iterdir()) == []
