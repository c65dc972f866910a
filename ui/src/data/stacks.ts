// Stacks from the store, each with its time, as one tree: of the CPU, of the GPU, or of both.
import type { Tree } from "../charts/tree";
import type { StackTime } from "./types";

const HOST = ["unknown", "running", "waiting", "gil_wait", "disk"];
const KERNEL = HOST.length, COMMUNICATION = KERNEL + 1, COPY = KERNEL + 2;
export const PALETTE = ["unknown", "host", "waiting", "overhead", "disk", "compute", "communication", "copy"] as const;
export const PALETTE_WORDS: Record<string, string> = { host: "running on the CPU", waiting: "waiting", overhead: "waiting for the GIL", disk: "waiting for a disk", compute: "kernels on the GPU", communication: "communication kernels", copy: "copies" };
export const NOT_KNOWN = "(launch not known)";

// The thread of pilotlight itself that waits for orders: in every process all the time, and nobody's code.
const isOwn = (stack: StackTime): boolean => /\(probe\/errands\.py\)$/.test(stack.frames[0] ?? "");
const isDevice = (stack: StackTime): boolean => !HOST.includes(stack.state);

function kindOf(stack: StackTime): number {
  if (!isDevice(stack)) return HOST.indexOf(stack.state);
  if (stack.state === "memcpy" || stack.state === "memset") return COPY;
  return /nccl|rccl|all_?reduce|all_?gather/i.test(stack.frames[stack.frames.length - 1] ?? "") ? COMMUNICATION : KERNEL;
}

// How much of the device time has code above it.
export function joined(stacks: StackTime[]): number {
  const all = stacks.reduce((sum, stack) => sum + stack.total_ns, 0);
  const known = stacks.filter((stack) => stack.frames.length > 1 && stack.frames[0] !== NOT_KNOWN).reduce((sum, stack) => sum + stack.total_ns, 0);
  return all ? known / all : 0;
}

export function stackTree(stacks: StackTime[]): Tree {
  const numbers = new Map<string, number>([["all", 0]]);
  const parent = [0], name = [0], own = [0];
  const states: Float64Array[] = [new Float64Array(PALETTE.length)];
  const children: Map<number, number>[] = [new Map()];
  const onDevice = new Set<number>();
  for (const stack of stacks) {
    if (isOwn(stack)) continue;
    let node = 0;
    const state = kindOf(stack), device = isDevice(stack);
    stack.frames.forEach((frame, depth) => {
      let number = numbers.get(frame);
      if (number === undefined) numbers.set(frame, (number = numbers.size));
      let next = children[node]!.get(number);
      if (next === undefined) {
        next = parent.length;
        parent.push(node);
        name.push(number);
        own.push(0);
        states.push(new Float64Array(PALETTE.length));
        children.push(new Map());
        children[node]!.set(number, next);
      }
      node = next;
      // Only the kernel itself is on the device; what launched it is code.
      if (!device || depth === stack.frames.length - 1) states[node]![state]! += stack.total_ns;
      if (device && depth === stack.frames.length - 1) onDevice.add(number);
    });
    own[node]! += stack.total_ns;
  }
  const names = [...numbers.keys()];
  return {
    names, notes: names.map((_, number) => (onDevice.has(number) ? "on the GPU" : "")), parent: Uint32Array.from(parent), name: Uint32Array.from(name), own: Float64Array.from(own),
    activity: Uint8Array.from(states, (times) => times.reduce((best, time, i) => (time > times[best]! ? i : best), 1)),
  };
}
