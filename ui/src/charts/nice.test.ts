import assert from "node:assert/strict";
import { test } from "node:test";
import { niceTimeStep } from "./canvas";

test("from a minute on time is divided as clocks do", () => {
  const S = 1e9;
  assert.deepEqual([0.9, 20, 60, 1500, 7200, 90_000].map((seconds) => niceTimeStep(seconds * S, 8) / S), [0.2, 5, 10, 300, 900, 14_400]);
});
