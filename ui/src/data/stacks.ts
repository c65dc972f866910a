// Stacks from the store, each with its time, as one tree: of the CPU, of the GPU, or of both.
import { type Tree, totals } from "../charts/tree";
import type { StackTime } from "./types";

const HOST = ["unknown", "running", "waiting", "gil_wait", "disk"];
const KERNEL = HOST.length, COMMUNICATION = KERNEL + 1, COPY = KERNEL + 2;
export const PALETTE = ["unknown", "host", "waiting", "overhead", "disk", "compute", "communication", "copy"] as const;
export const PALETTE_WORDS: Record<string, string> = { host: "running on the CPU", waiting: "waiting", overhead: "waiting for the GIL", disk: "waiting for a disk", compute: "kernels on the GPU", communication: "communication kernels", copy: "copies" };
export const NOT_KNOWN = "(launch not known)";

// The thread of pilotlight itself that waits for orders: in every process all the time, and nobody's code.
const isOwn = (stack: StackTime): boolean => /\(probe\/errands\.py(:\d+)?\)$/.test(stack.frames[0] ?? "");
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

// "train (llama/train.py:88)": the function is one thing whatever line it is in.
const LINED = /^([^]*) \(([^()]*):(\d{1,9})\)$/;

function parted(frame: string): { text: string; line: number } {
  const [, name, file, line] = LINED.exec(frame) ?? [];
  return line ? { text: `${name} (${file})`, line: Number(line) } : { text: frame, line: 0 };
}

class Nodes {
  readonly parent = [0];
  readonly name = [0];
  readonly line = [0];
  readonly own = [0];
  private readonly children: Map<string, number>[] = [new Map()];

  child(node: number, name: number, line: number): number {
    const key = `${name}:${line}`;
    let found = this.children[node]!.get(key);
    if (found === undefined) {
      this.children[node]!.set(key, (found = this.parent.length));
      this.parent.push(node);
      this.name.push(name);
      this.line.push(line);
      this.own.push(0);
      this.children.push(new Map());
    }
    return found;
  }
}

export function stackTree(stacks: StackTime[]): Tree {
  const numbers = new Map<string, number>([["all", 0]]);
  const nodes = new Nodes(), split = new Nodes();
  const states: Float64Array[] = [new Float64Array(PALETTE.length)];
  const of = [0]; // of each node that is split by line, the one that is not
  const onDevice = new Set<number>();
  for (const stack of stacks) {
    if (isOwn(stack)) continue;
    let node = 0, fine = 0;
    const state = kindOf(stack), device = isDevice(stack);
    stack.frames.forEach((frame, depth) => {
      const isKernel = device && depth === stack.frames.length - 1;
      const { text, line } = isKernel ? { text: frame, line: 0 } : parted(frame);
      let number = numbers.get(text);
      if (number === undefined) numbers.set(text, (number = numbers.size));
      node = nodes.child(node, number, 0);
      fine = split.child(fine, number, line);
      of[fine] = node;
      states[node] ??= new Float64Array(PALETTE.length);
      // Only the kernel itself is on the device; what launched it is code.
      if (!device || isKernel) states[node]![state]! += stack.total_ns;
      if (isKernel) onDevice.add(number);
    });
    nodes.own[node]! += stack.total_ns;
    split.own[fine]! += stack.total_ns;
  }
  const names = [...numbers.keys()];
  const notes = names.map((_, number) => (onDevice.has(number) ? "on the GPU" : ""));
  const activity = Uint8Array.from(states, (times) => times.reduce((best, time, i) => (time > times[best]! ? i : best), 1));
  const made = ({ parent, name, own }: Nodes) => ({ names, notes, parent: Uint32Array.from(parent), name: Uint32Array.from(name), own: Float64Array.from(own) });
  const fine = { ...made(split), line: Uint32Array.from(split.line), activity: Uint8Array.from(of, (node) => activity[node]!) };
  const lines = nodes.parent.map(() => new Map<number, number>());
  totals(fine.parent, fine.own).forEach((ns, node) => { if (fine.line[node]) { const mine = lines[of[node]!]!; mine.set(fine.line[node]!, (mine.get(fine.line[node]!) ?? 0) + ns); } });
  return { ...made(nodes), activity, lines, split: fine };
}
