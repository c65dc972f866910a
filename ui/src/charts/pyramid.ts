// The tiles of one rank: which of them a view needs, what stands in while they are on their way.
import type { Source } from "../data/source";
import type { Texts } from "../data/table";
import { shortName } from "../look/format";

export const BINS = 1024;
const KEPT = 256;
const IN_FLIGHT = 4;

export interface Tile {
  from: number;
  to: number;
  firstOfRow: Uint32Array;
  start: Float64Array;
  duration: Float64Array;
  count: Uint32Array;
  activity: Uint8Array;
  span: Uint32Array;
  flowRow: Int32Array;
  flowStart: Float64Array;
  name: Texts;
  // Made once a tile: a view draws hundreds of labels in every frame.
  short: string[];
}

export interface Piece { tile: Tile; from: number; to: number }

// A bin is then between 0.7 and 1.4 pixels wide.
export function levelFor(length: number, span: number, width: number, levels: number): number {
  const level = Math.round(Math.log2((length / span) * (width / BINS)));
  return Math.min(Math.max(level, 0), levels - 1);
}

export function tilesOf(length: number, level: number, from: number, to: number): [number, number] {
  const wide = length / 2 ** level;
  const last = 2 ** level - 1;
  const first = Math.min(Math.max(Math.floor(from / wide), 0), last);
  return [first, Math.min(Math.max(Math.ceil(to / wide) - 1, first), last)];
}

export class Pyramid {
  private readonly tiles = new Map<string, Tile>();
  private readonly wanted = new Set<string>();
  private readonly missing = new Set<string>();
  private readonly gone = new Set<string>();
  private flying = 0;

  constructor(
    private readonly source: Source,
    private readonly path: string,
    private readonly rows: number,
    readonly length: number,
    readonly levels: number,
    private readonly arrived: () => void,
  ) {}

  // What to draw of a view: the right tiles where they are there, coarser ones in their place.
  view(from: number, to: number, width: number): Piece[] {
    const level = levelFor(this.length, to - from, width, this.levels);
    const [first, last] = tilesOf(this.length, level, from, to);
    const pieces: Piece[] = [];
    this.wanted.clear();
    for (let index = first; index <= last; index++) {
      const wide = this.length / 2 ** level;
      const piece = this.best(level, index);
      if (piece === null) continue;
      const before = pieces.at(-1);
      if (before?.tile === piece) before.to = (index + 1) * wide;
      else pieces.push({ tile: piece, from: index * wide, to: (index + 1) * wide });
    }
    this.fetchWanted();
    return pieces;
  }

  get isLoading(): boolean { return this.flying > 0; }

  private best(level: number, index: number): Tile | null {
    // A file has the tiles that show more than the coarser one: where one is not there, that is it.
    let isWanted = true;
    for (let up = 0; up <= level; up++) {
      const key = `${level - up}/${Math.floor(index / 2 ** up)}`;
      const tile = this.tiles.get(key);
      if (tile) {
        this.tiles.delete(key);
        this.tiles.set(key, tile);
        return tile;
      }
      if (isWanted || up === level) this.wanted.add(key);
      isWanted &&= this.gone.has(key);
    }
    return null;
  }

  private fetchWanted(): void {
    for (const key of [...this.wanted].reverse()) {
      if (this.flying >= IN_FLIGHT || this.missing.has(key)) continue;
      this.missing.add(key);
      this.flying++;
      this.source.table(`${this.path}/${key}`).then((table) => {
        const [level, index] = key.split("/").map(Number) as [number, number];
        const wide = this.length / 2 ** level;
        const row = table.numbers("row");
        const name = table.texts("name");
        const firstOfRow = new Uint32Array(this.rows + 1);
        for (let i = 0; i < row.length; i++) firstOfRow[row[i]! + 1]!++;
        for (let i = 0; i < this.rows; i++) firstOfRow[i + 1]! += firstOfRow[i]!;
        this.tiles.set(key, {
          from: index * wide, to: (index + 1) * wide, firstOfRow,
          start: table.numbers("start") as Float64Array,
          duration: table.numbers("duration") as Float64Array,
          count: table.numbers("count") as Uint32Array,
          activity: table.numbers("activity") as Uint8Array,
          span: table.numbers("span") as Uint32Array,
          flowRow: table.numbers("flow_row") as Int32Array,
          flowStart: table.numbers("flow_start") as Float64Array,
          name,
          short: name.values.map(shortName),
        });
        for (const old of this.tiles.keys()) {
          if (this.tiles.size <= KEPT) break;
          if (old !== "0/0") this.tiles.delete(old);
        }
        this.missing.delete(key);
      }, () => { this.gone.add(key); /* stays missing: what stands in is drawn, and it is not asked for again */ }).finally(() => {
        this.flying--;
        this.arrived();
      });
    }
  }
}

// The first box of a row that ends after a time: within a row, boxes begin and end in the same order.
export function firstAfter(tile: Tile, row: number, time: number): number {
  let low = tile.firstOfRow[row]!, high = tile.firstOfRow[row + 1]!;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tile.start[middle]! + tile.duration[middle]! > time) high = middle; else low = middle + 1;
  }
  return low;
}
