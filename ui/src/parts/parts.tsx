// Small parts that every page is made of.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { useChoice } from "../data/address";
import type { Failure } from "../data/source";
import type { Cost, Finding, Parts } from "../data/types";
import { duration, share, shortName, UNKNOWN } from "../look/format";

// `isBrief`: text of a word or two, which is never broken. `isName`: the column that gets the room that is left;
// what does not fit is in the title. `hint`: what the title means, on hover.
export interface Column<T> { title: string; hint?: string; cell(row: T): ComponentChildren; isText?: boolean; isBrief?: boolean; isName?: boolean; sort?(row: T): number | string }

const LONG = 24;

export function Table<T>({ title, rows, columns, empty, limit = 50, label, isCards = false }: { title?: string; rows: T[]; columns: Column<T>[]; empty?: ComponentChildren; limit?: number; label?: string; isCards?: boolean }) {
  // What a click changed is in the address, under the name of the table.
  const place = `by-${(label ?? title ?? "table").toLowerCase().replace(/[^a-z]+/g, "-")}`;
  const [order, setOrder] = useChoice(place);
  const [, column = "", down = "", rest = ""] = /^(\d*)([ud]?)(a?)$/.exec(order) ?? [];
  const sorted = column ? { column: Number(column), down: down === "d" } : null, all = rest === "a";
  const keep = (now: typeof sorted, isAll: boolean) => setOrder(`${now ? `${now.column}${now.down ? "d" : "u"}` : ""}${isAll ? "a" : ""}`);
  if (!rows.length) return empty === undefined ? null : <section>{title && <h2>{title}</h2>}<p class="empty">{empty}</p></section>;
  const key = sorted ? columns[sorted.column]?.sort : undefined;
  const ordered = key && sorted ? rows.slice().sort((a, b) => compare(key(a), key(b)) * (sorted.down ? -1 : 1)) : rows;
  const shown = all ? ordered : ordered.slice(0, limit);
  return (
    <section>
      {title && <h2>{title}</h2>}
      <div class={shown.length > LONG ? "scroll long" : "scroll"} tabIndex={0} role="region" aria-label={label ?? title ?? "table"}>
        <table class={isCards ? "cards" : ""}>
          <thead><tr>{columns.map((column, i) => (
            <th scope="col" class={column.isText ? "text" : ""} title={column.hint} aria-sort={sorted?.column === i ? (sorted.down ? "descending" : "ascending") : undefined}>
              {column.sort
                ? <button type="button" class="plain" onClick={() => keep({ column: i, down: sorted?.column === i ? !sorted.down : !column.isText }, all)}>{column.title}{sorted?.column === i ? (sorted.down ? " ↓" : " ↑") : ""}</button>
                : column.title}
            </th>))}</tr></thead>
          <tbody>{shown.map((row) => <tr>{columns.map((column) => <td data-title={isCards ? column.title : undefined} class={[column.isText && "text", column.isBrief && "brief", column.isName && "long-name"].filter(Boolean).join(" ")}>{column.cell(row)}</td>)}</tr>)}</tbody>
        </table>
      </div>
      {rows.length > shown.length && <button type="button" class="more" onClick={() => keep(sorted, true)}>show all {rows.length.toLocaleString("en")}</button>}
    </section>
  );
}

const compare = (a: number | string, b: number | string): number => (a < b ? -1 : a > b ? 1 : 0);

// Each apart from the others, whichever way it is written.
export function Names({ names }: { names: string[] }) {
  return <>{names.map((name, i) => <>{i > 0 && ", "}<bdi>{name}</bdi></>)}</>;
}

export interface Piece { label: string; ns: number; colour: string }

export function piecesOf(parts: Parts): Piece[] {
  const idle = Object.entries(parts.idle_by_cause_ns).filter(([, ns]) => ns > 0).sort((a, b) => b[1] - a[1]);
  const known = idle.reduce((sum, [, ns]) => sum + ns, 0);
  return [
    { label: "compute", ns: parts.compute_ns, colour: "compute" },
    { label: "exposed communication", ns: parts.exposed_communication_ns, colour: "communication" },
    { label: "exposed copies", ns: parts.exposed_copy_ns, colour: "copy" },
    ...idle.map(([cause, ns]) => ({ label: `idle: ${cause}`, ns, colour: cause.includes("loader") ? "input" : "idle" })),
    { label: "idle", ns: Math.max(0, parts.idle_ns - known), colour: "idle" },
  ].filter((piece) => piece.ns > 0);
}

// The bar is told in words too: colour alone says nothing to some.
export function Bar({ pieces, wide = false, narrow = false }: { pieces: Piece[]; wide?: boolean; narrow?: boolean }) {
  const whole = pieces.reduce((sum, piece) => sum + piece.ns, 0) || 1;
  const words = pieces.map((piece) => `${piece.label} ${share(piece.ns / whole)}`).join(", ");
  return <span class={wide ? "bar-parts wide" : narrow ? "bar-parts narrow" : "bar-parts"} role="img" aria-label={words || UNKNOWN} title={words || UNKNOWN}>
    {pieces.map((piece) => <span style={{ width: `${(100 * piece.ns) / whole}%`, background: `var(--${piece.colour})` }} />)}
  </span>;
}

// Pieces of one colour stand behind one swatch: two swatches that look the same would tell nothing. What is less than
// half a thousandth is in the bar's words only.
export function legendOf(pieces: Piece[]): { colour: string; pieces: (Piece & { ratio: number })[] }[] {
  const whole = pieces.reduce((total, piece) => total + piece.ns, 0);
  const groups = new Map<string, (Piece & { ratio: number })[]>();
  for (const piece of pieces) {
    const ratio = whole ? piece.ns / whole : 0, mine = groups.get(piece.colour);
    if (ratio < 5e-4) continue;
    if (mine) mine.push({ ...piece, label: piece.label.replace(/^idle: /, ""), ratio });
    else groups.set(piece.colour, [{ ...piece, ratio }]);
  }
  return [...groups].map(([colour, mine]) => ({ colour, pieces: mine }));
}

export function Legend({ pieces }: { pieces: Piece[] }) {
  return <span class="legend">{legendOf(pieces).map((group) => <span><span class="swatch" style={{ background: `var(--${group.colour})` }} />{group.pieces.map((piece, i) => <span>{piece.label} {share(piece.ratio)} <small>{duration(piece.ns)}{i < group.pieces.length - 1 ? "," : ""}</small></span>)}</span>)}</span>;
}

export const gain = (finding: { gain_low_ratio: number; gain_high_ratio: number }): string => {
  const [low, high] = [100 * finding.gain_low_ratio, 100 * finding.gain_high_ratio].map((value) => (value >= 10 || value < 0.05 ? value.toFixed(0) : value.toFixed(1)));
  return low === high ? `${low} %` : `${low} to ${high} %`;
};

// "what, from file:line function": the line to blame is what somebody looks for.
const FROM = /^(.*), from (\S+:\d+)(.*)$/s;
export const sourceOf = (place: string): string => FROM.exec(place)?.[2] ?? "";

function Where({ finding: { rank, place } }: { finding: Finding }) {
  const [, what = place, line = "", name = ""] = FROM.exec(place) ?? [];
  const named = rank !== null && rank >= 0 && !new RegExp(`\\branks? ${rank}\\b`).test(what) ? `rank ${rank}` : "";
  return <p class="where" title={place}>{[named, shortName(what)].filter(Boolean).join(" · ")}{line && <><br />from <b>{line}</b>{name}</>}</p>;
}

export interface Shown { text: string; href: string; title?: string }

export function FindingCard({ finding, number, show }: { finding: Finding; number: number; show: Shown[] }) {
  return (
    <li class="finding">
      <h3><span class="number">{number}</span> {finding.title}</h3>
      <p class="gain">{finding.gain_high_ratio ? <>gain <b>{gain(finding)}</b> of the step</> : "a risk: it gains nothing by itself"} · {finding.confidence} confidence</p>
      <Where finding={finding} />
      <ul>{finding.evidence.map((text) => <li>{text}</li>)}</ul>
      <p><b>Do:</b> {finding.fix} <span class="quiet" title={`the rule that found it: pilotlight's docs/insights say how`}>({finding.rule})</span></p>
      {show.length > 0 && <p class="links">{show.map((link) => <a class="button" href={link.href} title={link.title}>{link.text}</a>)}</p>}
    </li>
  );
}

// What collecting costs a job, as an interval where its processes measure it.
export const overheadText = (cost: Cost): string => (cost.overhead_low === null || cost.overhead_high === null ? UNKNOWN : `${share(Math.max(cost.overhead_low, 0)).replace(/\s%$/, "")} to ${share(cost.overhead_high)}`);
export const costText = (cost: Cost): string => (cost.processes === 0 ? "" : `overhead ${overheadText(cost)}`);

export function Empty({ title, children, command }: { title: string; children?: ComponentChildren; command?: string }) {
  return <section class="empty-state"><h2>{title}</h2><p>{children}</p>{command && <Command text={command} />}</section>;
}

export function Command({ text }: { text: string }) {
  const [copied, setCopied] = useState(false);
  return <p class="command"><code>{text}</code> <button type="button" onClick={() => { void navigator.clipboard?.writeText(text).then(() => setCopied(true)); }}>{copied ? "copied" : "copy"}</button></p>;
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?)]$/.test(text) ? "" : "."}`;

interface Failing { failure: Failure; again?: () => void }
const failureTitle = ({ status }: Failure): string => (status === 404 ? "Not here" : status === 401 || status === 403 ? "Not allowed" : "This could not be loaded");

function FailureTold({ failure, again }: Failing) {
  return <><p>{sentence(failure.message)}</p>{failure.status === 404 ? <a href="#/">to the start</a> : again && <button type="button" onClick={again}>try again</button>}</>;
}

// Of a part of a page, and of a page that has nothing but this.
export function Failed(properties: Failing) {
  return <section class="empty-state" role="alert"><h2>{failureTitle(properties.failure)}</h2><FailureTold {...properties} /></section>;
}
export function PageFailed(properties: Failing) {
  return <section role="alert"><header><h1>{failureTitle(properties.failure)}</h1></header><FailureTold {...properties} /></section>;
}

export function Partial({ when }: { when: boolean | undefined }) {
  return when ? <p class="partial">Partial: a part of the store did not answer, and these numbers are too small.</p> : null;
}

// The shape of what is to come, at once; nothing that turns or blinks.
export function Waiting({ height = 200, label = "loading" }: { height?: number; label?: string }) {
  return <div class="waiting" style={{ height: `${height}px` }} aria-busy="true"><span>{label} …</span></div>;
}

export function Field({ label, children }: { label: string; children: ComponentChildren }) {
  return <label class="field">{label} {children}</label>;
}

export function Choose({ label, value, onChange, children }: { label: string; value: string; onChange(value: string): void; children: ComponentChildren }) {
  return <Field label={label}><select value={value} onChange={(event) => onChange((event.target as HTMLSelectElement).value)}>{children}</select></Field>;
}

export function Check({ label, checked, onChange }: { label: string; checked: boolean; onChange(checked: boolean): void }) {
  return <label class="field"><input type="checkbox" checked={checked} onChange={(event) => onChange((event.target as HTMLInputElement).checked)} /> {label}</label>;
}

// What is folded away at first; whether somebody unfolded it is in the address.
export function Fold({ name, summary, children }: { name: string; summary: string; children: ComponentChildren }) {
  const [open, setOpen] = useChoice(`fold-${name}`);
  return <details open={open === "1"} onToggle={(event) => setOpen((event.currentTarget as HTMLDetailsElement).open ? "1" : "")}><summary>{summary}</summary>{children}</details>;
}

export function Search({ value, onInput, label = "search", onKeyDown }: { value: string; onInput(text: string): void; label?: string; onKeyDown?: (event: KeyboardEvent) => void }) {
  return <label class="field">{label} <input type="search" data-search autocomplete="off" spellcheck={false} value={value} onInput={(event) => onInput((event.target as HTMLInputElement).value)} onKeyDown={onKeyDown ?? (() => {})} /></label>;
}
