"""Dagster's web interface behind `Guard`, in this process, with the daemon beside it."""

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress

import uvicorn
from dagster import DagsterInstance, __version__
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget
from dagster._utils.log import configure_loggers
from dagster_webserver.app import create_app_from_workspace_process_context

from nixt_pipeline.defs.daemon import DEFINITIONS, log_for_people
from nixt_pipeline.defs.guard import Guard, reached_as

# A page that is open holds a websocket, which would keep the server from ending.
_SECONDS_FOR_OPEN_PAGES = 5
_SECONDS_FOR_DAEMON = 60
# The defaults of `dagster-webserver`: milliseconds for a statement, seconds and connections of a pool.
_DATABASE = (15_000, 3_600, 20)


class DaemonEndedError(RuntimeError):
    """Dagster's daemon ended by itself, so that nothing would look for finished runs any more."""


def serve_guarded(
    sockets: Sequence[socket.socket], host: str, ui_hosts: Collection[str] = (), read_only: bool = False
) -> None:
    """Serve until SIGINT or SIGTERM. `sockets` listen already; `host` is the name that they were opened for.

    Raises `DaemonEndedError` when the daemon ends first.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # The instance comes first: two processes that create Dagster's databases at once leave them unusable.
    with suppress(KeyboardInterrupt), DagsterInstance.get() as instance, _daemon() as daemon:
        instance.optimize_for_webserver(*_DATABASE)
        configure_loggers()
        log_for_people()
        target = ModuleTarget(DEFINITIONS, attribute=None, working_directory=None, location_name=None)
        with WorkspaceProcessContext(
            instance, target, version=__version__, read_only=read_only, code_server_log_level="WARNING"
        ) as context:
            app = Guard(create_app_from_workspace_process_context(context), reached_as(host, ui_hosts), ui_hosts)
            server = uvicorn.Server(
                uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=_SECONDS_FOR_OPEN_PAGES)
            )
            _end_with(daemon, server)
            server.run(sockets=list(sockets))
        if daemon.poll() is not None:
            raise DaemonEndedError(f"Dagster's daemon ended with code {daemon.returncode}; its log is above")


@contextmanager
def _daemon() -> Iterator["subprocess.Popen[bytes]"]:
    """The daemon's process, which ends when its input is closed, even if this process is killed."""
    with subprocess.Popen([sys.executable, "-m", "nixt_pipeline.defs.daemon"], stdin=subprocess.PIPE) as daemon:
        try:
            yield daemon
        finally:
            if daemon.stdin:
                daemon.stdin.close()
            try:
                daemon.wait(_SECONDS_FOR_DAEMON)
            except subprocess.TimeoutExpired:
                daemon.kill()


def _end_with(daemon: "subprocess.Popen[bytes]", server: uvicorn.Server) -> None:
    def wait() -> None:
        daemon.wait()
        server.should_exit = True

    threading.Thread(target=wait, daemon=True).start()
