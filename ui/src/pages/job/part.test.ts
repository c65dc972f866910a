import assert from "node:assert/strict";
import { test } from "node:test";
import { chosenOf } from "./part";

test("a link whose time is none shows the whole", () => {
  assert.deepEqual(chosenOf("1000", "2000"), { from: 1000, to: 2000 });
  for (const [from, to] of [["", ""], ["5", ""], ["NaN", "abc"], ["-5", "1e99"], ["7", "7"], ["9", "3"]]) assert.equal(chosenOf(from, to), null, `${from} to ${to}`);
});
