"""Clocks that disagree, in words."""

from nixt_pipeline.diagnosis.detectors.clocks import ClockSet, ClockSkew, HostClock
from nixt_pipeline.diagnosis.evidence.block_times import ClockStep
from nixt_pipeline.diagnosis.evidence.observations import Observations
from nixt_pipeline.diagnosis.findings import Finding

# Hosts in a sentence.
_SHOWN = 8


def clock_finding(seen: Observations, suspect: ClockSkew | ClockSet) -> Finding:
    """The finding of one suspect."""
    return _finding(suspect.clocks, seen) if isinstance(suspect, ClockSkew) else _set_finding(suspect.step, seen)


def _finding(off: dict[str, HostClock], seen: Observations) -> Finding:
    hosts = tuple(off)
    shown = ", ".join(_in_words(host, clock) for host, clock in list(off.items())[:_SHOWN])
    return Finding(
        kind="clock-skew",
        severity="info",
        level="host",
        hosts=hosts,
        # Of hosts that only ever meet in pairs, either clock may be the wrong one.
        ambiguous=len(hosts) > 1,
        evidence=f"Collectives that hosts finished together have different write times: {shown} from the others.",
        counter_evidence=(
            "Known only to within the scatter of the dump times. No finding depends on it: nothing among the"
            f" {len(seen.hosts)} hosts is ordered by their clocks."
        ),
        next_step="Check time synchronisation (chrony or NTP) on these hosts before joining their logs by time.",
    )


def _set_finding(step: ClockStep, seen: Observations) -> Finding:
    everywhere = len(step.hosts) == len(seen.hosts)
    who = f"The clock of {step.hosts[0]} was" if len(step.hosts) == 1 else "The clocks of all hosts were"
    way = "ahead" if step.step_us > 0 else "back"
    return Finding(
        kind="clock-skew",
        severity="info",
        level="run" if everywhere and len(step.hosts) > 1 else "host",
        hosts=step.hosts,
        onset_us=seen.block_end_us[step.block - 1] if step.block else None,
        evidence=f"{who} set {way} by {abs(step.step_us) / 1e6:,.4g} s while the job ran.",
        counter_evidence=(
            "A pause of the whole job of the same length would look the same."
            if everywhere and step.step_us > 0
            else "Known only to within the dump times. No finding depends on it: time blocks are measured without it."
        ),
        next_step="Let chrony or NTP slew clocks instead of stepping them; correct for it when joining logs by time.",
    )


def _in_words(host: str, clock: HostClock) -> str:
    drift = f", drifting by {clock.drift_ppm:+.3g} ppm" if clock.drift_ppm is not None else ""
    scatter = f"{clock.uncertainty_us / 1e3:.2g} ms" if clock.uncertainty_us >= 1_000 else "less than 1 ms"
    return f"{host} by {clock.offset_us / 1e6:+.3g} s (± {scatter}{drift})"
