"""Accepts only requests from the page at the printed address, opened in a browser on this machine.

Any web page can send requests to 127.0.0.1, and a domain that its owner points there makes them look like its own (DNS
rebinding). Therefore every request must name this host and have the secret in its path, which other pages cannot know.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from kgedit.proxy.guard import with_headers

_HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def new_token() -> str:
    """Generate a secret of 192 bits for the address."""
    return secrets.token_urlsafe(24)


class Guard:
    """Accepts requests that name an allowed host and whose path begins with the token; sets headers on every response.

    Args:
        app: Application to protect.
        hosts: Allowed values of the Host header, with port.
        token: First part of every path.
        policy: Content security policy.
    """

    def __init__(self, app: ASGIApp, *, hosts: Sequence[str], token: str, policy: str) -> None:
        self._app, self._hosts, self._token = app, frozenset(hosts), token.encode()
        self._headers = _HEADERS | {"content-security-policy": policy}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        refused = self._refusal(scope)
        await (refused or self._app)(scope, receive, with_headers(send, self._headers))

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        if Headers(scope=scope).get("host") not in self._hosts:
            return PlainTextResponse("This is not the host of kgedit explore.\n", 421)
        # A path need not begin with a slash: OPTIONS * concerns the whole server.
        given = scope["path"].removeprefix("/").partition("/")[0].encode()
        if not scope["path"].startswith("/") or not secrets.compare_digest(given, self._token):
            return PlainTextResponse("Open the address that kgedit explore printed: it has a token.\n", 403)
        return None
