import assert from "node:assert/strict";
import { test } from "node:test";
import { Fingers, pinched } from "./fingers";

test("two fingers are a pinch, one is none", () => {
  const fingers = new Fingers();
  fingers.down({ pointerId: 1, offsetX: 100, offsetY: 50 });
  assert.equal(fingers.pinch(), null);
  fingers.down({ pointerId: 2, offsetX: 200, offsetY: 50 });
  assert.deepEqual(fingers.pinch(), { x: 150, y: 50, spread: 100 });
  fingers.move({ pointerId: 2, offsetX: 300, offsetY: 50 });
  assert.deepEqual(fingers.pinch(), { x: 200, y: 50, spread: 200 });
  fingers.move({ pointerId: 7, offsetX: 0, offsetY: 0 });
  fingers.up({ pointerId: 1 });
  assert.equal(fingers.pinch(), null);
});

test("what lies between the fingers stays between them", () => {
  assert.deepEqual(pinched(0, 100, 0.5, 0.5, 2), { from: 25, to: 75 });
  assert.deepEqual(pinched(0, 100, 0.25, 0.5, 1), { from: -25, to: 75 });
});
