// Steps as points over time: the shape of a run at a glance, outliers and events on it, drag to zoom.
import { useMemo, useRef, useState } from "preact/hooks";
import { colour } from "../look/colours";
import { duration } from "../look/format";
import { niceStep, niceTimeStep, useCanvas } from "./canvas";
import { cutOf } from "./cut";

export interface Point { x: number; y: number; isOutlier: boolean }
export interface Happening { x: number; text: string; href?: string }

interface Properties {
  points: Point[];
  from: number;
  to: number;
  onZoom(range: { from: number; to: number } | null): void;
  tell(point: number | null): preact.ComponentChildren;
  xText(value: number): string;
  events?: Happening[];
  label: string;
  height?: number;
  onOpen?: (point: number) => void;
}

const LEFT = 64, RIGHT = 12, TOP = 14, BOTTOM = 24;

export function Steps({ points, from, to, onZoom, tell, xText, events = [], label, height = 220, onOpen }: Properties) {
  const [chosen, setChosen] = useState<number | null>(null);
  const drag = useRef<{ begin: number; end: number } | null>(null);
  const size = useRef({ width: 1, height: 1, top: 1 });
  const visible = useMemo(() => points.flatMap((point, i) => (point.x >= from && point.x <= to ? [i] : [])), [points, from, to]);
  const longest = useMemo(() => visible.reduce((most, i) => Math.max(most, points[i]!.y), 1), [visible]);
  const cut = useMemo(() => cutOf(visible.map((i) => points[i]!.y)), [visible]);
  const top = cut ?? 1.08 * longest;
  const x = (value: number) => LEFT + ((value - from) / Math.max(to - from, 1e-9)) * (size.current.width - LEFT - RIGHT);
  const y = (value: number) => size.current.height - BOTTOM - (Math.min(value, top) / top) * (size.current.height - TOP - BOTTOM);
  const at = (px: number) => from + ((px - LEFT) / (size.current.width - LEFT - RIGHT)) * (to - from);

  const { canvas, redraw } = useCanvas((context, width, high) => {
    size.current = { width, height: high, top };
    const [quiet, line, point, accent, text] = ["quiet", "line", "thin", "accent", "text"].map(colour) as string[];
    context.textAlign = "right";
    const step = niceStep(top, 4);
    for (let tick = 0; tick <= top; tick += step) {
      const py = Math.round(y(tick)) + 0.5;
      context.fillStyle = line!;
      context.fillRect(LEFT, py, width - LEFT - RIGHT, 1);
      context.fillStyle = quiet!;
      context.fillText(duration(tick), LEFT - 6, py);
    }
    context.textAlign = "center";
    const wide = niceTimeStep(to - from, width / 140);
    for (let tick = Math.ceil(from / wide) * wide; tick <= to; tick += wide) context.fillText(xText(tick), Math.min(Math.max(x(tick), LEFT + 14), width - RIGHT - 18), high - 10);
    for (const event of events) {
      if (event.x < from || event.x > to) continue;
      context.fillStyle = accent!;
      context.globalAlpha = 0.5;
      context.fillRect(x(event.x), TOP, 1, high - TOP - BOTTOM);
      context.globalAlpha = 1;
      context.beginPath(); context.moveTo(x(event.x) - 4, TOP - 8); context.lineTo(x(event.x) + 4, TOP - 8); context.lineTo(x(event.x), TOP - 1); context.fill();
    }
    context.fillStyle = point!;
    context.globalAlpha = visible.length > 4000 ? 0.4 : 0.75;
    for (const i of visible) if (!points[i]!.isOutlier) context.fillRect(x(points[i]!.x) - 1, y(points[i]!.y) - 1, 2.5, 2.5);
    context.globalAlpha = 1;
    context.fillStyle = accent!;
    const outliers = visible.filter((i) => points[i]!.isOutlier);
    const mark = outliers.length > 200 ? 2.5 : 5;
    for (const i of outliers) {
      const [px, py] = [x(points[i]!.x), y(points[i]!.y)];
      context.beginPath(); context.moveTo(px, py - mark); context.lineTo(px + mark, py + 0.8 * mark); context.lineTo(px - mark, py + 0.8 * mark); context.fill();
    }
    if (chosen !== null && points[chosen]) { context.strokeStyle = text!; context.lineWidth = 1.5; context.beginPath(); context.arc(x(points[chosen]!.x), y(points[chosen]!.y), 8, 0, 7); context.stroke(); }
    if (drag.current && Math.abs(drag.current.end - drag.current.begin) > 3) {
      context.globalAlpha = 0.15;
      context.fillStyle = point!;
      context.fillRect(Math.min(drag.current.begin, drag.current.end), TOP, Math.abs(drag.current.end - drag.current.begin), high - TOP - BOTTOM);
      context.globalAlpha = 1;
    }
  });

  const nearest = (px: number, py: number): number | null => {
    let best: number | null = null, least = 900;
    for (const i of visible) {
      const dx = x(points[i]!.x) - px;
      if (dx * dx > least) continue;
      const dy = (y(points[i]!.y) - py) / 2, distance = dx * dx + dy * dy;
      if (distance < least) { least = distance; best = i; }
    }
    return best;
  };
  return (
    <div class="steps-chart">
      <canvas ref={canvas} style={{ height: `${height}px`, touchAction: "pan-y" }} tabIndex={0} role="img" aria-label={`${label}. Left and right go through the outliers, Escape shows the whole run.`}
        onPointerMove={(event) => { if (drag.current) { drag.current.end = event.offsetX; redraw(); } else { const found = nearest(event.offsetX, event.offsetY); if (found !== chosen) setChosen(found); } }}
        onPointerDown={(event) => { drag.current = { begin: event.offsetX, end: event.offsetX }; (event.currentTarget as HTMLCanvasElement).setPointerCapture(event.pointerId); }}
        onPointerCancel={() => { drag.current = null; redraw(); }}
        onPointerUp={() => {
          const done = drag.current;
          drag.current = null;
          if (done && Math.abs(done.end - done.begin) > 3) onZoom({ from: at(Math.min(done.begin, done.end)), to: at(Math.max(done.begin, done.end)) });
          else if (chosen !== null) onOpen?.(chosen);
          redraw();
        }}
        onKeyDown={(event) => {
          const outliers = visible.filter((i) => points[i]!.isOutlier);
          const list = outliers.length ? outliers : visible;
          const place = chosen === null ? -1 : list.indexOf(chosen);
          if (event.key === "ArrowRight" && list.length) setChosen(list[(place + 1) % list.length]!);
          else if (event.key === "ArrowLeft" && list.length) setChosen(list[(place - 1 + list.length) % list.length]!);
          else if (event.key === "Enter" && chosen !== null) onOpen?.(chosen);
          else if (event.key === "Escape") { setChosen(null); onZoom(null); }
          else return;
          event.preventDefault();
        }} />
      <p class="readout" aria-live="polite">{tell(chosen !== null && points[chosen] ? chosen : null)}{cut !== null && chosen === null && ` Cut off at ${duration(cut)}; the longest takes ${duration(longest)}.`}</p>
    </div>
  );
}
