"""Text from logs is untrusted: what makes it inert on a terminal, in Markdown, in a spreadsheet and in JSON.

HTML is escaped by Jinja (`reporting.pages`).
"""

import json
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

# Letters and marks that print nothing (of Unicode's Default_Ignorable_Code_Point; the empty Braille pattern): two names
# that differ in these only look the same.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
# What `visible` escapes, for Arrow's RE2.
UNPRINTABLE = r"[^ \p{L}\p{M}\p{N}\p{P}\p{S}]|" + _INVISIBLE.pattern
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&])|(?<=:)(/)(?=/)|(?<=www)(\.)", re.IGNORECASE)
# What a spreadsheet takes for the start of a formula (OWASP, "CSV injection"), also in the full-width forms that some
# turn into it. For Python's `re` and for Arrow's RE2.
FORMULA = "^[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
_FORMULA = re.compile(FORMULA)


def visible(text: str) -> str:
    """`text` with every character that does not print (controls, overrides of direction, odd spaces, characters without
    width) as its escape, like `\\u202e`. Fits on one line."""
    if text.isprintable() and not _INVISIBLE.search(text):
        return text
    return "".join(_escaped(char) if not char.isprintable() or _INVISIBLE.match(char) else char for char in text)


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def shorten(text: str, limit: int) -> str:
    """`visible(text)` cut in the middle to at most `limit` characters, because names differ most at their ends."""
    text = visible(text)
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"


def visible_lines(text: str) -> str:
    """`visible` for a text of several lines."""
    return "\n".join(map(visible, text.split("\n")))


def markdown(text: str) -> str:
    """`text` as Markdown that shows it as it is, on one line: no link, no markup, no table, no HTML."""
    return _MARKDOWN.sub(lambda special: "\\" + special.group(), visible(text))


def spreadsheet(text: str) -> str:
    """`text` for a cell of CSV: what a spreadsheet would calculate starts with an apostrophe."""
    return f"'{text}" if _FORMULA.match(text) else text


def csv_cell(value: Any) -> Any:
    """A value for a cell of CSV that is printed: numbers as they are, text visible and never a formula, lists with
    spaces between."""
    if value is None or isinstance(value, int | float | Decimal):
        return value
    if isinstance(value, list | tuple):
        value = " ".join(map(str, value))
    return visible(spreadsheet(str(value)))


def json_text(value: Any, indent: int | None = None) -> str:
    """Valid JSON in ASCII: what is not a finite number is null, and what JSON has no form for is text."""
    return json.dumps(_json_value(value), indent=indent, default=str, allow_nan=False).replace("\x7f", "\\u007f")


def _json_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Decimal) and not value.is_finite():
        return None
    if isinstance(value, dict):
        return {str(name): _json_value(item) for name, item in value.items()}
    return [_json_value(item) for item in value] if isinstance(value, list | tuple) else value


def distinct(names: Sequence[str]) -> list[str]:
    """The names of columns; the second of two that are equal gets `_1`, as in DuckDB's data frames."""
    found: list[str] = []
    for name in names:
        number, unique = 0, name
        while unique in found:
            number += 1
            unique = f"{name}_{number}"
        found.append(unique)
    return found
