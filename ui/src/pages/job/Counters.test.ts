import assert from "node:assert/strict";
import { test } from "node:test";
import type { CounterSeries } from "../../data/types";
import { drawnOf } from "./Counters";

const series = (rank: number, mean: number): CounterSeries => ({ rank, node: "n", gpu: rank, time_ns: [1, 2], mean: [mean, mean] }) as CounterSeries;
const loud = (means: number[], named: number | null = null): string[] => drawnOf(means.map((mean, rank) => series(rank, mean)), named).lines.filter((line) => !line.isQuiet).map((line) => `${line.label}: ${line.colour}`);

test("a rank that is unlike the others stands out, noise does not", () => {
  assert.deepEqual(loud([1980, 1981, 1979, 1185]), ["median of 3 others: compute", "rank 3: accent"]);
  assert.deepEqual(loud([660, 661, 662, 663]), ["median of all 4: compute"]);
  assert.deepEqual(loud([5, 5, 5, 5]), ["median of all 4: compute"]);
  assert.deepEqual(loud([7]), ["rank 0: compute"]);
});

test("of two ranks each has its line, since their median is one of them", () => {
  assert.deepEqual(loud([36, 28]), ["rank 0: compute", "rank 1: text"]);
  assert.deepEqual(loud([1980, 1981, 1185]), ["median of 2 others: compute", "rank 2: accent"]);
});

test("the rank that a finding is about stands out, also where it is like the others", () => {
  assert.deepEqual(loud([1980, 1980, 1980, 1980], 2), ["median of 3 others: compute", "rank 2: accent"]);
  assert.deepEqual(loud([1980, 1185, 1980, 1980], 2), ["median of 3 others: compute", "rank 2: accent"], "rather than who is unlike");
  assert.deepEqual(loud([1980, 1980, 1185, 1980], 9), ["median of 3 others: compute", "rank 2: accent"], "a rank without the counter changes nothing");
  assert.deepEqual(loud([36, 28], 1), ["rank 0: compute", "rank 1: text"]);
});
