import assert from "node:assert/strict";
import { test } from "node:test";
import { besides, isSeen } from "./Job";

test("the hours of a job of seconds are told apart as those of a long one", () => {
  const whole = 33 / 3600;
  assert.deepEqual([0.7 / 3600, 0.001 / 3600, 0].map((hours) => isSeen(hours, whole)), [true, false, false]);
  assert.equal(isSeen(0.1, 1000), false, "what is less than half a thousandth is no row");
});

test("a late rank is held against one that is not late", () => {
  assert.equal(besides(2, [0, 1, 2, 3]), 1);
  assert.equal(besides(0, [0, 1]), 1);
  assert.equal(besides(0, [0]), undefined);
});
