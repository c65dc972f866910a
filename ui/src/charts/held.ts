// A counter keeps its value until the next one is told: also before the first that a view has, and between two that are
// both outside of it.
import type { View } from "./marks";

export interface Held { from: number; to: number; value: number }

export function heldIn(times: number[], values: number[], view: View): Held[] {
  const found: Held[] = [];
  times.forEach((from, i) => {
    const to = times[i + 1] ?? from;
    if (from <= view.to && to >= view.from) found.push({ from, to, value: values[i]! });
  });
  return found;
}
