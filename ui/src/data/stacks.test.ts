import assert from "node:assert/strict";
import { test } from "node:test";
import { callees, callers, compared, functions, labelOf, lay, linesOf, totals, type Tree } from "../charts/tree";
import { joined, PALETTE, stackTree } from "./stacks";

const host = { frames: ["main (train.py)", "forward (model.py)"], state: "running", total_ns: 30 };
const kernel = { frames: ["main (train.py)", "forward (model.py)", "attn", "gemm"], state: "kernel", total_ns: 50 };
const lost = { frames: ["(launch not known)", "Memcpy HtoD"], state: "memcpy", total_ns: 20 };

test("CPU and GPU time of the same code meet in one node", () => {
  const tree = stackTree([host, kernel, lost]);
  const total = totals(tree.parent, tree.own);
  const at = (text: string) => [...tree.name].findIndex((number) => tree.names[number] === text);
  assert.equal(total[0], 100);
  assert.equal(total[at("forward (model.py)")], 80);
  assert.equal(tree.own[at("forward (model.py)")], 30);
  assert.equal(PALETTE[tree.activity[at("gemm")]!], "compute");
  assert.equal(PALETTE[tree.activity[at("attn")]!], "host", "what launches a kernel is code");
  assert.equal(PALETTE[tree.activity[at("Memcpy HtoD")]!], "copy");
  assert.equal(tree.notes[tree.name[at("gemm")]!], "on the GPU");
});

test("device time without a launch is not counted as joined", () => {
  assert.equal(joined([kernel, lost]), 50 / 70);
  assert.equal(joined([{ ...kernel, frames: ["gemm"] }]), 0);
  assert.equal(joined([]), 0);
});

test("pilotlight's own thread is no part of the job", () => {
  const rows = [{ frames: ["_serve (probe/errands.py)", "_listen (probe/errands.py)"], state: "waiting", total_ns: 900 }, { frames: ["main (train.py)"], state: "running", total_ns: 100 }];
  assert.deepEqual(stackTree(rows).names, ["all", "main (train.py)"]);
});

const at = (tree: Tree, text: string) => [...tree.name].findIndex((number) => tree.names[number] === text);
const LINED = [
  { frames: ["main (a/t.py:9)", "load (a/d.py:3)"], state: "running", total_ns: 20 },
  { frames: ["main (a/t.py:9)", "load (a/d.py:4)"], state: "running", total_ns: 30 },
  { frames: ["main (a/t.py:12)", "load (a/d.py:3)"], state: "waiting", total_ns: 25 },
  { frames: ["main (a/t.py:12)", "step (a/o.py:7)"], state: "running", total_ns: 40 },
];

test("a function is one node whatever line it is in, and shows the line that takes most", () => {
  const tree = stackTree(LINED);
  assert.equal(tree.parent.length, 4);
  assert.equal(labelOf(tree, at(tree, "main (a/t.py)")), "main (a/t.py:12)");
  assert.deepEqual(linesOf(tree, at(tree, "load (a/d.py)")), [{ line: 3, ratio: 45 / 75 }, { line: 4, ratio: 30 / 75 }]);
  assert.deepEqual(functions(lay(tree)).map((row) => row.label), ["load (a/d.py:3)", "step (a/o.py:7)", "main (a/t.py:12)"]);
});

test("callers are told by the lines that they call from", () => {
  const tree = stackTree(LINED);
  const up = callers(tree, tree.names.indexOf("load (a/d.py)"));
  assert.equal(labelOf(up, at(up, "main (a/t.py)")), "main (a/t.py:9)", "not 12, where it calls step");
  const down = callees(tree, tree.names.indexOf("main (a/t.py)"));
  assert.equal(labelOf(down, 0), "main (a/t.py:12)");
  assert.equal(labelOf(down, at(down, "step (a/o.py)")), "step (a/o.py:7)");
});

test("of two times the lines are those of the second; what is gone keeps its own", () => {
  const { tree } = compared(stackTree(LINED), stackTree([{ frames: ["main (a/t.py:30)"], state: "running", total_ns: 50 }]));
  assert.equal(labelOf(tree, at(tree, "main (a/t.py)")), "main (a/t.py:30)");
  assert.equal(labelOf(tree, at(tree, "step (a/o.py)")), "step (a/o.py:7)");
});

test("frames of an older agent and kernels have no line", () => {
  const tree = stackTree([host, { frames: ["main (t.py:1)", "kernel (x:3)"], state: "kernel", total_ns: 1 }]);
  assert.equal(labelOf(tree, at(tree, "forward (model.py)")), "forward (model.py)");
  assert.equal(labelOf(tree, at(tree, "kernel (x:3)")), "kernel (x:3)");
});
