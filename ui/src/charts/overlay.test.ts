import assert from "node:assert/strict";
import { test } from "node:test";
import { activities } from "../look/colours";
import { isOn, stretchesOf } from "./overlay";
import type { Piece, Tile } from "./pyramid";

const [host, input, compute] = (["host", "input", "compute"] as const).map((name) => activities.indexOf(name)) as [number, number, number];
const tile = { from: 0, to: 100, firstOfRow: Uint32Array.of(0, 1, 3), start: Float64Array.of(0, 10, 50), duration: Float64Array.of(100, 20, 40), activity: Uint8Array.of(host, host, compute), name: { values: ["a", "b"], numbers: Uint32Array.of(0, 0, 1) }, short: ["a", "b"] } as unknown as Tile;
const pieces: Piece[] = [{ tile, from: 0, to: 100 }];

test("the spans of a row that are in view, cut at its edges", () => {
  assert.deepEqual(stretchesOf(pieces, 1, 20, 60), { start: [20, 50], end: [30, 60], activity: [host, compute], name: ["a", "b"] });
  assert.deepEqual(stretchesOf(pieces, 1, 95, 100).start, []);
});

test("a span is on the path where the path does the same at its time", () => {
  const path = stretchesOf(pieces, 1, 0, 100);
  assert.equal(isOn(path, 15, host), true);
  assert.equal(isOn(path, 15, input), true, "loading input is time of the host");
  assert.equal(isOn(path, 15, compute), false);
  assert.equal(isOn(path, 40, host), false, "between two of its stretches");
  assert.equal(isOn(path, 70, compute), true);
});
