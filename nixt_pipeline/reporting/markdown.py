"""A report in a page of Markdown, for a ticket or a chat: the verdict, the findings and the key numbers."""

from collections.abc import Iterable, Sequence

from nixt_pipeline.diagnosis.wording.text import verdict_sentence
from nixt_pipeline.inert import markdown
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.sections.findings import cards
from nixt_pipeline.reporting.summary import key_facts, meters, tiles


def report_markdown(content: RunContent) -> str:
    """The first screen of the report as Markdown; text from logs is escaped."""
    lines = [f"# {markdown(content.manifest.run)}", "", markdown(verdict_sentence(content.diagnosis)), ""]
    for card in cards(content):
        lines += [f"## {markdown(card.urgency)}: {markdown(card.title)}", ""]
        lines += [*_items((fact.label, fact.value) for fact in card.facts), ""]
    lines += ["## Coverage", "", *_items((meter.label, meter.value) for meter in meters(content)), ""]
    lines += ["## The run", "", *_items((fact.label, fact.value) for fact in key_facts(content)), ""]
    lines += ["## Key numbers", ""]
    for tile in tiles(content):
        words = f"- **{markdown(tile.value)}** {markdown(tile.label)}: {markdown(tile.detail)}"
        lines.append(words.rstrip(": "))
    return "\n".join(lines) + "\n"


def _items(pairs: Iterable[tuple[str, str]]) -> Sequence[str]:
    return [f"- **{markdown(label)}**: {markdown(value)}" for label, value in pairs]
