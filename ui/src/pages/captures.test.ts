import assert from "node:assert/strict";
import { test } from "node:test";
import type { CaptureDetail, CaptureRow } from "../data/types";
import { sentence, told } from "./Captures";

const row = (job: string, state: string, requested_ns: number): CaptureRow => ({ job, state, requested_ns, reason: "throttle" }) as CaptureRow;

test("the headline tells how many captures there are, how they are and whose the newest is", () => {
  const now = 1_000e9;
  assert.equal(told([row("a", "stored", now - 60e9)], now).replace(/\u00a0/g, " "), "1 capture, stored; the newest is of a, 60 s ago (throttle)");
  assert.match(told([row("a", "stored", 1e9), row("b", "stored", 2e9)], now), /^2 captures, all stored; the newest is of b/);
  assert.match(told([row("a", "stored", 1e9), row("b", "failed", 2e9), row("c", "requested", now)], now), /^3 captures, 1 stored, 1 failed, 1 on the way; the newest is of c/);
});

test("a rank whose steps were not traced is named, with why", () => {
  const row = { state: "stored", from_ns: 0, to_ns: 30e9, ranks: [0, 1] };
  const said = (...told: object[]) => sentence({ row, is_open: false, nodes: [{ node: "n", state: "stored", ranks: [0, 1], told }] } as unknown as CaptureDetail).replace(/\u00a0/g, " ");
  assert.equal(said(), "Stored: 30.0 s of 2 ranks on 1 node.");
  assert.equal(said({ rank: 0, state: "done", why: "" }), "Stored: 30.0 s of 2 ranks on 1 node, and the steps of each.");
  assert.equal(said({ rank: 0, state: "done", why: "" }, { rank: 1, state: "failed", why: "hung" }), "Stored, but the steps of rank 1 were not traced: hung.");
  assert.equal(said({ rank: 0, state: "failed", why: "its trace has nothing in it" }, { rank: 1, state: "failed", why: "hung" }), "Stored, but the steps of ranks 0–1 were not traced: rank 1, hung.");
});
