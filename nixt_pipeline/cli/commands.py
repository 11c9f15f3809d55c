"""The group of all commands: each is imported when it is used, and every way in which it can end has an exit code."""

import os
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click

from nixt_pipeline.cli.output import say
from nixt_pipeline.errors import EXIT_BROKEN_PIPE, EXIT_DEFECT, EXIT_INTERRUPTED
from nixt_pipeline.inert import visible_lines


class Lazy(NamedTuple):
    """A command that is not imported yet: the module of `nixt_pipeline.cli` that has it under its name, and what it
    does, for the list of commands."""

    module: str
    does: str


class Commands(click.Group):
    """A group of commands whose exit codes keep apart what the user can fix, what was interrupted, and defects."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy], **options: Any) -> None:
        super().__init__(*args, **options)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click asks with it)
        """The names of all commands."""
        return sorted(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of that name, which is imported; None if there is none."""
        if cmd_name not in self._lazy:
            return None
        module = import_module(f"nixt_pipeline.cli.{self._lazy[cmd_name].module}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what all commands do, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._lazy[name].does) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. An unexpected error is a bug in nixt: the command ends with a traceback to report, and never
        with the exit code that means findings."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except click.exceptions.Exit:
            raise
        except click.ClickException as error:
            # Click's own messages quote arguments, which may be names that a shell found with a pattern.
            vars(error)["message"] = visible_lines(error.message)
            raise
        except (KeyboardInterrupt, click.Abort):
            say("Interrupted. Completed work is kept; run the command again to continue.")
            ctx.exit(EXIT_INTERRUPTED)
        except BrokenPipeError:
            # The reader has seen enough (head). Python would complain again when it flushes at exit.
            sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
            ctx.exit(EXIT_BROKEN_PIPE)
        except Exception as error:
            say(traceback.format_exc())
            say(
                f"This is a bug in nixt_pipeline, not in your input: {type(error).__name__}. Please report it with the"
                " lines above."
            )
            ctx.exit(EXIT_DEFECT)
