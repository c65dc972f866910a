// What the timeline draws over its rows and beside them: what is chosen, its flow, why a device waits, what is
// measured, the names of the rows.
import { colour } from "../look/colours";
import { duration } from "../look/format";
import { fitted, font, letterWidth } from "./canvas";
import type { Line, Lines } from "./lines";
import type { Stretches } from "./overlay";

export interface View { from: number; to: number }
export interface Picked { rank: number; row: number; start: number; duration: number; name: string; count: number; span: number; activity: string; flowRow: number; flowStart: number }
export interface Range { from: number; to: number; rank: number; rows: number[] }

// One picture: `edge` is where the names end, `ruler` where the rows begin, `top` how far they are scrolled.
export interface Frame { context: CanvasRenderingContext2D; width: number; height: number; edge: number; ruler: number; top: number; laid: Lines; x(time: number): number }

const yOf = ({ ruler, top }: Frame, line: Line): number => line.y - top + ruler;
export const lineOf = (laid: Lines, rank: number, row: number): Line | null => laid.lines.find((item) => item.rank === rank && item.row === row) ?? null;

export function outline(frame: Frame, box: Picked, thick: number): void {
  const { context, x } = frame, line = lineOf(frame.laid, box.rank, box.row);
  if (!line) return;
  const left = x(box.start), right = x(box.start + box.duration);
  context.strokeStyle = colour("text");
  context.lineWidth = thick;
  context.strokeRect(left, yOf(frame, line) + 1, Math.max(right - left, 2), line.height - 2);
}

// From what is chosen to its launch, or from a launch to what it launched.
export function flow(frame: Frame, box: Picked): void {
  const { context, laid, x } = frame;
  const from = lineOf(laid, box.rank, box.row), to = lineOf(laid, box.rank, box.flowRow);
  if (!from || !to) return;
  const [x1, x2] = [x(box.start), x(box.flowStart)];
  const [y1, y2] = [from, to].map((line) => yOf(frame, line) + line.height / 2) as [number, number];
  context.strokeStyle = context.fillStyle = colour("accent");
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x1, y1);
  context.bezierCurveTo(x1, (y1 + y2) / 2, x2, (y1 + y2) / 2, x2, y2);
  context.stroke();
  context.beginPath();
  context.arc(x2, y2, 3.5, 0, 7);
  context.fill();
}

// Over all rows of an unfolded rank, where its device waits; the cause stands in the first of the device's rows.
export function idle(frame: Frame, rank: number, found: Stretches, pathRow: number | undefined): void {
  const { context, x } = frame;
  const rows = frame.laid.lines.filter((item) => item.rank === rank && !item.isHead);
  if (!rows.length) return;
  const top = yOf(frame, rows[0]!), bottom = yOf(frame, rows.at(-1)!) + rows.at(-1)!.height;
  const told = rows.find((item) => item.isDevice && item.row !== pathRow);
  const [shade, text] = [colour("quiet"), colour("text")];
  found.start.forEach((start, i) => {
    const left = x(start), wide = x(found.end[i]!) - left;
    if (!found.name[i]!.startsWith("idle") || wide < 0.5) return;
    context.globalAlpha = 0.22;
    context.fillStyle = shade;
    context.fillRect(left, top, wide, bottom - top);
    context.globalAlpha = 1;
    if (wide > 40 && told) {
      context.fillStyle = text;
      context.fillText(fitted(found.name[i]!.replace(/^idle: /, ""), wide - 8, letterWidth(context)), left + 4, yOf(frame, told) + told.height / 2 + 0.5);
    }
  });
}

export function measured(frame: Frame, range: Range): void {
  const { context, height, ruler, x } = frame, left = x(range.from), right = x(range.to);
  // The totals are of these rows, so they are shaded and no others.
  const mine = frame.laid.lines.filter((item) => item.rank === range.rank && (!range.rows.length || range.rows.includes(item.row)));
  context.globalAlpha = 0.2;
  context.fillStyle = colour("accent");
  for (const item of mine) context.fillRect(left, yOf(frame, item), right - left, item.height);
  context.globalAlpha = 1;
  context.fillRect(left, ruler, 1, height);
  context.fillRect(right, ruler, 1, height);
  const label = duration(range.to - range.from);
  const wide = context.measureText(label).width + 8;
  context.fillRect((left + right - wide) / 2, ruler + 4, wide, 16);
  context.fillStyle = colour("ground");
  context.fillText(label, (left + right - wide) / 2 + 4, ruler + 12);
}

// The names of the rows, the lines between them, and how much of all is in sight.
export function gutter(frame: Frame, visible: Line[]): void {
  const { context, width, height, edge, ruler, top, laid } = frame, room = height - ruler;
  context.fillStyle = colour("raised");
  context.fillRect(0, ruler, edge, height);
  context.save();
  context.beginPath();
  context.rect(0, ruler, edge - 6, room);
  context.clip();
  for (const item of visible) {
    context.font = item.isHead ? font(12, "600") : font(11);
    context.fillStyle = colour(item.isHead ? "text" : "quiet");
    context.fillText(fitted(item.title, edge - (item.isHead ? 12 : 24), letterWidth(context)), item.isHead ? 6 : 18, yOf(frame, item) + item.height / 2);
  }
  context.restore();
  if (laid.height > room) {
    context.fillStyle = colour("quiet");
    context.globalAlpha = 0.55;
    context.fillRect(width - 6, ruler + (top / laid.height) * room, 4, Math.max((room / laid.height) * room, 16));
    context.globalAlpha = 1;
  }
  context.fillStyle = colour("line");
  context.fillRect(edge - 1, 0, 1, height);
  for (const item of visible) if (item.isHead || item.depth === 0) context.fillRect(0, yOf(frame, item), width, item.isHead ? 1 : 0.5);
}
