"""Names and addresses from files and requests: which may become a path, a link, or be stored."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgedit.errors import KgeditError
from kgedit.untrusted import (
    is_loopback_name,
    is_path_component,
    is_web_address,
    path_component,
    split_credentials,
    without_credentials,
)


@settings(max_examples=40, deadline=None)
@given(st.text())
def test_a_component_joined_to_a_folder_stays_in_it(name: str) -> None:
    if is_path_component(name):
        assert (Path("/folder") / name).parent == Path("/folder")
        assert Path(name).parts == (name,)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "..\\x", "/etc", "C:x", "a\0", "a\n", " a", "\ud800", "x" * 256, 7]
)
def test_what_is_no_component_is_refused_with_where_it_was_read(name: object) -> None:
    with pytest.raises(KgeditError, match="The name of the timestep in a file is"):
        path_component(name, of="the timestep in a file")


@settings(max_examples=40, deadline=None)
@given(
    st.text(min_size=1), st.text(), st.sampled_from(["h", "h:80", "[::1]:80"]), st.sampled_from(["", "/v1", "/?a=@"])
)
def test_credentials_are_split_from_any_address(user: str, password: str, host: str, rest: str) -> None:
    user_info = f"{quote(user, safe='', errors='replace')}:{quote(password, safe='', errors='replace')}"
    address, found = split_credentials(f"http://{user_info}@{host}{rest}")
    assert address == f"http://{host}{rest}"
    assert found is not None


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://h/v1", "http://h/v1"),
        ("http://h/@v1", "http://h/@v1"),
        ("http://me:a@b@h/v1", "http://h/v1"),
        ("bolt://me@h:7687", "bolt://h:7687"),
        ("me:secret@h", "h"),
        ("", ""),
    ],
)
def test_an_address_is_shown_without_user_and_password(address: str, shown: str) -> None:
    assert without_credentials(address) == shown


@pytest.mark.parametrize(
    "address", ["javascript:x", "data:text/html,x", "https:", "http://", "https:x", "http://[", "ftp://h"]
)
def test_other_addresses_are_no_links(address: str) -> None:
    assert not is_web_address(address)


@pytest.mark.parametrize(
    "host", ["localhost.example", "127.0.0.1.example", "example", "0.0.0.0", "::", "2130706433", ""]
)
def test_other_hosts_are_not_this_machine(host: str) -> None:
    assert not is_loopback_name(host)
