import assert from "node:assert/strict";
import { test } from "node:test";
import { totals } from "../charts/tree";
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
