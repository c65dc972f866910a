"""The numbers of phases and of kinds of spans, as native/probe/phase.h and record.h have them."""

from __future__ import annotations

DATA, FORWARD, BACKWARD, OPTIMIZER, COMMUNICATION, CHECKPOINT = range(6)

RANGE = 1
MODULE = 4
LOADER = 7
COMPILE = 8
SYNC = 10
