import assert from "node:assert/strict";
import { test } from "node:test";
import type { Job } from "../../data/types";
import { endOf } from "../Job";
import { factsOf } from "./Facts";

test("a fact is told once, and not where it is empty", () => {
  const row = { command: "python train.py", launcher: "torchrun", cluster: "", world_size: 0 } as Job["row"];
  assert.deepEqual(factsOf({ row, facts: { launcher: "torchrun", version: "0.1.0", "torch.threads": 1 } }), [["command", "python train.py"], ["launcher", "torchrun"], ["pilotlight", "0.1.0"], ["torch.threads", "1"]]);
});

test("a job that is over says how it ended, as far as that is known", () => {
  const told = (state: string, exit_code: number, signal: number) => endOf({ state, exit_code, signal });
  assert.deepEqual([told("finished", 0, 0), told("failed", 3, 0), told("failed", 137, 9), told("lost", 0, 0)], ["finished", "failed with exit code 3", "failed by signal 9", "lost"]);
});
