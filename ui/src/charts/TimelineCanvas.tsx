// The timeline itself: pan, zoom, hover, select, measure. It draws tiles and knows no server.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Source } from "../data/source";
import type { Trace } from "../data/types";
import { activities, activityColours, colour } from "../look/colours";
import { count, duration } from "../look/format";
import { fitted, letterWidth, niceStep, useCanvas } from "./canvas";
import { type Line, lineAt, linesOf } from "./lines";
import { firstAfter, type Piece, Pyramid } from "./pyramid";

const GUTTER = 168;
// Idle time is grey already: what room a box has is for the cause.
const IDLE = /^idle: /;
const TIMES = 26;
const STEP_NAMES = 18;

export interface View { from: number; to: number }
export interface Picked { rank: number; row: number; start: number; duration: number; name: string; count: number; span: number; activity: string; flowRow: number; flowStart: number }
export interface Range { from: number; to: number; rank: number; rows: number[] }

interface Properties {
  source: Source;
  trace: Trace;
  view: View;
  onView(view: View): void;
  open: ReadonlySet<number>;
  onToggle(rank: number): void;
  picked: Picked | null;
  onPick(picked: Picked | null): void;
  range: Range | null;
  onRange(range: Range | null): void;
  query: string;
  onBusy(busy: boolean): void;
}

export function clamp(view: View, length: number): View {
  const span = Math.min(Math.max(view.to - view.from, 50), length * 1.1);
  const low = -0.05 * length, high = 1.05 * length;
  const from = Math.min(Math.max(view.from, low), high - span);
  return { from, to: from + span };
}

export function TimelineCanvas(properties: Properties) {
  const { source, trace, view, onView, open, onToggle, picked, onPick, range, onRange, query, onBusy } = properties;
  const [hover, setHover] = useState<Picked | null>(null);
  const scroll = useRef(0);
  const drag = useRef<{ x: number; y: number; from: View; top: number; moved: boolean; measure: boolean; time: number; line: Line | null } | null>(null);
  const laid = useMemo(() => linesOf(trace.ranks, open), [trace, open]);
  // Ranks are on one clock, and those with steps have about the same.
  const named = useMemo(() => trace.ranks.find((rank) => rank.steps.length)?.steps ?? [], [trace]);
  const RULER = named.length ? TIMES + STEP_NAMES : TIMES;
  const redraw = useRef(() => {});
  const pyramids = useMemo(() => new Map(trace.ranks.map((rank) => [
    rank.rank,
    new Pyramid(source, `traces/${trace.id}/tiles/${rank.rank}`, rank.rows.length, trace.length_ns, trace.levels, () => redraw.current()),
  ])), [trace, source]);
  const wanted = query.trim().toLowerCase();
  const size = useRef({ width: 0, height: 0 });

  const x = (time: number) => GUTTER + ((time - view.from) / (view.to - view.from)) * (size.current.width - GUTTER);
  const timeAt = (px: number) => view.from + ((px - GUTTER) / (size.current.width - GUTTER)) * (view.to - view.from);

  const pen = useCanvas((context, width, height) => {
    size.current = { width, height };
    scroll.current = Math.min(Math.max(scroll.current, 0), Math.max(0, laid.height - (height - RULER)));
    const colours = activityColours();
    const [text, quiet, line, ground, ink, accent, raised] = ["text", "quiet", "line", "ground", "on-node", "accent", "raised"].map(colour) as string[];
    const plot = width - GUTTER;
    const scale = plot / (view.to - view.from);
    const visible = laid.lines.filter((item) => item.y + item.height > scroll.current && item.y < scroll.current + height - RULER);
    const pieces = new Map<number, Piece[]>();
    let busy = false;
    for (const rank of new Set(visible.map((item) => item.rank))) {
      const pyramid = pyramids.get(rank)!;
      pieces.set(rank, pyramid.view(view.from, view.to, plot));
      busy ||= pyramid.isLoading;
    }
    onBusy(busy);
    context.save();
    context.beginPath();
    context.rect(GUTTER, RULER, plot, height - RULER);
    context.clip();
    steps(context, height, line!);
    const labels: [string, number, number, number][] = [];
    const isMatch = new Map<object, boolean[]>();
    for (const item of visible) {
      const y = item.y - scroll.current + RULER;
      if (item.isHead) { context.fillStyle = ground!; context.fillRect(GUTTER, y, plot, item.height); }
      if (item.row < 0) continue;
      const top = y + (item.isHead ? 3 : 1), high = item.height - (item.isHead ? 6 : 2);
      for (const piece of pieces.get(item.rank) ?? []) {
        const { tile } = piece;
        let matched: boolean[] | undefined;
        if (wanted) {
          matched = isMatch.get(tile);
          if (!matched) isMatch.set(tile, (matched = tile.name.values.map((name) => name.toLowerCase().includes(wanted))));
        }
        const end = tile.firstOfRow[item.row + 1]!;
        const low = Math.max(piece.from, view.from), limit = Math.min(piece.to, view.to);
        let last = -1, lastActivity = -1;
        for (let i = firstAfter(tile, item.row, low); i < end; i++) {
          const start = tile.start[i]!;
          if (start >= limit) break;
          const left = GUTTER + (Math.max(start, low) - view.from) * scale;
          const right = GUTTER + (Math.min(start + tile.duration[i]!, limit) - view.from) * scale;
          const found = matched?.[tile.name.numbers[i]!] === true;
          const activity = tile.activity[i]!;
          // What would fall on a pixel that already has this colour is not worth a call.
          if (right - left < 1 && left < last && activity === lastActivity && !found) continue;
          context.globalAlpha = matched ? (found ? 1 : 0.3) : item.depth > 0 && !item.isDevice ? 0.85 : 1;
          context.fillStyle = found ? accent! : colours[activity]!;
          const wide = Math.max(right - left - (right - left > 3 ? 0.6 : 0), 1);
          context.fillRect(left, top, wide, high);
          last = left + 1;
          lastActivity = found ? -1 : activity;
          if (right - left > 28) labels.push([tile.short[tile.name.numbers[i]!]!.replace(IDLE, ""), left + 4, top + high / 2 + 0.5, right - left - 8]);
        }
      }
    }
    context.globalAlpha = 1;
    context.fillStyle = ink!;
    context.font = "11px system-ui, sans-serif";
    const letter = letterWidth(context);
    for (const [name, left, y, room] of labels) { const shown = fitted(name, room, letter); if (shown) context.fillText(shown, left, y); }
    if (picked) outline(context, picked, text!, 2);
    if (hover) outline(context, hover, text!, 1);
    if (picked && picked.flowRow >= 0) flow(context, picked, accent!);
    measured(context, height, accent!);
    context.restore();
    gutter(context, visible, height, text!, quiet!, line!, raised!);
    ruler(context, width, quiet!, line!);
    stepNames(context, width, quiet!, line!);
  });
  redraw.current = pen.redraw;

  function lineOf(rank: number, row: number): Line | null {
    return laid.lines.find((item) => item.rank === rank && item.row === row) ?? null;
  }

  function outline(context: CanvasRenderingContext2D, box: Picked, stroke: string, thick: number) {
    const line = lineOf(box.rank, box.row);
    if (!line) return;
    const left = x(box.start), right = x(box.start + box.duration);
    context.strokeStyle = stroke;
    context.lineWidth = thick;
    context.strokeRect(left, line.y - scroll.current + RULER + 1, Math.max(right - left, 2), line.height - 2);
  }

  function flow(context: CanvasRenderingContext2D, box: Picked, stroke: string) {
    const from = lineOf(box.rank, box.row), to = lineOf(box.rank, box.flowRow);
    if (!from || !to) return;
    const [x1, x2] = [x(box.start), x(box.flowStart)];
    const [y1, y2] = [from, to].map((line) => line.y - scroll.current + RULER + line.height / 2) as [number, number];
    context.strokeStyle = context.fillStyle = stroke;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x1, y1);
    context.bezierCurveTo(x1, (y1 + y2) / 2, x2, (y1 + y2) / 2, x2, y2);
    context.stroke();
    context.beginPath();
    context.arc(x2, y2, 3.5, 0, 7);
    context.fill();
  }

  function steps(context: CanvasRenderingContext2D, height: number, line: string) {
    context.fillStyle = line;
    for (const step of named) {
      const left = x(step.start_ns);
      if (left >= GUTTER && left <= size.current.width) context.fillRect(left, RULER, 1, height);
    }
  }

  // A step's name stands at its begin, or at the left edge where that is further left.
  function stepNames(context: CanvasRenderingContext2D, width: number, quiet: string, line: string) {
    if (!named.length) return;
    const middle = TIMES + STEP_NAMES / 2;
    context.fillStyle = quiet;
    context.fillText("step", 6, middle);
    let free = GUTTER;
    for (const step of named) {
      const left = Math.max(x(step.start_ns), GUTTER), right = Math.min(x(step.start_ns + step.duration_ns), width);
      const name = count(step.number), wide = context.measureText(name).width + 10;
      if (right <= GUTTER || left > width || left < free || right - left < wide) continue;
      context.fillStyle = line;
      context.fillRect(left, TIMES, 1, STEP_NAMES);
      context.fillStyle = quiet;
      context.fillText(name, left + 4, middle);
      free = left + wide;
    }
    context.fillStyle = line;
    context.fillRect(0, RULER - 1, width, 1);
  }

  function measured(context: CanvasRenderingContext2D, height: number, accent: string) {
    if (!range) return;
    const left = x(range.from), right = x(range.to);
    context.globalAlpha = 0.14;
    context.fillStyle = accent;
    context.fillRect(left, RULER, right - left, height);
    context.globalAlpha = 1;
    context.fillRect(left, RULER, 1, height);
    context.fillRect(right, RULER, 1, height);
    const label = duration(range.to - range.from);
    const wide = context.measureText(label).width + 8;
    context.fillStyle = accent;
    context.fillRect((left + right - wide) / 2, RULER + 4, wide, 16);
    context.fillStyle = colour("ground");
    context.fillText(label, (left + right - wide) / 2 + 4, RULER + 12);
  }

  function gutter(context: CanvasRenderingContext2D, visible: Line[], height: number, text: string, quiet: string, line: string, raised: string) {
    context.fillStyle = raised;
    context.fillRect(0, RULER, GUTTER, height);
    context.save();
    context.beginPath();
    context.rect(0, RULER, GUTTER - 6, height - RULER);
    context.clip();
    for (const item of visible) {
      const y = item.y - scroll.current + RULER;
      context.font = item.isHead ? "600 12px system-ui, sans-serif" : "11px system-ui, sans-serif";
      context.fillStyle = item.isHead ? text : quiet;
      context.fillText(fitted(item.title, GUTTER - (item.isHead ? 12 : 24), letterWidth(context)), item.isHead ? 6 : 18, y + item.height / 2);
    }
    context.restore();
    context.fillStyle = line;
    context.fillRect(GUTTER - 1, 0, 1, height);
    for (const item of visible) {
      if (item.isHead || item.depth === 0) context.fillRect(0, item.y - scroll.current + RULER, size.current.width, item.isHead ? 1 : 0.5);
    }
  }

  function ruler(context: CanvasRenderingContext2D, width: number, quiet: string, line: string) {
    context.fillStyle = colour("ground");
    context.fillRect(0, 0, width, RULER);
    context.fillStyle = quiet;
    context.font = "11px system-ui, sans-serif";
    const step = niceStep(view.to - view.from, (width - GUTTER) / 110);
    // Far in, a tick tells the distance from the left edge's round time: absolute ones would all look the same.
    const coarse = step * 100;
    const base = view.to / step > 5000 ? Math.floor(view.from / coarse) * coarse : 0;
    context.fillText(base ? `${duration(base)} +` : "time", 6, TIMES / 2);
    for (let tick = Math.ceil(view.from / step) * step; tick <= view.to; tick += step) {
      const at = x(tick);
      context.fillStyle = line;
      context.fillRect(at, TIMES - 6, 1, 6);
      context.fillStyle = quiet;
      context.fillText(Math.abs(tick - base) < step / 2 ? "0" : duration(tick - base), at + 3, TIMES / 2 - 1);
    }
    context.fillStyle = line;
    context.fillRect(0, TIMES - 1, width, 1);
  }

  function hit(px: number, py: number): Picked | null {
    if (px < GUTTER || py < RULER) return null;
    const line = lineAt(laid.lines, py - RULER + scroll.current);
    if (!line || line.row < 0) return null;
    const time = timeAt(px);
    const slack = (2 * (view.to - view.from)) / Math.max(size.current.width - GUTTER, 1);
    return near(line, time, slack);
  }

  function near(line: Line, time: number, slack: number): Picked | null {
    for (const piece of pyramids.get(line.rank)!.view(view.from, view.to, size.current.width - GUTTER)) {
      if (time < piece.from || time >= piece.to) continue;
      const i = firstAfter(piece.tile, line.row, time - slack);
      if (i < piece.tile.firstOfRow[line.row + 1]! && piece.tile.start[i]! <= time + slack) return boxAt(piece, line, i);
    }
    return null;
  }

  function boxAt({ tile }: Piece, line: Line, i: number): Picked {
    return {
      rank: line.rank, row: line.row, start: tile.start[i]!, duration: tile.duration[i]!, name: tile.name.values[tile.name.numbers[i]!]!,
      count: tile.count[i]!, span: tile.span[i]!, activity: activities[tile.activity[i]!] ?? "other", flowRow: tile.flowRow[i]!, flowStart: tile.flowStart[i]!,
    };
  }

  const zoomAround = (factor: number, time: number) => onView(clamp({ from: time - (time - view.from) * factor, to: time + (view.to - time) * factor }, trace.length_ns));
  const panBy = (part: number) => { const by = part * (view.to - view.from); onView(clamp({ from: view.from + by, to: view.to + by }, trace.length_ns)); };

  useEffect(() => {
    const element = pen.canvas.current;
    if (!element) return undefined;
    // Not passive: the page must not scroll or zoom along.
    const onWheel = (event: WheelEvent) => {
      event.preventDefault();
      if (event.ctrlKey || event.metaKey || event.altKey) zoomAround(Math.exp(event.deltaY * 0.004), timeAt(event.offsetX));
      else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) panBy((event.deltaX || event.deltaY) / (size.current.width - GUTTER));
      else if (laid.height > size.current.height - RULER) { scroll.current += event.deltaY; pen.redraw(); }
      else zoomAround(Math.exp(event.deltaY * 0.002), timeAt(event.offsetX));
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  });

  const neighbour = (by: number) => {
    if (!picked) return;
    const line = lineOf(picked.rank, picked.row);
    if (!line) return;
    const all = pyramids.get(picked.rank)!.view(view.from, view.to, size.current.width - GUTTER)
      .flatMap((piece) => { const list: Picked[] = []; for (let i = piece.tile.firstOfRow[line.row]!; i < piece.tile.firstOfRow[line.row + 1]!; i++) list.push(boxAt(piece, line, i)); return list; });
    const at = all.findIndex((box) => box.start >= picked.start);
    choose(all[Math.min(Math.max(at + by, 0), all.length - 1)] ?? picked);
  };
  const choose = (box: Picked) => {
    onPick(box);
    if (box.start < view.from || box.start + box.duration > view.to) {
      const half = Math.max((view.to - view.from) / 2, box.duration);
      onView(clamp({ from: box.start + box.duration / 2 - half, to: box.start + box.duration / 2 + half }, trace.length_ns));
    }
  };
  const otherLine = (by: number) => {
    const rows = laid.lines.filter((item) => item.row >= 0);
    const at = picked ? rows.findIndex((item) => item.rank === picked.rank && item.row === picked.row) : -1;
    const middle = picked ? picked.start + picked.duration / 2 : (view.from + view.to) / 2;
    for (let i = at + by; i >= 0 && i < rows.length; i += by) {
      const box = near(rows[i]!, middle, (view.to - view.from) / 2);
      if (!box) continue;
      const y = rows[i]!.y - scroll.current;
      if (y < 0) scroll.current = rows[i]!.y;
      if (y > size.current.height - RULER - 30) scroll.current = rows[i]!.y - size.current.height + RULER + 30;
      onPick(box);
      return;
    }
  };

  const onKey = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const middle = (view.from + view.to) / 2;
    const keys: Record<string, () => void> = {
      w: () => zoomAround(0.7, middle), s: () => zoomAround(1 / 0.7, middle), a: () => panBy(-0.2), d: () => panBy(0.2),
      "+": () => zoomAround(0.7, middle), "-": () => zoomAround(1 / 0.7, middle),
      "0": () => onView({ from: 0, to: trace.length_ns }),
      f: () => { if (picked) onView(clamp({ from: picked.start - picked.duration, to: picked.start + 2 * picked.duration }, trace.length_ns)); },
      m: () => { if (picked) onRange({ from: picked.start, to: picked.start + picked.duration, rank: picked.rank, rows: [] }); },
      ArrowLeft: () => neighbour(-1), ArrowRight: () => neighbour(1), ArrowUp: () => otherLine(-1), ArrowDown: () => otherLine(1),
      PageDown: () => { scroll.current += 300; pen.redraw(); }, PageUp: () => { scroll.current -= 300; pen.redraw(); },
      Enter: () => { if (picked && lineOf(picked.rank, picked.row)?.isHead) onToggle(picked.rank); },
      Escape: () => { if (range) onRange(null); else onPick(null); },
    };
    const act = keys[event.key] ?? keys[event.key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    act();
  };

  const rowsBetween = (first: Line | null, second: Line | null): { rank: number; rows: number[] } => {
    const rank = first?.rank ?? trace.ranks[0]?.rank ?? 0;
    if (!first || !second || Math.abs(first.y - second.y) < 1 || second.rank !== rank) return { rank, rows: first && !first.isHead && first.row >= 0 ? [first.row] : [] };
    const [low, high] = [Math.min(first.row, second.row), Math.max(first.row, second.row)];
    return { rank, rows: Array.from({ length: high - low + 1 }, (_, i) => low + i).filter((row) => row >= 0) };
  };

  return (
    <div class="timeline">
      <canvas ref={pen.canvas} tabIndex={0} role="img" style={{ height: `${Math.max(laid.height + RULER + 8, 160)}px` }}
        aria-label="Timeline. W and S zoom, A and D pan, arrow keys go from span to span, Enter unfolds a rank."
        onKeyDown={onKey}
        onPointerDown={(event) => {
          (event.currentTarget as HTMLCanvasElement).setPointerCapture(event.pointerId);
          const line = lineAt(laid.lines, event.offsetY - RULER + scroll.current);
          drag.current = { x: event.offsetX, y: event.offsetY, from: view, top: scroll.current, moved: false, measure: event.shiftKey || event.offsetY < RULER, time: timeAt(event.offsetX), line };
        }}
        onPointerMove={(event) => {
          const began = drag.current;
          if (!began) { setHover(hit(event.offsetX, event.offsetY)); return; }
          if (Math.abs(event.offsetX - began.x) + Math.abs(event.offsetY - began.y) > 4) began.moved = true;
          if (!began.moved) return;
          if (began.measure) {
            const time = timeAt(event.offsetX);
            const rows = rowsBetween(began.y < RULER ? null : began.line, lineAt(laid.lines, event.offsetY - RULER + scroll.current));
            onRange({ from: Math.min(began.time, time), to: Math.max(began.time, time), ...rows });
            return;
          }
          const by = ((event.offsetX - began.x) / (size.current.width - GUTTER)) * (began.from.to - began.from.from);
          scroll.current = began.top - (event.offsetY - began.y);
          onView(clamp({ from: began.from.from - by, to: began.from.to - by }, trace.length_ns));
          pen.redraw();
        }}
        onPointerUp={(event) => {
          const began = drag.current;
          drag.current = null;
          if (!began || began.moved) return;
          if (event.offsetX < GUTTER) { if (began.line?.isHead) onToggle(began.line.rank); return; }
          onPick(hit(event.offsetX, event.offsetY));
        }}
        onPointerLeave={() => setHover(null)} />
      <p class="readout" aria-live="polite">
        {(hover ?? picked) ? <Told box={(hover ?? picked)!} /> : <>Hover or use the arrow keys for the numbers. Shift and drag measures.</>}
      </p>
    </div>
  );
}

function Told({ box }: { box: Picked }) {
  return <><b>{box.name}</b>{box.count > 1 && <> and {count(box.count - 1)} more that are too short to draw apart</>}<br />
    {duration(box.duration)} from {duration(box.start)} on, {box.rank < 0 ? "" : `rank ${box.rank}, `}{box.activity}{box.flowRow >= 0 && <> · launch and kernel are joined by the line</>}</>;
}
