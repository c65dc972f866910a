import assert from "node:assert/strict";
import { test } from "node:test";
import { cutOf } from "./cut";

const usual = Array.from({ length: 100 }, (_, i) => 100 + (i % 7));

test("a chart is cut off above what is usual where a few values are far beyond it", () => {
  assert.equal(cutOf([...usual, 900]), 2 * 106);
});

test("a chart without spikes, or with few values, is not cut", () => {
  assert.equal(cutOf(usual), null);
  assert.equal(cutOf([1, 900, null]), null);
  assert.equal(cutOf([]), null);
});
