import assert from "node:assert/strict";
import { test } from "node:test";
import type { Source } from "../data/source";
import type { Columns, Numbers, Texts } from "../data/table";
import { firstAfter, levelFor, Pyramid, tilesOf } from "./pyramid";

const columns = (start: number[], row: number[]): Columns => {
  const numbers: Record<string, Numbers> = {
    row: Uint32Array.from(row), start: Float64Array.from(start), duration: Float64Array.from(start, () => 5), count: Uint32Array.from(start, () => 1), activity: Uint8Array.from(start, () => 1),
    span: Uint32Array.from(start), flow_row: Int32Array.from(start, () => -1), flow_start: Float64Array.from(start, () => 0),
  };
  const texts: Texts = { values: ["k"], numbers: Uint32Array.from(start, () => 0) };
  return { rows: start.length, numbers: (name) => numbers[name]!, texts: () => texts };
};

const sourceOf = (asked: string[], missing: string[] = []): Source => ({
  served: true, href: (path) => path, json: () => Promise.reject(new Error()), post: () => Promise.reject(new Error()),
  table: (path) => { asked.push(path); return missing.includes(path) ? Promise.reject(new Error("gone")) : Promise.resolve(columns([0, 10, 20], [0, 0, 1])); },
});

test("a bin is about a pixel wide on the level that a view takes", () => {
  for (const part of [1, 0.5, 0.1, 0.003]) {
    const level = levelFor(1e9, 1e9 * part, 1400, 30);
    const pixels = ((1e9 / 2 ** level / 1024) / (1e9 * part)) * 1400;
    assert.ok(pixels > 0.65 && pixels < 1.5, `${part}: ${pixels}`);
  }
});

test("the tiles of a view cover it and stay inside the trace", () => {
  assert.deepEqual(tilesOf(1000, 3, 130, 370), [1, 2]);
  assert.deepEqual(tilesOf(1000, 3, -50, 5000), [0, 7]);
});

test("a coarser tile stands in until the right one is there", async () => {
  const asked: string[] = [];
  const pyramid = new Pyramid(sourceOf(asked), "t", 2, 1e6, 8, () => {});
  assert.deepEqual(pyramid.view(0, 1e6, 1024), []);
  await new Promise((done) => setTimeout(done, 5));
  assert.equal(pyramid.view(0, 1e6, 1024).length, 1);
  const inside = pyramid.view(0, 2.5e5, 1024);
  assert.equal(inside.length, 1, "level 0 stands in");
  assert.equal(inside[0]!.tile.to, 1e6);
  await new Promise((done) => setTimeout(done, 5));
  assert.equal(pyramid.view(0, 2.5e5, 1024)[0]!.tile.to, 2.5e5);
  assert.deepEqual(asked, ["t/0/0", "t/2/0"]);
});

test("a tile that cannot be had is asked for once", async () => {
  const asked: string[] = [];
  const pyramid = new Pyramid(sourceOf(asked, ["t/2/0"]), "t", 2, 1e6, 8, () => {});
  for (let turn = 0; turn < 4; turn++) { pyramid.view(0, 2.5e5, 1024); await new Promise((done) => setTimeout(done, 5)); }
  assert.equal(asked.filter((path) => path === "t/2/0").length, 1);
});

test("where a tile cannot be had the finest that can stands in for it", async () => {
  const pyramid = new Pyramid(sourceOf([], ["t/3/0", "t/2/0"]), "t", 2, 1e6, 8, () => {});
  for (let turn = 0; turn < 4; turn++) { pyramid.view(0, 1.25e5, 1024); await new Promise((done) => setTimeout(done, 5)); }
  assert.equal(pyramid.view(0, 1.25e5, 1024)[0]!.tile.to, 5e5);
});

test("the first box after a time is found within its row", async () => {
  const pyramid = new Pyramid(sourceOf([]), "t", 2, 1e6, 8, () => {});
  pyramid.view(0, 1e6, 1024);
  await new Promise((done) => setTimeout(done, 5));
  const { tile } = pyramid.view(0, 1e6, 1024)[0]!;
  assert.equal(firstAfter(tile, 0, 6), 1);
  assert.equal(firstAfter(tile, 0, 100), 2);
  assert.equal(firstAfter(tile, 1, 0), 2);
});
