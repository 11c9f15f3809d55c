"""What keeps other web pages away from Dagster's interface, which itself asks for no login, origin or token.

A browser sends requests for every page that is open in it. Three rules, each of which a browser can't be talked out of:
the request names this server (a name that an attacker points at 127.0.0.1 does not), it comes from the interface's own
pages (`Origin`, `Sec-Fetch-Site`), and what changes something is a POST of JSON, which another page can't send unasked
(OWASP's cheat sheet on cross-site request forgery).
"""

import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from graphql import GraphQLError, OperationDefinitionNode, OperationType, parse

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_AUTHORITY = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\s:/?#@\[\]]+)(?::(?P<port>\d{1,5}))?", re.ASCII)
_DEFAULT_PORTS = {"http": "80", "https": "443"}
# The scheme of the page that a connection belongs to.
_SCHEMES = {"http": "http", "ws": "http", "https": "https", "wss": "https"}
# A page that shows the interface in a frame could have its buttons pressed without showing them.
_HEADERS = (
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"content-security-policy", b"frame-ancestors 'self'"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
# A query by GET is as long as a URL may be; this many tokens are more than fit into one.
_MAX_TOKENS = 50_000


@dataclass(frozen=True)
class Refusal:
    """Why a request is not served."""

    status: int
    reason: str


def reached_as(host: str, names: Iterable[str]) -> frozenset[str]:
    """The names, lower case and without ports, that `Host` may have besides those of loopback: `host`, on which the
    server listens, and `names`. A server that listens on all addresses is reached by the machine's names."""
    own = {socket.gethostname(), socket.getfqdn()} if host in ("", "0.0.0.0", "::") else {host}
    return frozenset(name for name, _ in map(_authority, {*own, *names}) if name)


@dataclass(frozen=True)
class Guard:
    """An ASGI application before `app` that serves only what the interface's own pages, or programs, ask for.

    `names` come from `reached_as`. `origins` (`name`, which means the ports 80 and 443, or `name:port`) are places
    where a reverse proxy is reached, by http or https: `Origin` may name them. Headers that say where a proxy was
    reached (`X-Forwarded-Port`) are not asked: anyone can send them.
    """

    app: App
    names: frozenset[str]
    origins: Collection[str] = ()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        refusal = self.refusal(scope)
        if refusal is None:
            await self.app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            # Closed before it is accepted, which servers answer with 403.
            await send({"type": "websocket.close", "code": 1008, "reason": refusal.reason[:120]})
        else:
            body = f"Refused: {refusal.reason}.\n".encode()
            headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": refusal.status, "headers": [*headers, *_HEADERS]})
            await send({"type": "http.response.body", "body": body})

    def refusal(self, scope: Scope) -> Refusal | None:
        """Why the request that `scope` describes is refused, or `None`."""
        headers = _headers(scope)
        twice = next((name for name in ("host", "origin", "content-type") if len(headers.get(name, ())) > 1), None)
        if twice:
            return Refusal(400, f"the header {twice} was sent more than once")
        sent = {name: values[0] for name, values in headers.items()}
        return self._refused_host(sent, scope) or self._refused_origin(sent, scope) or _refused_change(sent, scope)

    def _refused_host(self, sent: dict[str, str], scope: Scope) -> Refusal | None:
        name, _ = _authority(sent.get("host", ""))
        address = (scope.get("server") or ("",))[0]
        # Any port: a tunnel has one of its own, and `Origin` must be that of `Host`, port and all.
        if name and (is_loopback(name) or name in self.names or name.strip("[]") == str(address)):
            return None
        return Refusal(
            421, "Host names another server; list the names of a reverse proxy in the setting ui_hosts (NIXT_UI_HOSTS)"
        )

    def _refused_origin(self, sent: dict[str, str], scope: Scope) -> Refusal | None:
        reads = scope["type"] == "http" and scope["method"] in _SAFE_METHODS
        origin = sent.get("origin")
        if origin is not None and not self._is_own(origin, sent["host"], scope):
            return Refusal(403, "the request comes from a page of another origin")
        site = sent.get("sec-fetch-site", "none")
        # A link on another page may lead here, but only to be looked at, in a window of its own.
        follows_link = reads and sent.get("sec-fetch-mode") == "navigate" and sent.get("sec-fetch-dest") == "document"
        if site in ("same-origin", "none") or follows_link:
            return None
        return Refusal(403, "the request comes from a page of another origin")

    def _is_own(self, origin: str, host: str, scope: Scope) -> bool:
        scheme, separator, authority = origin.lower().partition("://")
        if scheme not in _DEFAULT_PORTS or not separator:
            return False
        default = _DEFAULT_PORTS[scheme]
        # TLS ends at a proxy, so that pages of listed places come by either scheme.
        hosts = [host] if _SCHEMES.get(scope.get("scheme", "http")) == scheme else []
        own = [_authority(known, default) for known in (*hosts, *self.origins)]
        return _authority(authority, default) in own and bool(_authority(authority)[0])


def _refused_change(sent: dict[str, str], scope: Scope) -> Refusal | None:
    if scope["type"] != "http":
        return None
    if scope["method"] not in _SAFE_METHODS:
        media_type = sent.get("content-type", "").partition(";")[0].strip().lower()
        return None if media_type == "application/json" else Refusal(415, "only application/json is accepted")
    # The path is searched, not compared: routers differ in what they make of a slash or a line feed at its end.
    if "graphql" not in scope["path"]:
        return None
    texts = [text for name, text in parse_qsl(scope["query_string"].decode("latin-1"), True) if name == "query"]
    return None if all(map(only_reads, texts)) else Refusal(405, "GET is for queries; mutations need POST")


def only_reads(document: str) -> bool:
    """Whether every operation of a GraphQL document is a query. One that can't be parsed might be read otherwise by the
    server, and is none."""
    try:
        definitions = parse(document, no_location=True, max_tokens=_MAX_TOKENS).definitions
    except (GraphQLError, RecursionError):
        return False
    operations = [node for node in definitions if isinstance(node, OperationDefinitionNode)]
    return all(node.operation is OperationType.QUERY for node in operations)


def _headers(scope: Scope) -> dict[str, list[str]]:
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1").strip())
    return headers


def _authority(text: str, default_port: str = "") -> tuple[str, str]:
    """Name and port of `name:port`; two empty texts when it is nothing of the kind."""
    match = _AUTHORITY.fullmatch(text.lower())
    return (match["name"].rstrip("."), match["port"] or default_port) if match else ("", "")


def is_loopback(name: str) -> bool:
    """Whether only this machine answers to `name`."""
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return name == "localhost"


def _with_headers(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *_HEADERS]
        await send(message)

    return guarded
