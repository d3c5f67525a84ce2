"""Address and credentials of a Neo4j server."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import quote, urlencode, urlsplit


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
