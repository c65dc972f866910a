import assert from "node:assert/strict";
import { test } from "node:test";
import { boxesOf, rowsOf } from "./Flame";
import { type Tree, callees, callers, changes, compared, functions, lay, nameKey, nodeKey, nodeOf, sameLines, sameTotal, strength, totals } from "./tree";

// main -> a (5) -> b (3); main -> c (2) -> a (4) -> a (1)
const tree: Tree = {
  names: ["all", "main", "a", "b", "c"], notes: ["", "", "", "", ""],
  parent: Uint32Array.of(0, 0, 1, 2, 1, 4, 5), name: Uint32Array.of(0, 1, 2, 3, 4, 2, 2),
  activity: new Uint8Array(7), own: Float64Array.of(0, 0, 5, 3, 2, 4, 1),
};

test("a total is the own time and that of all below", () => {
  assert.deepEqual([...totals(tree.parent, tree.own)], [15, 15, 8, 3, 7, 5, 1]);
});

test("recursion counts once in the total of a function", () => {
  const rows = functions(lay(tree));
  const row = rows.find((found) => tree.names[found.name] === "a")!;
  assert.equal(row.own, 10);
  assert.equal(row.total, 13);
});

test("callees keep the time of a function wherever it was called", () => {
  const found = lay(callees(tree, 2));
  assert.equal(found.total[0], 13);
  const names = [...found.tree.name].map((number) => found.tree.names[number]);
  assert.deepEqual(names.sort(), ["a", "a", "b"]);
});

test("callers divide the time of a function among those that call it", () => {
  const found = lay(callers(tree, 2));
  assert.equal(found.total[0], 13);
  const direct = [...found.tree.parent.keys()].filter((node) => node > 0 && found.tree.parent[node] === 0);
  const byName = Object.fromEntries(direct.map((node) => [found.tree.names[found.tree.name[node]!], found.total[node]]));
  assert.deepEqual(byName, { main: 8, c: 5 });
});

test("children stand in the order of their time and thin ones are not visited", () => {
  const laid = lay(tree);
  const boxes = boxesOf(laid, 0, 15);
  const main = boxes.filter((box) => box.row === 2).sort((a, b) => a.x - b.x);
  assert.deepEqual(main.map((box) => box.width), [8, 7]);
  assert.equal(boxesOf(laid, 0, 2).some((box) => box.width < 0.6), false);
});

test("a zoomed node has the whole width and its callers above it", () => {
  const boxes = boxesOf(lay(tree), 4, 100);
  assert.deepEqual(boxes.filter((box) => box.width === 100).map((box) => box.row), [0, 1, 2]);
});

test("a comparison has the difference of each path, also of those on one side only", () => {
  const other: Tree = { names: ["all", "main", "d"], notes: ["", "", ""], parent: Uint32Array.of(0, 0, 1), name: Uint32Array.of(0, 1, 2), activity: new Uint8Array(3), own: Float64Array.of(0, 0, 6) };
  const laid = compared(other, tree);
  const change = new Map([...laid.tree.name].map((number, node) => [laid.tree.names[number], laid.change![node]]));
  assert.equal(laid.change![0], 9);
  assert.equal(change.get("d"), -6);
  for (let node = 1; node < laid.tree.parent.length; node++) assert.ok(laid.total[laid.tree.parent[node]!]! >= laid.total[node]!);
});

test("what differs is told by name, in itself, the greatest first", () => {
  const of = (own: number[]): Tree => ({ names: ["all", "main", "a", "b"], notes: ["", "", "", ""], parent: Uint32Array.of(0, 0, 1, 1, 2), name: Uint32Array.of(0, 1, 2, 3, 3), activity: new Uint8Array(5), own: Float64Array.from(own) });
  const rows = changes(compared(of([0, 1000, 100, 50, 50]), of([0, 1000, 140, 10, 20])));
  assert.deepEqual(rows.map(({ label, before, after, change }) => [label, before, after, change]), [["b", 100, 30, -70], ["a", 100, 140, 40]]);
});

test("the key of a place finds it in another tree with other numbers", () => {
  const other: Tree = { ...tree, names: ["c", "b", "a", "main", "all"], name: Uint32Array.of(4, 3, 2, 1, 0, 2, 2) };
  for (let node = 0; node < tree.parent.length; node++) assert.equal(nodeOf(other, nodeKey(tree, node)), node);
  assert.equal(nodeOf(tree, "gone"), 0);
  assert.notEqual(nameKey("ab"), nameKey("ba"));
});

test("two trees of different length are compared by parts", () => {
  const [before] = sameTotal(tree, { ...tree, own: tree.own.map((ns) => 2 * ns) });
  assert.equal(totals(before.parent, before.own)[0], 30);
});

test("a function that moved by some lines is the same, of two with one name each its own", () => {
  const before = ["all", "a.py(10): f", "a.py(20): f", "b.py(5): g", "c.py(1): h", "<object at 0x7f01>"];
  const after = ["all", "a.py(12): f", "a.py(25): f", "b.py(5): g", "c.py(2): h", "c.py(9): h", "<object at 0x7f99>"];
  assert.deepEqual([...sameLines(before, after)], [[1, 1], [2, 2], [5, 6]]);
});

test("what is deep and thin makes a flame graph no taller, and is still there to scroll to", () => {
  const box = (row: number, width: number) => ({ node: row, x: 0, width, row });
  const thin = Array.from({ length: 140 }, (_, i) => box(i + 6, 30));
  assert.deepEqual(rowsOf([box(0, 1600), box(5, 900), ...thin]), { all: 146, shown: 7 });
  assert.deepEqual(rowsOf([box(0, 1600), box(5, 900), box(6, 30)]), { all: 7, shown: 7 });
});

test("a difference that is no more than chance is not painted like one that matters", () => {
  assert.ok(strength(6, 6, 10_000) < 0.25, "the largest, but a thousandth of the whole");
  assert.equal(strength(-2_000, 2_000, 10_000), 1);
});
