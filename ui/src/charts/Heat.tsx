// Ranks and steps as a map. The server sends no more cells than a screen has; zooming asks for finer ones
// while the coarse ones are stretched, so that the map follows the hand at any size.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useSource } from "../data/load";
import { colour, heatColour, useDark } from "../look/colours";
import { UNKNOWN } from "../look/format";
import { niceStep, useCanvas } from "./canvas";
import { Fingers, isTouched, type Pinch, pinched, slack } from "./fingers";
import { Scale } from "./Scale";

const LEFT = 46, BOTTOM = 22, TOP = 4, HALF_LETTER = 5;

export interface Cells { values: Float32Array; columns: number; rows: number; first: number; last: number }
export interface Window { first: number; last: number; top: number; bottom: number }

// The scale leaves out the few greatest: one hiccup must not make all else look alike. It spans `least`, or noise would
// look like a storm.
export function scaleOf(values: Float32Array, least = 0): [number, number] {
  const sample: number[] = [];
  const every = Math.max(1, Math.floor(values.length / 20_000));
  for (let i = 0; i < values.length; i += every) if (Number.isFinite(values[i]!)) sample.push(values[i]!);
  if (!sample.length) return [0, 1];
  sample.sort((a, b) => a - b);
  const at = (part: number) => sample[Math.min(sample.length - 1, Math.floor(part * sample.length))]!;
  const low = at(0.01), high = at(0.995);
  return [low, Math.max(low, high) > low ? Math.max(high, low + least) : low];
}

function painted(cells: Cells, scale: [number, number], dark: boolean): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = cells.columns;
  canvas.height = cells.rows;
  const context = canvas.getContext("2d")!;
  const image = context.createImageData(cells.columns, cells.rows);
  const colours = Array.from({ length: 256 }, (_, i) => heatColour(i / 255, dark));
  for (let i = 0; i < cells.values.length; i++) {
    const value = cells.values[i]!;
    const known = Number.isFinite(value);
    const mixed = colours[Math.max(0, Math.min(255, Math.round(((value - scale[0]) / (scale[1] - scale[0] || 1)) * 255)))] ?? colours[0]!;
    image.data[4 * i] = mixed[0];
    image.data[4 * i + 1] = mixed[1];
    image.data[4 * i + 2] = mixed[2];
    image.data[4 * i + 3] = known ? 255 : 0;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

// Stripes, which no value looks like, lie under what was not measured.
function hatched(context: CanvasRenderingContext2D, width: number, height: number): void {
  context.strokeStyle = colour("line");
  context.lineWidth = 1;
  context.beginPath();
  for (let x = LEFT - height; x < width; x += 7) { context.moveTo(x, height); context.lineTo(x + height, 0); }
  context.stroke();
}

interface Properties { job: string; value: string; text(value: number): string; first: number; last: number; ranks: number; window: Window | null; onWindow(window: Window | null): void; rankLabel(rank: number): string; least?: number; onOpen(rank: number, step: number): void; news: number }

export function Heat({ job, value, text, first, last, ranks, window: given, onWindow, rankLabel, least = 0, onOpen, news }: Properties) {
  const source = useSource();
  const whole: Window = { first, last: Math.max(last, first + 1), top: 0, bottom: Math.max(ranks, 1) };
  const shown = given ?? whole;
  const [coarse, setCoarse] = useState<Cells | null>(null);
  const [fine, setFine] = useState<Cells | null>(null);
  const [failure, setFailure] = useState("");
  const [hover, setHover] = useState<{ rank: number; step: number; value: number } | null>(null);
  const [cursor, setCursor] = useState<{ rank: number; step: number } | null>(null);
  const drag = useRef<{ x: number; y: number; from: Window; moved: boolean } | null>(null);
  const fingers = useRef(new Fingers()).current;
  const pinch = useRef<{ began: Pinch; from: Window } | null>(null);
  const size = useRef({ width: 1, height: 1 });
  const columns = Math.max(1, Math.min(1200, whole.last - whole.first, Math.floor(500_000 / Math.max(ranks, 1))));

  const fetchCells = (low: number, high: number, wide: number): Promise<Cells> =>
    source.table(`heat?job=${encodeURIComponent(job)}&value=${encodeURIComponent(value)}&first=${low}&last=${high}&columns=${wide}`).then((table) => {
      const values = table.numbers("value") as Float32Array;
      return { values, columns: wide, rows: Math.max(1, Math.round(values.length / wide)), first: low, last: low + Math.ceil((high - low) / wide) * wide };
    });
  useEffect(() => {
    let current = true;
    fetchCells(whole.first, whole.last, columns).then((cells) => { if (current) { setCoarse(cells); setFailure(""); } }, (error: unknown) => { if (current) setFailure(String((error as Error).message)); });
    return () => { current = false; };
  }, [job, value, whole.first, whole.last, columns, news]);
  useEffect(() => {
    const span = Math.ceil(shown.last) - Math.floor(shown.first);
    if (!given || span >= 0.7 * (whole.last - whole.first)) { setFine(null); return undefined; }
    let current = true;
    const timer = setTimeout(() => {
      const low = Math.max(whole.first, Math.floor(shown.first - 0.25 * span)), high = Math.min(whole.last, Math.ceil(shown.last + 0.25 * span));
      fetchCells(low, high, Math.max(1, Math.min(columns, high - low))).then((cells) => { if (current) setFine(cells); }, () => {});
    }, 150);
    return () => { current = false; clearTimeout(timer); };
  }, [job, value, given?.first, given?.last, columns]);

  const dark = useDark();
  const scale = useMemo(() => (coarse ? scaleOf(coarse.values, least) : ([0, 1] as [number, number])), [coarse, least]);
  const hasGaps = useMemo(() => coarse?.values.some((value) => !Number.isFinite(value)) ?? false, [coarse]);
  const isEmpty = useMemo(() => coarse?.values.every((value) => !Number.isFinite(value)) ?? false, [coarse]);
  const pictures = useMemo(() => [coarse, fine].flatMap((cells) => (cells ? [{ cells, picture: painted(cells, scale, dark) }] : [])), [coarse, fine, scale, dark]);
  const x = (step: number) => LEFT + ((step - shown.first) / (shown.last - shown.first)) * (size.current.width - LEFT);
  const y = (rank: number) => TOP + ((rank - shown.top) / (shown.bottom - shown.top)) * (size.current.height - BOTTOM - TOP);

  const pen = useCanvas((context, width, height) => {
    size.current = { width, height };
    context.save();
    context.beginPath();
    context.rect(LEFT, TOP, width - LEFT, height - BOTTOM - TOP);
    context.clip();
    if (coarse) hatched(context, width, height);
    context.imageSmoothingEnabled = false;
    for (const { cells, picture } of pictures) {
      const [left, right] = [x(cells.first), x(cells.last)];
      context.drawImage(picture, left, y(0), right - left, y(cells.rows) - y(0));
    }
    const marked = cursor ?? hover;
    if (marked) {
      context.strokeStyle = colour("text");
      context.lineWidth = 1.5;
      context.strokeRect(LEFT, y(marked.rank), width, Math.max(y(marked.rank + 1) - y(marked.rank), 2));
      context.fillStyle = colour("text");
      context.fillRect(x(marked.step), TOP, 1, height);
    }
    context.restore();
    context.fillStyle = colour("quiet");
    context.textAlign = "right";
    const rankStep = Math.max(1, niceStep(shown.bottom - shown.top, 8));
    for (let rank = Math.ceil(shown.top / rankStep) * rankStep; rank < shown.bottom; rank += rankStep) context.fillText(String(rank), LEFT - 6, Math.min(Math.max(y(rank + 0.5), TOP + HALF_LETTER), height - BOTTOM - HALF_LETTER));
    context.textAlign = "center";
    const step = Math.max(1, niceStep(shown.last - shown.first, width / 130));
    let free = LEFT;
    for (let tick = Math.ceil(shown.first / step) * step; tick <= shown.last; tick += step) {
      const label = `step ${Math.round(tick).toLocaleString("en")}`, half = context.measureText(label).width / 2;
      const middle = Math.min(Math.max(x(tick), LEFT + half), width - half - 4);
      if (middle - half < free) continue;
      context.fillText(label, middle, height - 10);
      free = middle + half + 12;
    }
  });

  const valueAt = (rank: number, step: number): number => {
    const cells = fine && step >= fine.first && step < fine.last ? fine : coarse;
    if (!cells || rank < 0 || rank >= cells.rows) return Number.NaN;
    const column = Math.floor(((step - cells.first) / (cells.last - cells.first)) * cells.columns);
    return cells.values[rank * cells.columns + column] ?? Number.NaN;
  };
  const at = (px: number, py: number) => ({
    step: Math.floor(shown.first + ((px - LEFT) / (size.current.width - LEFT)) * (shown.last - shown.first)),
    rank: Math.floor(shown.top + ((py - TOP) / (size.current.height - BOTTOM - TOP)) * (shown.bottom - shown.top)),
  });
  const bounded = (next: Window): Window | null => {
    const span = Math.min(Math.max(next.last - next.first, 4), whole.last - whole.first), tall = Math.min(Math.max(next.bottom - next.top, 2), whole.bottom);
    const low = Math.min(Math.max(next.first, whole.first), whole.last - span), top = Math.min(Math.max(next.top, 0), whole.bottom - tall);
    if (span >= whole.last - whole.first && tall >= whole.bottom) return null;
    return { first: low, last: low + span, top, bottom: top + tall };
  };
  const zoomAt = (factor: number, step: number, rank: number) => onWindow(bounded({
    first: step - (step - shown.first) * factor, last: step + (shown.last - step) * factor,
    top: rank - (rank - shown.top) * factor, bottom: rank + (shown.bottom - rank) * factor,
  }));
  useEffect(() => {
    const element = pen.canvas.current;
    if (!element) return undefined;
    // Without a key the wheel scrolls the page, which the map is only a part of.
    const onWheel = (event: WheelEvent) => { if (!event.ctrlKey && !event.metaKey) return; event.preventDefault(); const place = at(event.offsetX, event.offsetY); zoomAt(Math.exp(event.deltaY * 0.003), place.step, place.rank); };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  });
  const stretched = (from: Window, began: Pinch, now: Pinch): Window => {
    const zoom = now.spread / began.spread, across = (px: number) => (px - LEFT) / (size.current.width - LEFT), along = (py: number) => (py - TOP) / (size.current.height - BOTTOM - TOP);
    const steps = pinched(from.first, from.last, across(began.x), across(now.x), zoom), rows = pinched(from.top, from.bottom, along(began.y), along(now.y), zoom);
    return { first: steps.from, last: steps.to, top: rows.from, bottom: rows.to };
  };
  const release = (event: PointerEvent) => { fingers.up(event); drag.current = null; if (!fingers.pinch()) pinch.current = null; };
  const told = cursor ? { ...cursor, value: valueAt(cursor.rank, cursor.step) } : hover;
  const move = (ranksBy: number, stepsBy: number) => {
    const now = cursor ?? { rank: Math.floor(shown.top), step: Math.floor(shown.first) };
    const width = Math.max(1, Math.ceil((shown.last - shown.first) / 100));
    setCursor({ rank: Math.min(Math.max(now.rank + ranksBy, 0), ranks - 1), step: Math.min(Math.max(now.step + stepsBy * width, first), last - 1) });
  };
  return (
    <div class="heat">
      <canvas ref={pen.canvas} tabIndex={0} role="img" style={{ touchAction: given ? "none" : "pan-y", maxHeight: `${BOTTOM + TOP + 48 * Math.max(ranks, 2)}px` }} aria-label="Ranks and steps. Arrow keys move, plus and minus zoom, Enter opens the rank, Escape shows everything."
        onKeyDown={(event) => {
          const keys: Record<string, () => void> = {
            ArrowUp: () => move(-1, 0), ArrowDown: () => move(1, 0), ArrowLeft: () => move(0, -1), ArrowRight: () => move(0, 1),
            "+": () => zoomAt(0.6, cursor?.step ?? shown.first, cursor?.rank ?? shown.top), "-": () => zoomAt(1 / 0.6, cursor?.step ?? shown.first, cursor?.rank ?? shown.top),
            Enter: () => { if (cursor) onOpen(cursor.rank, cursor.step); }, Escape: () => { setCursor(null); onWindow(null); },
          };
          const act = keys[event.key];
          if (!act) return;
          event.preventDefault();
          act();
        }}
        onPointerDown={(event) => { (event.currentTarget as HTMLCanvasElement).setPointerCapture(event.pointerId);
          fingers.down(event);
          const two = fingers.pinch();
          if (two) { pinch.current = { began: two, from: shown }; drag.current = null; return; }
          drag.current = { x: event.offsetX, y: event.offsetY, from: shown, moved: false };
        }}
        onPointerMove={(event) => {
          fingers.move(event);
          const now = fingers.pinch(), held = pinch.current;
          if (now && held) { onWindow(bounded(stretched(held.from, held.began, now))); return; }
          const began = drag.current;
          if (!began) {
            const place = at(event.offsetX, event.offsetY);
            setCursor(null);
            setHover(event.offsetX < LEFT || place.rank < 0 || place.rank >= ranks ? null : { ...place, value: valueAt(place.rank, place.step) });
            return;
          }
          if (Math.abs(event.offsetX - began.x) + Math.abs(event.offsetY - began.y) > slack(event)) began.moved = true;
          if (!began.moved) return;
          const bySteps = ((event.offsetX - began.x) / (size.current.width - LEFT)) * (began.from.last - began.from.first);
          const byRanks = ((event.offsetY - began.y) / (size.current.height - BOTTOM - TOP)) * (began.from.bottom - began.from.top);
          onWindow(bounded({ first: began.from.first - bySteps, last: began.from.last - bySteps, top: began.from.top - byRanks, bottom: began.from.bottom - byRanks }));
        }}
        onPointerUp={(event) => { const began = drag.current; release(event); if (began && !began.moved) { const place = at(event.offsetX, event.offsetY); if (place.rank >= 0 && place.rank < ranks) onOpen(place.rank, place.step); } }}
        onPointerCancel={release} onPointerLeave={() => setHover(null)} />
      <p class="readout" aria-live="polite">
        {failure ? <span class="partial">Not loaded: {failure}</span> : told ? <><b>{rankLabel(told.rank)}</b>, step {told.step.toLocaleString("en")}: <b>{Number.isFinite(told.value) ? text(told.value) : UNKNOWN}</b>. Click to see this rank.</>
          : !coarse ? "reading the map …" : isEmpty ? `striped: ${UNKNOWN}, in all of these steps`
          : <>{scale[1] > scale[0] ? <Scale low={text(scale[0])} high={`${text(scale[1])} and more`} /> : <>everywhere {text(scale[0])}</>}{hasGaps && <> · striped: {UNKNOWN}</>} · {isTouched() ? "two fingers zoom, a tap shows the rank" : "Ctrl and wheel zooms, drag pans, a click shows the rank"}</>}
      </p>
    </div>
  );
}
