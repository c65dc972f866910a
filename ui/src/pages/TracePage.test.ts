import assert from "node:assert/strict";
import { test } from "node:test";
import type { Finding, Parts, Rank } from "../data/types";
import { chosenOf, divided } from "./TracePage";

const parts = (compute_ns: number, idle_ns: number, cause: string): Parts => ({ window_ns: compute_ns + idle_ns, compute_ns, idle_ns, exposed_communication_ns: 0, exposed_copy_ns: 0, communication_ns: 0, copy_ns: 0, idle_by_cause_ns: { [cause]: idle_ns } });
const rankOf = (rank: number, whole: Parts | null, steps: (Parts | null)[]): Rank => ({
  rank, source: "", format: "", device: "", spans: 0, left_out: 0, rows: [], first_ns: 0, last_ns: 0, parts: whole, steps: steps.map((each, i) => ({ number: i, start_ns: i, duration_ns: 1, parts: each })),
});

test("where the time goes is of the steps that the headline speaks of: without the first, which holds the profiler's start", () => {
  const found = divided(rankOf(0, parts(90, 10, "host"), [parts(0, 999, "start"), parts(60, 40, "loader"), parts(40, 60, "host")]))!.parts;
  assert.deepEqual([found.window_ns, found.compute_ns, found.idle_ns], [100, 50, 50]);
  assert.deepEqual(found.idle_by_cause_ns, { loader: 20, host: 30 });
});

test("without steps that were told apart it is of the whole trace, and of nothing where there is no device", () => {
  assert.equal(divided(rankOf(0, parts(90, 10, "host"), [null]))!.parts.compute_ns, 90);
  assert.equal(divided(rankOf(0, null, [])), null);
});

test("the rank that the first finding is about is shown, and who idles most only where it names none", () => {
  const ranks = [parts(80, 20, "a"), parts(99, 1, "a")].map((each, i) => divided(rankOf(i, each, []))!);
  const about = (rank: number | null) => [{ rank } as Finding];
  assert.deepEqual([chosenOf(ranks, about(1)).rank!.rank, chosenOf(ranks, about(1)).why], [1, "which the first finding is about"]);
  for (const findings of [about(null), about(0), []]) assert.deepEqual([chosenOf(ranks, findings).rank!.rank, chosenOf(ranks, findings).why], [0, "which idles most"]);
  assert.equal(chosenOf([], []).rank, undefined);
});
