"""The single records of a launch: of a whole job they would be as large as its log, so that they are asked for only
where something stopped."""

from collections.abc import Collection
from dataclasses import dataclass

from nixt_pipeline.diagnosis.evidence.moments import Reached, read_reached
from nixt_pipeline.diagnosis.evidence.operations import Log, read_logs
from nixt_pipeline.diagnosis.evidence.pauses import Done, read_done, read_pauses
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.diagnosis.evidence.span import Span
from nixt_pipeline.diagnosis.evidence.tables import RunTables


@dataclass(frozen=True)
class History:
    """What one launch did, and when. Communicators are the hashes of their identities."""

    _run: RunTables
    _incarnation: int

    def logs(self, process: Process, communicators: Collection[int], most_operations: int) -> dict[int, Log]:
        """What one process completed in order; see `operations.read_logs`."""
        return read_logs(self._run, self._incarnation, process, communicators, most_operations)

    def reached(
        self, series: Collection[tuple[int, str]], within: Span, earliest_us: int, moments: int
    ) -> list[Reached]:
        """How far everybody had got at earlier moments; see `moments.read_reached`."""
        return read_reached(self._run, self._incarnation, series, within, earliest_us, moments)

    def pauses(self, communicators: Collection[int], within: Span, least_us: int, most: int) -> list[Span]:
        """The longest pauses; see `pauses.read_pauses`."""
        return read_pauses(self._run, communicators, within, least_us, most)

    def done(self, communicators: Collection[int], since_us: int) -> list[Done]:
        """What was done before and after a moment; see `pauses.read_done`."""
        return read_done(self._run, communicators, since_us)
