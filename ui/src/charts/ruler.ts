// Above the timeline: times, and below them the names of the steps.
import type { Step } from "../data/types";
import { colour } from "../look/colours";
import { count, duration } from "../look/format";
import { font, niceTimeStep } from "./canvas";

export const TIMES = 26;
export const STEP_NAMES = 18;

interface Place { view: { from: number; to: number }; width: number; left: number; x(time: number): number }

const MINUTE = 60e9, HOUR = 3600e9;

// Where times with three digits would all look the same, ticks tell the distance from a round time; 0 where they do not.
export function baseOf({ from, to }: { from: number; to: number }, step: number): number {
  const told = to >= HOUR ? MINUTE : 10 ** (Math.floor(Math.log10(Math.max(to, 1))) - 2);
  return step < told ? Math.floor(from / (100 * step)) * 100 * step : 0;
}

const UNITS: [number, string][] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]];

// A multiple of a hundred steps with all its digits.
export function exact(ns: number, step: number): string {
  const [unit, name] = UNITS.find(([each]) => Math.abs(ns) >= each) ?? [1, "ns"], digits = Math.max(0, Math.ceil(Math.log10(unit / (100 * step)) - 1e-9));
  return `${(ns / unit).toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${name}`;
}

export function ruler(context: CanvasRenderingContext2D, { view, width, left, x }: Place): void {
  const [quiet, line] = [colour("quiet"), colour("line")];
  context.fillStyle = colour("ground");
  context.fillRect(0, 0, width, TIMES);
  context.fillStyle = quiet;
  context.font = font(11);
  const step = niceTimeStep(view.to - view.from, (width - left) / 110);
  const base = baseOf(view, step);
  context.fillText(base ? `${exact(base, step)} +` : "time", 6, TIMES / 2);
  for (let tick = Math.ceil(view.from / step) * step; tick <= view.to; tick += step) {
    const at = x(tick);
    context.fillStyle = line;
    context.fillRect(at, TIMES - 6, 1, 6);
    context.fillStyle = quiet;
    const label = Math.abs(tick - base) < step / 2 ? "0" : duration(tick - base);
    if (at + 3 + context.measureText(label).width <= width) context.fillText(label, at + 3, TIMES / 2 - 1);
  }
  context.fillStyle = line;
  context.fillRect(0, TIMES - 1, width, 1);
}

// A step's name stands at its begin, or at the left edge where that is further left.
export function stepNames(context: CanvasRenderingContext2D, { width, left: edge, x }: Place, steps: Step[]): void {
  if (!steps.length) return;
  const [quiet, line, middle] = [colour("quiet"), colour("line"), TIMES + STEP_NAMES / 2];
  context.fillStyle = colour("ground");
  context.fillRect(0, TIMES, width, STEP_NAMES);
  context.fillStyle = quiet;
  context.fillText("step", 6, middle);
  let free = edge;
  for (const step of steps) {
    const left = Math.max(x(step.start_ns), edge), right = Math.min(x(step.start_ns + step.duration_ns), width);
    const name = count(step.number), wide = context.measureText(name).width + 10;
    if (right <= edge || left > width || left < free || right - left < wide) continue;
    context.fillStyle = line;
    context.fillRect(left, TIMES, 1, STEP_NAMES);
    context.fillStyle = quiet;
    context.fillText(name, left + 4, middle);
    free = left + wide;
  }
  context.fillStyle = line;
  context.fillRect(0, TIMES + STEP_NAMES - 1, width, 1);
}
