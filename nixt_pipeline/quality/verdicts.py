"""What a data-quality rule is, and what comes out when it is applied to a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

# A cell of the table that a verdict shows.
Cell = str | int | float | bool | None
Row = Mapping[str, Cell]
# Rows of that table.
SHOWN = 12


@dataclass(frozen=True)
class Rule:
    """One thing that should hold for a run's data.

    `name` reads as a sentence with underscores for spaces, because that is what the list of checks shows. `meaning`
    says what a violation does to the results. A `blocking` rule stops the run: whatever is computed after its
    violation would be wrong. An `error` is shown as one, in red, and so is the violation of a blocking rule; any other
    is a warning.
    """

    name: str
    meaning: str
    blocking: bool = False
    error: bool = False

    def verdict(self, passed: bool, summary: str, rows: Sequence[Row] = (), /, **facts: Cell) -> "Verdict":
        """Its outcome, of which the first dozen `rows` are shown."""
        return Verdict(self.name, passed, summary, facts, tuple(rows[:SHOWN]))

    def unless(self, violations: Sequence[Row], summary: str, /, **facts: Cell) -> "Verdict":
        """Its outcome where each row of `violations` is a violation."""
        return self.verdict(not violations, summary, violations, **facts)


@dataclass(frozen=True)
class Verdict:
    """The outcome of a rule: a sentence with the numbers it rests on, the numbers, and rows that show them."""

    rule: str
    passed: bool
    summary: str
    facts: dict[str, Cell] = field(default_factory=dict)
    rows: tuple[Row, ...] = ()
