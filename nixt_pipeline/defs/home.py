"""Where Dagster keeps its history, and how its UI is started without knowing Dagster: `nixt ui`.

For Dagster's own commands, `export DAGSTER_HOME=$(python -m nixt_pipeline.defs.home)` prepares the same instance.
"""

import errno
import os
import socket
from importlib import resources
from pathlib import Path

from nixt_pipeline.settings import Settings, load_settings
from nixt_pipeline.store.files import write_text

# What a home gets that has no configuration.
INSTANCE_CONFIG = resources.files(__package__).joinpath("dagster.yaml").read_text(encoding="utf-8")
# The daemon gives up on a sensor after this long, with an error that names no timeout. The default of 60 s is short for
# a landing directory on a slow file system.
_SENSOR_TIMEOUT_S = 300


def prepare_home(settings: Settings) -> Path:
    """Make sure that Dagster's home exists and has a configuration, and return it: where DAGSTER_HOME says, otherwise
    below the data directory. A configuration that is there is kept. Raises `StorageError`."""
    set_already = os.environ.get("DAGSTER_HOME")
    home = (Path(set_already).expanduser() if set_already else settings.data_dir / "dagster").resolve()
    config = home / "dagster.yaml"
    if not config.exists():
        write_text(INSTANCE_CONFIG, config)
    return home


def ui_environment(settings: Settings) -> dict[str, str]:
    """The environment for Dagster's processes; a DAGSTER_HOME that is set already wins. Telemetry is never sent,
    whatever the configuration there says."""
    return {
        "DAGSTER_SENSOR_GRPC_TIMEOUT_SECONDS": str(_SENSOR_TIMEOUT_S),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        **os.environ,
        "DAGSTER_HOME": str(prepare_home(settings)),
    }


class PortTakenError(OSError):
    """Another program listens on the port; the message names it and says what to do."""


def listen(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen on every address of `host`. Raises `PortTakenError`, or another `OSError` that says why."""
    sockets: list[socket.socket] = []
    failed = OSError(f"{host} has no address")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in found:
            try:
                sockets.append(socket.create_server(address[:2], family=family))
            except OSError as error:
                # `localhost` is ::1 as well, also where there is no IPv6.
                if error.errno != errno.EADDRNOTAVAIL:
                    raise
                failed = error
        if not sockets:
            raise failed
    except OSError as error:
        for opened in sockets:
            opened.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTakenError(
                f"another program listens on port {port} of {host}; stop it, or choose another port with --port"
            ) from error
        raise OSError(f"cannot listen on port {port} of {host}: {error.strerror or error}") from error
    return sockets


def serve(settings: Settings, sockets: list[socket.socket], host: str, read_only: bool = False) -> None:
    """The UI on `sockets`, which `listen(host, ...)` opened, and the daemon that looks for finished runs, until a
    signal ends both. Raises `RuntimeError` when the daemon ends by itself."""
    os.environ.update(ui_environment(settings))
    # Dagster reads its environment when it is imported.
    from nixt_pipeline.defs.webserver import serve_guarded

    serve_guarded(sockets, host, settings.ui_hosts, read_only)


if __name__ == "__main__":
    print(prepare_home(load_settings()))
