// Stacks from the store, each with its time, as one tree.
import type { Tree } from "../charts/tree";
import type { StackTime } from "./types";

const STATES = ["unknown", "running", "waiting", "gil_wait", "disk"];

export function stackTree(stacks: StackTime[]): Tree {
  const numbers = new Map<string, number>([["all", 0]]);
  const parent = [0], name = [0], own = [0];
  const states: Float64Array[] = [];
  const children: Map<number, number>[] = [new Map()];
  states.push(new Float64Array(5));
  for (const stack of stacks) {
    let node = 0;
    const state = Math.max(0, STATES.indexOf(stack.state));
    states[0]![state]! += stack.total_ns;
    for (const frame of stack.frames) {
      let number = numbers.get(frame);
      if (number === undefined) numbers.set(frame, (number = numbers.size));
      let next = children[node]!.get(number);
      if (next === undefined) {
        next = parent.length;
        parent.push(node);
        name.push(number);
        own.push(0);
        states.push(new Float64Array(5));
        children.push(new Map());
        children[node]!.set(number, next);
      }
      node = next;
      states[node]![state]! += stack.total_ns;
    }
    own[node]! += stack.total_ns;
  }
  const names = [...numbers.keys()];
  return {
    names, notes: names.map(() => ""), parent: Uint32Array.from(parent), name: Uint32Array.from(name), own: Float64Array.from(own),
    activity: Uint8Array.from(states, (times) => times.reduce((best, time, i) => (time > times[best]! ? i : best), 1)),
  };
}
