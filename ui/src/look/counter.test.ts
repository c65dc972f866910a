import assert from "node:assert/strict";
import { test } from "node:test";
import { counterWords, unitOf } from "./counter";

test("a counter's name tells its unit", () => {
  const told = (name: string, number: number) => { const { title, text } = counterWords(name); return `${title}: ${text(number)}`.replaceAll("\u00a0", " "); };
  assert.equal(told("gpu.sm_clock_mhz", 1185), "GPU SM clock: 1,185 MHz");
  assert.equal(told("gpu.throttle_ratio", 0.25), "GPU throttle: 25.0 %");
  assert.equal(told("host.network_bytes_per_s", 2e9), "Host network: 2.00 GB/s");
  assert.equal(told("loss", 2.5), "Loss: 2.50");
  assert.equal(told("_ratio", 1), "_ratio: 100 %");
  assert.equal(told("ddp.overlap_ns", 2e6), "DDP overlap: 2.00 ms");
  assert.equal(told("</script><b>", 2), "</script><b>: 2.00");
});

test("a counter of a trace tells the unit that stands behind its name", () => {
  const told = (name: string, number: number) => { const { title, text } = unitOf(name); return `${title}: ${text(number)}`.replaceAll("\u00a0", " "); };
  assert.equal(told("host memory_available (B)", 22.2e9), "host memory_available: 22.2 GB");
  assert.equal(told("vda written (B/s)", 17.4e6), "vda written: 17.4 MB/s");
  assert.equal(told("gpu0 sm_clock (MHz)", 1185), "gpu0 sm_clock: 1,185 MHz");
  assert.equal(told("tokens", 88), "tokens: 88.0");
  assert.equal(told("ddp.overlap_ns", 1.17e6), "ddp.overlap_ns: 1.17 ms");
});

test("what is allocated on no device is on the host", () => {
  assert.equal(unitOf("allocated device -1").title, "allocated on the host");
  assert.equal(unitOf("allocated device 1").title, "allocated device 1");
});
