"""The sensor `finished_runs`: finds finished training jobs in the landing directory and requests their ingestion.

It is the one owner of what gets ingested. A run is requested once per content: the run key is `<run>@<fingerprint>`,
and Dagster never launches the same key twice. Because that holds even when the launched run fails, further attempts
get a key of their own.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import dagster as dg

from nixt_pipeline.defs.jobs import ingest_run
from nixt_pipeline.defs.lost_runs import end_lost_runs
from nixt_pipeline.defs.partitions import runs
from nixt_pipeline.inspector.runs import NOT_REACHED, Finished, LandingError, RunDirectory, find_runs, is_finished
from nixt_pipeline.settings import Settings, SettingsError, load_settings
from nixt_pipeline.store.first_record import why_no_record, without_emptied

RUN_TAG = "nixt/run"
FINGERPRINT_TAG = "nixt/fingerprint"
ATTEMPT_TAG = "nixt/attempt"
DIRECTORY_TAG = "nixt/directory"

# Seconds to wait after a failed attempt before the next one. A full disk or a lost file system heals within minutes;
# what has failed three times needs a person.
RETRY_PAUSES_S = (60.0, 600.0)
# The number of an attempt that was not made, because there was nothing to ingest.
WITHOUT_RECORD = 0
MAX_ATTEMPTS = 1 + len(RETRY_PAUSES_S)
# How many of the job's latest Dagster runs are looked at to learn how the attempts ended. A tick requests at most
# `sensor_max_runs_per_tick` (20), so that these cover the last 25 busy ticks, over ten minutes.
_RECENT_RUNS = 500
_LISTED = 20


@dataclass(frozen=True)
class Attempt:
    """An ingestion that was requested: of which content, and the attempt number."""

    fingerprint: str
    number: int


@dataclass(frozen=True)
class Ingestion:
    """How a requested ingestion stands: still going on, failed, or neither (`ended_s` is Unix time)."""

    attempt: Attempt
    in_progress: bool = False
    failed: bool = False
    ended_s: float = 0.0


@dataclass(frozen=True)
class Cursor:
    """What the sensor remembers from tick to tick: the latest request for each run, and where to go on looking."""

    attempts: dict[str, Attempt] = field(default_factory=dict)
    resume_at: str = ""

    def to_text(self) -> str:
        """JSON, short: it is stored with every tick."""
        attempts = {run: [attempt.fingerprint, attempt.number] for run, attempt in sorted(self.attempts.items())}
        return json.dumps({"attempts": attempts, "resume_at": self.resume_at}, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str | None) -> "Cursor":
        """The inverse of `to_text`; no text is the first tick."""
        if not text:
            return cls()
        content = json.loads(text)
        attempts = {run: Attempt(fingerprint, number) for run, (fingerprint, number) in content["attempts"].items()}
        return cls(attempts, content["resume_at"])


@dataclass(frozen=True)
class RunDecision:
    """What one tick does: which directories to ingest, at which attempt, and what waits for which reason."""

    requests: tuple[tuple[RunDirectory, Attempt], ...]
    waiting: dict[str, str]
    not_reached: tuple[RunDirectory, ...]
    without_record: tuple[RunDirectory, ...] = ()


def decide(  # noqa: PLR0913 (all that a tick depends on)
    directories: Iterable[RunDirectory],
    cursor: Cursor,
    latest: Mapping[str, Ingestion],
    finished: Callable[[RunDirectory], Finished],
    limit: int,
    now: float,
    out_of_time: Callable[[], bool] = lambda: False,
    why_no_record: Callable[[RunDirectory], str | None] = lambda _: None,
) -> RunDecision:
    """Which runs to request now.

    `latest` is the state of the most recent ingestion of each run. New and changed directories are requested once they
    are finished; an unchanged one again only when its last attempt failed, attempts are left and the pause is over. At
    most `limit` are requested, the others follow with the next tick, as do those not looked at before `out_of_time`.
    What `why_no_record` gives a reason for becomes no partition: everything after it would be a failure forever.
    """
    without_record: list[RunDirectory] = []
    requests: list[tuple[RunDirectory, Attempt]] = []
    waiting: dict[str, str] = {}
    not_reached: list[RunDirectory] = []
    looked_into = 0
    for directory in directories:
        ingestion = latest.get(directory.run)
        requested = cursor.attempts.get(directory.run)
        attempt = _next_attempt(directory, requested, ingestion)
        if attempt is None:
            if requested is not None and requested.number == WITHOUT_RECORD:
                waiting[directory.run] = f"no Inspector record found; nixt ingest {directory.path} says why"
            continue
        reason = _must_wait(attempt, ingestion, now)
        if reason is None and len(requests) >= limit:
            reason = "waits for the next tick"
        if reason is None and out_of_time():
            reason = NOT_REACHED
            not_reached.append(directory)
        if reason is None:
            verdict = finished(directory)
            reason = None if verdict.finished else verdict.reason
        if reason is None and (requested is None or requested.number == WITHOUT_RECORD):
            reason = why_no_record(directory)
            without_record += [directory] if reason is not None else []
            looked_into += 1
            if reason is None and looked_into > 1 and out_of_time():
                # It comes first at the next tick; one that had a tick's time to itself is left to the ingest.
                reason = NOT_REACHED
                not_reached.append(directory)
        if reason is None:
            requests.append((directory, attempt))
        else:
            waiting[directory.run] = reason
    return RunDecision(tuple(requests), waiting, tuple(not_reached), tuple(without_record))


def _next_attempt(directory: RunDirectory, requested: Attempt | None, latest: Ingestion | None) -> Attempt | None:
    """The attempt that `directory` is due for, or None when its present content has been dealt with."""
    if requested is None or requested.fingerprint != directory.fingerprint:
        return Attempt(directory.fingerprint, 1)
    if latest is not None and latest.failed and latest.attempt == requested:
        return Attempt(directory.fingerprint, requested.number + 1)
    return None


def _must_wait(attempt: Attempt, latest: Ingestion | None, now: float) -> str | None:
    """Why `attempt` cannot be made now, judging by the run's latest ingestion; None when it can."""
    if attempt.number > MAX_ATTEMPTS:
        return f"failed {MAX_ATTEMPTS} times: see its runs; it is retried when its files change"
    if latest is not None and latest.in_progress:
        return "changed while it was being ingested; processed again when that has ended"
    if latest is not None and attempt.number > 1:
        left_s = latest.ended_s + RETRY_PAUSES_S[attempt.number - 2] - now
        if left_s > 0:
            return f"failed; attempt {attempt.number} of {MAX_ATTEMPTS} in {left_s:.0f} s"
    return None


def latest_ingestions(instance: dg.DagsterInstance, job_name: str) -> dict[str, Ingestion]:
    """How the most recent ingestion of each run stands, from the job's latest Dagster runs (newest first)."""
    latest: dict[str, Ingestion] = {}
    for record in instance.get_run_records(dg.RunsFilter(job_name=job_name), limit=_RECENT_RUNS):
        run, tags = record.dagster_run, record.dagster_run.tags
        if RUN_TAG in tags and tags[RUN_TAG] not in latest:
            latest[tags[RUN_TAG]] = Ingestion(
                Attempt(tags[FINGERPRINT_TAG], int(tags[ATTEMPT_TAG])),
                in_progress=not run.is_finished,
                failed=run.status == dg.DagsterRunStatus.FAILURE,
                ended_s=record.end_time or 0.0,
            )
    return latest


def ingest_request(directory: RunDirectory, attempt: Attempt) -> dg.RunRequest:
    """The request to ingest one run; configuration and tags carry the directory, so that it can be re-executed."""
    suffix = "" if attempt.number == 1 else f"#{attempt.number}"
    return dg.RunRequest(
        run_key=f"{directory.run}@{attempt.fingerprint}{suffix}",
        partition_key=directory.run,
        run_config={"ops": {"raw_log_inventory": {"config": {"directory": str(directory.path)}}}},
        tags={
            RUN_TAG: directory.run,
            FINGERPRINT_TAG: attempt.fingerprint,
            ATTEMPT_TAG: str(attempt.number),
            DIRECTORY_TAG: str(directory.path),
            # The sensor itself tries again; a second retry by the daemon would ingest the run twice at once.
            "dagster/max_retries": "0",
        },
    )


def explain(waiting: Mapping[str, str]) -> str:
    """What waits and why, for the list of ticks in the UI."""
    if not waiting:
        return "nothing new in the landing directory"
    lines = [f"{name}: {reason}" for name, reason in list(waiting.items())[:_LISTED]]
    more = f"; and {len(waiting) - _LISTED} more" if len(waiting) > _LISTED else ""
    return f"{len(waiting)} waiting: " + "; ".join(lines) + more


def tick(settings: Settings, instance: dg.DagsterInstance, cursor: Cursor, job_name: str) -> dg.SensorResult:
    """One look at the landing directory within `sensor_budget_s`. Raises `LandingError` when it cannot be listed."""
    deadline = time.monotonic() + settings.sensor_budget_s
    directories, skipped = find_runs(settings, deadline, cursor.resume_at)
    now = time.time()
    decision = decide(
        directories,
        cursor,
        latest_ingestions(instance, job_name),
        lambda directory: is_finished(directory, settings, now),
        settings.sensor_max_runs_per_tick,
        now,
        lambda: time.monotonic() > deadline,
        lambda directory: why_no_record(directory.path, settings, deadline),
    )
    attempts = cursor.attempts | {directory.run: attempt for directory, attempt in decision.requests}
    attempts |= {found.run: Attempt(found.fingerprint, WITHOUT_RECORD) for found in decision.without_record}
    keys = [directory.run for directory, _ in decision.requests]
    not_reached = [directory.path.relative_to(settings.landing_dir).parts[0] for directory in decision.not_reached]
    not_reached += [name for name, reason in skipped.items() if reason == NOT_REACHED]
    return dg.SensorResult(
        run_requests=[ingest_request(directory, attempt) for directory, attempt in decision.requests],
        dynamic_partitions_requests=[runs.build_add_request(keys)] if keys else [],
        skip_reason=None if keys else explain(without_emptied(skipped, cursor.attempts) | decision.waiting),
        cursor=Cursor(attempts, not_reached[0] if not_reached else "").to_text(),
    )


def finished_runs_sensor(job_name: str, interval_s: int) -> dg.SensorDefinition:
    """The sensor, switched on from the start; `interval_s` is the shortest time between two looks."""

    @dg.sensor(
        job_name=job_name,
        minimum_interval_seconds=interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def finished_runs(context: dg.SensorEvaluationContext, settings: dg.ResourceParam[Settings]) -> dg.SensorResult:
        """Starts `ingest_run` for finished training jobs in the landing directory.

        A job has finished when its directory has a marker file, when Slurm says so, or when nothing in it has
        changed for a while. A directory that grows afterwards is ingested again. The tick history shows what is
        waiting, and why.
        """
        cursor = Cursor.from_text(context.cursor)
        for lost in end_lost_runs(context.instance):
            context.log.warning(f"run {lost} was marked as failed: its process is gone")
        try:
            return tick(settings, context.instance, cursor, job_name)
        except LandingError as error:
            return dg.SensorResult(skip_reason=str(error), cursor=cursor.to_text())

    return finished_runs


def _interval_s() -> int:
    """The setting, or its default while settings are not usable: `definitions` logs what is wrong with them."""
    try:
        return load_settings().sensor_interval_s
    except SettingsError:
        return int(Settings.model_fields["sensor_interval_s"].default)


defs = dg.Definitions(sensors=[finished_runs_sensor(ingest_run.name, _interval_s())])
