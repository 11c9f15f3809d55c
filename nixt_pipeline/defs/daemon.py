"""Dagster's daemon beside the interface of `nixt ui`: it looks for finished runs, and ends when the interface does."""

import logging
import os
import signal
import sys
import threading

from dagster import DagsterInstance
from dagster._core.workspace.load_target import ModuleTarget
from dagster._daemon.controller import daemon_controller_from_instance
from dagster._utils.interrupts import setup_interrupt_handlers

DEFINITIONS = "nixt_pipeline.definitions"
_PLAIN = logging.Formatter("%(asctime)s - %(name)s - %(levelname)s - %(message)s", "%Y-%m-%d %H:%M:%S %z")


def main() -> None:
    """Run until standard input ends, which is how a parent process, even a killed one, says that it is gone."""
    setup_interrupt_handlers()
    threading.Thread(target=_interrupt_at_the_end_of_input, daemon=True).start()
    try:
        with (
            DagsterInstance.get() as instance,
            daemon_controller_from_instance(
                instance,
                ModuleTarget(DEFINITIONS, attribute=None, working_directory=None, location_name=None),
                code_server_log_level="warning",
                log_level="warning",
            ) as controller,
        ):
            log_for_people()
            controller.check_daemon_loop()
    except KeyboardInterrupt:
        return


def log_for_people() -> None:
    """Show Dagster's log from INFO on, and without the colours that it has wherever it is written, unless on a
    terminal."""
    for name in ("dagster", "dagster-webserver"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.INFO)
        for handler in logger.handlers:
            handler.setLevel(logging.INFO)
            if not sys.stdout.isatty():
                handler.setFormatter(_PLAIN)


def _interrupt_at_the_end_of_input() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    main()
