// Which line of the timeline shows what: ranks one below the other, folded or with all their rows.
import type { Rank } from "../data/types";

export const LINE = 18;
export const HEAD = 24;

export interface Line { rank: number; row: number; y: number; height: number; title: string; isHead: boolean; isDevice: boolean; depth: number }

export interface Lines { lines: Line[]; height: number }

export function linesOf(ranks: Rank[], open: ReadonlySet<number>): Lines {
  const lines: Line[] = [];
  let y = 0;
  const add = (line: Omit<Line, "y">) => { lines.push({ ...line, y }); y += line.height; };
  for (const rank of ranks) {
    const isOpen = open.has(rank.rank);
    const title = rank.rank < 0 ? "this process" : `rank ${rank.rank}`;
    // The first row of a rank with a device sums it up: that is what a folded rank shows.
    const summed = rank.parts !== null;
    add({ rank: rank.rank, row: summed ? 0 : -1, height: HEAD, title: `${isOpen ? "▾" : "▸"} ${title}`, isHead: true, isDevice: summed, depth: 0 });
    if (!isOpen) continue;
    rank.rows.forEach((row, number) => {
      if (summed && number === 0) return;
      add({ rank: rank.rank, row: number, height: LINE, title: row.depth === 0 ? (/^\d+$/.test(row.title) ? `thread ${row.title}` : row.title) : "", isHead: false, isDevice: row.is_device, depth: row.depth });
    });
  }
  return { lines, height: y };
}

export function lineAt(lines: Line[], y: number): Line | null {
  let low = 0, high = lines.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const line = lines[middle]!;
    if (y < line.y) high = middle - 1;
    else if (y >= line.y + line.height) low = middle + 1;
    else return line;
  }
  return null;
}

// How much of an unfolded rank is enough to have it in sight.
const ENOUGH = 8 * LINE;

// How far to scroll for a row, or a rank where `row` is null, to be in sight with a little of what is above it: not at
// all where it is.
export function inSight({ lines }: Lines, rank: number, row: number | null, top: number, room: number): number {
  const mine = lines.filter((line) => line.rank === rank && (row === null || line.row === row)), first = mine[0], last = mine.at(-1);
  if (!first || !last) return top;
  const end = Math.min(last.y + last.height, first.y + ENOUGH);
  return first.y >= top && end <= top + room ? top : Math.max(0, first.y - 2 * HEAD);
}
