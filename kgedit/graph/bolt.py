"""The official driver: opens it, ends queries that the server does not stop, and explains its errors."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode, urlsplit

from kgedit import __version__
from kgedit.errors import GraphError

if TYPE_CHECKING:
    from neo4j import Driver
    from neo4j.exceptions import Neo4jError


@dataclass(frozen=True, slots=True)
class Address:
    """A server's address.

    Attributes:
        uri: Address that begins with bolt://, neo4j://, bolt+s:// or neo4j+s://.
        user: User name.
        password: Password; excluded from repr, so that it does not reach logs.
        database: Name of the database; None means the server's default one.
        browser_url: Address of Neo4j Browser (http://host:port/browser/); None if unknown.
        managed: Whether the server is the private one that kgedit runs for this home.
    """

    uri: str
    user: str
    password: str = field(repr=False)
    database: str | None = None
    browser_url: str | None = None
    managed: bool = False

    def browser_page(self, query: str = "") -> str | None:
        """Address of the page of Neo4j Browser, with the server's address, the user and optionally a query filled in.

        The private server's Browser finds its server itself. Naming it would open the form for the password even where
        Browser has a saved connection.

        Args:
            query: Cypher placed in the editor but not run; empty for none.

        Returns:
            The URL, or None if no Browser is known.
        """
        if self.browser_url is None:
            return None
        scheme, host = urlsplit(self.uri)[:2]
        parameters = {} if self.managed else {"dbms": f"{scheme}://{self.user}@{host}"}
        if query:
            parameters |= {"cmd": "edit", "arg": query}
        encoded = urlencode(parameters, quote_via=quote, safe=":/@")
        return f"{self.browser_url}?{encoded}" if encoded else self.browser_url


_SCHEMES = ("bolt", "neo4j", "bolt+s", "neo4j+s", "bolt+ssc", "neo4j+ssc")
_SECONDS_TO_CONNECT = 15.0
_SECONDS_TO_RETRY = 30.0
"""Half of the driver's default, and its default: an unreachable server is reported while the user still waits."""

OLDEST_VERSION = (5, 23)
"""First version with `CALL (x) {...}`, which our queries use."""

OUT_OF_MEMORY = frozenset(
    {
        "Neo.TransientError.General.MemoryPoolOutOfMemoryError",
        "Neo.TransientError.General.TransactionMemoryLimit",
        "Neo.TransientError.General.OutOfMemoryError",
    }
)
"""Codes that the server calls transient, although a retry fails again."""

_TIMED_OUT = "Neo.ClientError.Transaction.TransactionTimedOut"
_WRITES = "Neo.ClientError.Statement.AccessMode"
_NO_DATABASE = "Neo.ClientError.Database.DatabaseNotFound"


def open_driver(address: Address, *, user_agent: str = f"kgedit/{__version__}") -> Driver:
    """Create a driver for an address without connecting. The caller closes it.

    Args:
        address: Address and credentials.
        user_agent: Name under which the server lists the connection.

    Raises:
        GraphError: if the driver does not accept the address.
    """
    from neo4j import GraphDatabase
    from neo4j.exceptions import ConfigurationError

    # Hints such as "this label does not exist yet" are expected here, and failures are raised anyway. Log levels set by
    # the user are not changed.
    for name in ("neo4j", "neo4j.notifications"):
        if logging.getLogger(name).level == logging.NOTSET:
            logging.getLogger(name).setLevel(logging.ERROR)
    try:
        # Newer drivers also accept http://, with packages that kgedit does not require.
        if address.uri.partition("://")[0] not in _SCHEMES:
            raise ValueError("unknown scheme")
        return GraphDatabase.driver(
            address.uri,
            auth=(address.user, address.password),
            user_agent=user_agent,
            connection_timeout=_SECONDS_TO_CONNECT,
            max_transaction_retry_time=_SECONDS_TO_RETRY,
        )
    except (ConfigurationError, ValueError) as error:
        raise GraphError(
            f"'{address.uri}' is not the address of a graph ({error}). Set KGEDIT_GRAPH_URI to one that begins "
            f"with {':// or '.join(_SCHEMES)}://"
        ) from error


def refuse_old_server(agent: str, uri: str) -> None:
    """Refuse a Neo4j version that does not support our queries. Other servers that speak Bolt are accepted.

    Args:
        agent: Server name as reported by the server: "Neo4j/5.26.30".
        uri: Its address, for the message.

    Raises:
        GraphError: if it is too old.
    """
    found = re.match(r"Neo4j/(\d+)\.(\d+)", agent)
    if found is None or (int(found[1]), int(found[2])) >= OLDEST_VERSION:
        return
    oldest = ".".join(map(str, OLDEST_VERSION))
    raise GraphError(
        f"Neo4j {agent.removeprefix('Neo4j/')} at {uri} is too old; kgedit needs {oldest} or newer. Update that "
        f"server, or unset KGEDIT_GRAPH_URI to use kgedit's own."
    )


def answers(address: Address) -> bool:
    """Whether the server answers a query now.

    Raises:
        GraphError: if the server rejects the password; waiting does not help.
    """
    from neo4j.exceptions import AuthError, DriverError, Neo4jError

    with open_driver(address) as driver:
        try:
            with driver.session(database=address.database) as session:
                session.run("RETURN 1").consume()
        except AuthError as error:
            raise GraphError(_about_password(address)) from error
        except (DriverError, Neo4jError, OSError):
            return False
    return True


@contextmanager
def as_graph_errors(address: Address, *, timeout: float | None = None) -> Iterator[None]:
    """Turn the driver's errors into GraphErrors that state what happened, where, and what to do next.

    Args:
        address: Address of the server.
        timeout: Time limit of the query in seconds, for the message.
    """
    from neo4j.exceptions import AuthError, DriverError, Neo4jError, ServiceUnavailable, SessionExpired

    try:
        yield
    except AuthError as error:
        raise GraphError(_about_password(address)) from error
    except (ServiceUnavailable, SessionExpired) as error:
        raise GraphError(_about_silence(address)) from error
    except Neo4jError as error:
        raise GraphError(_about_refusal(error, address, timeout)) from error
    except DriverError as error:
        raise GraphError(f"Neo4j at {address.uri} cannot be used: {error}") from error


def about_time(address: Address, timeout: float | None) -> str:
    """Message for a query that did not finish in time; a timeout of None means the server's own limit."""
    given = f"within {timeout:g} s" if timeout else "in the server's time limit"
    return f"The query did not finish {given} at {address.uri}. Give it a longer timeout, or make it read less."


def _about_silence(address: Address) -> str:
    if address.managed:
        return f"Neo4j is not answering at {address.uri}. Start it: kgedit graph start"
    return (
        f"Neo4j is not answering at {address.uri}. Start it (docker compose up -d), correct KGEDIT_GRAPH_URI, or "
        f"unset it to use kgedit's own server."
    )


def _about_password(address: Address) -> str:
    if address.managed:
        return (
            f"The server at {address.uri} does not accept this home's password: its user's password was changed, or "
            f"another server has that port. Put the right one into the file that `kgedit graph status` names, or "
            f"stop the other server."
        )
    return (
        f"Neo4j at {address.uri} does not accept the password of user '{address.user}'. Set KGEDIT_GRAPH_USER and "
        f"KGEDIT_GRAPH_PASSWORD."
    )


def _about_refusal(error: Neo4jError, address: Address, timeout: float | None) -> str:
    code, said = error.code or "", error.message or ""
    if code in OUT_OF_MEMORY:
        return (
            f"The query needs more memory than Neo4j at {address.uri} has for it. Make it read less at a time "
            f"(CALL (x) {{ ... }} per part, a LIMIT), or give the server more: KGEDIT_GRAPH_HEAP=8g, then kgedit "
            f"graph stop and start again. The server said: {said}"
        )
    if code.startswith(_TIMED_OUT):
        return about_time(address, timeout)
    if code == _WRITES:
        return f"This query writes, and only reading is allowed here. Nothing was changed. The server said: {said}"
    if code == _NO_DATABASE:
        return f"Neo4j at {address.uri} has no database '{address.database}'. Set KGEDIT_GRAPH_DATABASE. ({said})"
    return f"Neo4j at {address.uri} refuses: {said} ({code})"


SECONDS_OF_GRACE = 2.0
"""Extra time in which a server can report its own timeout, which is more informative than a closed connection."""


@contextmanager
def ended_after(seconds: float, end: Callable[[], None]) -> Iterator[threading.Event]:
    """Call a function from another thread if the block lasts too long.

    A server checks its time limit between rows but not while it sends one, and a single row may contain a list of any
    length.

    Args:
        seconds: Time limit of the block.
        end: Ends what the block waits for, such as by closing its connection.

    Yields:
        An event that is set once the function is called.
    """
    is_over = threading.Event()

    def fire() -> None:
        is_over.set()
        end()

    timer = threading.Timer(seconds, fire)
    timer.daemon = True
    timer.start()
    try:
        yield is_over
    finally:
        timer.cancel()
