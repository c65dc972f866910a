import assert from "node:assert/strict";
import { test } from "node:test";
import { settled } from "./Phases";

test("windows at the end whose phases have not come yet are left out, gaps before them stay", () => {
  const told = { period_ns: 10, time_ns: [0, 10, 20, 30], total_ns: [9, 9, 9, 9], phases_ns: { forward: [5, 0, 5, 0], other: [4, 9, 4, 9] } };
  const { time_ns, phases_ns } = settled(told);
  assert.deepEqual([time_ns, phases_ns], [[0, 10, 20], { forward: [5, 0, 5], other: [4, 9, 4] }]);
});

test("a last window that has only the first of its phases is left out, one that has all stays", () => {
  const told = (last: number) => ({ period_ns: 10, time_ns: [0, 10, 20, 30], total_ns: [9, 9, 9, 9], phases_ns: { forward: [5, 5, 5, last], other: [4, 4, 4, 9 - last] } });
  assert.equal(settled(told(1)).time_ns.length, 3);
  assert.equal(settled(told(4)).time_ns.length, 4);
});
