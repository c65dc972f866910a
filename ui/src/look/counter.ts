// A counter's name carries its unit: gpu.sm_clock_mhz. What a person reads, and how its values are told.
import { brief, duration, share, size, value } from "./format";

const UNITS: [string, (number: number) => string][] = [
  ["_bytes_per_s", (number) => `${size(number)}/s`], ["_bytes", size], ["_ratio", share], ["_mhz", (number) => `${value(number)} MHz`],
  ["_c", (number) => `${value(number)} °C`], ["_w", (number) => `${value(number)} W`], ["_j", (number) => `${value(number)} J`],
  ["_ns", duration], ["_per_s", (number) => `${value(number)} /s`], ["_s", (number) => duration(1e9 * number)], ["_count", value],
];
const SHORT: Record<string, string> = { gpu: "GPU", sm: "SM", cpu: "CPU", dram: "DRAM", pcie: "PCIe", nvlink: "NVLink", ecc: "ECC", mfu: "MFU", psi: "PSI", io: "I/O", ddp: "DDP" };

// Names of ours, and such as programs have as a rule; others stand as they are.
const PLAIN = /^[\w./ -]{1,60}$/;

export interface CounterWords { title: string; text(number: number): string }

export function counterWords(name: string): CounterWords {
  if (!PLAIN.test(name)) return { title: name, text: value };
  // Programs that tell it in per cent mean a hundredth.
  const [suffix, text] = UNITS.find(([end]) => name.endsWith(end)) ?? ["", /(^|[._/])mfu$/.test(name) ? (number: number) => share(number > 1 ? number / 100 : number) : value];
  const words = name.slice(0, name.length - suffix.length).split(/[._/]+/).filter(Boolean).map((word) => SHORT[word] ?? word).join(" ");
  return { title: words ? words[0]!.toUpperCase() + words.slice(1) : name, text };
}

// What PyTorch's allocator tells in Kineto traces is in bytes, which its name does not say (trace/kineto.py).
const ALLOCATED = /^(?:allocated|reserved) device\b/;

// A counter of a trace has its unit behind its name: "host memory_available (B)".
export function unitOf(name: string): CounterWords {
  const [, title = name, unit = ""] = /^(.*) \(([^()]{1,12})\)$/.exec(name) ?? [];
  if (unit === "B" || ALLOCATED.test(name)) return { title: title.replace(/ device -1$/, " on the host"), text: size };
  if (unit === "B/s") return { title, text: (number) => `${size(number)}/s` };
  const named = unit ? undefined : UNITS.find(([end]) => name.endsWith(end));
  return { title, text: named ? named[1] : (number) => `${brief(number)}${unit && `\u00a0${unit}`}` };
}
