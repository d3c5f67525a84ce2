"""A completion that was delivered before is the reply of another request, or equal to it by chance."""

from __future__ import annotations

from kgedit.llm.remote.owners import Completion, Owners
from kgedit.llm.remote.requests import ChatReply


def test_another_foreign_reply_is_refused_too_but_not_an_equal_one_twice() -> None:
    owners = Owners()
    paris, rome, again = (
        Completion(name, "now", ChatReply(text=text, finished=True, prompt_tokens=9, new_tokens=1))
        for name, text in (("1", "Paris"), ("1", "Rome"), ("2", "Paris"))
    )
    for completion, key in ((paris, "a"), (rome, "b"), (again, "c")):
        assert not owners.is_anothers(completion, key)
    assert [owners.is_anothers(completion, "d") for completion in (paris, rome, paris, again)] == [
        True,
        True,
        True,
        False,
    ]
