"""What clients can ask for, one function a want (docs/protocol.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pilotlight import _drain
from pilotlight.agent.closing import summary
from pilotlight.agent.job import Finish, Job, Outcome
from pilotlight.agent.pidfd import open_process
from pilotlight.agent.process import Process
from pilotlight.agent.session import Session, Subscribed
from pilotlight.agent.threads import threads_of
from pilotlight.capture.request import CaptureRequest
from pilotlight.errors import AgentError, NotFound, PilotlightError
from pilotlight.recording.fields import take, take_optional, take_or, take_texts
from pilotlight.subscribe import KINDS
from pilotlight.tier import ASKED

if TYPE_CHECKING:
    from pilotlight.agent.service import Service

Request = Mapping[str, object]
Answer = dict[str, object]

_LONGEST_PERIOD_NS = 60_000_000_000
_LISTED = 8
_FLIGHT_RECORDER_NS = 5_000_000_000


def answer(service: Service, session: Session, request: Request) -> None:
    """Answers now, or leaves the session with a job that will answer."""
    handler = _WANTS.get(str(request["want"]))
    try:
        if handler is None:
            raise AgentError(f"no such want: {request['want']!r:.60}; have {', '.join(_WANTS)}")
        found = handler(service, session, request)
    except PilotlightError as error:
        refusal: Answer = {"ok": False, "error": str(error)}
        if isinstance(error, NotFound):
            refusal["not_found"] = True
        session.answer(refusal)
        return
    except Exception as error:
        service.faults.note(str(request["want"])[:60], error)
        session.answer({"ok": False, "error": f"a fault of the agent: {error!r:.200}"})
        return
    if found is not None:
        session.answer({"ok": True, **found})


def _status(service: Service, session: Session, request: Request) -> Answer:
    if request.get("look") is True:
        session.looked_ns = service.now_ns()
        service.looked_at()
    return service.status()


def _record(service: Service, session: Session, request: Request) -> Answer:
    name = take(request, "job", str)
    if not 0 < len(name) <= 200 or not name.isprintable():
        raise AgentError("a job has a name of 1 to 200 printable characters")
    folder = _absolute(take_optional(request, "folder", str))
    recordings = _absolute(take_optional(request, "recordings", str))
    command = take_texts(request, "command")
    job = service.jobs.record(name, folder, command, service.now_ns(), recordings)
    runner = open_process(session.pid, 0) if session.pid not in job.runners else None
    if runner is not None:
        job.runners[session.pid] = runner
    return {"job": name, "folder": str(job.folder)}


def _absolute(folder: str | None) -> Path | None:
    if folder is not None and not Path(folder).is_absolute():
        raise AgentError(f"{folder}: name the folder from the root")
    return None if folder is None else Path(folder)


def _finish(service: Service, session: Session, request: Request) -> Answer | None:
    job = _job(service, take(request, "job", str))
    exit_code = take_optional(request, "exit_code", int)
    signal = take_optional(request, "signal", int)
    if not job.command_ended(session.pid, Outcome(exit_code, signal)):
        service.flush(job)
        return {**summary(job), "others": len(job.runners)}
    if job.finish is None:
        job.finish = Finish(service.now_ns())
    job.finish.waiting.append(session)
    return None


def _flush(service: Service, session: Session, request: Request) -> Answer:
    name = take_optional(request, "job", str)
    pid = take_optional(request, "pid", int)
    if (name is None) == (pid is None):
        raise AgentError("flush: name a job or a pid")
    job, found_pid = _job_of(service, name, pid)
    if isinstance(job, Job):
        service.flush(job)
        return {"job": job.name, "folder": str(job.folder), "process": found_pid}
    return {"job": job[0], "folder": job[1], "process": found_pid}


def _job_of(
    service: Service, name: str | None, pid: int | None
) -> tuple[Job | tuple[str, str], int | None]:
    """The job, open or closed, and the index of the process if a pid was given."""
    if name is not None and name in service.jobs.open:
        return service.jobs.open[name], None
    for job in service.jobs.open.values():
        for process in job.processes.values():
            if pid is not None and process.pid == pid:
                return job, process.index
        for ended in reversed(job.ended):
            if pid is not None and ended.pid == pid:
                return job, ended.index
    for closed in reversed(service.jobs.closed):
        if closed.name == name:
            return (closed.name, str(closed.folder)), None
        for ended in reversed(closed.ended):
            if pid is not None and ended.pid == pid:
                return (closed.name, str(closed.folder)), ended.index
    raise _unknown(service, f"job {name}" if name is not None else f"process {pid}")


def _control(service: Service, session: Session, request: Request) -> Answer:
    job = _job(service, take(request, "job", str))
    action = take(request, "action", str)
    if action == "pause":
        job.pause()
    elif action == "resume":
        job.resume()
    elif action == "period":
        period_ns = take(request, "value", int)
        if not 0 <= period_ns <= _LONGEST_PERIOD_NS:
            raise AgentError(f"a period is 0 to {_LONGEST_PERIOD_NS} ns")
        job.set_period(period_ns)
    else:
        raise AgentError(f"no such action: {action!r:.60}; have pause, resume, period")
    return {"processes": len(job.processes)}


def _stacks(service: Service, session: Session, request: Request) -> Answer:
    pid = take(request, "pid", int)
    process = _process(service, pid)
    try:
        threads = _drain.read_stacks(pid, process.reader.python())
    except (OSError, ValueError) as error:
        raise AgentError(f"the stacks of process {pid} cannot be read: {error}") from None
    return {
        "pid": pid,
        "threads": threads_of(threads),
    }


def _capture(service: Service, session: Session, request: Request) -> Answer:
    capture = service.captures.begin(session, CaptureRequest.from_json(request), service.now_ns())
    return {"capture": capture.number, "staging": str(capture.staging.folder)}


def _decided(service: Service, session: Session, request: Request) -> Answer:
    service.captures.decided(
        session,
        take(request, "capture", str),
        take_optional(request, "first_step", int),
        take_or(request, "start_ns", 0),
        service.now_ns(),
    )
    return {}


def _collected(service: Service, session: Session, request: Request) -> Answer:
    number = take(request, "capture", str)
    if take_or(request, "keep", False):
        service.captures.keep(session, number)
    else:
        service.captures.collected(session, number)
    return {}


def _flight_recorder(service: Service, session: Session, request: Request) -> None:
    """Answers when the process has."""
    pid = take(request, "pid", int)
    file = take(request, "file", str)
    _process(service, pid)

    def answered(answer: Mapping[str, object]) -> None:
        is_done = "error" not in answer
        service.clients.answer(session, {"ok": is_done, **answer})

    errand = {"do": "flight_recorder", "file": file}
    service.captures.errands.ask(pid, errand, _FLIGHT_RECORDER_NS, answered)


def _subscribe(service: Service, session: Session, request: Request) -> Answer:
    kinds = take_texts(request, "kinds")
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise AgentError(f"kinds are any of {', '.join(KINDS)}")
    asked = take_optional(request, "tier", str)
    if asked is not None and asked not in ASKED:
        raise AgentError(f"no such tier: {asked!r:.60}; have {', '.join(ASKED)}")
    tier = ASKED[asked] if asked is not None else None
    session.subscribed = Subscribed(frozenset(kinds), take_optional(request, "job", str), tier)
    service.looked_at()
    service.apply_tiers()
    return {"kinds": list(kinds)}


def _job(service: Service, name: str) -> Job:
    job = service.jobs.open.get(name)
    if job is None:
        raise _unknown(service, f"job {name}")
    return job


def _process(service: Service, pid: int) -> Process:
    for job in service.jobs.open.values():
        for process in job.processes.values():
            if process.pid == pid:
                return process
    raise _unknown(service, f"process {pid}")


def _unknown(service: Service, what: str) -> NotFound:
    names = [
        f"{job.name} (pid {', '.join(str(p.pid) for p in list(job.processes.values())[:_LISTED])})"
        for job in list(service.jobs.open.values())[:_LISTED]
    ]
    return NotFound(f"no {what[:200]}; being recorded: {'; '.join(names) or 'nothing'}")


_WANTS: Mapping[str, Callable[[Service, Session, Request], Answer | None]] = {
    "status": _status,
    "record": _record,
    "finish": _finish,
    "flush": _flush,
    "control": _control,
    "stacks": _stacks,
    "capture": _capture,
    "decided": _decided,
    "collected": _collected,
    "flight_recorder": _flight_recorder,
    "subscribe": _subscribe,
}
