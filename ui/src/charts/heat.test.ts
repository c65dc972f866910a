import assert from "node:assert/strict";
import { test } from "node:test";
import { scaleOf } from "./Heat";

test("the scale of a map spans what counts, so that noise stays pale", () => {
  assert.deepEqual(scaleOf(Float32Array.of(368, 369, 371), 37), [368, 405]);
  assert.deepEqual(scaleOf(Float32Array.of(368, 369, 571), 37), [368, 571]);
  assert.deepEqual(scaleOf(Float32Array.of(5, 5, 5), 37), [5, 5]);
});
