"""A launch cut into blocks of equal progress: the temporary tables from which it is observed."""

from itertools import starmap

from nixt_pipeline.diagnosis.evidence import queries
from nixt_pipeline.diagnosis.evidence.era import Era, restrict
from nixt_pipeline.diagnosis.evidence.overlap import measure_overlap
from nixt_pipeline.diagnosis.evidence.tables import LaunchTables, LookedAt, RunTables

# Incomplete collectives that are used in each block of a communicator: more add little, but take memory.
_MOST_PARTIAL = 24
# Parts of a step that are distinguished when records are missing.
_MOST_PLACES = 8
# Fewer collectives than this do not show where a step ends: a communicator of the start-up is not the job's pulse.
_PULSE = 20
_MIN_BLOCKS, _MAX_BLOCKS = 4, 40


def cut_into_blocks(run: RunTables, incarnation: int, era: Era | None = None) -> LaunchTables:
    """The tables of one launch's usable collectives, or of one era of it, cut into blocks."""
    con, launch = run.con, {"incarnation": incarnation}
    restrict(run, era)
    con.execute(queries.COMMUNICATORS, launch)
    con.execute(queries.PROCESSES, launch)
    con.execute(queries.MEMBERS, launch)
    con.execute(queries.USABLE_CELLS)
    con.execute(queries.SERIES, {"least": _PULSE, "most_places": _MOST_PLACES})
    [(pulse,)] = con.sql("SELECT max(pulse) FROM usable_series").fetchall()
    [(recorded,)] = con.sql(queries.RECORDED_SHARE).fetchall()
    blocks = _number_of_blocks(int(pulse or 0), recorded)
    con.execute(queries.BLOCKS, {"blocks": blocks, "most": _MOST_PARTIAL})
    con.execute(queries.BLOCKED_CELLS, {"blocks": blocks})
    measure_overlap(con)
    looked_at = con.sql(queries.LOOKED_AT, params=launch).fetchall()
    con.execute("DROP TABLE usable_cells")
    return LaunchTables(run, incarnation, blocks, tuple(starmap(LookedAt, looked_at)))


def _number_of_blocks(pulse: int, recorded: float) -> int:
    """Blocks for a job whose rarest regular collective came `pulse` times: whole steps, where that is possible.

    When only a share of the records is there (`recorded`), a block is as much longer.
    """
    wanted = max(_MIN_BLOCKS, round(_MAX_BLOCKS * min(1.0, recorded)))
    pulses_per_block = max(1, -(-pulse // wanted), round(1 / max(recorded, 0.01)))
    return min(max(pulse // pulses_per_block, _MIN_BLOCKS), wanted)
