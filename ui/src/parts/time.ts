// Parts of a step as the store has them, in the colours of the page.
import type { Piece } from "./parts";

const COLOURS: Record<string, string> = {
  compute: "compute", communication: "communication", copy: "copy", loader: "input", gc: "overhead", sync: "idle", checkpoint: "overhead", compile: "overhead", host: "host", other: "other", unknown: "other",
};
export const PART_NAMES: Record<string, string> = {
  compute: "compute", communication: "exposed communication", copy: "copies", loader: "data loader", gc: "garbage collection", sync: "synchronisation", checkpoint: "checkpoint", compile: "compilation", host: "host", other: "not known", unknown: "not known",
};
const ORDER = ["compute", "communication", "copy", "loader", "host", "sync", "gc", "compile", "checkpoint", "other", "unknown"];

export const partColour = (part: string): string => COLOURS[part] ?? "other";

// With what of the whole is in none of them: a bar of the known parts alone would tell shares of nobody knows what.
export function wholePieces(parts: Record<string, number>, whole_ns: number): Piece[] {
  const left = whole_ns - Object.values(parts).reduce((sum, ns) => sum + ns, 0);
  return storedPieces(left > 0.005 * whole_ns ? { ...parts, unknown: (parts["unknown"] ?? 0) + left } : parts);
}

export function storedPieces(parts: Record<string, number>): Piece[] {
  return Object.entries(parts).filter(([, ns]) => ns > 0)
    .sort((a, b) => ORDER.indexOf(a[0]) - ORDER.indexOf(b[0]))
    .map(([part, ns]) => ({ label: PART_NAMES[part] ?? part, ns, colour: partColour(part) }));
}
