import assert from "node:assert/strict";
import { test } from "node:test";
import type { CaptureRow } from "../data/types";
import { told } from "./Captures";

const row = (job: string, state: string, requested_ns: number): CaptureRow => ({ job, state, requested_ns, reason: "throttle" }) as CaptureRow;

test("the headline tells how many captures there are, how they are and whose the newest is", () => {
  const now = 1_000e9;
  assert.equal(told([row("a", "stored", now - 60e9)], now).replace(/\u00a0/g, " "), "1 capture, stored; the newest is of a, 60 s ago (throttle)");
  assert.match(told([row("a", "stored", 1e9), row("b", "stored", 2e9)], now), /^2 captures, all stored; the newest is of b/);
  assert.match(told([row("a", "stored", 1e9), row("b", "failed", 2e9), row("c", "requested", now)], now), /^3 captures, 1 stored, 1 failed, 1 on the way; the newest is of c/);
});
