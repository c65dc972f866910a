// What a GPU can do, and where points stand below it: operations for each byte, operations a second.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Peak } from "../data/types";
import { threeDigits } from "../look/format";

const HEIGHT = 440, LEFT = 112, BOTTOM = 48, TOP = 14, RIGHT = 24, LETTERS = 15, WIDE = 1100;
const NARROW = 500;
export const LIMIT_COLOURS: Record<string, string> = { compute: "compute", memory: "copy", latency: "communication", launch: "host" };

// Those that web/roofs.py draws beside the job's own.
export const ROOFS = ["A100-80-SXM", "H100-SXM", "H200-SXM", "B200", "MI300X"];

export interface RoofPoint { x: number; y: number; radius: number; colour: string; title: string }

// What does nothing has no place on a scale of powers of ten.
export const isDrawn = ({ x, y }: { x: number; y: number }): boolean => x > 0 && y > 0 && Number.isFinite(x) && Number.isFinite(y);
const decades = (low: number, high: number) => Array.from({ length: high - low + 1 }, (_, i) => low + i);
export const rateText = (value: number): string => (value >= 1e12 ? `${threeDigits(value / 1e12)} TFLOP/s` : value >= 1e9 ? `${threeDigits(value / 1e9)} GFLOP/s` : value >= 1e6 ? `${threeDigits(value / 1e6)} MFLOP/s` : `${threeDigits(value / 1e3)} kFLOP/s`);

export function Roof({ peaks, points, label, chosen, onChoose }: { peaks: Peak[]; points: RoofPoint[]; label: string; chosen: number; onChoose(point: number): void }) {
  // As wide as its place, so that letters keep their size: on a telephone all points are in sight, too.
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(WIDE);
  useEffect(() => {
    if (!box.current) return undefined;
    const observer = new ResizeObserver(([seen]) => setWidth(Math.min(Math.max(Math.round(seen!.contentRect.width), 300), WIDE)));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const mine = peaks[0];
  if (!mine) return null;
  const drawn = points.filter(isDrawn);
  const xs = drawn.map((point) => point.x).concat(mine.flops / mine.bytes), ys = drawn.map((point) => point.y).concat(peaks.map((peak) => peak.flops));
  const [x0, x1] = [Math.floor(Math.log10(Math.min(...xs)) - 0.5), Math.ceil(Math.log10(Math.max(...xs)) + 0.3)];
  const [y0, y1] = [Math.floor(Math.log10(Math.max(Math.min(...ys), 1e6)) - 0.5), Math.ceil(Math.log10(Math.max(...ys)) + 0.1)];
  const x = (value: number) => LEFT + ((Math.log10(value) - x0) / (x1 - x0)) * (width - LEFT - RIGHT);
  const y = (value: number) => HEIGHT - BOTTOM - ((Math.log10(Math.max(value, 10 ** y0)) - y0) / (y1 - y0)) * (HEIGHT - BOTTOM - TOP);
  // A roof begins where it comes into the picture: cut off at the bottom, it would have another slope.
  const left = (peak: Peak) => Math.max(10 ** x0, 10 ** y0 / peak.bytes);
  const roof = (peak: Peak) => `M${x(left(peak))},${y(peak.bytes * left(peak))}L${x(peak.flops / peak.bytes)},${y(peak.flops)}L${x(10 ** x1)},${y(peak.flops)}`;
  // The roof that counts is named first; of the others those with room above theirs.
  const labels: { peak: Peak; top: number }[] = [];
  for (const peak of peaks) if (labels.every(({ top }) => Math.abs(top - y(peak.flops)) >= LETTERS)) labels.push({ peak, top: y(peak.flops) });
  // A name over a point hides it.
  const isFree = ({ peak, top }: { peak: Peak; top: number }) => peak === mine || drawn.every((point) => x(point.x) + point.radius < width - RIGHT - 8 * peak.gpu.length || Math.abs(y(point.y) - top + 10) > point.radius + 6);
  return (
    <div ref={box}><svg viewBox={`0 0 ${width} ${HEIGHT}`} width="100%" role="group" aria-label={label}>
      {decades(x0, x1).filter((power) => width > NARROW || (power - x0) % 2 === 0).map((power) => <><line class="grid" x1={x(10 ** power)} x2={x(10 ** power)} y1={TOP} y2={HEIGHT - BOTTOM} /><text x={x(10 ** power)} y={HEIGHT - BOTTOM + 18} text-anchor="middle">{power >= 3 ? (10 ** power).toLocaleString("en") : 10 ** power}</text></>)}
      {decades(y0, y1).map((power) => <><line class="grid" x1={LEFT} x2={width - RIGHT} y1={y(10 ** power)} y2={y(10 ** power)} /><text x={LEFT - 6} y={y(10 ** power) + 4} text-anchor="end">{rateText(10 ** power).replace(/\.0+ /, " ")}</text></>)}
      <text x={(LEFT + width) / 2} y={HEIGHT - 6} text-anchor="middle">operations for each byte</text>
      {peaks.slice(1).map((peak) => <path class="roof other" d={roof(peak)}><title>{peak.gpu}</title></path>)}
      <path class="roof" d={roof(mine)} />
      {points.map((point, i) => isDrawn(point) && (
        <circle cx={x(point.x)} cy={y(point.y)} r={point.radius} fill={`var(--${point.colour})`} style={i === chosen ? { stroke: "var(--text)", strokeWidth: 2 } : {}}
          onPointerEnter={() => onChoose(i)} onClick={() => onChoose(i)}><title>{point.title}</title></circle>))}
      {labels.filter(isFree).map(({ peak, top }) => <text class={peak === mine ? "told" : "beside"} x={width - RIGHT} y={top - 6} text-anchor="end">{peak.gpu}{peak === mine && width > NARROW ? ", as far as programs reach it" : ""}</text>)}
    </svg></div>
  );
}
