import assert from "node:assert/strict";
import { test } from "node:test";
import { legendOf } from "./parts";

test("pieces of one colour stand behind one swatch, and what nobody sees is left out", () => {
  const found = legendOf([
    { label: "compute", ns: 9000, colour: "compute" }, { label: "idle: host", ns: 600, colour: "idle" },
    { label: "idle: loader", ns: 396, colour: "idle" }, { label: "copies", ns: 4, colour: "copy" },
  ]);
  assert.deepEqual(found.map((group) => group.pieces.map((piece) => [piece.label, piece.ratio])), [[["compute", 0.9]], [["idle: host", 0.06], ["loader", 0.0396]]]);
});
