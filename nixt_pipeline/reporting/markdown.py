"""A report in a page of Markdown, for a ticket or a chat: the verdict, the findings and the key numbers."""

import re
from collections.abc import Iterable, Sequence

from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.diagnosis import cards, verdict_sentence
from nixt_pipeline.reporting.summary import key_facts, meters, tiles
from nixt_pipeline.reporting.text import visible

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def report_markdown(content: RunContent) -> str:
    """The first screen of the report as Markdown; text from logs is escaped."""
    lines = [f"# {_text(content.manifest.run)}", "", _text(verdict_sentence(content.diagnosis)), ""]
    for card in cards(content):
        lines += [f"## {_text(card.urgency)}: {_text(card.title)}", ""]
        lines += [*_items((fact.label, fact.value) for fact in card.facts), ""]
    lines += ["## Coverage", "", *_items((meter.label, meter.value) for meter in meters(content)), ""]
    lines += ["## The run", "", *_items((fact.label, fact.value) for fact in key_facts(content)), ""]
    lines += ["## Key numbers", ""]
    lines += [
        f"- **{_text(tile.value)}** {_text(tile.label)}: {_text(tile.detail)}".rstrip(": ") for tile in tiles(content)
    ]
    return "\n".join(lines) + "\n"


def _items(pairs: Iterable[tuple[str, str]]) -> Sequence[str]:
    return [f"- **{_text(label)}**: {_text(value)}" for label, value in pairs]


def _text(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", visible(text))
