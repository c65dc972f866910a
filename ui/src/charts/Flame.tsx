// A flame graph from the top down: zoom, search, keyboard; only what is wide enough is visited.
import { useMemo, useRef, useState } from "preact/hooks";
import { activities, colour } from "../look/colours";
import { duration, share, shortName, signedShare } from "../look/format";
import { fitted, letterWidth, useCanvas } from "./canvas";
import { labelOf, type Laid, linesOf, strength } from "./tree";

const ROW = 19, WIDE = 1600, LEAST = 4;
// What is narrower than this part of the picture does not make it taller: imports recurse a hundred frames deep.
const NARROW = 0.05;

interface Box { node: number; x: number; width: number; row: number }
interface Properties { laid: Laid; query: string; label: string; zoom?: number; onZoom?: (node: number) => void; onPick?: (name: number) => void; palette?: readonly string[]; sides?: Sides }

// What is compared, in the words of who chose it.
export interface Sides { before: string; after: string }
export const NOW_AND_BEFORE: Sides = { before: "before", after: "now" };

export function boxesOf(laid: Laid, zoom: number, width: number): Box[] {
  const { tree, total, depth, firstChild, next } = laid;
  const boxes: Box[] = [];
  for (let node = zoom; node !== 0; node = tree.parent[node]!) boxes.unshift({ node: tree.parent[node]!, x: 0, width, row: depth[tree.parent[node]!]! });
  const open: Box[] = [{ node: zoom, x: 0, width, row: depth[zoom]! }];
  while (open.length) {
    const box = open.pop()!;
    boxes.push(box);
    let left = box.x;
    for (let child = firstChild[box.node]!; child >= 0; child = next[child]!) {
      const wide = total[box.node] ? (total[child]! / total[box.node]!) * box.width : 0;
      if (wide < 0.6) break; // children are sorted: all that follow are as thin
      open.push({ node: child, x: left, width: wide, row: box.row + 1 });
      left += wide;
    }
  }
  return boxes;
}

// How many rows there are, and how many of them are shown without scrolling.
export function rowsOf(boxes: Box[]): { all: number; shown: number } {
  let all = LEAST, shown = LEAST;
  for (const box of boxes) {
    all = Math.max(all, box.row + 1);
    if (box.width >= NARROW * WIDE) shown = Math.max(shown, box.row + 1);
  }
  return { all, shown: all - shown > 3 ? shown + 1 : all };
}

export function Flame({ laid, query, label, zoom: given, onZoom, onPick, palette = activities, sides = NOW_AND_BEFORE }: Properties) {
  const [ownZoom, setOwnZoom] = useState(0);
  const [hover, setHover] = useState<number | null>(null);
  const zoom = Math.min(given ?? ownZoom, laid.total.length - 1);
  const boxes = useRef<Box[]>([]);
  const { tree, total } = laid;
  const setZoom = (node: number) => { setOwnZoom(node); onZoom?.(node); setHover(node); };

  const matches = useMemo(() => {
    const wanted = query.trim().toLowerCase();
    if (!wanted) return null;
    // "train.py:88" is that line of that file.
    const [, file = wanted, line = ""] = (tree.lines && /^(.*):(\d+)$/.exec(wanted)) || [];
    const names = tree.names.map((name, i) => (line ? name.toLowerCase().endsWith(`${file})`) : name.toLowerCase().includes(wanted) || (tree.notes[i] ?? "").toLowerCase().includes(wanted)));
    const is = new Uint8Array(tree.parent.length), inside = new Uint8Array(tree.parent.length);
    let found = 0, time = 0;
    for (let node = 1; node < tree.parent.length; node++) {
      inside[node] = inside[tree.parent[node]!]!;
      if (!names[tree.name[node]!] || (line && !tree.lines?.[node]?.has(Number(line)))) continue;
      found++;
      is[node] = 1;
      if (!inside[node]) time += line ? tree.lines![node]!.get(Number(line))! : total[node]!;
      inside[node] = 1;
    }
    return { is, found, time };
  }, [laid, query]);

  const rows = useMemo(() => rowsOf(boxesOf(laid, zoom, WIDE)), [laid, zoom]);
  const { canvas, redraw } = useCanvas((context, width) => {
    const colours = palette.map(colour);
    const letter = letterWidth(context);
    const [ink, accent, soft, text, ground, less, more] = ["on-node", "accent", "accent-soft", "text", "raised", "less", "more"].map(colour) as string[];
    boxes.current = boxesOf(laid, zoom, width);
    const largest = laid.change ? Math.max(...boxes.current.map((box) => Math.abs(laid.change![box.node]!))) : 0;
    for (const { node, x, width: wide, row } of boxes.current) {
      const isMatch = matches?.is[node] === 1;
      const y = row * ROW + 1;
      context.globalAlpha = node !== zoom && row < laid.depth[zoom]! ? 0.55 : matches && !isMatch ? 0.4 : 1;
      if (laid.change) {
        const change = changeOf(laid, node);
        context.fillStyle = colour("neutral");
        context.fillRect(x, y, Math.max(wide - 1, 0.6), ROW - 1);
        context.globalAlpha *= strength(change, largest, total[0]!);
        context.fillStyle = change > 0 ? more! : less!;
        if (change === 0) context.globalAlpha = 0;
      } else {
        context.fillStyle = isMatch ? soft! : colours[tree.activity[node]!]!;
      }
      context.fillRect(x, y, Math.max(wide - 1, 0.6), ROW - 1);
      if (!isMatch && !laid.change && node) {
        context.globalAlpha = (tree.name[node]! % 4) * 0.06;
        context.fillStyle = ground!;
        context.fillRect(x, y, Math.max(wide - 1, 0.6), ROW - 1);
      }
      context.globalAlpha = 1;
      if (isMatch && wide > 2) { context.strokeStyle = accent!; context.lineWidth = 1.5; context.strokeRect(x + 0.75, y + 0.75, wide - 2.5, ROW - 2.5); }
      if (node === hover && wide > 2) { context.strokeStyle = text!; context.lineWidth = 2; context.strokeRect(x + 1, y + 1, wide - 3, ROW - 3); }
      if (wide > 24) {
        context.fillStyle = isMatch ? accent! : laid.change ? text! : ink!;
        context.fillText(fitted(shortName(labelOf(tree, node)), wide - 8, letter), x + 4, y + ROW / 2, wide - 6);
      }
    }
  });

  const at = (event: MouseEvent): number | null => {
    const row = Math.floor(event.offsetY / ROW);
    return boxes.current.find((box) => box.row === row && event.offsetX >= box.x && event.offsetX < box.x + box.width)?.node ?? null;
  };
  const shown = hover !== null && hover < tree.parent.length ? hover : zoom;
  const children = (node: number): number[] => {
    const found: number[] = [];
    for (let child = laid.firstChild[node]!; child >= 0 && total[child]! > 0; child = laid.next[child]!) found.push(child);
    return found;
  };
  // By the keyboard one may go where only scrolling leads.
  const goTo = (node: number) => {
    setHover(node);
    const deep = canvas.current?.parentElement, top = laid.depth[node]! * ROW;
    if (deep) deep.scrollTop = Math.min(Math.max(deep.scrollTop, top + ROW + 4 - deep.clientHeight), top);
  };
  const onKey = (event: KeyboardEvent) => {
    const siblings = shown ? children(tree.parent[shown]!) : [0];
    const place = siblings.indexOf(shown);
    if (event.key === "ArrowDown") goTo(children(shown)[0] ?? shown);
    else if (event.key === "ArrowUp") goTo(tree.parent[shown]!);
    else if (event.key === "ArrowRight") goTo(siblings[Math.min(place + 1, siblings.length - 1)] ?? shown);
    else if (event.key === "ArrowLeft") goTo(siblings[Math.max(place - 1, 0)] ?? shown);
    else if (event.key === "Enter") setZoom(shown);
    else if (event.key === "Escape" && zoom !== 0) setZoom(tree.parent[zoom]!);
    else return;
    event.preventDefault();
    event.stopPropagation();
    redraw();
  };
  const whole = total[0] || 1, lines = linesOf(tree, shown);
  const moved = laid.change ? changeOf(laid, shown) : 0, now = laid.change ? totalNow(laid, shown) : 0;
  return (
    <div class="flame">
      <div class="deep" style={{ height: `${6 + ROW * rows.shown}px` }}><canvas ref={canvas} style={{ height: `${4 + ROW * rows.all}px` }} tabIndex={0} role="img" aria-label={`${label}. Arrow keys move, Enter zooms in, Escape zooms out.`}
        onPointerMove={(event) => { const node = at(event); if (node !== hover) setHover(node); }}
        onPointerLeave={() => setHover(null)}
        onClick={(event) => { const node = at(event); if (node !== null) setZoom(node); }}
        onDblClick={() => onPick?.(tree.name[shown]!)} onKeyDown={onKey} /></div>
      <p class="readout" aria-live="polite">
        <b>{shortName(labelOf(tree, shown))}</b> {tree.notes[tree.name[shown]!]}<br />
        {laid.change
          ? <>{sides.after} {duration(now)}, {sides.before} {duration(now - moved)}: {moved === 0 ? "the same" : `${moved > 0 ? "+" : "−"}${duration(Math.abs(moved))} (${signedShare(moved / whole)} of the whole)`}</>
          : <>total {duration(total[shown]!)} ({share(total[shown]! / whole)}), self {duration(tree.own[shown]!)} ({share(tree.own[shown]! / whole)})</>}
        {lines.length > 1 && <> · line{lines.slice(0, 3).map(({ line, ratio }) => <> {line} <span class="quiet">({share(ratio)})</span></>)}{lines.length > 3 && ` and ${lines.length - 3} more`}</>}
        {rows.all > rows.shown && hover === null && <> · {rows.all - rows.shown} rows of thin frames are below: scroll, or click to zoom in</>}
        {matches && <> · found in {matches.found ? `${share(matches.time / whole)} of the time` : "nothing"}</>}
        {onPick && shown !== 0 && <> · <button type="button" onClick={() => onPick(tree.name[shown]!)}>callers and callees</button></>}
        {shortName(tree.names[tree.name[shown]!] ?? "") !== tree.names[tree.name[shown]!] && <span class="whole" title={tree.names[tree.name[shown]!]}>{tree.names[tree.name[shown]!]}</span>}
      </p>
    </div>
  );
}

// What is left of scaling two trees to the same time is no change.
function changeOf(laid: Laid, node: number): number {
  const change = laid.change![node]!;
  return Math.abs(change) > 1e-9 * laid.total[0]! ? change : 0;
}

function totalNow(laid: Laid, node: number): number {
  let sum = laid.tree.own[node]!;
  const open: number[] = [];
  for (let child = laid.firstChild[node]!; child >= 0; child = laid.next[child]!) open.push(child);
  while (open.length) {
    const next = open.pop()!;
    sum += laid.tree.own[next]!;
    for (let child = laid.firstChild[next]!; child >= 0; child = laid.next[child]!) open.push(child);
  }
  return sum;
}
