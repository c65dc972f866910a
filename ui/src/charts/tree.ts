// Trees of calls with time in them, of any origin: merged, inverted, compared.
export interface Tree {
  // Node 0 is the root; parent[n] < n. `own` is the time of a node without its children.
  names: string[];
  notes: string[];
  parent: Uint32Array;
  name: Uint32Array;
  activity: Uint8Array;
  own: Float64Array;
  // Where lines are known: of each node the time by the line that was being executed.
  lines?: Lines[];
  // The same with a node for each line (names have the same numbers), so that callers are told by the lines they call from.
  split?: Tree & { line: Uint32Array };
}

export type Lines = ReadonlyMap<number, number>;

const hottest = (lines: Lines | undefined): number => [...(lines ?? [])].reduce((best, each) => (each[1] > best[1] ? each : best), [0, 0] as [number, number])[0];
const lined = (name: string, line: number): string => (line && name.endsWith(")") ? `${name.slice(0, -1)}:${line})` : name);

// A name with the line that took most of its time.
export const labelOf = (tree: Tree, node: number): string => lined(tree.names[tree.name[node]!] ?? "", hottest(tree.lines?.[node]));

// Its lines, the hottest first, with their part of its time.
export function linesOf(tree: Tree, node: number): { line: number; ratio: number }[] {
  const lines = [...(tree.lines?.[node] ?? [])].filter(([line]) => line).sort((a, b) => b[1] - a[1]);
  const whole = lines.reduce((sum, [, ns]) => sum + ns, 0) || 1;
  return lines.map(([line, ns]) => ({ line, ratio: ns / whole }));
}

export interface Laid {
  tree: Tree;
  total: Float64Array;
  depth: Uint16Array;
  firstChild: Int32Array;
  next: Int32Array;
  // With a second tree: the change of each node's total.
  change: Float64Array | null;
}

export function totals(parent: Uint32Array, own: Float64Array): Float64Array {
  const total = own.slice();
  for (let node = parent.length - 1; node > 0; node--) total[parent[node]!]! += total[node]!;
  return total;
}

// Children in the order of their time, the longest first.
export function lay(tree: Tree, change: Float64Array | null = null, width: Float64Array | null = null): Laid {
  const size = tree.parent.length;
  const total = width ?? totals(tree.parent, tree.own);
  const depth = new Uint16Array(size);
  for (let node = 1; node < size; node++) depth[node] = depth[tree.parent[node]!]! + 1;
  const order = new Uint32Array(size).map((_, i) => i).sort((a, b) => total[a]! - total[b]! || b - a);
  const firstChild = new Int32Array(size).fill(-1);
  const next = new Int32Array(size).fill(-1);
  for (const node of order) {
    if (node === 0) continue;
    const above = tree.parent[node]!;
    next[node] = firstChild[above]!;
    firstChild[above] = node;
  }
  return { tree, total, depth, firstChild, next, change };
}

class Builder {
  readonly parent: number[] = [0];
  readonly name: number[] = [];
  readonly activity: number[] = [0];
  readonly own: number[] = [0];
  private readonly children: Map<number, number>[] = [new Map()];
  private readonly lines: Map<number, number>[] = [];

  constructor(readonly names: string[], readonly notes: string[], rootName: number) { this.name.push(rootName); }

  child(parent: number, name: number, activity: number): number {
    const known = this.children[parent]!.get(name);
    if (known !== undefined) return known;
    const node = this.parent.length;
    this.parent.push(parent);
    this.name.push(name);
    this.activity.push(activity);
    this.own.push(0);
    this.children.push(new Map());
    this.children[parent]!.set(name, node);
    return node;
  }

  spend(node: number, line: number | undefined, ns: number): void {
    if (!line) return;
    const mine = (this.lines[node] ??= new Map());
    mine.set(line, (mine.get(line) ?? 0) + ns);
  }

  tree(): Tree {
    return {
      names: this.names, notes: this.notes, parent: Uint32Array.from(this.parent), name: Uint32Array.from(this.name),
      activity: Uint8Array.from(this.activity), own: Float64Array.from(this.own), ...(this.lines.length ? { lines: this.lines } : {}),
    };
  }
}

export interface FunctionTime { name: number; label: string; own: number; total: number; activity: number }

// Time by name; recursion counts once.
export function functions(laid: Laid): FunctionTime[] {
  const { tree, total } = laid;
  const rows = new Map<number, FunctionTime>();
  const lines = new Map<number, Map<number, number>>();
  const open: number[] = [];
  const inside = new Map<number, number>();
  const visit = (node: number) => {
    const name = tree.name[node]!;
    let row = rows.get(name);
    if (!row) {
      rows.set(name, (row = { name, label: "", own: 0, total: 0, activity: tree.activity[node]! }));
      lines.set(name, new Map());
    }
    row.own += tree.own[node]!;
    for (const [line, ns] of tree.lines?.[node] ?? []) lines.get(name)!.set(line, (lines.get(name)!.get(line) ?? 0) + ns);
    if (!inside.get(name)) row.total += total[node]!;
  };
  const push = (node: number) => { for (let child = laid.firstChild[node]!; child >= 0; child = laid.next[child]!) open.push(child); };
  push(0);
  while (open.length) {
    const node = open.pop()!;
    if (node < 0) { const name = tree.name[-node]!; inside.set(name, inside.get(name)! - 1); continue; }
    visit(node);
    const name = tree.name[node]!;
    inside.set(name, (inside.get(name) ?? 0) + 1);
    open.push(-node);
    push(node);
  }
  for (const row of rows.values()) row.label = lined(tree.names[row.name]!, hottest(lines.get(row.name)));
  return [...rows.values()].filter((row) => row.total > 0).sort((a, b) => b.own - a.own);
}

export interface NameChange { name: number; label: string; before: number; after: number; change: number }

// What each name takes itself, before and after, the greatest difference first.
export function changes(laid: Laid): NameChange[] {
  const { tree, change } = laid;
  if (!change) return [];
  // The change of a node is that of all below it, too.
  const own = Float64Array.from(change);
  for (let node = 1; node < own.length; node++) own[tree.parent[node]!]! -= change[node]!;
  const rows = new Map<number, NameChange>();
  for (let node = 1; node < own.length; node++) {
    const name = tree.name[node]!;
    let row = rows.get(name);
    if (!row) rows.set(name, (row = { name, label: lined(tree.names[name]!, hottest(tree.lines?.[node])), before: 0, after: 0, change: 0 }));
    row.after += tree.own[node]!;
    row.change += own[node]!;
  }
  for (const row of rows.values()) row.before = Math.max(0, row.after - row.change);
  const whole = Math.max(laid.total[0] ?? 0, 1);
  return [...rows.values()].filter((row) => Math.abs(row.change) >= 5e-4 * whole).sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
}

const outermost = (tree: Tree, name: number): number[] => {
  const found: number[] = [];
  const covered = new Uint8Array(tree.parent.length);
  for (let node = 1; node < tree.parent.length; node++) {
    const above = covered[tree.parent[node]!]!;
    const is = tree.name[node] === name;
    covered[node] = above | Number(is);
    if (is && !above) found.push(node);
  }
  return found;
};

// Everything that a function calls, wherever it is called from.
export function callees(whole: Tree, name: number): Tree {
  const tree: Tree & { line?: Uint32Array } = whole.split ?? whole;
  const total = totals(tree.parent, tree.own);
  const builder = new Builder(tree.names, tree.notes, name);
  const place = new Int32Array(tree.parent.length).fill(-1);
  for (const node of outermost(tree, name)) place[node] = 0;
  for (let node = 1; node < tree.parent.length; node++) {
    const above = place[tree.parent[node]!]!;
    if (place[node] === -1 && above >= 0) place[node] = builder.child(above, tree.name[node]!, tree.activity[node]!);
    if (place[node]! >= 0) {
      builder.own[place[node]!]! += tree.own[node]!;
      builder.spend(place[node]!, tree.line?.[node], total[node]!);
      if (place[node] === 0) builder.activity[0] = tree.activity[node]!;
    }
  }
  return builder.tree();
}

// Who calls a function: the tree upside down, with the time of the function in it.
export function callers(whole: Tree, name: number): Tree {
  const tree: Tree & { line?: Uint32Array } = whole.split ?? whole;
  const total = totals(tree.parent, tree.own);
  const builder = new Builder(tree.names, tree.notes, name);
  for (const node of outermost(tree, name)) {
    let place = 0;
    builder.activity[0] = tree.activity[node]!;
    builder.spend(0, tree.line?.[node], total[node]!);
    for (let above = tree.parent[node]!; above !== 0; above = tree.parent[above]!) {
      place = builder.child(place, tree.name[above]!, tree.activity[above]!);
      builder.spend(place, tree.line?.[above], total[node]!);
    }
    builder.own[place]! += total[node]!;
  }
  return builder.tree();
}

// A function keeps its name when lines above it come or go, and an object's address is another in every run: of names
// that only one side has, those that differ in nothing else are the same, in the order of their lines.
const withoutLine = (text: string): string => text.replace(/\(\d+\): /, ": ").replace(/ at 0x[0-9a-f]+/g, "");
const lineOf = (text: string): number => Number(/\((\d+)\): /.exec(text)?.[1] ?? 0);

export function sameLines(before: string[], after: string[]): Map<number, number> {
  const gather = (names: string[], others: Set<string>): Map<string, number[]> => {
    const found = new Map<string, number[]>();
    names.forEach((text, number) => {
      const key = withoutLine(text);
      if (key === text || others.has(text)) return;
      const mine = found.get(key);
      if (mine) mine.push(number); else found.set(key, [number]);
    });
    for (const mine of found.values()) mine.sort((a, b) => lineOf(names[a]!) - lineOf(names[b]!));
    return found;
  };
  const old = gather(before, new Set(after)), fresh = gather(after, new Set(before));
  const same = new Map<number, number>();
  for (const [key, mine] of old) {
    const theirs = fresh.get(key);
    if (theirs?.length === mine.length) mine.forEach((number, i) => same.set(number, theirs[i]!));
  }
  return same;
}

// Both trees as one by the names on the path; the width of a node is the greater of its two times.
export function compared(before: Tree, after: Tree): Laid {
  const names = after.names.slice(), notes = after.notes.slice();
  const numbers = new Map(names.map((text, number) => [text, number]));
  const moved = sameLines(before.names, after.names);
  const renamed = before.names.map((text, number) => {
    let found = numbers.get(text) ?? moved.get(number);
    if (found === undefined) { found = names.length; names.push(text); notes.push(before.notes[number] ?? ""); numbers.set(text, found); }
    return found;
  });
  const builder = new Builder(names, notes, after.name[0] ?? 0);
  const own = [[0], [0]] as [number[], number[]];
  // Lines are those of now; of what is no more, those that it had.
  const lines: Lines[] = [];
  [before, after].forEach((tree, side) => {
    const place = new Uint32Array(tree.parent.length);
    for (let node = 0; node < tree.parent.length; node++) {
      const name = side === 0 ? renamed[tree.name[node]!]! : tree.name[node]!;
      place[node] = node === 0 ? 0 : builder.child(place[tree.parent[node]!]!, name, tree.activity[node]!);
      own[side]![place[node]!] = (own[side]![place[node]!] ?? 0) + tree.own[node]!;
      const mine = tree.lines?.[node];
      if (mine?.size) lines[place[node]!] = mine;
    }
  });
  const tree: Tree = { ...builder.tree(), ...(lines.length ? { lines } : {}) };
  const size = tree.parent.length;
  const [old, fresh] = own.map((values) => totals(tree.parent, Float64Array.from({ length: size }, (_, i) => values[i] ?? 0))) as [Float64Array, Float64Array];
  tree.own.set(Float64Array.from({ length: size }, (_, i) => own[1]![i] ?? 0));
  const width = old.map((value, i) => Math.max(value, fresh[i]!));
  // A parent is as wide as its children need, also where one grew and another shrank.
  const sum = new Float64Array(size);
  for (let node = size - 1; node > 0; node--) {
    width[node] = Math.max(width[node]!, sum[node]!);
    sum[tree.parent[node]!]! += width[node]!;
  }
  width[0] = Math.max(width[0]!, sum[0]!);
  return lay(tree, fresh.map((value, i) => value - old[i]!), width);
}

// How strongly a difference is painted, from 0 to 1: the largest in sight fully, but where nothing differs by much
// of the whole, nothing does: chance would look like a finding.
const MUCH_RATIO = 0.05;
export const strength = (change: number, largest: number, whole: number): number => 0.12 + 0.88 * Math.sqrt(Math.abs(change) / Math.max(largest, MUCH_RATIO * whole, 1));

// A short name for a name, and for the place of a node by the names above it: the same in any tree that
// has it, so that an address can hold it.
const SEED = 0x811c9dc5;
function hashed(text: string, seed: number): number {
  let hash = Math.imul(seed ^ 47, 0x01000193) >>> 0; // names that are split otherwise are others
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193) >>> 0;
  return hash;
}

export const nameKey = (text: string): string => hashed(text, SEED).toString(36);

export function nodeKey(tree: Tree, node: number): string {
  const above: number[] = [];
  for (let each = node; each !== 0; each = tree.parent[each]!) above.push(each);
  return above.reverse().reduce((hash, each) => hashed(tree.names[tree.name[each]!]!, hash), SEED).toString(36);
}

export function nodeOf(tree: Tree, key: string): number {
  const hashes = new Uint32Array(tree.parent.length).fill(SEED);
  for (let node = 1; node < hashes.length; node++) {
    hashes[node] = hashed(tree.names[tree.name[node]!]!, hashes[tree.parent[node]!]!);
    if (hashes[node]!.toString(36) === key) return node;
  }
  return 0;
}

export const wholeOf = (tree: Tree): number => tree.own.reduce((total, ns) => total + ns, 0);

// Stretches of different length are compared by parts: the first is scaled to the time of the second.
export function sameTotal(before: Tree, after: Tree): [Tree, Tree] {
  const factor = wholeOf(before) ? wholeOf(after) / wholeOf(before) : 1;
  return [{ ...before, own: before.own.map((ns) => ns * factor) }, after];
}
