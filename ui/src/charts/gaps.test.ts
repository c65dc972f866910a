import assert from "node:assert/strict";
import { test } from "node:test";
import { withGaps } from "./gaps";

test("a line is broken where nothing was measured", () => {
  const [times, line] = withGaps([[0, 10, 20, 100, 110], [1, 2, 3, 4, 5]]);
  assert.deepEqual(times, [0, 10, 20, 30, 100, 110]);
  assert.deepEqual(line, [1, 2, 3, null, 4, 5]);
});

test("a line without gaps stays as it is", () => {
  const given = [[0, 10, 25, 40], [1, null, 3, 4]];
  assert.deepEqual(withGaps(given), given);
  assert.deepEqual(withGaps([[], []]), [[], []]);
  assert.deepEqual(withGaps([[5], [1]]), [[5], [1]]);
});
