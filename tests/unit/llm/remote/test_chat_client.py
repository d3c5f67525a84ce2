"""The client for OpenAI-compatible servers, against a server that goes wrong in every way."""

from __future__ import annotations

import datetime
import email.utils
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from world.chat_requests import ONE_DOLLAR_A_TOKEN, REASONING_MODEL, ROOT, request, texts, words
from world.fault_server import FaultServer, fault_server
from world.patience import wait_until

from kgedit.errors import ModelError
from kgedit.llm.remote.client import ChatClient, Effort
from kgedit.llm.remote.prices import ByCharacters, Price, most_tokens
from kgedit.llm.remote.requests import ChatReply, FailedCall, Message, ReplyCache, request_key
from kgedit.llm.remote.server import OPENAI, ChatServer, Pace, _retry_after


def client(
    server: FaultServer,
    folder: Path,
    *,
    price: Price | None = None,
    budget: float | None = None,
    timeout: float = 30.0,
) -> ChatClient:
    return ChatClient(
        ChatServer(url=server.url, timeout=timeout),
        ReplyCache(folder),
        model="m",
        effort=Effort(workers=4, attempts=3),
        price=price,
        budget=budget,
    )


def test_every_request_gets_its_own_reply_in_order_and_equal_ones_are_asked_once(tmp_path: Path) -> None:
    with fault_server() as server:
        asked = client(server, tmp_path).ask([*words(8), request("word 3")])
        assert texts(asked.replies) == [*(f"WORD {number}" for number in range(8)), "WORD 3"]
        assert (asked.requests, asked.calls, asked.cached, server.tries["word 3"]) == (8, 8, 0, 1)
        assert (asked.prompt_tokens, asked.new_tokens) == (16, 16)


def test_a_second_run_costs_nothing_and_gives_the_same_replies(tmp_path: Path) -> None:
    with fault_server() as server:
        first = client(server, tmp_path).ask(words(5))
        files = {path.name: path.read_bytes() for path in tmp_path.rglob("*.json")}
    # The server is gone by now.
    again = client(server, tmp_path).ask(words(5))
    assert again.replies == first.replies
    assert (again.calls, again.cached) == (0, 5)
    assert {path.name: path.read_bytes() for path in tmp_path.rglob("*.json")} == files


FAULTS = ["429", "500", "503", "timeout", "cut", "torn", "not JSON", "no choice", "two choices", "no text", "another's"]


@pytest.mark.slow
def test_no_fault_loses_a_reply_or_pays_for_one_twice(tmp_path: Path) -> None:
    def once(message: str, attempt: int) -> str | None:
        return FAULTS[int(message.split()[1]) % len(FAULTS)] if attempt == 1 else None

    with fault_server(fault=once) as server:
        server.silence = 2.0
        asked = client(server, tmp_path, timeout=1.5).ask(words(3 * len(FAULTS)))
        assert texts(asked.replies) == [f"WORD {number}" for number in range(3 * len(FAULTS))]
        assert set(server.paid.values()) == {1}
        assert asked.failed == {}
        assert asked.retried["429"] == asked.retried["500"] == asked.retried["timeout"] == 3
        assert asked.retried["the reply of another request"] == 3


@pytest.mark.parametrize(("reply", "repeats"), [(str.upper, False), (lambda _: "CORRECT", True)])
def test_a_server_that_gives_ids_again_loses_no_reply(
    reply: Callable[[str], str], repeats: bool, tmp_path: Path
) -> None:
    chance = random.Random(0)
    with fault_server(reply=reply) as server:
        server.name = lambda _: f"chatcmpl-{chance.randrange(999)}"  # as Ollama
        asked = client(server, tmp_path).ask(words(600))
    assert (asked.failed, bool(asked.retried)) == ({}, repeats)
    assert texts(asked.replies) == [reply(f"word {number}") for number in range(600)]


def test_a_reply_that_is_delivered_for_every_request_is_accepted_for_none(tmp_path: Path) -> None:
    with fault_server() as server:
        asker = ChatClient(ChatServer(url=server.url), ReplyCache(tmp_path), model="m", effort=Effort(workers=1))
        server.fault = lambda message, _: "another's" if message == "word 2" else None
        asked = asker.ask(words(3))
    assert (asked.failed, asked.retried) == tuple({"the reply of another request": count} for count in (1, 6))


def test_a_request_that_never_succeeds_is_counted_and_the_others_stand(tmp_path: Path) -> None:
    with fault_server(fault=lambda message, _: "500" if message == "word 2" else None) as server:
        asked = client(server, tmp_path).ask(words(4))
        assert texts(asked.replies) == ["WORD 0", "WORD 1", "FailedCall(reason='500')", "WORD 3"]
        assert (asked.failed, server.tries["word 2"]) == ({"500": 1}, 3)
        # It is asked again by the next run, and only it.
        server.fault = lambda _, __: None
        again = client(server, tmp_path).ask(words(4))
        assert (again.calls, again.failed) == (1, {})


def test_a_request_that_the_server_finds_wrong_is_not_tried_again(tmp_path: Path) -> None:
    with fault_server(fault=lambda message, _: "400" if message == "word 0" else None) as server:
        asked = client(server, tmp_path).ask(words(2))
        assert (asked.failed, server.tries["word 0"]) == ({"400": 1}, 1)


@pytest.mark.parametrize(
    ("fault", "reason"), [("refused", "refused"), ("filtered", "filtered"), ("tool call", "no text")]
)
def test_a_refusal_is_paid_for_once_and_the_next_run_does_not_ask_again(
    tmp_path: Path, fault: str, reason: str
) -> None:
    with fault_server(fault=lambda _, __: fault) as server:
        asked = client(server, tmp_path, price=ONE_DOLLAR_A_TOKEN).ask(words(30))
        assert asked.replies == (FailedCall(reason),) * 30
        assert (asked.failed, asked.retried, server.tries.total()) == ({reason: 30}, {}, 30)
        assert asked.dollars == 4 * 30
        again = client(server, tmp_path).ask(words(31))
        assert (again.failed, again.cached, again.calls) == ({reason: 31}, 30, 1)


def test_stored_replies_of_versions_without_refusals_are_read(tmp_path: Path) -> None:
    cache, reply = ReplyCache(tmp_path), ChatReply(text="A", finished=True, prompt_tokens=1, new_tokens=1)
    cache.add("ab", reply)
    (path,) = tmp_path.rglob("*.json")
    path.write_text('{"text":"A","finished":true,"prompt_tokens":1,"new_tokens":1}\n', encoding="utf-8")
    assert cache.get("ab") == reply


@pytest.mark.parametrize("fault", ["401", "404", "no credit"])
def test_what_every_request_would_meet_ends_the_run_at_once(tmp_path: Path, fault: str) -> None:
    with fault_server(fault=lambda _, __: fault) as server:
        with pytest.raises(ModelError, match="Check the address, the model's name and the key"):
            client(server, tmp_path).ask(words(50))
        assert server.tries.total() <= 4


def test_a_server_that_rejects_all_requests_is_quoted_and_not_taken_for_one_that_is_down(tmp_path: Path) -> None:
    with fault_server(fault=lambda _, __: "400") as server:
        server.explain = lambda _: "Too \x1b[31m long\nfor me, secret." + " more" * 100
        url = server.url.replace("http://", "http://me:secret@")
        with pytest.raises(ModelError, match=r"\(400 \d+ times\); the server says: Too \[31m long for me") as caught:
            ChatClient(ChatServer(url=url), ReplyCache(tmp_path), model="m").ask(words(60))
    message = str(caught.value)
    assert "Is the server up" not in message
    assert "secret" not in message
    assert len(message) < 350


@pytest.mark.parametrize(("key", "said"), [("x", "no extra, x"), ("sk-12345", "no extra, ***")])
def test_a_key_is_hidden_unless_it_is_a_placeholder(
    key: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with fault_server(fault=lambda _, __: "400") as server:
        server.explain = lambda _: f"no extra, {key}"
        with pytest.raises(ModelError, match=f"the server says: {re.escape(said)}"):
            client(server, tmp_path).ask(words(60))


def test_the_first_explanation_of_each_failure_is_returned(tmp_path: Path) -> None:
    with fault_server(fault=lambda message, _: "400" if message != "word 2" else None) as server:
        explanations = iter(["first", "second", "third"])
        server.explain = lambda _: next(explanations)
        one_by_one = ChatClient(
            ChatServer(url=server.url), ReplyCache(tmp_path), model="m", effort=Effort(workers=1, attempts=1)
        )
        asked = one_by_one.ask(words(4))
    assert (asked.failed, asked.details) == ({"400": 3}, {"400": "first"})


@contextmanager
def reasoning_model() -> Iterator[FaultServer]:
    def rejected() -> str | None:
        return next((name for name in REASONING_MODEL if name in server.bodies[-1]), None)

    with fault_server(fault=lambda _, __: "400" if rejected() else None) as server:
        server.explain = lambda _: REASONING_MODEL[str(rejected())]
        yield server


def test_parameters_that_a_model_does_not_accept_are_renamed_or_left_out(tmp_path: Path) -> None:
    with reasoning_model() as server:
        # One call at a time, because the server looks at its last request.
        asker = ChatClient(
            ChatServer(url=server.url), ReplyCache(tmp_path), model="m", effort=Effort(workers=1, attempts=1)
        )
        assert texts(asker.ask(words(2)).replies) == ["WORD 0", "WORD 1"]
        assert server.tries == {"word 0": 3, "word 1": 1}
        assert asker.ask([request("word 2")]).failed == {}
        assert server.tries["word 2"] == 1
        limits = [body.get("max_completion_tokens") for body in server.bodies]
        assert limits[:1] == [None]
        assert all(limit > 1000 for limit in limits[1:]), "with room for the reasoning that it includes"
        again = client(server, tmp_path).ask(words(3))
        assert (again.cached, again.calls) == (3, 0)


@contextmanager
def reasoning_server() -> Iterator[FaultServer]:
    """A server such as vLLM, whose model reasons within max_tokens and needs a thousand."""
    with fault_server(fault=lambda _, __: "spent, shown" if server.bodies[-1]["max_tokens"] < 1000 else None) as server:
        yield server


def test_a_model_that_spends_its_tokens_on_reasoning_is_asked_again_with_room(tmp_path: Path) -> None:
    with reasoning_server() as server:
        # One call at a time, because the server looks at its last request.
        asker = ChatClient(
            ChatServer(url=server.url), ReplyCache(tmp_path), model="m", effort=Effort(workers=1, attempts=2),
            price=ONE_DOLLAR_A_TOKEN, budget=10_000.0,
        )  # fmt: skip
        asked = asker.ask(words(2))
        assert texts(asked.replies) == ["WORD 0", "WORD 1"]
        assert server.tries == {"word 0": 2, "word 1": 1}, "known after the first reply"
        paid = server.tries.total() * 2 + 3 * 2
        assert asked.dollars == paid, "the reply that was spent on reasoning is paid for as well"
        assert asked.prompt_tokens + asked.new_tokens == paid
        again = client(server, tmp_path).ask(words(2))
        assert (again.cached, again.calls) == (2, 0)


def test_room_for_reasoning_allows_no_further_attempts(tmp_path: Path) -> None:
    faults = {1: "500", 2: "spent, shown"}
    with fault_server(fault=lambda _, attempt: faults.get(attempt, "500")) as server:
        asker = ChatClient(
            ChatServer(url=server.url), ReplyCache(tmp_path), model="m", effort=Effort(workers=1, attempts=2)
        )
        assert asker.ask(words(1)).failed == {"500": 1}
        assert server.tries == {"word 0": 3}, "two, and the one that was answered"


def test_a_server_without_room_is_asked_as_before(tmp_path: Path) -> None:
    def fault(message: str, _: int) -> str | None:
        if server.bodies[-1]["max_tokens"] > 1000:
            return "400"
        return "spent, shown" if message == "word 0" else None

    with fault_server(fault=fault) as server:
        server.explain = lambda _: "'max_tokens' is too large: 4101. This model's maximum context length is 4096 tokens"
        asker = ChatClient(
            ChatServer(url=server.url), ReplyCache(tmp_path), model="m", effort=Effort(workers=1, attempts=2)
        )
        asked = asker.ask(words(3))
        assert (texts(asked.replies), asked.failed) == (["", "WORD 1", "WORD 2"], {})
        assert server.tries == {"word 0": 2, "word 1": 1, "word 2": 1}


def test_without_room_a_reply_that_was_spent_on_reasoning_is_kept(tmp_path: Path) -> None:
    with reasoning_server() as server:
        asker = ChatClient(ChatServer(url=server.url), ReplyCache(tmp_path), model="m", room=False)
        assert texts(asker.ask(words(1)).replies) == [""]
        assert server.tries == {"word 0": 1}


def test_room_for_reasoning_counts_for_the_budget(tmp_path: Path) -> None:
    without_room = most_tokens(request("word 0")) + 5
    with reasoning_model() as server:
        asked = client(server, tmp_path, price=ONE_DOLLAR_A_TOKEN, budget=float(without_room)).ask(words(2))
        assert (asked.not_asked, server.paid.total()) == (2, 0)
        asked = client(server, tmp_path, price=ONE_DOLLAR_A_TOKEN, budget=without_room + 5000.0).ask(words(2))
        assert (asked.not_asked, asked.failed) == (0, {})


def test_a_call_is_sent_as_it_was_reserved_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_room = most_tokens(request("word 0")) + 5
    with reasoning_model() as server:
        asker = client(server, tmp_path, price=ONE_DOLLAR_A_TOKEN, budget=float(without_room))
        accepted = asker._accepted
        turn = Pace.turn
        # Another thread learns the server's parameters while this one waits for its turn.
        monkeypatch.setattr(Pace, "turn", lambda pace: accepted.learn(REASONING_MODEL["max_tokens"], "m") or turn(pace))
        assert asker.ask(words(1)).not_asked == 1
        assert all("max_completion_tokens" not in body for body in server.bodies)


def test_a_server_that_is_down_is_told_after_some_requests(tmp_path: Path) -> None:
    with fault_server() as server:
        pass
    with pytest.raises(ModelError, match=r"answered none of \d+ requests \(no connection .*Is the server up"):
        client(server, tmp_path).ask(words(60))


@pytest.mark.slow
def test_all_wait_as_long_as_a_busy_server_asks(tmp_path: Path) -> None:
    def busy_at_first(message: str, attempt: int) -> str | None:
        return "429" if message == "word 0" and attempt == 1 else None

    with fault_server(fault=busy_at_first) as server:
        server.retry_after = 0.5
        server.seconds = 0.05
        client(server, tmp_path).ask(words(30))
        refused = server.arrivals[[message for message, _ in server.arrivals].index("word 0")][1]
        # Calls that were under way when the refusal came are no breach, however late they arrive: three at most.
        assert len([when for _, when in server.arrivals if refused + 0.15 < when < refused + 0.5]) <= 3
        assert len([when for _, when in server.arrivals if when >= refused + 0.5]) >= 5


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2", 2.0), ("0.5", 0.5), ("86400", 600.0), ("Fri, 31 Dec 1999 23:59:59 GMT", 0.0), ("soon", None), ("nan", None)],
)
def test_how_long_a_server_wants_to_be_left_alone(text: str, seconds: float | None) -> None:
    assert _retry_after({"retry-after": text}) == seconds


def test_a_server_may_name_the_moment_and_need_not_name_any() -> None:
    moment = email.utils.format_datetime(datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=60))
    assert 50 < (_retry_after({"retry-after": moment}) or 0) <= 60
    assert 50 < (_retry_after({"retry-after": moment.replace("+0000", "-0000")}) or 0) <= 60
    assert _retry_after({}) is None


def test_a_busy_server_gets_half_as_many_calls_at_once_and_later_more_again() -> None:
    pace, allowed = Pace(8), []
    for _ in range(2):
        pace.slow_down(0.0)
        allowed.append(pace._allowed)
    for _ in range(9):
        pace.succeeded()
        allowed.append(pace._allowed)
    assert allowed == [4, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5]


def test_calls_that_were_refused_together_halve_the_number_once() -> None:
    pace = Pace(8)
    for _ in range(3):
        pace.slow_down(60.0)
    assert pace._allowed == 4


def test_a_budget_is_never_exceeded_and_the_rest_is_asked_with_more(tmp_path: Path) -> None:
    one = most_tokens(request("word 0")) + 5
    with fault_server() as server:
        asked = client(server, tmp_path, price=ONE_DOLLAR_A_TOKEN, budget=one + 20).ask(words(30))
        assert asked.dollars == 4 * server.paid.total()
        assert 20 <= asked.dollars <= one + 20
        assert asked.not_asked == 30 - server.paid.total()
        rest = client(server, tmp_path, price=ONE_DOLLAR_A_TOKEN, budget=1000.0).ask(words(30))
        assert rest.not_asked == 0
        assert set(server.paid.values()) == {1}
    with pytest.raises(ModelError, match="prices FILE"):
        client(server, tmp_path, budget=1.0)


def test_what_a_server_may_charge_for_without_a_reply_counts_for_the_budget(tmp_path: Path) -> None:
    with fault_server(fault=lambda _, __: "cut") as server:
        asked = client(server, tmp_path, price=ONE_DOLLAR_A_TOKEN).ask([request("word 0")])
        assert asked.dollars == 3 * (most_tokens(request("word 0")) + 5)
    with fault_server(fault=lambda _, __: "500") as server:
        assert client(server, tmp_path, price=ONE_DOLLAR_A_TOKEN).ask([request("word 0")]).dollars == 0
    # The server is gone by now: no call reached it.
    unreached = client(server, tmp_path, price=ONE_DOLLAR_A_TOKEN).ask([request("word 0")])
    assert (unreached.retried, unreached.dollars) == ({"no connection": 3}, 0)


def test_an_estimate_leaves_out_what_is_on_disk(tmp_path: Path) -> None:
    with fault_server() as server:
        asker = client(server, tmp_path, price=ONE_DOLLAR_A_TOKEN)
        asker.ask(words(2))
        estimate = asker.estimate(words(5), ByCharacters(), likely_reply="WORD")
        assert (estimate.requests, estimate.cached, estimate.exact) == (5, 2, False)
        assert estimate.dollars == estimate.prompt_tokens + estimate.new_tokens > 0
        assert server.tries.total() == 2


def test_a_key_comes_from_the_environment_and_is_needed_only_by_the_public_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelError, match="set the environment variable OPENAI_API_KEY"):
        ChatClient(ChatServer(), ReplyCache(tmp_path), model="m").ask(words(1))
    monkeypatch.setenv("OTHER_KEY", "secret-of-ours")
    with fault_server() as server:
        named = ChatServer(url=server.url, key_variable="OTHER_KEY")
        ChatClient(named, ReplyCache(tmp_path), model="m").ask(words(1))
        assert server.headers[0]["authorization"] == "Bearer secret-of-ours"
    assert not [path for path in tmp_path.rglob("*.json") if "secret-of-ours" in path.read_text()]


def test_the_key_of_a_reply_holds_all_that_is_sent_and_where() -> None:
    one = request("word")
    others = [
        replace(one, model="n"),
        replace(one, messages=(Message("system", "word"),)),
        replace(one, max_tokens=6),
        replace(one, temperature=0.5),
        replace(one, schema="{}"),
    ]
    keys = {request_key(one, OPENAI), request_key(one, "http://127.0.0.1/v1")} | {
        request_key(other, OPENAI) for other in others
    }
    assert len(keys) == 2 + len(others)


_CHILD = """
import signal
import sys
from pathlib import Path
from kgedit.llm.remote.server import Pace
stop = Pace.stop
def stop_and_tell(pace):
    stop(pace)
    Path(sys.argv[3]).touch()
Pace.stop = stop_and_tell
# A shell's background jobs ignore Ctrl-C, and so would this process when the tests run in one.
signal.signal(signal.SIGINT, signal.default_int_handler)
from kgedit.llm.remote.client import ChatClient, Effort
from kgedit.llm.remote.requests import ReplyCache
from kgedit.llm.remote.requests import ChatRequest, Message
from kgedit.llm.remote.server import ChatServer
requests = [ChatRequest(model="m", messages=(Message("user", f"word {n}"),), max_tokens=5) for n in range(40)]
server, cache = ChatServer(url=sys.argv[1]), ReplyCache(Path(sys.argv[2]))
ChatClient(server, cache, model="m", effort=Effort(workers=4)).ask(requests)
"""


def _cached(folder: Path) -> int:
    return len(list(folder.rglob("[0-9a-f]*.json")))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.slow
def test_a_run_that_is_killed_in_the_middle_resumes_and_pays_nothing_twice(tmp_path: Path, how: signal.Signals) -> None:
    replies, stopped = tmp_path / "replies", tmp_path / "stopped"
    with fault_server() as server:
        server.hold_after = 13
        child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, server.url, str(replies), str(stopped)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
            stderr=subprocess.DEVNULL,
        )
        # All four workers: a call that has its turn but is still on its way would rightly be answered, and kept.
        wait_until(lambda: _cached(replies) == 13 and server.held == 4)
        child.send_signal(how)
        if how == signal.SIGINT:
            # Were the held calls let go before it stopped, it would rightly try them again.
            wait_until(stopped.is_file)
        server.hold_after = None
        server.released.set()
        assert child.wait(120) != 0
        assert _cached(replies) == 13
        asked = client(server, replies).ask(words(40))
        assert texts(asked.replies) == [f"WORD {number}" for number in range(40)]
        assert server.paid == {f"word {number}": 1 for number in range(40)}
