"""`nixt ui`: Dagster's web interface and its sensor."""

import click

from nixt_pipeline.cli.output import input_errors, say
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.files import explained


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=3000, show_default=True, type=click.IntRange(1, 65535))
@click.option("--read-only", is_flag=True, help="Disable starting, stopping and removing anything.")
@click.pass_obj
def ui(settings: Settings, host: str, port: int, read_only: bool) -> None:
    """Start Dagster's web interface.

    Its sensor processes finished jobs from the landing directory. It has no login. By default it listens on this
    machine only; see --host.
    """
    from nixt_pipeline.defs.guard import is_loopback
    from nixt_pipeline.defs.home import listen, serve

    with input_errors():
        with explained(settings.landing_dir):
            settings.landing_dir.mkdir(parents=True, exist_ok=True)
        sockets = listen(host, port)
        if not is_loopback(host) and not read_only:
            say(
                f"Warning: anyone who can reach {host}:{port} can start, stop and remove runs. Put a reverse proxy"
                " with login and TLS in front of it (docs/operations.md), or add --read-only."
            )
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        say(f"{address}  (dump directories go into {settings.landing_dir}; Ctrl-C stops)")
        serve(settings, sockets, host, read_only)
