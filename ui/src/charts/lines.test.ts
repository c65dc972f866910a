import assert from "node:assert/strict";
import { test } from "node:test";
import type { Rank } from "../data/types";
import { HEAD, inSight, LINE, linesOf } from "./lines";

const rankOf = (rank: number): Rank => ({ rank, source: "", format: "", device: "", spans: 0, left_out: 0, rows: Array.from({ length: 20 }, (_, i) => ({ title: `row ${i}`, is_device: false, depth: 0 })), first_ns: 0, last_ns: 1, parts: null, steps: [] });
const laid = linesOf(Array.from({ length: 64 }, (_, i) => rankOf(i)), new Set([37]));

test("a rank that is out of sight is scrolled to, with what is just above it", () => {
  assert.equal(inSight(laid, 37, null, 0, 500), 35 * HEAD);
  assert.equal(inSight(laid, 2, null, 1000, 500), 0, "above it, too");
  assert.equal(inSight(laid, 3, null, 0, 500), 0, "what is in sight stays where it is");
  assert.equal(inSight(laid, 99, null, 70, 500), 70, "a rank that is not there moves nothing");
});

test("of a rank that begins in sight its first rows are, and a row of it is found by itself", () => {
  const head = 37 * HEAD;
  assert.equal(inSight(laid, 37, null, head - 500 + HEAD, 500), 35 * HEAD, "its head alone is not enough");
  assert.equal(inSight(laid, 37, null, head - 100, 500), head - 100);
  assert.equal(inSight(laid, 37, 19, 35 * HEAD, 300), head + HEAD + 19 * LINE - 2 * HEAD);
});
