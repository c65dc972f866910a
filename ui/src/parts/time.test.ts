import assert from "node:assert/strict";
import { test } from "node:test";
import { wholePieces } from "./time";

test("what is in no part of a step is told as not known, and not left out of the whole", () => {
  assert.deepEqual(wholePieces({ compute: 60, communication: 40 }, 1000).map(({ label, ns }) => [label, ns]), [["compute", 60], ["exposed communication", 40], ["not known", 900]]);
  assert.equal(wholePieces({ compute: 998 }, 1000).length, 1);
});
