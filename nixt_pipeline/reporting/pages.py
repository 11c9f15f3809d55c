"""Jinja2 for pages that quote untrusted text: all of it is escaped, nothing is fetched, one known script may run."""

import base64
import hashlib
import json
from functools import cache
from textwrap import dedent
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from nixt_pipeline.inert import visible
from nixt_pipeline.reporting.palette import COLL_TYPE_COLOURS


def render(template: str, **context: Any) -> str:
    """Render a page. Text is escaped and made visible; only figures and the tables' script are inserted as they are."""
    environment = _environment()
    script = environment.loader.get_source(environment, "tables.js")[0] if environment.loader else ""
    # The hash in the content security policy lets exactly this script run: markup smuggled into a page could not.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template(template).render(
        script=Markup(script), script_hash=digest, colours=COLL_TYPE_COLOURS, **context
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("nixt_pipeline.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["svg"] = Markup
    environment.filters["code"] = _code
    environment.filters["lines"] = _lines
    environment.filters["data"] = _data
    return environment


def _code(text: str) -> Markup:
    """Escape `text` and set what stands between backticks as code."""
    parts = [escape(visible(part)) for part in text.split("`")]
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if odd % 2 else part for odd, part in enumerate(parts)
    )


def _lines(text: str) -> Markup:
    """Escape a text of several lines, without the indentation that all of them share."""
    return Markup("\n").join(escape(visible(line)) for line in dedent(text).strip().splitlines())


def _data(value: Any) -> Markup:
    """JSON inside a script element, which no text in it can end."""
    return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))


def _finalize(value: Any) -> Any:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
