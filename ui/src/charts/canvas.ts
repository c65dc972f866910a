// A canvas as sharp as the screen, drawn at most once a frame and only when asked.
import { useEffect, useRef } from "preact/hooks";
import { colour, onThemeChange } from "../look/colours";

export type Draw = (context: CanvasRenderingContext2D, width: number, height: number) => void;
export interface Pen { canvas: { current: HTMLCanvasElement | null }; redraw(): void }

// The page's own typeface: a canvas does not inherit it.
export const font = (size: number, weight = ""): string => `${weight} ${size}px ${colour("font")}`.trim();

export function useCanvas(draw: Draw): Pen {
  const canvas = useRef<HTMLCanvasElement | null>(null);
  const latest = useRef(draw);
  latest.current = draw;
  const frame = useRef(0);
  const paint = useRef(() => {
    cancelAnimationFrame(frame.current);
    frame.current = 0;
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context) return;
    const ratio = window.devicePixelRatio || 1;
    // On paper the picture is scaled as it is: a new one would be cut off where it is taller.
    const { clientWidth: width, clientHeight: height } = matchMedia("print").matches && element.width ? { clientWidth: element.width / ratio, clientHeight: element.height / ratio } : element;
    const wide = Math.round(width * ratio), high = Math.round(height * ratio);
    if (element.width !== wide || element.height !== high) { element.width = wide; element.height = high; }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = font(12);
    context.textBaseline = "middle";
    latest.current(context, width, height);
  });
  const redraw = useRef(() => { frame.current ||= requestAnimationFrame(paint.current); });
  useEffect(() => {
    const element = canvas.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(redraw.current);
    observer.observe(element);
    // At once: what goes to a printer does not wait for a frame.
    const forget = onThemeChange(paint.current);
    return () => { observer.disconnect(); forget(); cancelAnimationFrame(frame.current); frame.current = 0; };
  }, []);
  useEffect(() => redraw.current());
  return { canvas, redraw: redraw.current };
}

// Cuts by an estimate of the width of a letter: measuring every label costs more than drawing it.
const widths = new Map<string, number>();
export function letterWidth(context: CanvasRenderingContext2D): number {
  let width = widths.get(context.font);
  if (width === undefined) widths.set(context.font, (width = context.measureText("vectorized_elementwise_kernel").width / 26));
  return width;
}

export function fitted(text: string, width: number, letter: number): string {
  const room = Math.floor(width / letter);
  if (text.length <= room) return text;
  return room < 3 ? "" : text.slice(0, room - 1) + "…";
}

export function niceStep(range: number, parts: number): number {
  const raw = range / Math.max(parts, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw) ?? raw;
}

// Of times, in nanoseconds: from a minute on as clocks divide them, 5 min and not 200 s.
const CLOCK_STEPS_S = [60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400];

export function niceTimeStep(range: number, parts: number): number {
  const raw = range / Math.max(parts, 1), [first = 0] = CLOCK_STEPS_S;
  if (raw <= (first * 1e9) / 2) return niceStep(range, parts);
  return 1e9 * (CLOCK_STEPS_S.find((seconds) => 1e9 * seconds >= raw) ?? 86_400 * Math.ceil(raw / 86_400e9));
}
