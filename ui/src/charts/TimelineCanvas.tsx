// The timeline itself: pan, zoom, hover, select, measure. It draws tiles and knows no server.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Source } from "../data/source";
import type { Trace } from "../data/types";
import { activities, activityColours, colour } from "../look/colours";
import { count, duration, shortName } from "../look/format";
import { fitted, font, letterWidth, useCanvas } from "./canvas";
import { Fingers, isTouched, type Pinch, pinched, slack } from "./fingers";
import { inSight, type Line, lineAt, linesOf } from "./lines";
import { flow, type Frame, gutter, idle, lineOf, measured, outline, type Picked, type Range, type View } from "./marks";
import { isOn, type Overlay, type Stretches, stretchesOf } from "./overlay";
import { firstAfter, type Piece, Pyramid } from "./pyramid";
import { ruler, STEP_NAMES, stepNames, TIMES } from "./ruler";

// Also in style.css, of .counter.
const WIDE_GUTTER = 168, NARROW = 600, NARROW_GUTTER = 88;
// Idle time is grey already: what room a box has is for the cause.
const IDLE = /^idle: /;
const PATH_TITLE = "critical path";
export const UNSETTLED = -1;

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
  overlays: ReadonlySet<Overlay>;
  // Null where nobody has scrolled yet: then it begins at what is chosen or unfolded.
  top: number | null;
  onTop(top: number): void;
}

const keyOf = (box: Picked | null): string => (box ? [box.rank, box.row, box.start].map(Math.round).join() : "");
const NOTHING: Stretches = { start: [], end: [], activity: [], name: [] };

export function clamp(view: View, length: number): View {
  const span = Math.min(Math.max(view.to - view.from, 50), length * 1.1);
  const low = -0.05 * length, high = 1.05 * length;
  const from = Math.min(Math.max(view.from, low), high - span);
  return { from, to: from + span };
}

export function TimelineCanvas(properties: Properties) {
  const { source, trace, view, onView, open, onToggle, picked, onPick, range, onRange, query, onBusy, overlays, onTop } = properties;
  const [hover, setHover] = useState<Picked | null>(null);
  const scroll = useRef(properties.top ?? 0);
  const isFresh = useRef(properties.top === null);
  // What a link has chosen stays where the link has scrolled to.
  const sought = useRef(properties.top === null ? "" : keyOf(picked));
  const scrollTo = (top: number) => { scroll.current = Math.min(Math.max(top, 0), hidden()); onTop(scroll.current); pen.redraw(); };
  const pathRows = useMemo(() => new Map(trace.ranks.map((rank) => [rank.rank, rank.rows.findIndex((row) => row.title === PATH_TITLE)])), [trace]);
  const drag = useRef<{ x: number; y: number; from: View; top: number; moved: boolean; measure: boolean; time: number; line: Line | null } | null>(null);
  const fingers = useRef(new Fingers()).current;
  const pinch = useRef<{ began: Pinch; from: View } | null>(null);
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
  const size = useRef({ width: 0, height: 0, edge: WIDE_GUTTER });
  // How much of the rows is out of sight.
  const hidden = () => Math.max(0, laid.height - (size.current.height - RULER));

  const x = (time: number) => size.current.edge + ((time - view.from) / (view.to - view.from)) * (size.current.width - size.current.edge);
  const timeAt = (px: number) => view.from + ((px - size.current.edge) / (size.current.width - size.current.edge)) * (view.to - view.from);

  const pen = useCanvas((context, width, height) => {
    const edge = width < NARROW ? NARROW_GUTTER : WIDE_GUTTER;
    size.current = { width, height, edge };
    if (isFresh.current) { isFresh.current = false; scroll.current = begun(height - RULER); }
    scroll.current = Math.min(Math.max(scroll.current, 0), hidden());
    // Where all rows are in sight, a finger up or down scrolls the page.
    context.canvas.style.touchAction = hidden() > 0 ? "none" : "pan-y";
    const colours = activityColours();
    const [line, ground, ink, accent] = ["line", "ground", "on-node", "accent"].map(colour) as string[];
    const plot = width - edge;
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
    settlePicked();
    const paths = new Map<number, Stretches>();
    if (overlays.has("path")) for (const [rank, mine] of pieces) { const row = pathRows.get(rank) ?? -1; paths.set(rank, row < 0 ? NOTHING : stretchesOf(mine, row, view.from, view.to)); }
    context.save();
    context.beginPath();
    context.rect(edge, RULER, plot, height - RULER);
    context.clip();
    steps(context, height, line!);
    const labels: [string, number, number, number, boolean][] = [];
    const isMatch = new Map<object, boolean[]>();
    for (const item of visible) {
      const y = item.y - scroll.current + RULER;
      if (item.isHead) { context.fillStyle = ground!; context.fillRect(edge, y, plot, item.height); }
      if (item.row < 0) continue;
      const path = item.isHead || item.row === pathRows.get(item.rank) ? undefined : paths.get(item.rank);
      const top = y + (item.isHead ? 3 : 1), high = item.height - (item.isHead ? 6 : 2);
      for (const piece of pieces.get(item.rank) ?? []) {
        const { tile } = piece;
        let matched: boolean[] | undefined;
        if (wanted) {
          matched = isMatch.get(tile);
          if (!matched) isMatch.set(tile, (matched = tile.name.values.map((name) => name.toLowerCase().includes(wanted))));
        }
        const stop = tile.firstOfRow[item.row + 1]!;
        const low = Math.max(piece.from, view.from), limit = Math.min(piece.to, view.to);
        let last = -1, lastActivity = -1;
        for (let i = firstAfter(tile, item.row, low); i < stop; i++) {
          const start = tile.start[i]!;
          if (start >= limit) break;
          const left = edge + (Math.max(start, low) - view.from) * scale;
          const right = edge + (Math.min(start + tile.duration[i]!, limit) - view.from) * scale;
          const found = matched?.[tile.name.numbers[i]!] === true;
          const activity = tile.activity[i]!;
          // What would fall on a pixel that already has this colour is not worth a call.
          if (right - left < 1 && left < last && activity === lastActivity && !found) continue;
          const isOff = path !== undefined && !isOn(path, start + tile.duration[i]! / 2, activity);
          context.globalAlpha = isOff ? 0.18 : matched ? (found ? 1 : 0.3) : item.depth > 0 && !item.isDevice ? 0.85 : 1;
          context.fillStyle = found ? accent! : colours[activity]!;
          // What goes on in the next piece has no seam there, and its name once.
          const end = start + tile.duration[i]!, goesOn = end > limit && limit < view.to;
          const wide = Math.max(right - left - (right - left > 3 && !goesOn ? 0.6 : 0), 1);
          context.fillRect(left, top, wide, high);
          last = left + 1;
          lastActivity = found ? -1 : activity;
          const room = edge + (Math.min(end, view.to) - view.from) * scale - left;
          if (room > 28 && Math.max(start, view.from) >= piece.from) labels.push([tile.short[tile.name.numbers[i]!]!.replace(IDLE, ""), left + 4, top + high / 2 + 0.5, room - 8, found]);
        }
      }
    }
    context.globalAlpha = 1;
    context.font = font(11);
    const letter = letterWidth(context);
    for (const [name, left, y, room, found] of labels) { const shown = fitted(name, room, letter); context.fillStyle = found ? ground! : ink!; if (shown) context.fillText(shown, left, y, room + 4); }
    const frame: Frame = { context, width, height, edge, ruler: RULER, top: scroll.current, laid, x };
    const hasDevice = (rank: number) => trace.ranks.find((each) => each.rank === rank)?.parts !== null;
    if (overlays.has("idle")) for (const [rank, mine] of pieces) if (hasDevice(rank)) idle(frame, rank, stretchesOf(mine, 0, view.from, view.to), pathRows.get(rank));
    if (picked) outline(frame, picked, 2);
    if (hover) outline(frame, hover, 1);
    if (picked && picked.flowRow >= 0) flow(frame, picked);
    if (range) measured(frame, range);
    context.restore();
    gutter(frame, visible);
    ruler(context, { view, width, left: edge, x });
    stepNames(context, { view, width, left: edge, x }, named);
  });
  redraw.current = pen.redraw;

  // What a link has chosen is known by its place only until its tile is there.
  function settlePicked() {
    const line = picked && picked.span === UNSETTLED ? lineOf(laid, picked.rank, picked.row) : null;
    if (!line || !picked) return;
    const low = Math.max(picked.start, view.from), high = Math.min(picked.start + picked.duration, view.to);
    const box = low <= high ? near(line, (low + high) / 2, 0) : near(line, picked.start + picked.duration / 2, 0, { from: picked.start - 1, to: picked.start + picked.duration + 1 });
    // A coarser tile stands in at first, with a box of many in its place.
    const isIt = box && Math.abs(box.start - picked.start) <= 1 && Math.abs(box.duration - picked.duration) <= 1;
    if (box && (isIt || !pyramids.get(picked.rank)!.isLoading)) queueMicrotask(() => onPick(box));
  }

  function steps(context: CanvasRenderingContext2D, height: number, line: string) {
    context.fillStyle = line;
    for (const step of named) {
      const left = x(step.start_ns);
      if (left >= size.current.edge && left <= size.current.width) context.fillRect(left, RULER, 1, height);
    }
  }

  function hit(px: number, py: number): Picked | null {
    if (px < size.current.edge || py < RULER) return null;
    const line = lineAt(laid.lines, py - RULER + scroll.current);
    if (!line || line.row < 0) return null;
    const time = timeAt(px);
    const slack = (2 * (view.to - view.from)) / Math.max(size.current.width - size.current.edge, 1);
    return near(line, time, slack);
  }

  function near(line: Line, time: number, slack: number, within: View = view): Picked | null {
    for (const piece of pyramids.get(line.rank)!.view(within.from, within.to, size.current.width - size.current.edge)) {
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
      else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) panBy((event.deltaX || event.deltaY) / (size.current.width - size.current.edge));
      else if (hidden() > 0) scrollTo(scroll.current + event.deltaY);
      else zoomAround(Math.exp(event.deltaY * 0.002), timeAt(event.offsetX));
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  });

  // A link that is opened in the same window scrolls, too.
  useEffect(() => {
    if (properties.top === null) isFresh.current = true;
    else if (Math.round(scroll.current) !== properties.top) scroll.current = properties.top;
    pen.redraw();
  }, [properties.top]);

  function begun(room: number): number {
    const [only] = open.size === 1 ? open : [], rank = (picked ?? range)?.rank ?? only;
    return rank === undefined ? 0 : inSight(laid, rank, picked?.row ?? null, 0, room);
  }

  // What a search or a key has chosen is brought into sight, once; then the hand may scroll it away.
  useEffect(() => {
    const key = keyOf(picked);
    if (!picked || key === sought.current || isFresh.current || !lineOf(laid, picked.rank, picked.row)) return;
    sought.current = key;
    size.current.height = pen.canvas.current?.clientHeight ?? 0;
    const top = inSight(laid, picked.rank, picked.row, scroll.current, size.current.height - RULER);
    if (top !== scroll.current) scrollTo(top);
  });

  const neighbour = (by: number) => {
    if (!picked) return;
    const line = lineOf(laid, picked.rank, picked.row);
    if (!line) return;
    const all = pyramids.get(picked.rank)!.view(view.from, view.to, size.current.width - size.current.edge)
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
      if (y < 0) scrollTo(rows[i]!.y);
      if (y > size.current.height - RULER - 30) scrollTo(rows[i]!.y - size.current.height + RULER + 30);
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
      PageDown: () => scrollTo(scroll.current + 300), PageUp: () => scrollTo(scroll.current - 300),
      Enter: () => { if (picked && lineOf(laid, picked.rank, picked.row)?.isHead) onToggle(picked.rank); },
      Escape: () => { if (range) onRange(null); else onPick(null); },
    };
    const act = keys[event.key] ?? keys[event.key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    act();
  };

  // Letters also where nothing has the focus: nobody clicks a timeline first to zoom it. Arrows scroll the page there.
  const latestKey = useRef(onKey);
  latestKey.current = onKey;
  useEffect(() => {
    const onPage = (event: KeyboardEvent) => { if (/^[wasdfm0+-]$/i.test(event.key) && (event.target === document.body || (event.target as HTMLElement).id === "content")) latestKey.current(event); };
    addEventListener("keydown", onPage);
    return () => removeEventListener("keydown", onPage);
  }, []);

  const rowsBetween = (first: Line | null, second: Line | null): { rank: number; rows: number[] } => {
    // On the ruler it is the rank that is unfolded.
    const rank = first?.rank ?? (open.size === 1 ? [...open][0] : trace.ranks[0]?.rank) ?? 0;
    if (!first || !second || Math.abs(first.y - second.y) < 1 || second.rank !== rank) return { rank, rows: first && !first.isHead && first.row >= 0 ? [first.row] : [] };
    const [low, high] = [Math.min(first.row, second.row), Math.max(first.row, second.row)];
    return { rank, rows: Array.from({ length: high - low + 1 }, (_, i) => low + i).filter((row) => row >= 0) };
  };

  // A finger that stays after a pinch does not go on as a drag.
  const release = (event: PointerEvent) => { fingers.up(event); drag.current = null; if (!fingers.pinch()) pinch.current = null; };

  const told = hover ?? picked;
  return (
    <div class="timeline">
      <canvas ref={pen.canvas} tabIndex={0} role="img" style={{ height: `${Math.max(laid.height + RULER + 8, 160)}px` }}
        aria-label="Timeline. W and S zoom, A and D pan, arrow keys go from span to span, Enter unfolds a rank."
        onKeyDown={onKey}
        onPointerDown={(event) => {
          (event.currentTarget as HTMLCanvasElement).setPointerCapture(event.pointerId);
          fingers.down(event);
          const two = fingers.pinch();
          if (two) { pinch.current = { began: two, from: view }; drag.current = null; return; }
          const line = lineAt(laid.lines, event.offsetY - RULER + scroll.current);
          drag.current = { x: event.offsetX, y: event.offsetY, from: view, top: scroll.current, moved: false, measure: event.shiftKey || event.offsetY < RULER, time: timeAt(event.offsetX), line };
        }}
        onPointerMove={(event) => {
          fingers.move(event);
          const now = fingers.pinch(), held = pinch.current;
          if (now && held) {
            const part = (px: number) => (px - size.current.edge) / (size.current.width - size.current.edge);
            onView(clamp(pinched(held.from.from, held.from.to, part(held.began.x), part(now.x), now.spread / held.began.spread), trace.length_ns));
            return;
          }
          const began = drag.current;
          if (!began) { setHover(hit(event.offsetX, event.offsetY)); return; }
          if (Math.abs(event.offsetX - began.x) + Math.abs(event.offsetY - began.y) > slack(event)) began.moved = true;
          if (!began.moved) return;
          if (began.measure) {
            const time = timeAt(event.offsetX);
            const rows = rowsBetween(began.y < RULER ? null : began.line, lineAt(laid.lines, event.offsetY - RULER + scroll.current));
            onRange({ from: Math.min(began.time, time), to: Math.max(began.time, time), ...rows });
            return;
          }
          const by = ((event.offsetX - began.x) / (size.current.width - size.current.edge)) * (began.from.to - began.from.from);
          onView(clamp({ from: began.from.from - by, to: began.from.to - by }, trace.length_ns));
          scrollTo(began.top - (event.offsetY - began.y));
        }}
        onPointerUp={(event) => {
          const began = drag.current;
          release(event);
          if (!began || began.moved) return;
          if (event.offsetX < size.current.edge) { if (began.line?.isHead) onToggle(began.line.rank); return; }
          onPick(hit(event.offsetX, event.offsetY));
        }}
        onPointerCancel={release} onPointerLeave={() => setHover(null)} />
      <p class="readout" aria-live="polite">
        {told && told.span !== UNSETTLED ? <Told box={told} /> : isTouched() ? <>Drag pans · two fingers zoom · a tap chooses a span or unfolds a rank · a drag on the ruler measures</> : <>W A S D zoom and pan · Shift and drag (or drag on the ruler) measures · arrow keys go from span to span{hidden() > 0 ? " · the wheel scrolls, with Ctrl it zooms" : " · the wheel zooms"}</>}
      </p>
    </div>
  );
}

function Told({ box }: { box: Picked }) {
  const short = shortName(box.name);
  return <><b>{short}</b>{box.count > 1 && <> and {count(box.count - 1)} more that are too short to draw apart</>}<br />
    {duration(box.duration)} from {duration(box.start)} on, {box.rank < 0 ? "" : `rank ${box.rank}, `}{box.activity}{box.flowRow >= 0 && <> · launch and kernel are joined by the line</>}
    {short !== box.name && <span class="whole" title={box.name}>{box.name}</span>}</>;
}
