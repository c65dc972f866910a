import assert from "node:assert/strict";
import { test } from "node:test";
import { counterWords } from "./counter";

test("a counter's name tells its unit", () => {
  const told = (name: string, number: number) => { const { title, text } = counterWords(name); return `${title}: ${text(number)}`.replaceAll("\u00a0", " "); };
  assert.equal(told("gpu.sm_clock_mhz", 1185), "GPU SM clock: 1,185 MHz");
  assert.equal(told("gpu.throttle_ratio", 0.25), "GPU throttle: 25.0 %");
  assert.equal(told("host.network_bytes_per_s", 2e9), "Host network: 2.00 GB/s");
  assert.equal(told("loss", 2.5), "Loss: 2.50");
  assert.equal(told("_ratio", 1), "_ratio: 100 %");
});
