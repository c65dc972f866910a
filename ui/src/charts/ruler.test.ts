import assert from "node:assert/strict";
import { test } from "node:test";
import { duration } from "../look/format";
import { niceTimeStep } from "./canvas";
import { baseOf, exact } from "./ruler";

// What stands at the ticks of a view of nine ticks or so.
function labels(from: number, to: number): string[] {
  const step = niceTimeStep(to - from, 9), base = baseOf({ from, to }, step), told: string[] = [];
  for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) told.push(Math.abs(tick - base) < step / 2 ? "0" : duration(tick - base));
  return told;
}

test("no two ticks of the timeline look the same, however far in it is zoomed", () => {
  for (const at of [0, 1e5, 100e6, 999e6, 12.3456789e9, 125e9, 3700e9]) {
    for (const span of [200, 5e3, 1e6, 40e6, 3e9]) {
      const told = labels(at, at + span);
      assert.equal(new Set(told).size, told.length, `${at} + ${span}: ${told.join(", ")}`);
    }
  }
});

test("the time that ticks are told from has all its digits", () => {
  assert.equal(exact(100e6, 200e3), "100 ms");
  assert.equal(exact(12.34e9, 200e3), "12.34 s");
  assert.equal(exact(12_345_678_900, 1), "12.3456789 s");
  assert.equal(exact(3_725_340_000_000, 1e8), "3,725 s");
});
