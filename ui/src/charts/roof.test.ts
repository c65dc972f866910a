import assert from "node:assert/strict";
import { test } from "node:test";
import { isDrawn } from "./Roof";

test("a rank that does nothing has no place under the roof", () => {
  assert.deepEqual([{ x: 0, y: 0 }, { x: 2, y: 0 }, { x: NaN, y: 1 }, { x: Infinity, y: 1 }, { x: 2, y: 3 }].map(isDrawn), [false, false, false, false, true]);
});
