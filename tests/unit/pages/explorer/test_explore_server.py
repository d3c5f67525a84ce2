"""The server answers only the page whose address it printed, and reports clearly what it cannot do."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient
from world.explored import DAYS, write_explored
from world.hostile import HOSTILE
from world.patience import wait_until

from kgedit.cli import main
from kgedit.errors import KgeditError, TimestepError
from kgedit.graph.state import browser_of_home
from kgedit.pages.explorer import Explorer
from kgedit.pages.explorer.differences import Windows
from kgedit.pages.explorer.exports import ExportTask
from kgedit.pages.explorer.server import ExploreServer, explore_app
from kgedit.timesteps.selected import read_selection
from kgedit.verbs.explore import explore_server

HOST, TOKEN = "127.0.0.1:8123", "a-token"
WINDOW = {"from": DAYS[0], "to": DAYS[1]}


class MadeUpExport:
    """Replaces the export: writes the folder, or fails as configured."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.done = threading.Event()

    def __call__(self, task: ExportTask) -> str:
        try:
            if self.error:
                raise self.error
            task.out.mkdir(parents=True)
            return "2 cases"
        finally:
            self.done.set()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_explored(tmp_path_factory.mktemp("explored"))


@pytest.fixture(scope="module")
def export() -> MadeUpExport:
    return MadeUpExport()


@pytest.fixture(scope="module")
def client(home: Path, export: MadeUpExport) -> Iterator[TestClient]:
    app = explore_app(Explorer(home), export, hosts=[HOST], token=TOKEN, browser=lambda: "http://127.0.0.1:7/browser/")
    with TestClient(app, base_url=f"http://{HOST}") as opened:
        yield opened


@pytest.fixture(scope="module")
def running(home: Path) -> Iterator[ExploreServer]:
    """A server at a port, as the command runs it."""
    served = explore_server(home, browser="http://127.0.0.1:7/browser/")
    thread = threading.Thread(target=served.run)
    thread.start()
    yield served
    served.server.should_exit = True
    thread.join(60)


def ask(client: TestClient, path: str, **query: Any) -> Any:
    answered = client.get(f"/{TOKEN}/api/{path}", params=query)
    assert answered.status_code == 200, answered.text
    return answered.json()


def wait(client: TestClient) -> dict[str, Any]:
    """The last export, when it has ended."""
    wait_until(lambda: ask(client, "exports")["exports"][0]["state"] in ("done", "failed"))
    return dict(ask(client, "exports")["exports"][0])


@pytest.mark.parametrize(
    "path", ["/", "/wrong/", "/wrong/api/overview", "/api/overview", "/favicon.ico", "//", "/a-toke"]
)
def test_without_the_token_nothing_is_told(client: TestClient, path: str) -> None:
    answered = client.get(path)
    assert answered.status_code == 403
    assert TOKEN not in answered.text


@pytest.mark.parametrize("host", ["evil.example:8123", "evil.example", "127.0.0.1", "127.0.0.1:8124", ""])
def test_another_host_name_is_refused_even_with_the_token(client: TestClient, host: str) -> None:
    for method in ("GET", "POST"):
        answered = client.request(method, f"/{TOKEN}/api/exports", headers={"Host": host})
        assert answered.status_code == 421


def test_every_answer_has_the_headers_that_shut_others_out(client: TestClient) -> None:
    for path in ("/", f"/{TOKEN}/", f"/{TOKEN}/api/overview", f"/{TOKEN}/api/items/Q404"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "connect-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy.replace("style-src 'unsafe-inline'", "")
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


def test_the_page_holds_no_label_and_loads_nothing(client: TestClient) -> None:
    page = client.get(f"/{TOKEN}/").text
    assert all(label not in page for label in ("Arvika", *HOSTILE))
    assert "src=" not in page
    assert "@import" not in page


def test_what_is_asked_for_is_answered(client: TestClient) -> None:
    overview = ask(client, "overview")
    assert [one["date"] for one in overview["snapshots"]] == list(DAYS)
    assert [one["id"] for one in ask(client, "search", q="arv")["results"]] == ["Q1"]
    changes = ask(client, "changes", **WINDOW, relation="P6", act=["first", "none"], limit=2)
    assert (changes["total"], changes["found"], len(changes["rows"])) == (13, 3, 2)
    assert f"{DAYS[0]} < f.since <= {DAYS[1]}" in changes["query"]
    item = ask(client, "items/Q1")
    assert item["terms"]["Q1"]["label"] == "Arvika"
    assert item["statements"][0]["versions"][0]["times"] == {"start": "2019-05-01"}


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("items/Q404", 404, "No loaded snapshot has Q404"),
        ("items/Q1' OR 1", 400, "is not an id"),
        ("items/..%2F..%2Fetc", 404, ""),
        ("nothing", 404, ""),
        ("changes", 400, "'from' must be"),
        ("changes?from=20210104&to=20220101", 400, "No snapshot of 20220101 is loaded"),
        ("changes?from=20230227&to=20210104", 400, "not before"),
        ("changes?from=20210104&to=20230227&order=random", 400, "not an order"),
        ("changes?from=20210104&to=20230227&limit=100000", 400, "'limit' must be"),
        ("changes?from=20210104&to=20230227&offset=-1", 400, "'offset' must be"),
        ("changes?from=２０２１０１０４&to=20230227", 400, "'from' must be"),
    ],
)
def test_what_cannot_be_answered_is_told(client: TestClient, path: str, status: int, said: str) -> None:
    answered = client.get(f"/{TOKEN}/api/{path}")
    assert answered.status_code == status
    assert said in answered.text


def test_a_selection_becomes_a_timestep(client: TestClient, export: MadeUpExport) -> None:
    asked = WINDOW | {
        "selection": [["Q1", "P6"], ["Q3", None], [None, "P1082"]],
        "name": "mine",
        "profile": "wikifactdiff",
    }
    answered = client.post(f"/{TOKEN}/api/exports", json=asked)
    assert answered.status_code == 202
    task = wait(client)
    assert (task["state"], task["message"], task["selected"]) == ("done", "2 cases", 3)
    assert task["out"].endswith("20210104_20230227_wikifactdiff_mine")
    assert task["command"].startswith("kgedit export-timestep --from 2021-01-04 --to 2023-02-27 --profile wikifactdiff")
    assert read_selection(Path(task["only"])).to_pylist() == [
        {"subject": None, "property": "P1082"},
        {"subject": "Q1", "property": "P6"},
        {"subject": "Q3", "property": None},
    ]
    again = client.post(f"/{TOKEN}/api/exports", json=asked)
    assert again.status_code == 400
    assert "Give the timestep another name" in again.text


@pytest.mark.parametrize(("text", "name"), [("", "gone"), (None, "gone2")])
def test_all_changes_that_pass_the_filters_can_be_selected(
    client: TestClient, export: MadeUpExport, text: str | None, name: str
) -> None:
    asked = WINDOW | {"filters": {"act": ["none"]}, "q": text, "name": name, "profile": "wikibigedit"}
    assert client.post(f"/{TOKEN}/api/exports", json=asked).status_code == 202
    selection = read_selection(Path(wait(client)["only"])).to_pylist()
    assert selection == [{"subject": "Q2", "property": "P6"}, {"subject": "Q5", "property": "P6"}]


def test_an_export_that_fails_says_why_and_the_server_goes_on(client: TestClient, export: MadeUpExport) -> None:
    export.error = TimestepError("The graph lacks the snapshot of 2021-01-04.")
    try:
        asked = WINDOW | {"selection": [["Q1", None]], "name": "fails", "profile": "wikibigedit"}
        assert client.post(f"/{TOKEN}/api/exports", json=asked).status_code == 202
        task = wait(client)
    finally:
        export.error = None
    assert (task["state"], task["message"]) == ("failed", "The graph lacks the snapshot of 2021-01-04.")
    assert ask(client, "overview")


def test_kinds_of_change_are_worked_out_beside_the_answers_and_kept(client: TestClient, home: Path) -> None:
    def arvika() -> Any:
        return ask(client, "changes", **WINDOW, relation="P6", q="arvika")

    assert ask(client, "changes", **WINDOW)["kinds"] == "none"
    refresh, let = Windows.refresh, threading.Event()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Windows, "refresh", lambda *given: let.wait(30) and refresh(*given))
        assert client.post(f"/{TOKEN}/api/kinds", json=WINDOW).status_code == 202
        wait_until(lambda: list((home / "explore" / "kinds").glob("*.parquet")))
        assert arvika()["kinds"] == "running", "the rows are still without them"
        let.set()
        wait_until(lambda: arvika()["kinds"] == "done")
    changes = arvika()
    assert [(row["subject"], row["kind"]) for row in changes["rows"]] == [("Q1", "update")]
    counts = {value: count for value, _, count in ask(client, "changes", **WINDOW)["facets"]["kind"]}
    assert ask(client, "changes", **WINDOW, kind="update")["found"] == counts["update"] > 0
    assert sum(counts.values()) == 13
    assert len(list((home / "explore" / "kinds").glob("*.parquet"))) == 1
    assert client.post(f"/{TOKEN}/api/kinds", json=WINDOW).json() == {"kinds": "done"}
    assert client.post(f"/{TOKEN}/api/kinds", json={"from": 1}).status_code == 400


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"selection": [["Q1"]]}, "list of [subject, relation]"),
        ({"selection": [[None, None]]}, "list of [subject, relation]"),
        ({"selection": [["Q1'", "P6"]]}, "list of [subject, relation]"),
        ({"selection": []}, "Nothing is selected"),
        ({"selection": None, "filters": {"colour": ["red"]}}, "cannot be filtered by colour"),
        ({"selection": None, "filters": {"act": "none"}}, "lists of texts"),
        ({"name": "../../elsewhere"}, "cannot be a name"),
        ({"name": ""}, "cannot be a name"),
        ({"name": None}, "cannot be a name"),
        ({"name": ["mine"]}, "'name' must be a text"),
        ({"profile": "other"}, "not a profile"),
        ({"profile": 1}, "'profile' must be a text"),
        ({"selection": None, "q": 1}, "'q' must be a text"),
        ({"from": None}, "YYYYMMDD, not ''"),
        ({"from": "yesterday"}, "'from' must be"),
        ({"from": DAYS[1], "to": DAYS[0]}, "not before"),
    ],
)
def test_an_export_that_cannot_be_is_refused_before_anything_is_written(
    client: TestClient, home: Path, change: dict[str, Any], said: str
) -> None:
    before = sorted((home / "timesteps").rglob("*"))
    asked = WINDOW | {"selection": [["Q1", "P6"]], "name": "refused", "profile": "wikifactdiff"} | change
    answered = client.post(f"/{TOKEN}/api/exports", json=asked)
    assert answered.status_code == 400
    assert said in answered.json()["error"]
    assert sorted((home / "timesteps").rglob("*")) == before


@pytest.mark.parametrize(
    ("body", "kind"), [("{", "application/json"), ("[]", "application/json"), ("{}", "text/plain")]
)
def test_a_request_that_is_no_json_object_is_refused(client: TestClient, body: str, kind: str) -> None:
    answered = client.post(f"/{TOKEN}/api/exports", content=body, headers={"Content-Type": kind})
    assert answered.status_code == 400


def nested(depth: int) -> str:
    return '{"selection": ' + "[" * depth + "]" * depth + "}"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (nested(100_000), "nested too deeply"),
        ('{"from": "\\ud800"}', "not valid Unicode"),
        ('{"name": "\\udfff", "profile": "\\ud800"}', "not valid Unicode"),
        ('{"from": ' + "1" * 10_000 + "}", "not valid JSON"),
        ('{"from": NaN, "to": 1e999}', "YYYYMMDD"),
        (b'\xff{"from": 1}', "not valid JSON"),
    ],
    ids=["deep", "surrogate", "surrogates", "long", "nan", "bytes"],
)
def test_what_no_page_of_ours_sends_is_refused_in_words(client: TestClient, body: str | bytes, said: str) -> None:
    for path in ("exports", "kinds"):
        answered = client.post(f"/{TOKEN}/api/{path}", content=body, headers={"Content-Type": "application/json"})
        assert answered.status_code == 400
        assert said in answered.json()["error"]


@pytest.mark.parametrize("request_line", ["OPTIONS *", "GET *", "GET http://127.0.0.1/", "OPTIONS /", "GET //"])
def test_a_request_without_a_path_of_ours_is_refused(running: ExploreServer, request_line: str) -> None:
    host, port = running.listening.getsockname()
    with socket.create_connection((host, port), timeout=60) as opened:
        opened.sendall(f"{request_line} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
        assert opened.recv(1000).startswith(b"HTTP/1.1 403")


def test_a_body_that_is_too_long_gets_an_answer_and_no_reset(running: ExploreServer) -> None:
    connection = http.client.HTTPConnection(*running.listening.getsockname(), timeout=60)
    path = f"/{running.url.split('/')[3]}/api/exports"
    connection.request("POST", path, b" " * 17_000_000, {"Content-Type": "application/json"})
    answered = connection.getresponse()
    assert answered.status == 413
    assert "longer than 16,777,216 bytes" in json.loads(answered.read())["error"]


def test_the_link_to_neo4j_browser_has_the_port_of_the_homes_own_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KGEDIT_GRAPH_URI", raising=False)
    browser = browser_of_home(tmp_path)
    assert browser() is None, "no server was started yet"
    (tmp_path / "neo4j").mkdir()
    (tmp_path / "neo4j" / "password").write_text("secret")
    (tmp_path / "neo4j" / "ports.json").write_text('{"bolt": 17687, "http": 17474}')
    # The private server's Browser finds its server itself (Address.browser_page).
    assert browser() == "http://127.0.0.1:17474/browser/"


def test_an_outside_servers_browser_is_the_one_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_GRAPH_URI", "bolt://me:s3cret@127.0.0.1:1")
    assert browser_of_home(tmp_path)() is None, "it does not answer"
    monkeypatch.setenv("KGEDIT_GRAPH_BROWSER", "https://graph.example:8443/browser/")
    assert browser_of_home(tmp_path)() == "https://graph.example:8443/browser/?dbms=bolt://me@127.0.0.1:1"


def test_a_link_that_is_no_address_of_a_page_is_refused(home: Path) -> None:
    with pytest.raises(KgeditError, match="is not the address of a page"):
        explore_server(home, browser="javascript:alert(1)")


def test_a_snapshot_that_is_dropped_meanwhile_is_told(tmp_path: Path) -> None:
    home = write_explored(tmp_path)
    app = explore_app(Explorer(home), MadeUpExport(), hosts=[HOST], token=TOKEN, browser=lambda: None)
    with TestClient(app, base_url=f"http://{HOST}") as client:
        shutil.rmtree(home / "snapshots" / str(DAYS[0]))
        answered = client.get(f"/{TOKEN}/api/items/Q1")
        assert answered.status_code == 409
        assert "Start kgedit explore again" in answered.json()["error"]


def test_the_server_listens_at_this_machine_only_and_each_has_its_own_token(home: Path) -> None:
    servers = [explore_server(home) for _ in range(2)]
    try:
        addresses = [one.listening.getsockname() for one in servers]
        assert [host for host, _ in addresses] == ["127.0.0.1", "127.0.0.1"]
        tokens = [one.url.split("/")[3] for one in servers]
        assert tokens[0] != tokens[1]
        assert all(len(token) >= 32 for token in tokens)
        with pytest.raises(KgeditError, match="cannot be had"):
            explore_server(home, port=addresses[0][1])
    finally:
        for one in servers:
            one.listening.close()


def test_the_command_without_a_snapshot_says_what_to_do(tmp_path: Path) -> None:
    ran = CliRunner().invoke(main, ["explore", "--no-open"], env={"KGEDIT_HOME": str(tmp_path)})
    assert ran.exit_code == 1
    assert "Load one: kgedit load-dump" in ran.output
