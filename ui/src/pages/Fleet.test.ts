import assert from "node:assert/strict";
import { test } from "node:test";
import type { FleetJob, Node } from "../data/types";
import { fitting } from "./Fleet";

const node = (name: string, ...jobs: string[]): Node => ({ node: name, cluster: "east", state: "up", jobs, open_findings: 0, gpus: [] });
const nodes = [node("gpu-01", "llama"), node("gpu-02", "vit"), node("cpu-01")];
const found = (wanted: string, ...jobs: string[]) => fitting(nodes, wanted, jobs.map((job) => ({ job }) as FleetJob)).map((each) => each.node);

test("a search finds machines by name, by cluster, and by the jobs that it finds", () => {
  assert.deepEqual(found("gpu-02"), ["gpu-02"]);
  assert.deepEqual(found("lla", "llama"), ["gpu-01"]);
  assert.deepEqual(found("east"), ["gpu-01", "gpu-02", "cpu-01"]);
  assert.deepEqual(found("nothing"), []);
  assert.equal(found("", "vit").length, 3, "without a search all are there, whatever jobs are shown");
});
