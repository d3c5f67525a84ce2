"""Where a Neo4j server answers, and as whom to speak to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import quote, urlencode, urlsplit


@dataclass(frozen=True, slots=True)
class Address:
    """A server's address.

    Attributes:
        uri: bolt://, neo4j://, bolt+s:// or neo4j+s:// and what follows.
        user: User name.
        password: Kept out of repr, so that no log line holds it.
        database: Name of the database, or None for the server's default one.
        browser_url: Where Neo4j Browser answers (http://host:port/browser/), or None where that is not known.
        managed: Whether the server is the private one that kgedit runs for this home.
    """

    uri: str
    user: str
    password: str = field(repr=False)
    database: str | None = None
    browser_url: str | None = None
    managed: bool = False

    def browser_page(self, query: str = "") -> str | None:
        """The page of Neo4j Browser, with the address, the user and, if given, a query filled in.

        Args:
            query: Cypher put into the editor, not run; empty for none.

        Returns:
            The URL, or None where no Browser is known.
        """
        if self.browser_url is None:
            return None
        scheme, host = urlsplit(self.uri)[:2]
        parameters = {"dbms": f"{scheme}://{self.user}@{host}"}
        if query:
            parameters |= {"cmd": "edit", "arg": query}
        return f"{self.browser_url}?{urlencode(parameters, quote_via=quote, safe=':/@')}"
