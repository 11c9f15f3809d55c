"""`nixt ui` as it is started, with Dagster's real web server: what another page can do, and what the own pages can."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from nixt_pipeline.cli import main

CHROMIUM = shutil.which("chromium")
SELECTOR = (
    'repositoryName:"__repository__",repositoryLocationName:"nixt_pipeline.definitions",sensorName:"finished_runs"'
)
SENSOR = f"sensorOrError(sensorSelector:{{{SELECTOR}}}){{...on Sensor{{sensorState{{id selectorId status}}}}}}"


@dataclass
class Ui:
    """A running `nixt ui`."""

    port: int
    log: Path

    def ask(self, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, str]:
        """Status and body of an answer; `host="..."` replaces the header."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def query(self, document: str) -> Any:
        """The data that a GraphQL document of a program returns."""
        status, text = self.ask("POST", "/graphql", json.dumps({"query": document}), content_type="application/json")
        assert status == 200, text
        return json.loads(text)["data"]

    def sensor(self) -> dict[str, str]:
        """The state of the sensor."""
        state: dict[str, str] = self.query("{" + SENSOR + "}")["sensorOrError"]["sensorState"]
        return state


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    directory = tmp_path_factory.mktemp("ui")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        name: str(directory / name) for name in ("NIXT_DATA_DIR", "NIXT_REPORTS_DIR", "NIXT_LANDING_DIR")
    }
    environment.pop("DAGSTER_HOME", None)
    log = directory / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "nixt_pipeline.cli", "ui", "--port", str(port)],
            stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=directory,
        )  # fmt: skip
    _wait_for(port, process)
    yield Ui(port, log)
    process.send_signal(signal.SIGTERM)
    assert process.wait(90) == 0


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Until the port is open: from then on, requests wait for their answer."""
    pause = threading.Event()
    while process.poll() is None:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        pause.wait(0.1)
    raise AssertionError(f"nixt ui ended with {process.returncode}")


@pytest.mark.slow
def test_another_page_can_not_change_or_read_anything(ui: Ui) -> None:
    state = ui.sensor()
    stop = f'mutation{{stopSensor(id:"{state["id"]}"){{__typename}}}}'
    body = json.dumps({"query": stop})
    assert ui.ask("GET", f"/graphql?query={quote(stop)}")[0] == 405
    assert ui.ask("POST", f"/graphql?query={quote(stop)}", "", content_type="text/plain")[0] == 415
    assert ui.ask("POST", "/graphql", body, content_type="text/plain; application/json")[0] == 415
    for origin in ("http://evil.example", f"http://localhost:{ui.port}", "null"):
        assert ui.ask("POST", "/graphql", body, content_type="application/json", origin=origin)[0] == 403
    assert ui.ask("POST", "/graphql", body, content_type="application/json", host="evil.example")[0] == 421
    assert ui.ask("GET", "/", host=f"evil.example:{ui.port}")[0] == 421
    assert ui.sensor() == state
    assert state["status"] == "RUNNING"


@pytest.mark.slow
def test_a_query_by_get_and_a_page_are_served(ui: Ui) -> None:
    assert ui.ask("GET", "/graphql?query=%7B__typename%7D") == (200, '{"data":{"__typename":"Query"}}')
    assert ui.ask("GET", "/assets")[0] == 200


@pytest.mark.slow
def test_a_websocket_opens_for_the_own_pages_only(ui: Ui) -> None:
    client = pytest.importorskip("websockets.sync.client")
    address = f"ws://127.0.0.1:{ui.port}/graphql"
    with client.connect(address, origin=f"http://127.0.0.1:{ui.port}", subprotocols=["graphql-ws"]) as connection:
        connection.send('{"type": "connection_init"}')
        assert json.loads(connection.recv())["type"] == "connection_ack"
    refused = pytest.importorskip("websockets.exceptions").InvalidStatus
    with pytest.raises(refused, match="HTTP 403"):
        client.connect(address, origin="http://evil.example", subprotocols=["graphql-ws"])


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
def test_in_a_browser_the_ui_can_switch_the_sensor_and_another_page_can_not(ui: Ui) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    stop = quote(f'mutation{{stopSensor(id:"{ui.sensor()["id"]}"){{__typename}}}}')
    with playwright.sync_playwright() as started, _ForeignPage(ui.port, stop) as foreign:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page()
        answers: list[int] = []
        tab.on("response", lambda answer: answers.append(answer.status) if "graphql" in answer.url else None)
        tab.goto(foreign, wait_until="networkidle")
        assert answers and set(answers) <= {403, 405, 415}
        assert ui.sensor()["status"] == "RUNNING"

        tab.goto(f"http://127.0.0.1:{ui.port}/automation")
        row = tab.locator("a[href$='/sensors/finished_runs']").first.locator("xpath=ancestor::*[.//input][1]/..")
        with tab.expect_response(lambda answer: "stopsensor" in (answer.request.post_data or "").lower()):
            row.locator("label[class*=formatSwitch]").first.click(timeout=60_000)
        assert ui.sensor()["status"] == "STOPPED"
        tab.goto(f"http://127.0.0.1:{ui.port}/assets")
        tab.get_by_text("event_store").first.wait_for(timeout=60_000)
        browser.close()


@pytest.mark.slow
def test_in_a_file_the_log_has_no_colours_and_no_line_for_each_event(ui: Ui) -> None:
    ui.query("{__typename}")
    text = ui.log.read_text(encoding="utf-8")
    assert "\x1b" not in text
    assert "DEBUG" not in text
    assert "SupersessionWarning" not in text


class _ForeignPage:
    """The address of a page on another port of this machine that tries to stop the sensor by image, form and script."""

    def __init__(self, port: int, mutation: str) -> None:
        target = f"http://127.0.0.1:{port}/graphql?query={mutation}"
        page = f"""<img src="{target}"><iframe name="f"></iframe>
        <form method="post" action="{target}" enctype="text/plain" target="f"><input name="a"></form>
        <script>document.forms[0].submit();
        fetch("{target}", {{method: "POST", mode: "no-cors", body: "{{}}"}});</script>"""

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.end_headers()
                self.wfile.write(page.encode())

            def log_message(self, *_: object) -> None:
                """Quietly."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://localhost:{self._server.server_address[1]}/"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_a_port_that_is_taken_ends_the_command_before_anything_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(main, ["ui", "--port", str(port)])
    assert result.exit_code == 2
    assert f"another program listens on port {port} of 127.0.0.1" in result.stderr
    assert not (tmp_path / "data" / "dagster").exists()


@pytest.mark.parametrize(("arguments", "warned"), [([], True), (["--read-only"], False)])
def test_listening_for_other_machines_is_warned_of(
    arguments: list[str], warned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[tuple[object, ...]] = []
    monkeypatch.setattr("nixt_pipeline.defs.home.listen", lambda host, port: [])
    monkeypatch.setattr("nixt_pipeline.defs.home.serve", lambda *given: served.append(given))
    result = CliRunner().invoke(main, ["ui", "--host", "0.0.0.0", *arguments])
    assert ("reverse proxy" in result.stderr) is warned
    assert served[0][2:] == ("0.0.0.0", not warned)
