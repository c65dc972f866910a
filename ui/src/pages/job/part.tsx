// What every view of a job is given: the job, the time that is looked at, and a count of news.
import type { ComponentChildren } from "preact";
import { change, useAddress, write } from "../../data/address";
import type { Job } from "../../data/types";
import { clock } from "../../look/format";

export interface Range { from: number; to: number }
export interface Part { job: Job; range: Range; news: number }

// What a link asks for, where it is a time at all.
export function chosenOf(from = "", to = ""): Range | null {
  const range = { from: Number(from), to: Number(to) };
  return from && to && range.from >= 0 && range.to > range.from && range.to < 2 ** 63 ? range : null;
}

export const spanOf = (range: Range): string => `from_ns=${Math.round(range.from)}&to_ns=${Math.round(range.to)}`;
export const zoomTo = (from: number, to: number): void => change({ from: Math.round(from), to: Math.round(to) });

// As long, and just before it.
export const before = (range: Range): Range => ({ from: 2 * range.from - range.to, to: range.from });

export function Zoomed({ job, range, children }: { job: string; range: Range; children?: ComponentChildren }) {
  const { query } = useAddress();
  const side = ({ from, to }: Range): string => `${Math.round(from)}..${Math.round(to)}`;
  return <>{chosenOf(query["from"], query["to"]) && <span class="quiet">{clock(range.from)} to {clock(range.to).slice(11)} <button type="button" onClick={() => change({ from: null, to: null })}>whole time</button> <a href={write(["compare"], { before: job, before_span: side(before(range)), after: job, after_span: side(range) })}>compare with the time before it</a></span>}{children}</>;
}
