"""What runs when: host threads that launch work onto GPU streams, and operations for which GPUs meet.

Every piece of work is a `Task`. It starts when the host thread has launched it, the work before it on its stream has
ended and the tasks it comes after have ended. Computing lasts what it lasts; a communication starts waiting when its
kernel starts, and moves its bytes once everybody it needs has come. Overlap, pipeline bubbles, cascades of waiting and
hangs are nowhere written down: they follow.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from evaluation.independent.machines import Communicator

# What it costs a host thread to launch a kernel (CUDA through a framework: 5 to 20 us).
_LAUNCH_US = 8.0


@dataclass(frozen=True)
class Part:
    """One operation of a launch: a collective, or a Send or Recv when it has a `peer` (a rank of the job)."""

    communicator: Communicator
    function: str
    size_bytes: int
    peer: int | None = None


@dataclass(eq=False, slots=True)
class Task:
    """A piece of work of one rank; times in us since the job began, None while it has not happened.

    `after_us`: how long after the end of `host` the host thread launches it. `parts`: what it communicates, if it does.
    """

    rank: int
    step: int
    work_us: float
    host: "Task | None"
    after_us: float
    after: tuple["Task", ...]
    on_host: bool = False
    parts: tuple[Part, ...] = ()
    start_us: float | None = None
    end_us: float | None = None
    waits_for: int = 0
    followers: list["Task"] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Meeting:
    """Those who have come to a collective or to one Send and Recv: `expected` of them, with their parts."""

    expected: int
    number: int
    came: list[tuple[Task, Part]] = field(default_factory=list)


class Program:
    """What one rank does, in the order in which its host thread launches it."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.step = 0
        self.tasks: list[Task] = []
        self.halt_before: tuple[str, int, int] | None = None
        self.halted_at: Task | None = None
        self.odd_from: tuple[str, int] | None = None
        self._host: Task | None = None
        self._lead_us = 0.0
        self._tails: dict[str, Task] = {}
        self._done_in_step: dict[tuple[str, int], int] = {}

    def compute(self, work_us: float, after: Iterable[Task] = (), stream: str = "compute") -> Task:
        """Launch a kernel that computes for `work_us` on a GPU of usual speed."""
        return self._launch(work_us, after, stream, ())

    def communicate(self, parts: Iterable[Part], after: Iterable[Task] = (), stream: str | None = None) -> Task:
        """Launch a collective, or a group of Sends and Recvs, on the stream of its communicator.

        From the launch that `halt_before` names (family, step, how many before it in the step) the host thread does
        nothing any more; from the step in `odd_from` the first collective of a family in a step has a size of its own.
        """
        parts = tuple(parts)
        communicator = parts[0].communicator
        key = (communicator.family, self.step)
        done = self._done_in_step.get(key, 0)
        if self.halt_before == (*key, done):
            # A host task that nobody ever starts; what was launched before goes on.
            self.halted_at = self._host = Task(self.rank, self.step, 0.0, None, 0.0, ())
        if self.odd_from and done == 0 and key[0] == self.odd_from[0] and self.step >= self.odd_from[1]:
            parts = tuple(replace(part, size_bytes=part.size_bytes - 4096) for part in parts)
        self._done_in_step[key] = done + 1
        return self._launch(0.0, after, stream or f"nccl {communicator.number}", parts)

    def host_works(self, work_us: float) -> None:
        """The host thread is busy (loads data, collects garbage, writes a checkpoint) and launches nothing."""
        self._add_host(work_us, ())

    def host_waits(self, *after: Task) -> None:
        """The host thread waits for work on the GPU, as `loss.item()` does."""
        self._add_host(0.0, after)

    def tail(self, stream: str = "compute") -> tuple[Task, ...]:
        """The latest work on a stream."""
        return (self._tails[stream],) if stream in self._tails else ()

    def _add_host(self, work_us: float, after: tuple[Task, ...]) -> None:
        task = Task(self.rank, self.step, work_us, self._host, self._lead_us, after, on_host=True)
        self.tasks.append(task)
        self._host, self._lead_us = task, 0.0

    def _launch(self, work_us: float, after: Iterable[Task], stream: str, parts: tuple[Part, ...]) -> Task:
        self._lead_us += _LAUNCH_US
        task = Task(self.rank, self.step, work_us, self._host, self._lead_us, (*after, *self.tail(stream)), parts=parts)
        self.tasks.append(task)
        self._tails[stream] = task
        return task


ComputeTime = Callable[[Task], float]
TransferTime = Callable[[Meeting, float], float]


def solve(programs: Iterable[Program], compute_us: ComputeTime, transfer_us: TransferTime) -> None:
    """Fill in when each task starts and ends; what waits for something that never happens keeps None.

    `compute_us` is asked for a task that has started, `transfer_us` for a meeting that everybody has come to, with the
    time of the last arrival.
    """
    _Solver(compute_us, transfer_us).run([task for program in programs for task in program.tasks])


class _Solver:
    def __init__(self, compute_us: ComputeTime, transfer_us: TransferTime) -> None:
        self._compute_us, self._transfer_us = compute_us, transfer_us
        self._meetings: dict[tuple[int, ...], Meeting] = {}
        self._of_task: dict[Task, list[Meeting]] = {}
        self._open: dict[Task, int] = {}

    def run(self, tasks: list[Task]) -> None:
        self._arrange_meetings(tasks)
        for task in tasks:
            needed = [*task.after, *([task.host] if task.host else [])]
            task.waits_for = len(needed)
            for other in needed:
                other.followers.append(task)
        ready = [task for task in reversed(tasks) if task.waits_for == 0]
        while ready:
            self._start(ready.pop(), ready)

    def _arrange_meetings(self, tasks: list[Task]) -> None:
        """Collectives meet in the order of their communicator, a Send the Recv of the same turn on its edge."""
        turns: dict[tuple[int, ...], int] = {}
        for task in tasks:
            for part in task.parts:
                number = part.communicator.number
                if part.peer is None:
                    place, expected = (number, task.rank), len(part.communicator.ranks)
                    turn = turns[place] = turns.get(place, 0) + 1
                    key: tuple[int, ...] = (number, turn)
                else:
                    ends = (task.rank, part.peer) if part.function == "Send" else (part.peer, task.rank)
                    side = (number, *ends, int(part.function == "Send"))
                    turn = turns[side] = turns.get(side, 0) + 1
                    key, expected = (number, *ends, turn), 2
                meeting = self._meetings.setdefault(key, Meeting(expected, turn))
                self._of_task.setdefault(task, []).append(meeting)

    def _start(self, task: Task, ready: list[Task]) -> None:
        launched = (task.host.end_us or 0.0) + task.after_us if task.host else task.after_us
        task.start_us = max(launched, *(other.end_us or 0.0 for other in task.after), 0.0)
        if not task.parts:
            self._end(task, task.start_us + self._compute_us(task), ready)
            return
        self._open[task] = len(task.parts)
        for part, meeting in zip(task.parts, self._of_task[task], strict=True):
            meeting.came.append((task, part))
            if len(meeting.came) == meeting.expected:
                self._hold(meeting, ready)

    def _hold(self, meeting: Meeting, ready: list[Task]) -> None:
        if len({part.function for _, part in meeting.came if part.peer is None}) > 1:
            return  # Two different collectives wait for each other for ever.
        last_us = max(task.start_us or 0.0 for task, _ in meeting.came)
        end_us = last_us + self._transfer_us(meeting, last_us)
        for task, _ in meeting.came:
            task.work_us = max(task.work_us, end_us)  # The latest of its parts so far.
            self._open[task] -= 1
            if self._open[task] == 0:
                self._end(task, task.work_us, ready)

    def _end(self, task: Task, end_us: float, ready: list[Task]) -> None:
        task.end_us = end_us
        for follower in task.followers:
            follower.waits_for -= 1
            if follower.waits_for == 0:
                ready.append(follower)
