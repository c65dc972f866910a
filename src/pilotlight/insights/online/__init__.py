"""Findings while a job runs: from what every rank sends for each step, not from traces."""

from pilotlight.insights.online.diagnosis import OnlineDiagnosis, diagnose_windows
from pilotlight.insights.online.history import Summary, regressions
from pilotlight.insights.online.window import CollectiveSum, Progress, RankWindow

__all__ = [
    "CollectiveSum",
    "OnlineDiagnosis",
    "Progress",
    "RankWindow",
    "Summary",
    "diagnose_windows",
    "regressions",
]
