"""The Batch API, against a server that goes wrong in every way."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from world.batch_server import BatchServer, batch_server
from world.chat_requests import ONE_DOLLAR_A_TOKEN, REASONING_MODEL, ROOT, request, texts, words
from world.patience import wait_until

from kgedit.errors import ModelError
from kgedit.files import exclusive_lock
from kgedit.llm.remote.batches import BatchClient, BatchWork
from kgedit.llm.remote.client import Effort
from kgedit.llm.remote.prices import Price, most_tokens, price_of, read_prices
from kgedit.llm.remote.requests import ReplyCache
from kgedit.llm.remote.server import ChatServer

pytestmark = pytest.mark.slow


def client(
    server: BatchServer,
    folder: Path,
    *,
    price: Price | None = None,
    budget: float | None = None,
    most: int = 50_000,
    timeout: float = 30.0,
    attempts: int = 3,
) -> BatchClient:
    return BatchClient(
        ChatServer(url=server.url, timeout=timeout),
        ReplyCache(folder / "replies"),
        folder / "batches",
        model="m",
        effort=Effort(attempts=attempts),
        work=BatchWork(poll=0.01, settle=0.05, most_requests=most),
        price=price,
        budget=budget,
    )


EIGHT = [f"WORD {number}" for number in range(8)]


def test_every_request_gets_its_own_reply_and_a_second_run_asks_nobody(tmp_path: Path) -> None:
    with batch_server() as server:
        asked = client(server, tmp_path, most=3).ask([*words(8), request("word 3")])
        assert texts(asked.replies) == [*EIGHT, "WORD 3"]
        assert (asked.requests, asked.cached, asked.calls, len(server.created)) == (8, 0, 8, 3)
        assert (asked.prompt_tokens, asked.new_tokens) == (16, 16)
    assert not list((tmp_path / "batches").glob("*.json"))
    files = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    # The server is gone by now.
    again = client(server, tmp_path).ask([*words(8), request("word 3")])
    assert (again.replies, again.cached, again.calls) == (asked.replies, 8, 0)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == files


STEPS = ["upload", "create", "look up", "download"]
FAULTS = ["429", "500", "cut", "timeout", "done, then 500", "done, then silence"]
SILENT = {"timeout", "done, then silence"}
FILES = ["cut", "wrong ids", "duplicates", "missing rows", "another's", "500"]


@pytest.mark.parametrize(
    ("step", "fault"),
    [*((step, fault) for step in STEPS[:3] for fault in FAULTS), *(("download", fault) for fault in FILES)],
)
def test_no_fault_loses_a_reply_or_pays_for_one_twice(tmp_path: Path, step: str, fault: str) -> None:
    with batch_server(fault=lambda where, time: fault if (where, time) == (step, 1) else None) as server:
        server.silence = 1.5
        asked = client(server, tmp_path, timeout=1.0 if fault in SILENT else 30.0).ask(words(8))
        assert texts(asked.replies) == EIGHT
        assert server.paid == {f"word {number}": 1 for number in range(8)}
        assert (asked.failed, len(server.created)) == ({}, 1)
        assert asked.retried


def test_a_request_that_failed_in_its_batch_is_asked_in_the_next_one(tmp_path: Path) -> None:
    first = {"word 1": "500", "word 2": "lost", "word 3": "expired"}
    with batch_server(row_fault=lambda message, time: first.get(message) if time == 1 else None) as server:
        asked = client(server, tmp_path).ask(words(8))
        assert texts(asked.replies) == EIGHT
        assert set(server.paid.values()) == {1}
        assert (len(server.created), asked.calls) == (2, 11)
        assert asked.retried == {"500": 1, "batch_expired": 1, "no line of the request": 1}


def test_a_server_that_gives_ids_again_loses_no_reply(tmp_path: Path) -> None:
    chance = random.Random(0)
    with batch_server(reply=lambda _: "CORRECT") as server:
        server.name = lambda _: f"chatcmpl-{chance.randrange(99)}"
        asked = client(server, tmp_path).ask(words(200))
    assert (asked.failed, len(server.created)) == ({}, 2)


def test_a_batch_whose_day_is_over_keeps_what_it_brought(tmp_path: Path) -> None:
    with batch_server(
        row_fault=lambda message, time: "expired" if message == "word 5" and time == 1 else None
    ) as server:
        server.status = "expired"
        assert texts(client(server, tmp_path).ask(words(8)).replies) == EIGHT
        assert set(server.paid.values()) == {1}


def test_a_request_that_never_succeeds_is_counted_and_the_others_stand(tmp_path: Path) -> None:
    never = {"word 2": "500", "word 4": "400"}
    with batch_server(row_fault=lambda message, _: never.get(message)) as server:
        asked = client(server, tmp_path).ask(words(6))
        assert (asked.failed, asked.not_asked) == ({"400": 1, "500": 1}, 0)
        assert asked.details == {"400": "fault 400", "500": "fault 500"}
        assert texts(asked.replies)[2] == "FailedCall(reason='500')"
        assert (server.rows["word 2"], server.rows["word 4"]) == (3, 1)


@contextmanager
def reasoning_model() -> Iterator[BatchServer]:
    def explained(_message: str, _time: int) -> str | None:
        return next((said for name, said in REASONING_MODEL.items() if name in server.bodies[-1]), None)

    with batch_server(row_fault=explained) as server:
        yield server


def test_parameters_that_a_model_does_not_accept_cost_no_attempt(tmp_path: Path) -> None:
    with reasoning_model() as server:
        asker = client(server, tmp_path, attempts=1)
        assert texts(asker.ask(words(3)).replies) == EIGHT[:3]
        assert (len(server.created), set(server.paid.values())) == (3, {1})
        assert asker.ask([request("word 3")]).failed == {}
        assert server.rows["word 3"] == 1
        assert server.bodies[-1]["max_completion_tokens"] > 1000, "with room for the reasoning that it includes"
        again = client(server, tmp_path).ask(words(4))
        assert (again.cached, again.calls) == (4, 0)


def test_rejected_batches_of_a_killed_command_are_asked_again_with_other_parameters(tmp_path: Path) -> None:
    def kill(_done: int, _all: int) -> None:
        raise KeyboardInterrupt

    with reasoning_model() as server:
        for number in range(2):
            with pytest.raises(KeyboardInterrupt):
                client(server, tmp_path).ask([request(f"word {number}")], progress=kill)
        assert texts(client(server, tmp_path, attempts=1).ask(words(3)).replies) == EIGHT[:3]
        assert set(server.paid.values()) == {1}


def test_a_batch_that_is_gone_names_its_note_which_can_be_deleted(tmp_path: Path) -> None:
    def kill(_done: int, _all: int) -> None:
        raise KeyboardInterrupt

    with batch_server() as server:
        with pytest.raises(KeyboardInterrupt):
            client(server, tmp_path).ask(words(2), progress=kill)
        server.batches.clear()
        (note,) = (tmp_path / "batches").glob("*.json")
        with pytest.raises(ModelError, match=re.escape(f"delete its note {note}")):
            client(server, tmp_path).ask(words(2))
        note.unlink()
        assert texts(client(server, tmp_path).ask(words(2)).replies) == EIGHT[:2]


@pytest.mark.parametrize("content", [b"", b"{}", b'{"mark": "\xff"}'])
def test_a_damaged_note_is_named(content: bytes, tmp_path: Path) -> None:
    note = tmp_path / "batches" / "ab.json"
    note.parent.mkdir()
    note.write_bytes(content)
    with batch_server() as server, pytest.raises(ModelError, match=f"{re.escape(str(note))} does not contain a note"):
        client(server, tmp_path).ask(words(1))
    assert not server.created


def test_what_openai_does_not_know_is_in_the_line_beside_the_other_fields(tmp_path: Path) -> None:
    with batch_server() as server:
        client(server, tmp_path).ask([replace(request("word 0"), thinking=False)])
    assert server.bodies[0]["chat_template_kwargs"] == {"enable_thinking": False}
    assert "extra_body" not in server.bodies[0]


def test_a_refusal_is_paid_for_once_and_the_next_run_does_not_ask_again(tmp_path: Path) -> None:
    with batch_server(row_fault=lambda message, _: "refused" if message == "word 1" else None) as server:
        asked = client(server, tmp_path).ask(words(3))
        assert texts(asked.replies) == ["WORD 0", "FailedCall(reason='refused')", "WORD 2"]
        assert (asked.failed, asked.retried, server.steps["download"]) == ({"refused": 1}, {}, 1)
        again = client(server, tmp_path).ask(words(3))
        assert (again.failed, again.cached, set(server.paid.values())) == ({"refused": 1}, 3, {1})


def test_a_reply_that_the_server_counts_and_never_delivers_is_not_paid_for_again(tmp_path: Path) -> None:
    with batch_server(fault=lambda step, _: "missing rows" if step == "download" else None) as server:
        asked = client(server, tmp_path).ask(words(4))
        assert asked.failed == {"the server counts a reply that it does not deliver": 1}
        assert (set(server.paid.values()), server.steps["download"]) == ({1}, 3)


def test_a_batch_that_fails_as_a_whole_is_told(tmp_path: Path) -> None:
    with batch_server(row_fault=lambda _, __: "lost") as server:
        server.status, server.counts = "failed", False
        with pytest.raises(ModelError, match="The batch batch_1 failed"):
            client(server, tmp_path).ask(words(2))
    assert not list((tmp_path / "batches").glob("*.json"))


def test_a_batch_that_was_cancelled_is_not_created_again_by_the_same_command(tmp_path: Path) -> None:
    with batch_server(row_fault=lambda message, time: "lost" if (message, time) == ("word 1", 1) else None) as server:
        server.status, server.counts = "cancelled", False
        with pytest.raises(ModelError, match=r"The batch batch_1 was cancelled .* same command asks for the rest"):
            client(server, tmp_path).ask(words(3))
        assert len(server.created) == 1
        server.status = "completed"
        asked = client(server, tmp_path).ask(words(3))
        assert (texts(asked.replies), asked.cached, set(server.paid.values())) == (EIGHT[:3], 2, {1})


def test_a_server_that_is_down_is_told_and_the_batch_is_found_again(tmp_path: Path) -> None:
    with batch_server(fault=lambda step, time: "500" if step == "look up" and time <= 3 else None) as server:
        with pytest.raises(ModelError, match="the same command resumes"):
            client(server, tmp_path).ask(words(8))
        asked = client(server, tmp_path).ask(words(8))
        assert texts(asked.replies) == EIGHT
        assert (asked.calls, server.paid) == (0, {f"word {number}": 1 for number in range(8)})


def test_a_creation_that_was_never_answered_is_looked_for_before_another(tmp_path: Path) -> None:
    faults = {"create": "done, then 500", "list": "500"}
    with batch_server(fault=lambda step, _: faults.get(step)) as server:
        with pytest.raises(ModelError, match="did not answer for the Batch API"):
            client(server, tmp_path).ask(words(8))
        server.fault = lambda _, __: None
        assert texts(client(server, tmp_path).ask(words(8)).replies) == EIGHT
        assert (len(server.created), set(server.paid.values())) == (1, {1})


def test_a_request_that_failed_for_good_in_an_earlier_batch_is_counted_and_not_asked_again(tmp_path: Path) -> None:
    with batch_server(
        fault=lambda step, time: "500" if step == "look up" and time <= 3 else None,
        row_fault=lambda message, _: "400" if message == "word 1" else None,
    ) as server:
        with pytest.raises(ModelError):
            client(server, tmp_path).ask(words(3))
        asked = client(server, tmp_path).ask(words(2))
        assert texts(asked.replies) == ["WORD 0", "FailedCall(reason='400')"]
        assert (asked.failed, asked.not_asked, server.rows["word 1"]) == ({"400": 1}, 0, 1)
        # The third of that batch is kept, although this run did not want it.
        assert client(server, tmp_path).ask(words(3)[2:]).cached == 1


def test_a_larger_run_waits_for_the_batch_of_a_smaller_one(tmp_path: Path) -> None:
    with batch_server(fault=lambda step, time: "500" if step == "look up" and time <= 3 else None) as server:
        with pytest.raises(ModelError):
            client(server, tmp_path).ask(words(3))
        asked = client(server, tmp_path).ask(words(8))
        assert texts(asked.replies) == EIGHT
        assert (asked.calls, set(server.paid.values())) == (5, {1})


def test_a_budget_is_never_exceeded_and_the_rest_is_asked_with_more(tmp_path: Path) -> None:
    one = most_tokens(request("word 0")) + 5
    with batch_server() as server:
        asked = client(server, tmp_path, price=ONE_DOLLAR_A_TOKEN, budget=one + 8).ask(words(9))
        assert asked.dollars == 4 * server.paid.total()
        assert asked.dollars <= one + 8
        assert asked.not_asked == 9 - server.paid.total() > 0
        assert asked.failed == {}
        rest = client(server, tmp_path, price=ONE_DOLLAR_A_TOKEN, budget=100 * one).ask(words(9))
        assert rest.not_asked == 0
        assert set(server.paid.values()) == {1}
    with pytest.raises(ModelError, match="prices FILE"):
        client(server, tmp_path, budget=1.0)


def test_batches_have_a_price_of_their_own() -> None:
    price = price_of("gpt-4o-mini", read_prices())
    assert price is not None
    assert price.in_batches().of(1_000_000, 1_000_000) == pytest.approx(price.of(1_000_000, 1_000_000) / 2)


_CHILD = """
import sys
from pathlib import Path
from kgedit.llm.remote.batches import BatchClient, BatchWork
from kgedit.llm.remote.requests import ReplyCache
from kgedit.llm.remote.requests import ChatRequest, Message
from kgedit.llm.remote.server import ChatServer
requests = [ChatRequest(model="m", messages=(Message("user", f"word {n}"),), max_tokens=5) for n in range(8)]
folder = Path(sys.argv[2])
client = BatchClient(ChatServer(url=sys.argv[1]), ReplyCache(folder / "replies"), folder / "batches", model="m",
                     work=BatchWork(poll=0.02))
client.ask(requests)
"""


@pytest.mark.parametrize("step", ["create", "look up"])
def test_a_run_that_is_killed_resumes_and_pays_nothing_twice(tmp_path: Path, step: str) -> None:
    silent = "done, then silence" if step == "create" else None
    with batch_server(fault=lambda where, _: silent if where == step else None) as server:
        server.hold, server.silence = True, 30
        child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, server.url, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: server.steps[step] >= 1)
        child.send_signal(signal.SIGKILL)
        child.wait(120)
        (note,) = (tmp_path / "batches").glob("*.json")
        assert b"word" not in note.read_bytes()
        assert (b"batch_1" in note.read_bytes()) == (step == "look up")
        server.hold, server.fault = False, lambda _, __: None
        asked = client(server, tmp_path).ask(words(8))
        assert texts(asked.replies) == EIGHT
        assert (asked.calls, len(server.created), set(server.paid.values())) == (0, 1, {1})


def test_two_processes_do_not_wait_for_the_same_batches(tmp_path: Path) -> None:
    with (
        batch_server() as server,
        exclusive_lock(tmp_path / "batches" / "lock", when_taken=lambda: None),
        pytest.raises(ModelError, match="Another kgedit waits for batches"),
    ):
        client(server, tmp_path).ask(words(1))
