"""What the API answers; scripts/api_types.py makes the TypeScript types of the page from it."""

from pilotlight.web.answers.about import About
from pilotlight.web.answers.capture import CaptureDetail, CapturedNode
from pilotlight.web.answers.comparison import Comparison, Difference, FactChange, Side
from pilotlight.web.answers.fleet import Fleet, FleetJob, GpuNow, Node
from pilotlight.web.answers.job import AttemptChange, Event, Job
from pilotlight.web.answers.roofline import (
    JobRoofline,
    KernelKind,
    Peak,
    RankPoint,
    Roofline,
    RooflineRow,
)
from pilotlight.web.answers.timeline import (
    CounterLine,
    Finding,
    Hit,
    Hits,
    Kernel,
    KernelStalls,
    NotChecked,
    Parts,
    Place,
    Rank,
    Row,
    StallReason,
    Step,
    Total,
    Totals,
    Trace,
    TraceName,
)

__all__ = [
    "About",
    "AttemptChange",
    "CaptureDetail",
    "CapturedNode",
    "Comparison",
    "CounterLine",
    "Difference",
    "Event",
    "FactChange",
    "Finding",
    "Fleet",
    "FleetJob",
    "GpuNow",
    "Hit",
    "Hits",
    "Job",
    "JobRoofline",
    "Kernel",
    "KernelKind",
    "KernelStalls",
    "Node",
    "NotChecked",
    "Parts",
    "Peak",
    "Place",
    "Rank",
    "RankPoint",
    "Roofline",
    "RooflineRow",
    "Row",
    "Side",
    "StallReason",
    "Step",
    "Total",
    "Totals",
    "Trace",
    "TraceName",
]
