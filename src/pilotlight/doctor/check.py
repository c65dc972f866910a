"""One question about this machine, answered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    what: str
    state: str  # ok, limited (works, but with less), or broken
    detail: str
    fix: str = ""


def ok(what: str, detail: str) -> Check:
    return Check(what, "ok", detail)


def limited(what: str, detail: str, fix: str) -> Check:
    return Check(what, "limited", detail, fix)


def broken(what: str, detail: str, fix: str) -> Check:
    return Check(what, "broken", detail, fix)
