"""When a job is over, and what is said of it then."""

from __future__ import annotations

from pilotlight.agent import status
from pilotlight.agent.job import Job
from pilotlight.recording.liveness import is_alive
from pilotlight.recording.processes import ProcessEnd

_LINGER_NS = 5_000_000_000
# As long as a probe may wait before it tries to reach a new agent, and some.
_RETURN_NS = 8_000_000_000
# Hellos that were on their way when the end was announced have arrived by then.
_SETTLE_NS = 50_000_000
# Hundreds of hellos take a busy agent seconds; somebody who never says one must not hold us up.
_MOST_SETTLE_NS = 10_000_000_000


def has_ended(job: Job, now_ns: int, somebody_comes: bool) -> bool:
    """Nobody is there any more, and nobody will come."""
    if job.processes or job.empty_since_ns is None:
        return False
    if job.finish is not None:
        if _is_awaited(job, now_ns):
            return False
        settle_ns = _MOST_SETTLE_NS if somebody_comes else _SETTLE_NS
        return now_ns - job.finish.since_ns >= settle_ns
    if job.is_attended:
        return False
    wait_ns = _RETURN_NS if job.positions else _LINGER_NS
    return now_ns - job.empty_since_ns >= wait_ns


def may_go_on(job: Job) -> bool:
    """For an agent that has to go now: whether the next one may hear of the job again."""
    if job.processes:
        return True
    if job.finish is not None:
        return False
    return not job.ended or job.is_attended


def end_missing(job: Job, now_ns: int) -> None:
    """Writes the end of processes of an earlier agent that died meanwhile."""
    if job.positions and now_ns - job.opened_ns >= _RETURN_NS:
        end_unseen(job, now_ns)


def end_unseen(job: Job, now_ns: int) -> None:
    """The same at once, for a job that is being closed."""
    for start in job.recorder.roster.running:
        if start.segment not in job.processes and not is_alive(start.pid, start.start_time):
            job.recorder.roster.end(start.segment, ProcessEnd(start.process, "gone", now_ns))


def _is_awaited(job: Job, now_ns: int) -> bool:
    """Whether a process of an earlier agent lives and has not found this one yet."""
    return now_ns - job.opened_ns < _RETURN_NS and any(
        start.segment not in job.processes and is_alive(start.pid, start.start_time)
        for start in job.recorder.roster.running
    )


def summary(job: Job) -> dict[str, object]:
    """The answer to whoever waited for the end of the job."""
    return {
        **status.job_status(job),
        "still_running": [process.pid for process in job.processes.values()],
    }
