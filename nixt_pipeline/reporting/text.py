"""Turn values into words for pages. What comes from a log is untrusted: `visible` makes it safe to look at."""

from collections import Counter
from collections.abc import Iterable

from nixt_pipeline.inert import shorten, visible
from nixt_pipeline.quantities import NOT_AVAILABLE


def numbered(names: Iterable[str], form: str) -> list[str]:
    """Names of which the second of two equal ones gets a 2 in the place that `form` has for it, and so on."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name + form.format(seen[name]) if seen[name] > 1 else name)
    return found


def unique_labels(names: Iterable[str], limit: int) -> list[str]:
    """Shortened names that stay distinct: the second of two equal ones gets ` (2)`, and so on."""
    return numbered((shorten(name, limit) for name in names), " ({})")


def iso(timestamp: str) -> str:
    """An ISO time of Python in the short form of the pages: `Z` for UTC."""
    return visible(timestamp).replace("+00:00", "Z")


def plain(value: object) -> str:
    """Any value as visible text; a dash for none."""
    return NOT_AVAILABLE if value is None else visible(str(value))


def sentence(text: str) -> str:
    """`text` with its first letter in upper case."""
    return text[:1].upper() + text[1:]
