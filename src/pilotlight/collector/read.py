"""The questions that anybody with the scope `read` may ask: one line an endpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pilotlight.collector.answer import failure, number, reader_of, reply, span_of, text
from pilotlight.errors import PilotlightError
from pilotlight.store import queries
from pilotlight.store.queries import Reader

Handler = Callable[[Reader, Request], Any]
_MOST = 5000


@dataclass(frozen=True)
class Question:
    """`parameters` are names of the query string; `result` is what the answer's `data` holds."""

    path: str
    what: str
    parameters: tuple[str, ...]
    result: Any
    ask: Handler

    @property
    def route(self) -> Route:
        def endpoint(request: Request) -> Response:
            reader = reader_of(request)
            try:
                data = self.ask(reader, request)
            except PilotlightError as error:
                return failure(error)
            return reply({"data": data, "partial": reader.is_partial})

        return Route(self.path, endpoint, methods=["GET"])


def _job(request: Request) -> str:
    return text(request, "job")


def _priced(detail: queries.JobDetail, request: Request) -> queries.JobDetail:
    watch = request.app.state.collector.config.watch
    return replace(detail, price_per_gpu_hour=watch.price_per_gpu_hour, currency=watch.currency)


def _limit(request: Request, default: int = 200) -> int:
    return number(request, "limit", default, 1, _MOST)


def _rank(request: Request) -> int | None:
    rank = number(request, "rank", -1, -1, (1 << 31) - 1)
    return None if rank < 0 else rank


def _points(request: Request) -> int:
    return number(request, "points", 600, 1, 10_000)


_SPAN = ("since", "from_ns", "to_ns")

QUESTIONS = (
    Question(
        "/v1/jobs",
        "jobs with news in the span",
        (*_SPAN, "limit"),
        list[queries.JobRow],
        lambda reader, r: queries.jobs(reader, span_of(r), _limit(r)),
    ),
    Question(
        "/v1/job",
        "one job: attempts, facts, where its hours went",
        ("job",),
        queries.JobDetail,
        lambda reader, r: _priced(queries.job(reader, _job(r)), r),
    ),
    Question(
        "/v1/ranks",
        "the ranks of a job",
        ("job", *_SPAN),
        list[queries.RankRow],
        lambda reader, r: queries.ranks(reader, _job(r), span_of(r)),
    ),
    Question(
        "/v1/steps",
        "single steps, latest first",
        ("job", "rank", "limit", *_SPAN),
        list[queries.StepRow],
        lambda reader, r: queries.recent_steps(reader, _job(r), span_of(r), _rank(r), _limit(r)),
    ),
    Question(
        "/v1/series",
        "step time over time, of a job or of one rank",
        ("job", "rank", "points", *_SPAN),
        queries.Series,
        lambda reader, r: queries.step_series(reader, _job(r), span_of(r), _rank(r), _points(r)),
    ),
    Question(
        "/v1/breakdown",
        "where the step time went, over time",
        ("job", "points", *_SPAN),
        queries.Breakdown,
        lambda reader, r: queries.breakdown(reader, _job(r), span_of(r), _points(r)),
    ),
    Question(
        "/v1/heatmap",
        "the mean step of every rank and window",
        ("job", "points", *_SPAN),
        queries.Heatmap,
        lambda reader, r: queries.step_heatmap(reader, _job(r), span_of(r), _points(r)),
    ),
    Question(
        "/v1/kernels",
        "what took the time on the devices",
        ("job", "limit", *_SPAN),
        list[queries.Hot],
        lambda reader, r: queries.kernels(reader, _job(r), span_of(r), _limit(r, 50)),
    ),
    Question(
        "/v1/ranges",
        "annotated ranges by time",
        ("job", "limit", *_SPAN),
        list[queries.Hot],
        lambda reader, r: queries.ranges(reader, _job(r), span_of(r), _limit(r, 50)),
    ),
    Question(
        "/v1/functions",
        "Python functions by the time they ran",
        ("job", "limit", *_SPAN),
        list[queries.Hot],
        lambda reader, r: queries.functions(reader, _job(r), span_of(r), _limit(r, 50)),
    ),
    Question(
        "/v1/stacks",
        "Python stacks by time",
        ("job", "rank", "limit", *_SPAN),
        list[queries.StackTime],
        lambda reader, r: queries.stacks(reader, _job(r), span_of(r), _rank(r), _limit(r, 2000)),
    ),
    Question(
        "/v1/device-stacks",
        "device time by the code that launched it",
        ("job", "rank", "limit", *_SPAN),
        list[queries.StackTime],
        lambda reader, r: queries.device_stacks(
            reader, _job(r), span_of(r), _rank(r), _limit(r, 2000)
        ),
    ),
    Question(
        "/v1/phases",
        "what the steps are made of, over time, as adapters of frameworks tell it",
        ("job", "points", *_SPAN),
        queries.Phases,
        lambda reader, r: queries.phases(reader, _job(r), span_of(r), _points(r)),
    ),
    Question(
        "/v1/collectives",
        "collective operations by time",
        ("job", "limit", *_SPAN),
        list[queries.CollectiveRow],
        lambda reader, r: queries.collectives(reader, _job(r), span_of(r), _limit(r, 50)),
    ),
    Question(
        "/v1/counter-names",
        "which counters there are",
        ("job", *_SPAN),
        list[queries.CounterName],
        lambda reader, r: queries.counter_names(reader, span_of(r), text(r, "job", "")),
    ),
    Question(
        "/v1/counters",
        "one counter over time, a series a GPU; of many those least like the others, and `rank`",
        ("name", "job", "node", "rank", "points", "limit", *_SPAN),
        list[queries.CounterSeries],
        lambda reader, r: queries.counters(
            reader,
            text(r, "name"),
            span_of(r),
            text(r, "job", ""),
            text(r, "node", ""),
            _points(r),
            _limit(r),
            _rank(r),
        ),
    ),
    Question(
        "/v1/findings",
        "what was noticed, open ones first",
        ("job", "state", "limit"),
        list[queries.FindingRow],
        lambda reader, r: queries.findings(
            reader, text(r, "job", ""), text(r, "state", ""), 0, _limit(r)
        ),
    ),
    Question(
        "/v1/captures",
        "captures, latest first",
        ("job", "limit"),
        list[queries.CaptureRow],
        lambda reader, r: queries.captures(reader, text(r, "job", ""), _limit(r)),
    ),
    Question(
        "/v1/agents",
        "the agents and what they cost and lost",
        ("limit",),
        list[queries.AgentRow],
        lambda reader, r: queries.agents(reader, _limit(r, 2000)),
    ),
    Question(
        "/v1/costs",
        "what collecting costs now on each agent's processes, and the agent's budget",
        ("limit",),
        list[queries.AgentCost],
        lambda reader, r: queries.agent_costs(reader, _limit(r, 5000)),
    ),
    Question(
        "/v1/doctor",
        "what the doctor says of the agents' nodes, the worst first",
        ("limit",),
        list[queries.DoctorRow],
        lambda reader, r: queries.doctor(reader, _limit(r, _MOST)),
    ),
    Question(
        "/v1/nodes",
        "the machines",
        _SPAN,
        list[queries.NodeRow],
        lambda reader, r: queries.nodes(reader, span_of(r)),
    ),
)
