"""What the guard serves and refuses; the expected answers follow from who can send such a request."""

import asyncio
from typing import Any

import pytest

from nixt_pipeline.defs.guard import Guard, Message, Receive, Scope, Send, only_reads, reached_as

JSON = {"content-type": "application/json"}
OWN = "http://127.0.0.1:3000"


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("not called here")


def _status(method: str = "GET", path: str = "/", query: str = "", kind: str = "http", **headers: str) -> int:
    """What a guard of 127.0.0.1:3000, also reached as nixt.example.org, answers; 200 when
    it lets the request pass."""
    sent = {"host": "127.0.0.1:3000"} | {name.replace("_", "-"): value for name, value in headers.items()}
    scope: dict[str, Any] = {
        "type": kind,
        "scheme": "http" if kind == "http" else "ws",
        "path": path,
        "query_string": query.encode(),
        "server": ("127.0.0.1", 3000),
        "headers": [(name.encode(), value.encode()) for name, value in sent.items() if value],
    }
    if kind == "http":
        scope["method"] = method
    listed = ["nixt.example.org", "proxy.example.org:8443"]
    guard = Guard(_app, reached_as("127.0.0.1", listed), listed)
    refusal = guard.refusal(scope)
    return refusal.status if refusal else 200


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:3000", "localhost:3000", "LOCALHOST", "localhost.:3000", "[::1]:3000", "127.8.8.8", "nixt.example.org",
     "nixt.example.org:443", "nixt.example.org:3000", "proxy.example.org:8443", "proxy.example.org", "localhost:8080",
     "127.0.0.1:3001"],
)  # fmt: skip
def test_names_of_this_server_are_served_at_any_port_because_a_tunnel_has_its_own(host: str) -> None:
    assert _status(host=host) == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:3000", "127.0.0.1.evil.example", "localhost.evil.example:3000", "10.0.0.1:3000", "",
     "localhost@evil.example", "localhost/evil", "[::1].evil", "0x7f000001", "localhost:3000, evil.example", "[::2]"],
)  # fmt: skip
def test_other_names_are_refused_also_for_a_page_and_a_websocket(host: str) -> None:
    assert _status(host=host) == 421
    assert _status(host=host, kind="websocket", path="/graphql") == 421


def test_who_listens_on_all_addresses_is_reached_at_the_address_of_the_connection_and_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "login01")
    monkeypatch.setattr("socket.getfqdn", lambda: "login01.cluster")
    guard = Guard(_app, reached_as("0.0.0.0", []))

    def refused(host: str) -> bool:
        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "server": ("10.0.0.7", 3000)}
        return guard.refusal(scope | {"headers": [(b"host", host.encode())]}) is not None

    assert not any(map(refused, ["login01:3000", "login01.cluster", "10.0.0.7:3000", "localhost:3000"]))
    assert all(map(refused, ["0.0.0.0:3000", "10.0.0.8:3000", "evil.example"]))


@pytest.mark.parametrize(
    ("origin", "host", "status"),
    [
        (OWN, "127.0.0.1:3000", 200),
        ("http://localhost:8080", "localhost:8080", 200),  # a tunnel of ssh has a port of its own
        ("https://nixt.example.org", "nixt.example.org", 200),  # TLS ends at the proxy
        ("https://proxy.example.org:8443", "proxy.example.org", 200),  # nginx's $host has no port
        ("https://proxy.example.org:8443", "proxy.example.org:8443", 200),
        ("https://proxy.example.org", "proxy.example.org", 403),
        ("https://127.0.0.1:3000", "127.0.0.1:3000", 403),  # this server speaks http
        ("https://nixt.example.org", "127.0.0.1:3000", 200),  # the proxy sets Host
        ("http://localhost:38999", "localhost:3000", 403),  # another program of this machine
        ("http://127.0.0.1", "127.0.0.1:3000", 403),
        ("https://127.0.0.1:3000.evil.example", "127.0.0.1:3000", 403),
        ("http://nixt.example.org:8080", "127.0.0.1:3000", 403),
        ("http://evil.example", "127.0.0.1:3000", 403),
        ("file://", "127.0.0.1:3000", 403),
        ("null", "127.0.0.1:3000", 403),
    ],
)
def test_changes_and_websockets_come_from_the_ui_s_own_pages(origin: str, host: str, status: int) -> None:
    assert _status("POST", "/graphql", origin=origin, host=host, **JSON) == status
    assert _status(kind="websocket", path="/graphql", origin=origin, host=host) == status


def test_a_program_that_is_no_browser_sends_no_origin_and_is_served() -> None:
    assert _status("POST", "/graphql", **JSON) == 200
    assert _status(kind="websocket", path="/graphql") == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_another_page_loads_is_refused_and_a_link_that_is_followed_is_served(site: str) -> None:
    assert _status("POST", "/graphql", sec_fetch_site=site, **JSON) == 403
    assert _status(sec_fetch_site=site, sec_fetch_mode="no-cors", sec_fetch_dest="image") == 403
    assert _status(sec_fetch_site=site, sec_fetch_mode="navigate", sec_fetch_dest="iframe") == 403
    assert _status("POST", sec_fetch_site=site, sec_fetch_mode="navigate", sec_fetch_dest="document", **JSON) == 403
    assert _status(sec_fetch_site=site, sec_fetch_mode="navigate", sec_fetch_dest="document") == 200


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/graphql",
     "text/plain; application/json", "text/plain;charset=application/json", ""],
)  # fmt: skip
def test_a_body_that_a_form_could_send_is_refused(content_type: str) -> None:
    assert _status("POST", "/graphql", content_type=content_type) == 415
    assert _status("POST", "/report_asset_materialization/findings", content_type=content_type) == 415


def test_json_is_accepted_with_its_encoding() -> None:
    assert _status("POST", "/graphql", content_type="Application/JSON; charset=utf-8") == 200


@pytest.mark.parametrize("path", ["/graphql", "/graphql/", "/graphql\n", "/prefix/graphql"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_mutation_by_get_is_refused(path: str, method: str) -> None:
    assert _status(method, path, "query=mutation%7Bstop%7D") == 405
    # Which of two a server reads is its own affair.
    assert _status(method, path, "query=%7Ba%7D&query=mutation+%7Bb%7D") == 405
    assert _status(method, path, "query=mutation+%7Bb%7D&query=%7Ba%7D&operationName=x") == 405
    assert _status(method, path, "query=%7Bmutation%7D") == 200
    assert _status(method, path, "variables=mutation") == 200


@pytest.mark.parametrize(
    ("document", "reads"),
    [
        ("{mutation}", True),
        ("query mutation { a }", True),
        ('{ a(text: "mutation { b }") } # mutation { b }', True),
        ("query a { ...f } fragment f on Query { mutation }", True),
        ("mutation { a }", False),
        ("mutation{x:a y:a}", False),
        ("#query\nmutation Q { a }", False),
        ("\ufeff,,, mutation { a }", False),
        ("query a { b } mutation c { d }", False),
        ("fragment f on Mutation { a } mutation { ...f }", False),
        ("subscription { a }", False),
        ("mutation { a", False),
        ("", False),
        ("{" * 5000, False),
    ],
)
def test_only_documents_of_queries_read(document: str, reads: bool) -> None:
    assert only_reads(document) is reads


@pytest.mark.parametrize("twice", [b"host", b"Host", b"origin"])
@pytest.mark.parametrize("value", [OWN.encode(), b"evil.example"])
def test_a_header_that_is_sent_twice_is_refused(twice: bytes, value: bytes) -> None:
    headers = [(b"host", b"127.0.0.1:3000"), (b"origin", OWN.encode()), (twice, value)]
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "server": None, "headers": headers}
    refusal = Guard(_app, frozenset()).refusal(scope)
    assert refusal is not None and refusal.status == 400


def test_a_page_can_not_be_shown_in_a_frame_of_another_site() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-security-policy", b"a")]})

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("nothing to read")

    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "server": None, "headers": headers}
    asyncio.run(Guard(app, frozenset())(scope, receive, send))
    assert sent[0]["headers"][0] == (b"content-security-policy", b"a")
    assert (b"content-security-policy", b"frame-ancestors 'self'") in sent[0]["headers"]
    assert (b"x-frame-options", b"SAMEORIGIN") in sent[0]["headers"]
