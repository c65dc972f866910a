import assert from "node:assert/strict";
import { test } from "node:test";
import { heldIn } from "./held";

const times = [10, 20, 30], values = [1, 5, 2];

test("a view between two values of a counter shows the one that holds there", () => {
  assert.deepEqual(heldIn(times, values, { from: 22, to: 28 }), [{ from: 20, to: 30, value: 5 }]);
});

test("a counter has no value before its first and none after its last", () => {
  assert.deepEqual(heldIn(times, values, { from: 0, to: 9 }), []);
  assert.deepEqual(heldIn(times, values, { from: 31, to: 40 }), []);
  assert.deepEqual(heldIn(times, values, { from: 0, to: 40 }).map((each) => each.value), values);
});
