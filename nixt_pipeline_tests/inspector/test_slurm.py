import stat
from pathlib import Path

import pytest

from nixt_pipeline.inspector import slurm
from nixt_pipeline.inspector.slurm import job_state, read_answer


@pytest.mark.parametrize(
    "answer",
    [
        " COMPLETED \n",
        "OUT_OF_MEMORY\n",
        "OUT_OF_ME+\n",  # the column is 10 characters wide
        "LAUNCH_FA+\n",
        "LAUNCH_FAI+\n",
        "RECONFIG_F+\n",
        "CANCELLED+\n",
        "CANC+\n",
        "CANCELLED by 1000\n",
        "CANCELLED by 1000|\n",
        "COMPLETED\nFAILED\nCANCELLED by 0\n",  # an array: one line for each task
        "36+0  COMPLETED\n36+1  OUT_OF_ME+\n",  # a heterogeneous job: one for each component
        "JobID|State|ExitCode\n36|COMPLETED|0:0\n36.batch|COMPLETED|0:0\n",
        "       JobID      State\n------------ ----------\n36            NODE_FAIL\n",
        "NODE_FAIL\nREQUEUED\nCOMPLETED\n",  # earlier attempts
        "sacct: warning: slurmdbd is slow\nTIMEOUT\n",
        "36_1|REQUEUED\n36_2|FAILED\n36_1|COMPLETED\n",
        "completed\n",
        "36 Cancelled by 1000\n",
        "CD\n",
        "JOBID PARTITION NAME USER ST TIME NODES\n36 gpu train bob OOM 1:00 1\n",
        "FAILED\r\n",
    ],
)
def test_a_job_has_ended_when_no_line_says_otherwise(answer: str) -> None:
    assert read_answer(answer).ended is True


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("RUNNING\n", "RUNNING"),
        ("COMPLETED\nRUNNING\n", "RUNNING"),
        ("RUNNING\nCOMPLETED\n", "RUNNING"),
        ("COMPLETED\nPENDING\nRUNNING\n", "PENDING, RUNNING"),
        ("36+0|FAILED\n36+1|COMPLETING\n", "COMPLETING"),
        ("PREEMPTED\nREQUEUED\nPENDING\n", "PENDING"),
        ("REQUEUED\n", "REQUEUED"),
        ("NODE_FAIL\nREQUEUED\n", "REQUEUED"),
        ("CANCELLED by 1000 \nREQUEUED\n", "REQUEUED"),
        ("NODE_FAIL,REQUEUED\n", "REQUEUED"),
        ("36|REQUEUED\n36.batch|CANCELLED\n", "REQUEUED"),
        ("COMPLETED,RUNNING\n", "RUNNING"),
        ("FAILED\nRUNNING\nsacct: error: Connection refused\n", "RUNNING"),
        ("completed\nrunning\n", "RUNNING"),
        ("CD\nPD\n", "PENDING"),
        ("36 gpu train bob R 1:00 1 node-01\n", "RUNNING"),
        ("REQUEUE_H+\n", "REQUEUE_H+"),
        ("SUSP+\n", "SUSP+"),
    ],
)
def test_a_job_goes_on_while_any_line_says_so(answer: str, words: str) -> None:
    assert read_answer(answer) == slurm.JobState(False, words)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("", "Slurm does not know the job"),
        (" \n\n", "Slurm does not know the job"),
        ("sacct: error: Problem talking to the database\n", "Slurm names no state: sacct: error: Problem"),
        ("State\n----------\n", "Slurm names no state: State"),
        ("COMPLE+\n", "COMPLE+"),  # COMPLETED, or COMPLETING
        ("HIBERNATING\n", "HIBERNATING"),  # of a release to come
        ("COMPLETED\nHIBERNATING\n", "HIBERNATING"),
        ("FAILED\nsacct: error: Connection refused\n", "Slurm's answer may be incomplete: sacct: error: Connection"),
        ("sacct: error: slurmdbd is slow\nTIMEOUT\n", "Slurm's answer may be incomplete: sacct: error"),
        ("FAILED\nConnection refused\n", "Slurm's answer may be incomplete: Connection refused"),
        ("connection failed\n", "Slurm names no state: connection failed"),
    ],
)
def test_an_answer_that_does_not_tell_leaves_it_open(answer: str, words: str) -> None:
    state = read_answer(answer)
    assert state.ended is None
    assert state.words.startswith(words)


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_command_that_fails_or_hangs_is_said_so(tmp_path: Path) -> None:
    failing = script(tmp_path / "failing", "echo 'no such job' >&2; exit 1")
    assert job_state(failing, "1").words == f"{failing} failed with exit code 1: no such job"
    hanging = script(tmp_path / "hanging", "exec sleep 60")
    assert "did not answer" in job_state(hanging, "1", timeout_s=0.2).words
    assert job_state("sacct 'unbalanced", "1").ended is None


def test_an_error_beside_the_answer_leaves_it_open(tmp_path: Path) -> None:
    state = job_state(script(tmp_path / "sacct", "echo FAILED; echo 'sacct: error: Connection refused' >&2"), "1")
    assert (state.ended, "Connection refused" in state.words) == (None, True)


def test_bytes_that_are_no_text_stop_nothing(tmp_path: Path) -> None:
    assert job_state(script(tmp_path / "sacct", r"printf 'COMPLETED \377\n'"), "1").ended is True
