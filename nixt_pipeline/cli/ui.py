"""`nixt ui`: Dagster's web interface and its sensor."""

import click

from nixt_pipeline.cli.output import input_errors, say
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.files import explained


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=3000, show_default=True, type=click.IntRange(1, 65535))
@click.option("--read-only", is_flag=True, help="Show everything, and let nobody start, stop or remove anything.")
@click.pass_obj
def ui(settings: Settings, host: str, port: int, read_only: bool) -> None:
    """Start Dagster's web interface, and with it the sensor that picks up finished jobs from the landing directory.

    It asks for no login. Only this machine reaches it, unless --host says otherwise.
    """
    from nixt_pipeline.defs.guard import is_loopback
    from nixt_pipeline.defs.home import listen, serve

    with input_errors():
        with explained(settings.landing_dir):
            settings.landing_dir.mkdir(parents=True, exist_ok=True)
        sockets = listen(host, port)
        if not is_loopback(host) and not read_only:
            say(
                f"Warning: everybody who reaches {host}:{port} can start, stop and remove runs. Put a reverse proxy"
                " with login and TLS before it (docs/operations.md), or add --read-only."
            )
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        say(f"{address}  (drop dump directories into {settings.landing_dir}; Ctrl-C stops)")
        serve(settings, sockets, host, read_only)
