// Time series with uPlot: lines or stacked areas, drag to zoom, one time axis for the page.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { useChoice } from "../data/address";
import { colour, onThemeChange } from "../look/colours";
import { font } from "./canvas";
import { withGaps } from "./gaps";

// Lines and points are thinner than areas: of the same meaning, and further from the ground.
// `own` is what the legend tells where `values` are on top of others. `isQuiet`: not in the legend.
export interface Line { label: string; colour: string; values: (number | null)[]; own?: (number | null)[]; fill?: boolean; width?: number; isQuiet?: boolean }
export interface Mark { time_ns: number; text: string; isLoud: boolean }
interface Properties { time_ns: number[]; lines: Line[]; height?: number; text(value: number): string; label: string; onZoom?: (fromNs: number, toNs: number) => void; marks?: Mark[]; from_ns?: number; to_ns?: number; min?: number | null; max?: number | null }

// Of ticks closer than three digits tell apart only the first has words.
export const once = (texts: string[]): string[] => texts.map((text, i) => (text === texts[i - 1] ? "" : text));

export function Series({ time_ns, lines, height = 200, text, label, onZoom, marks = [], from_ns, to_ns, min = 0, max = null }: Properties) {
  const box = useRef<HTMLDivElement>(null);
  const zoom = useRef(onZoom);
  zoom.current = onZoom;
  // A click on the legend hides a line; which ones are hidden is in the address.
  const [hidden, setHidden] = useChoice(`hide-${label.toLowerCase().replace(/[^a-z]+/g, "-")}`);
  const hide = useRef(setHidden);
  hide.current = setHidden;
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    let plot: uPlot | null = null;
    const make = () => {
      plot?.destroy();
      const [times = [], ...columns] = withGaps([time_ns.map((value) => value / 1e9), ...lines.map((line) => line.values), ...lines.map((line) => line.own ?? line.values)]);
      const away = new Set(hidden.split(",").filter(Boolean));
      // A single moment makes no line.
      const isAlone = times.length === 1, latest = times.length - 1, own = columns.slice(lines.length);
      const axis = { stroke: colour("quiet"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: font(11) };
      plot = new uPlot({
        width: Math.max(element.clientWidth - 8, 200), height, pxAlign: 0,
        legend: { show: true, live: true },
        cursor: { drag: { x: onZoom !== undefined, y: false, setScale: false } },
        scales: {
          x: { time: true, ...(from_ns !== undefined && to_ns !== undefined ? { range: [from_ns / 1e9, to_ns / 1e9] as [number, number] } : {}) },
          y: { range: (_: uPlot, low: number, high: number): [number, number] => (min === null && max === null ? around(low, high) : [min ?? low, max ?? (high > 0 ? high * 1.08 : 1)]) },
        },
        axes: [{ ...axis, size: 36, space: 90, incrs: TIME_STEPS_S, values: (_: uPlot, ticks: number[], __: number, ___: number, step: number) => ticks.map((tick, i) => utc(tick, step, i === 0 || Math.floor(tick / 86400) !== Math.floor(ticks[i - 1]! / 86400))) }, { ...axis, size: 74, space: 24, values: (_: uPlot, ticks: number[]) => once(ticks.map(text)) }],
        series: [
          { label: "time", value: (_: uPlot, value: number | null) => (value === null ? "" : new Date(value * 1000).toISOString().slice(5, 19).replace("T", " ") + " UTC") },
          ...lines.map((line, number) => ({
            label: line.label, ...(line.isQuiet ? { class: "without-legend", alpha: 0.4 } : {}), show: !away.has(line.label), stroke: colour(line.colour === "compute" && !line.fill ? "thin" : line.colour), width: line.width ?? 1.5, points: { show: isAlone }, spanGaps: false,
            ...(line.fill ? { fill: colour(line.colour) } : {}), value: (_: uPlot, drawn: number | null, __: number, place: number | null) => { const value = place === null ? drawn : own[number]![place] ?? null; return value === null ? "–" : text(value); },
          })),
        ],
        ...(marks.length ? { padding: [38, null, null, null] as [number, null, null, null] } : {}),
        hooks: {
          // Without a hand on the chart the legend tells the latest.
          setCursor: [(self: uPlot) => { if (self.cursor.idx === null || self.cursor.idx === undefined) self.setLegend({ idx: latest }, false); }],
          ready: [(self: uPlot) => { self.setLegend({ idx: latest }, false); if (onZoom) chooseByFinger(self); }],
          setSeries: [(self: uPlot, _: number | null, changed: uPlot.Series) => { if (changed.show !== undefined && changed.show !== null) hide.current(self.series.slice(1).filter((line) => line.show === false).map((line) => String(line.label)).join(",")); }],
          setSelect: [(self: uPlot) => {
            if (self.select.width > 4) zoom.current?.(self.posToVal(self.select.left, "x") * 1e9, self.posToVal(self.select.left + self.select.width, "x") * 1e9);
            self.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
          }],
          draw: [(self: uPlot) => {
            const { ctx, bbox } = self;
            ctx.save();
            ctx.font = font(11 * devicePixelRatio);
            ctx.textBaseline = "bottom";
            ctx.textAlign = "left";
            // Three lines of words, the loud marks' first; where all are taken, or the same word stands there
            // already, the mark stands without its own.
            const words: { text: string; row: number; left: number; right: number }[] = [];
            for (const mark of [...marks].sort((a, b) => Number(b.isLoud) - Number(a.isLoud))) {
              const x = self.valToPos(mark.time_ns / 1e9, "x", true);
              if (x < bbox.left || x > bbox.left + bbox.width) continue;
              ctx.fillStyle = colour(mark.isLoud ? "accent" : "quiet");
              ctx.globalAlpha = 0.6;
              ctx.fillRect(x, bbox.top, devicePixelRatio, bbox.height);
              ctx.globalAlpha = 1;
              ctx.beginPath(); ctx.moveTo(x - 5, bbox.top); ctx.lineTo(x + 5, bbox.top); ctx.lineTo(x, bbox.top + 8); ctx.fill();
              const wide = ctx.measureText(mark.text).width, left = Math.min(x, bbox.left + bbox.width - wide);
              const near = words.filter((word) => left < word.right && left + wide + 6 > word.left);
              const row = [0, 1, 2].find((each) => near.every((word) => word.row !== each));
              if (row === undefined || near.some((word) => word.text === mark.text)) continue;
              ctx.fillText(mark.text, left, bbox.top - row * 12 * devicePixelRatio - 1);
              words.push({ text: mark.text, row, left, right: left + wide + 6 });
            }
            ctx.restore();
          }],
        },
      }, [times, ...columns.slice(0, lines.length)] as uPlot.AlignedData, element);
    };
    make();
    const resized = new ResizeObserver(() => plot?.setSize({ width: Math.max(element.clientWidth - 8, 200), height }));
    resized.observe(element);
    const forget = onThemeChange(make);
    return () => { resized.disconnect(); forget(); plot?.destroy(); };
  }, [time_ns, lines, height, from_ns, to_ns, marks, max, hidden]);
  return <div class="chart" ref={box} role="img" aria-label={label} />;
}

// uPlot's own go from 1 min to 5 min, so that eight minutes would have one time below them.
const TIME_STEPS_S = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 14_400, 21_600, 43_200, ...[1, 2, 3, 5, 7, 14, 30, 60, 120, 365].map((days) => 86_400 * days)];

// uPlot knows the mouse only: a finger that goes sideways chooses a time, too; up and down it scrolls the page.
function chooseByFinger(plot: uPlot): void {
  let began: number | null = null;
  const chosen = (event: PointerEvent) => ({ left: Math.min(began!, event.offsetX), width: Math.abs(event.offsetX - began!), top: 0, height: plot.over.clientHeight });
  plot.over.addEventListener("pointerdown", (event) => { if (event.pointerType === "touch") { began = event.offsetX; plot.over.setPointerCapture(event.pointerId); } });
  plot.over.addEventListener("pointermove", (event) => { if (began !== null) plot.setSelect(chosen(event), false); });
  plot.over.addEventListener("pointerup", (event) => { if (began !== null) plot.setSelect(chosen(event)); began = null; });
  plot.over.addEventListener("pointercancel", () => { began = null; plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false); });
}

// With some air, also where all values are the same.
function around(low: number, high: number): [number, number] {
  const air = 0.08 * (high - low) || 0.05 * Math.abs(high) || 1;
  return [low >= 0 ? Math.max(0, low - air) : low - air, high + air];
}

// One zone for everybody: a link must show the same to all.
export function utc(seconds: number, step: number, withDay: boolean): string {
  const text = new Date(seconds * 1000).toISOString();
  if (step >= 86400) return text.slice(5, 10);
  const time = text.slice(11, step < 60 ? 19 : 16);
  return withDay ? `${time}\n${text.slice(5, 10)}` : time;
}

// Values on top of each other, the last one first: what uPlot needs to fill bands.
export function stacked(lines: Line[]): Line[] {
  const sums = lines.map((line) => line.values.slice());
  for (let i = 1; i < sums.length; i++) sums[i] = sums[i]!.map((value, k) => (value ?? 0) + (sums[i - 1]![k] ?? 0));
  return lines.map((line, i) => ({ ...line, own: line.values, values: sums[i]!, fill: true, width: 0 })).reverse();
}
