import assert from "node:assert/strict";
import { test } from "node:test";
import { settled } from "./Phases";

test("windows at the end whose phases have not come yet are left out, gaps before them stay", () => {
  const told = { period_ns: 10, time_ns: [0, 10, 20, 30], total_ns: [9, 9, 9, 9], phases_ns: { forward: [5, 0, 5, 0], other: [4, 9, 4, 9] } };
  const { time_ns, phases_ns } = settled(told);
  assert.deepEqual([time_ns, phases_ns], [[0, 10, 20], { forward: [5, 0, 5], other: [4, 9, 4] }]);
});
