// The timeline of a trace with its tools: search that steps, totals of a selection, links out.
import { useEffect, useMemo, useState } from "preact/hooks";
import { heldIn } from "../charts/held";
import type { Picked, Range, View } from "../charts/marks";
import { clamp, TimelineCanvas, UNSETTLED } from "../charts/TimelineCanvas";
import { OVERLAYS, type Overlay } from "../charts/overlay";
import { useChoice, useKept, write } from "../data/address";
import { useSource } from "../data/load";
import type { Hits, Total, Totals, Trace } from "../data/types";
import { activities } from "../look/colours";
import { unitOf } from "../look/counter";
import { count, duration, plural, share, shortName } from "../look/format";
import { Check, Field, Search, Table } from "../parts/parts";

export function wholeView(trace: Trace): View {
  const withDevice = trace.ranks.filter((rank) => rank.parts !== null);
  const ranks = withDevice.length ? withDevice : trace.ranks;
  if (!ranks.length) return { from: 0, to: trace.length_ns };
  const from = Math.min(...ranks.map((rank) => rank.first_ns)), to = Math.max(...ranks.map((rank) => rank.last_ns));
  const margin = 0.02 * (to - from);
  return clamp({ from: from - margin, to: to + margin }, trace.length_ns);
}

const NONE = "none";

// By its place alone: the name comes with the tile that it is on.
export function pickedOf(text = ""): Picked | null {
  const [rank, row, start, duration, ...rest] = text.split(",").map(Number);
  if (duration === undefined || rest.length || ![rank, row, start, duration].every(Number.isFinite)) return null;
  return { rank: rank!, row: row!, start: start!, duration, name: "", count: 1, span: UNSETTLED, activity: "", flowRow: -1, flowStart: 0 };
}

export function rangeOf(text = ""): Range | null {
  const [from, to, rank, ...rows] = text.split(",").map(Number);
  return rank === undefined || ![from, to, rank, ...rows].every(Number.isFinite) ? null : { from: from!, to: to!, rank, rows };
}

export function Timeline({ trace, base }: { trace: Trace; base: string[] }) {
  const source = useSource();
  const first = wholeView(trace);
  const [view, setView] = useKept<View>(({ from, to }) => (from && to && Number(to) > Number(from) ? clamp({ from: Number(from), to: Number(to) }, trace.length_ns) : first), ({ from, to }) => ({ from, to }));
  const [open, setOpen] = useKept<ReadonlySet<number>>((query) => {
    if (query["open"]) return new Set(query["open"] === NONE ? [] : query["open"].split(",").map(Number));
    // Of many ranks the one that the first finding points to is unfolded.
    const first = trace.findings[0]?.places[0]?.rank ?? trace.findings[0]?.rank ?? trace.ranks[0]?.rank;
    // Without a device nothing sums up a folded rank.
    return new Set(trace.ranks.length <= 2 || (trace.ranks.length <= 8 && !trace.ranks.some((rank) => rank.parts)) ? trace.ranks.map((rank) => rank.rank) : first === undefined ? [] : [first]);
  }, (next) => ({ open: [...next].join(",") || NONE }));
  const [picked, setPicked] = useKept<Picked | null>(({ span }) => pickedOf(span), (next) => ({ span: next && [next.rank, next.row, next.start, next.duration].map(Math.round).join(",") }));
  const [range, setRange] = useKept<Range | null>((query) => rangeOf(query["range"]), (next) => ({ range: next && [next.from, next.to, next.rank, ...next.rows].join(",") }));
  const [text, setText] = useChoice("q");
  const [hit, setHit] = useChoice("hit");
  const [laidOver, setLaidOver] = useChoice("over");
  const overlays = useMemo(() => new Set(OVERLAYS.filter((name) => laidOver.split(",").includes(name))), [laidOver]);
  const [top, setTop] = useChoice("top");
  const [busy, setBusy] = useState(false);

  // Whole nanoseconds, as the address has them: a link must not show another picture by a fraction of one.
  const changeView = ({ from, to }: View) => setView({ from: Math.round(from), to: Math.round(to) });
  const changeRange = (next: Range | null) => setRange(next && { ...next, from: Math.round(next.from), to: Math.round(next.to) });
  const toggle = (rank: number) => {
    const next = new Set(open);
    if (!next.delete(rank)) next.add(rank);
    setOpen(next);
  };
  const lay = (name: Overlay, isOn: boolean) => setLaidOver(OVERLAYS.filter((each) => (each === name ? isOn : overlays.has(each))).join(","));
  const search = (wanted: string) => { setText(wanted); setHit(""); setWaiting(0); };

  // A file has the flame graphs of all time only.
  const flameRank = range?.rank ?? [...open][0] ?? trace.ranks[0]?.rank;
  const hits = useHits(trace, text, source.served);
  const place = hit === "" ? -1 : Number(hit) - 1;
  // Who types fast asks for the first before it is found.
  const [waiting, setWaiting] = useState(0);
  useEffect(() => { if (hits && waiting) { setWaiting(0); step(waiting); } }, [hits, waiting]);
  const step = (by: number) => {
    if (!hits && text.trim() && source.served) setWaiting(by);
    if (!hits?.hits.length) return;
    const next = (Math.max(place, by > 0 ? -1 : 0) + by + hits.hits.length) % hits.hits.length;
    setHit(String(next + 1));
    const found = hits.hits[next]!;
    if (!open.has(found.rank)) toggle(found.rank);
    const half = Math.max(found.duration_ns * 4, 2000);
    const middle = found.start_ns + found.duration_ns / 2;
    changeView(clamp({ from: middle - half, to: middle + half }, trace.length_ns));
    // Its tile tells the rest: what it is, and what it is joined with.
    setPicked(pickedOf([found.rank, found.row, found.start_ns, found.duration_ns].join(",")));
  };

  return (
    <section aria-label="timeline">
      <div class="tools">
        <Search value={text} onInput={search}
          onKeyDown={(event: KeyboardEvent) => { if (event.key === "Enter") { event.preventDefault(); step(event.shiftKey ? -1 : 1); } if (event.key === "Escape") search(""); }} />
        {text.trim() !== "" && source.served && <span class="quiet" aria-live="polite">{hits ? <>{plural(hits.total, "span")}, {duration(hits.total_ns)}{place >= 0 ? `, at ${place + 1}${hits.hits.length < hits.total ? ` of the first ${count(hits.hits.length)}` : ""}` : ""}</> : "searching …"}{" "}
          <button type="button" onClick={() => step(-1)} disabled={!hits?.total}>previous</button> <button type="button" onClick={() => step(1)} disabled={!hits?.total}>next</button></span>}
        {trace.ranks.length > 2 && <Field label="ranks"><select value="" onChange={(event) => { const value = (event.target as HTMLSelectElement).value; if (value === "all" || value === "none") setOpen(new Set(value === "all" ? trace.ranks.map((rank) => rank.rank) : [])); else if (value) toggle(Number(value)); (event.target as HTMLSelectElement).value = ""; }}>
          <option value="">unfold …</option><option value="none">fold all</option>{trace.ranks.length <= 16 && <option value="all">unfold all</option>}
          {trace.ranks.map((rank) => <option value={String(rank.rank)}>{open.has(rank.rank) ? "fold" : "unfold"} rank {rank.rank}</option>)}</select></Field>}
        <button type="button" onClick={() => changeView(first)}>whole</button>
        <a class="button" href={write([...base, "flame"], { rank: flameRank, ...(source.served ? { from: Math.round((range ?? view).from), to: Math.round((range ?? view).to) } : {}) })}>flame graph of {!source.served ? `rank ${flameRank}` : range ? "the selection" : "this view"}</a>
        {source.served && <Perfetto trace={trace} />}
        <span class="pair">{!trace.path_missing && <Check label="critical path" checked={overlays.has("path")} onChange={(isOn) => lay("path", isOn)} />}
        {trace.ranks.some((rank) => rank.parts) && <Check label="causes of idle time" checked={overlays.has("idle")} onChange={(isOn) => lay("idle", isOn)} />}</span>
        <span class="legend">{["compute", "communication", "copy", "host", "input", "idle", "overhead"].map((name) => <span><span class="swatch" style={{ background: `var(--${name})` }} />{name}</span>)}</span>
      </div>
      <TimelineCanvas source={source} trace={trace} view={view} onView={changeView} open={open} onToggle={toggle} picked={picked} onPick={setPicked}
        range={range} onRange={changeRange} query={text} overlays={overlays} top={top === "" ? null : Number(top) || 0} onTop={(next) => setTop(String(Math.max(0, Math.round(next))))} onBusy={(value) => { if (value !== busy) queueMicrotask(() => setBusy(value)); }} />
      <span class="visually" data-busy={busy ? "1" : "0"} />
      <PathTold trace={trace} />
      {trace.merged_ns > 0 && <p class="quiet">In this file spans shorter than {duration(trace.merged_ns)} are drawn together; <code>pilotlight analyze … --serve</code> shows every one.</p>}
      {range && source.served && <Selected trace={trace} range={range} base={base} />}
      {trace.counters.length > 0 && <Counters trace={trace} view={view} />}
    </section>
  );
}

const ROLES: Record<string, string> = { host: "host", call: "calls into the driver", delay: "device waiting to begin", kernel: "kernels", copy: "copies", collective: "collectives" };

function PathTold({ trace }: { trace: Trace }) {
  const parts = Object.entries(trace.path_ratios).filter(([, ratio]) => ratio >= 0.005).map(([role, ratio]) => `${ROLES[role] ?? role} ${share(ratio)}`);
  return <p class="quiet">{parts.length ? <>The critical path (second row of an unfolded rank) is {parts.join(", ")}.</> : trace.path_missing && <>No critical path is drawn: {trace.path_missing}.</>}
    {trace.clock_offset_ns >= 1000 && <> The ranks are on one clock: by the common ends of collectives the furthest was {duration(trace.clock_offset_ns)} off.</>}</p>;
}

const PERFETTO = "https://ui.perfetto.dev";

// The only way out of this origin, and only by a click: the file is handed to a window of Perfetto's own page,
// which works on it in this browser. Without a network the file can be downloaded and opened elsewhere.
function Perfetto({ trace }: { trace: Trace }) {
  const source = useSource();
  const [told, setTold] = useState("");
  const path = source.href(`traces/${trace.id}/perfetto`);
  const open = async () => {
    const other = window.open(PERFETTO);
    if (!other) { setTold("the browser did not open a window"); return; }
    setTold("reading the trace …");
    const response = await fetch(path, { credentials: "same-origin" }).catch(() => null);
    if (!response?.ok) { other.close(); setTold("the trace could not be read; is it too large?"); return; }
    const buffer = await response.arrayBuffer();
    const ask = setInterval(() => other.postMessage("PING", PERFETTO), 100);
    const stop = () => { clearInterval(ask); clearTimeout(late); removeEventListener("message", heard); };
    const late = setTimeout(() => { stop(); setTold(`${PERFETTO} does not answer: without a network, download the file`); }, 20_000);
    const heard = (event: MessageEvent) => {
      if (event.source !== other || event.origin !== PERFETTO || event.data !== "PONG") return;
      stop();
      other.postMessage({ perfetto: { buffer, title: trace.title } }, PERFETTO);
      setTold("handed over");
    };
    addEventListener("message", heard);
  };
  return <>
    <a class="button" href={path} download={`${trace.title}.perfetto-trace`}>download for Perfetto</a>
    <button type="button" title={`Opens ${PERFETTO} in a new window and hands it the trace. The only thing here that needs a network.`} onClick={() => void open()}>open in Perfetto ↗</button>
    <span class="quiet" aria-live="polite">{told}</span>
  </>;
}

function useHits(trace: Trace, text: string, served: boolean): Hits | null {
  const source = useSource();
  const [hits, setHits] = useState<Hits | null>(null);
  useEffect(() => {
    setHits(null);
    if (!text.trim() || !served) return undefined;
    let current = true;
    const timer = setTimeout(() => {
      source.json<Hits>(`traces/${trace.id}/search?q=${encodeURIComponent(text.trim())}`).then((found) => { if (current) setHits(found); }, () => {});
    }, 200);
    return () => { current = false; clearTimeout(timer); };
  }, [trace.id, text]);
  return hits;
}

const rowName = (trace: Trace, range: Range): string => trace.ranks.find((rank) => rank.rank === range.rank)?.rows[range.rows[0]!]?.title ?? "1 row";

function Selected({ trace, range, base }: { trace: Trace; range: Range; base: string[] }) {
  const source = useSource();
  const [totals, setTotals] = useState<Totals | null>(null);
  const path = `traces/${trace.id}/totals?rank=${range.rank}&from=${Math.round(range.from)}&to=${Math.round(range.to)}&rows=${range.rows.join(",")}`;
  useEffect(() => {
    let current = true;
    const timer = setTimeout(() => source.json<Totals>(path).then((found) => { if (current) setTotals(found); }, () => {}), 150);
    return () => { current = false; clearTimeout(timer); };
  }, [path]);
  const length = range.to - range.from;
  return (
    <div>
      <h2>Selected: {duration(length)} of rank {range.rank}{range.rows.length === 1 ? `, ${rowName(trace, range)}` : range.rows.length ? `, ${plural(range.rows.length, "row")}` : ", all rows"}</h2>
      {totals && <p class="quiet">{plural(totals.spans, "span")} with {plural(totals.names, "name")}. <a href={write([...base, "flame"], { rank: range.rank, from: Math.round(range.from), to: Math.round(range.to) })}>As a flame graph</a></p>}
      {totals && <Table rows={totals.rows} limit={20} label="totals of the selection" columns={[
        { title: "name", isText: true, isName: true, cell: (row: Total) => <><span class="swatch" style={{ background: `var(--${activities[row.activity]})` }} /> <span title={row.name}>{shortName(row.name)}</span></>, sort: (row) => row.name },
        { title: "count", cell: (row) => count(row.count), sort: (row) => row.count },
        { title: "time in it", cell: (row) => duration(row.total_ns), sort: (row) => row.total_ns },
        { title: "mean", cell: (row) => duration(row.total_ns / row.count), sort: (row) => row.total_ns / row.count },
        { title: "of the selection", cell: (row) => share(row.total_ns / length), sort: (row) => row.total_ns },
      ]} />}
    </div>
  );
}

function Counters({ trace, view }: { trace: Trace; view: View }) {
  const moving = useMemo(() => trace.counters.filter(({ value: [first, ...rest] }) => rest.some((each) => each !== first)), [trace]);
  const [all, setAll] = useChoice("counters");
  const shown = all ? trace.counters : moving.slice(0, 12), still = trace.counters.length - moving.length;
  const missing = [...(all ? [] : [moving.length > shown.length ? `${moving.length - shown.length} more` : "", still ? `${still} that ${still === 1 ? "does" : "do"} not change` : ""]), trace.counters_left_out ? `${count(trace.counters_left_out)} beyond the first ${trace.counters.length}` : ""].filter(Boolean).join(", ");
  return <><h2>Counters</h2><div class="counters">{shown.map((series) => <CounterLine key={`${series.rank} ${series.name}`} series={series} view={view} />)}</div>
    {missing && <p class="quiet">Not drawn: {missing}.{" "}{!all && trace.counters.length > shown.length && <button type="button" onClick={() => setAll("all")}>draw all {count(trace.counters.length)}</button>}</p>}</>;
}

function CounterLine({ series, view }: { series: Trace["counters"][number]; view: View }) {
  const [at, setAt] = useState<number | null>(null);
  const shown = heldIn(series.time_ns, series.value, view);
  const low = Math.min(0, ...shown.map((held) => held.value)), high = Math.max(low, ...shown.map((held) => held.value));
  const x = (time: number) => ((Math.min(Math.max(time, view.from), view.to) - view.from) / (view.to - view.from)) * 600;
  const path = shown.map(({ from, to, value }, i) => `${i ? "L" : "M"}${x(from)},${42 - ((value - low) / (high - low || 1)) * 40}H${x(to)}`).join("");
  const { title, text } = unitOf(series.name);
  const now = at === null ? undefined : shown.find((held) => held.from <= at && at < held.to);
  const look = (event: PointerEvent) => { const box = (event.currentTarget as Element).getBoundingClientRect(); setAt(view.from + ((event.clientX - box.left) / box.width) * (view.to - view.from)); };
  return <figure class="counter"><figcaption><b>{title}</b> <span>{at !== null ? (now ? `${text(now.value)} at ${duration(at)}` : `no value at ${duration(at)}`) : shown.length ? high > low ? `${text(low)} to ${text(high)}` : text(low) : "no value in this view"}</span> <span>rank {series.rank}</span></figcaption>
    <svg viewBox="0 0 600 44" preserveAspectRatio="none" height="44" role="img" aria-label={`${title} of rank ${series.rank}`} onPointerMove={look} onPointerLeave={() => setAt(null)}><path d={path} fill="none" stroke="var(--compute)" stroke-width="1.5" vector-effect="non-scaling-stroke" /></svg></figure>;
}
