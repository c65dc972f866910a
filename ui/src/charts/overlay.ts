// What is laid over the rows of a rank: which spans are on the critical path, and why its device is idle.
import { activities, type Activity } from "../look/colours";
import { firstAfter, type Piece } from "./pyramid";

export const OVERLAYS = ["path", "idle"] as const;
export type Overlay = (typeof OVERLAYS)[number];

// Spans of one row in order of time, as far as they are in view.
export interface Stretches { start: number[]; end: number[]; activity: number[]; name: string[] }

export function stretchesOf(pieces: Piece[], row: number, from: number, to: number): Stretches {
  const found: Stretches = { start: [], end: [], activity: [], name: [] };
  for (const { tile, ...piece } of pieces) {
    const low = Math.max(piece.from, from), limit = Math.min(piece.to, to);
    for (let i = firstAfter(tile, row, low); i < tile.firstOfRow[row + 1]! && tile.start[i]! < limit; i++) {
      found.start.push(Math.max(tile.start[i]!, low));
      found.end.push(Math.min(tile.start[i]! + tile.duration[i]!, limit));
      found.activity.push(tile.activity[i]!);
      found.name.push(tile.short[tile.name.numbers[i]!]!);
    }
  }
  return found;
}

// The path tells the host's time without saying what it did: loading input is one such thing.
const OF_HOST = new Set<Activity>(["host", "input"]);
const alike = (a: Activity | undefined, b: Activity | undefined): boolean => a !== undefined && (a === b || (OF_HOST.has(a) && b !== undefined && OF_HOST.has(b)));

// Whether the path goes through what is of this activity at this time.
export function isOn(path: Stretches, time: number, activity: number): boolean {
  let low = 0, high = path.start.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (path.start[middle]! > time) high = middle - 1;
    else if (path.end[middle]! < time) low = middle + 1;
    else return alike(activities[path.activity[middle]!], activities[activity]);
  }
  return false;
}
