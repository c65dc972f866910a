// A job: the sentence, the steps, the ranks, what is wrong and what to do.
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Flame } from "../charts/Flame";
import { Heat, type Window } from "../charts/Heat";
import { Series, stacked } from "../charts/Series";
import { callees, callers, lay } from "../charts/tree";
import { change, remember, useAddress, write } from "../data/address";
import { useAnswer, useData, useNews } from "../data/load";
import { stackTree } from "../data/stacks";
import type { Breakdown, CollectiveRow, CounterName, CounterSeries, FindingRow, Hot, Job, RankRow, Series as StepSeries, StackTime, StepRow } from "../data/types";
import { ago, clock, count, duration, hours, plural, share, shortName, signedShare, size, UNKNOWN, value } from "../look/format";
import { Bar, Empty, Failed, Field, FindingCard, Legend, Search, Table, Waiting } from "../parts/parts";
import { PART_NAMES, partColour, storedPieces } from "../parts/time";

const VIEWS = [["", "overview"], ["flame", "flame graph"], ["kernels", "kernels"], ["collectives", "collectives"], ["counters", "counters"], ["facts", "facts"], ["captures", "captures"]] as const;

interface Range { from: number; to: number }
interface Part { job: Job; range: Range; news: number }

export function JobPage({ name, view }: { name: string; view: string }) {
  const news = useNews();
  const { query } = useAddress();
  const { value: job, failure, again } = useAnswer<Job>(`job?job=${encodeURIComponent(name)}`, news);
  if (failure) return <Failed failure={failure} again={again} />;
  if (!job) return <><header><p class="about">{name}</p><h1>Asking the store …</h1></header><Waiting height={420} /></>;
  const whole = { from: Math.max(job.row.started_ns, job.row.updated_ns - 86_400e9), to: job.row.updated_ns + 10e9 };
  const range = query["from"] && query["to"] ? { from: Number(query["from"]), to: Number(query["to"]) } : whole;
  const gpu = job.ranks.find((rank) => rank.gpu_name)?.gpu_name;
  const dropped = job.ranks.reduce((sum, rank) => sum + rank.records_dropped, 0);
  const kept = Object.fromEntries(["from", "to"].filter((key) => query[key]).map((key) => [key, query[key]]));
  return (
    <>
      <header>
        <p class="about">{[job.row.job, `${job.row.state}${job.row.state === "running" ? ` ${duration(job.now_ns - job.row.started_ns)}` : `, ${ago(job.row.updated_ns, job.now_ns)}`}`, `${plural(job.row.ranks, "rank")} on ${plural(job.row.nodes, "node")}`, gpu, hours(job.row.gpu_hours), `drops ${count(dropped)}`].filter(Boolean).join("  ·  ")}</p>
        <h1>{job.headline}</h1>
        {job.is_partial && <p class="partial">Partial: a part of the store did not answer, and these numbers are too small.</p>}
      </header>
      <nav class="views" aria-label="views">{VIEWS.map(([key, text]) => <a href={key === "captures" ? write(["captures"], { job: name }) : write(key ? ["job", name, key] : ["job", name], kept)} aria-current={view === key ? "page" : undefined}>{text}</a>)}
        <a href={write(["compare"], { before: name, after: name })}>compare</a></nav>
      {view === "flame" ? <JobFlame job={job} range={range} news={0} />
        : view === "kernels" ? <Kernels job={job} range={range} news={news} />
        : view === "collectives" ? <Collectives job={job} range={range} news={news} />
        : view === "counters" ? <Counters job={job} range={range} news={news} />
        : view === "facts" ? <Facts job={job} />
        : <Overview job={job} range={range} news={news} />}
    </>
  );
}

const spanOf = (range: Range): string => `from_ns=${Math.round(range.from)}&to_ns=${Math.round(range.to)}`;
const zoomTo = (from: number, to: number): void => change({ from: Math.round(from), to: Math.round(to) });

function Zoomed({ range, children }: { range: Range; children?: ComponentChildren }) {
  const { query } = useAddress();
  return <>{query["from"] && <span class="quiet">{clock(range.from)} to {clock(range.to).slice(11)} <button type="button" onClick={() => change({ from: null, to: null })}>whole time</button></span>}{children}</>;
}

function Overview({ job, range, news }: Part) {
  return (
    <div class="with-side">
      <div>
        <StepTime job={job} range={range} news={news} />
        <Ranks job={job} range={range} news={news} />
        <BreakdownOverTime job={job} range={range} news={news} />
      </div>
      <aside><Findings job={job} /></aside>
    </div>
  );
}

function StepTime({ job, range, news }: Part) {
  const { value: series, failure } = useData<StepSeries>(`v1/series?job=${encodeURIComponent(job.row.job)}&points=800&${spanOf(range)}`, news);
  const lines = useMemo(() => (series ? [
    { label: "longest", colour: "waiting", values: series.max_ns, width: 1 },
    { label: "mean", colour: "compute", values: series.mean_ns, width: 2 },
    { label: "shortest", colour: "waiting", values: series.min_ns, width: 1 },
  ] : []), [series]);
  const marks = useMemo(() => job.events.map((event) => ({ time_ns: event.time_ns, text: event.kind })), [job.events]);
  const change24 = job.step_ns && job.earlier_step_ns ? job.step_ns / job.earlier_step_ns - 1 : null;
  return (
    <section aria-label="step time">
      <div class="tools"><h2>Step time</h2>
        <span class="quiet">now {duration(job.step_ns)}{change24 !== null && <> ({signedShare(change24)} to the day before)</>}{Object.entries(job.quantiles_ns).map(([name, ns]) => ` · ${name} ${duration(ns)}`)}</span>
        <Zoomed range={range} /></div>
      {failure ? <Failed failure={failure} /> : !series ? <Waiting height={220} /> : series.time_ns.length === 0 ? <p class="empty">No step in this time.</p>
        : <Series time_ns={series.time_ns} lines={lines} text={duration} label="step time over time" onZoom={zoomTo} marks={marks} from_ns={range.from} to_ns={range.to} />}
      {job.events.length > 0 && <p class="quiet">{job.events.filter((event) => event.time_ns >= range.from && event.time_ns <= range.to).slice(-6).map((event) => <span title={clock(event.time_ns)}>▾ {event.kind} {ago(event.time_ns, job.now_ns)}{event.text ? `: ${event.text}` : ""}  </span>)}</p>}
    </section>
  );
}

function Ranks({ job, range, news }: Part) {
  const { query } = useAddress();
  const [measure, setMeasure] = useState(query["map"] ?? "lateness");
  const [window, setWindow] = useState<Window | null>(() => {
    const given = query["window"]?.split(",").map(Number);
    return given?.length === 4 ? { first: given[0]!, last: given[1]!, top: given[2]!, bottom: given[3]! } : null;
  });
  const byRank = useMemo(() => new Map(job.ranks.map((rank) => [rank.rank, rank])), [job.ranks]);
  const ranks = job.ranks.reduce((most, rank) => Math.max(most, rank.rank), -1) + 1;
  const chosen = query["rank"] === undefined ? null : Number(query["rank"]);
  const label = (rank: number) => { const row = byRank.get(rank); return `rank ${rank}${row ? `, ${row.node}, gpu ${row.gpu}` : ""}`; };
  const changeWindow = (next: Window | null) => { setWindow(next); remember({ window: next ? [next.first, next.last, next.top, next.bottom].map((number) => Math.round(number * 10) / 10).join(",") : null }); };
  if (ranks <= 0 || job.last_step <= 0) return <section><h2>Ranks × steps</h2><p class="empty">No step with a rank is stored: steps are kept for two weeks.</p></section>;
  return (
    <section aria-label="ranks and steps">
      <div class="tools"><h2>Ranks × steps</h2>
        <Field label="shows"><select value={measure} onChange={(event) => { const value = (event.target as HTMLSelectElement).value; setMeasure(value); remember({ map: value }); }}><option value="lateness">lateness</option><option value="time">longest step</option><option value="wait">wait for others</option></select></Field>
        {window && <button type="button" onClick={() => changeWindow(null)}>whole map</button>}
        <span class="quiet">{count(ranks)} ranks, steps {count(job.first_step)} to {count(job.last_step)}</span></div>
      <Heat job={job.row.job} value={measure} first={job.first_step} last={job.last_step + 1} ranks={ranks} window={window} onWindow={changeWindow} rankLabel={label} onOpen={(rank) => change({ rank })} news={news} />
      {chosen !== null && <OneRank job={job} range={range} news={news} rank={chosen} row={byRank.get(chosen) ?? null} />}
    </section>
  );
}

function OneRank({ job, range, rank, row, news }: Part & { rank: number; row: RankRow | null }) {
  const path = `job=${encodeURIComponent(job.row.job)}&rank=${rank}&${spanOf(range)}`;
  const { value: steps } = useData<StepRow[]>(`v1/steps?limit=12&${path}`, news);
  return (
    <div class="finding" role="group" aria-label={`rank ${rank}`}>
      <h3>Rank {rank}{row && <> on {row.node}, gpu {row.gpu} <small>{row.gpu_name}</small></>} <button type="button" onClick={() => change({ rank: null })}>close</button></h3>
      {row && <><p>{plural(row.steps, "step")}, mean {duration(row.step_ns)}, longest {duration(row.slowest_ns)}; {row.state}; drops {count(row.records_dropped)}</p><Bar pieces={storedPieces(row.parts_ns)} wide /><Legend pieces={storedPieces(row.parts_ns)} /></>}
      <p class="links"><a class="button" href={write(["job", job.row.job, "flame"], { rank, from: Math.round(range.from), to: Math.round(range.to) })}>where its host spends the time</a><a class="button" href={write(["captures"], { job: job.row.job, rank })}>take a capture of it</a></p>
      {steps && <Table rows={steps} limit={12} label="latest steps" columns={[
        { title: "step", cell: (step) => count(step.step) }, { title: "took", cell: (step) => duration(step.duration_ns) }, { title: "", cell: (step) => <Bar pieces={storedPieces(step.parts_ns)} /> }, { title: "began", cell: (step) => <span title={clock(step.start_ns)}>{ago(step.start_ns, job.now_ns)}</span> }]} />}
    </div>
  );
}

function BreakdownOverTime({ job, range, news }: Part) {
  const { value: found, failure } = useData<Breakdown>(`v1/breakdown?job=${encodeURIComponent(job.row.job)}&points=400&${spanOf(range)}`, news);
  const lines = useMemo(() => {
    if (!found) return [];
    const parts = storedPieces(Object.fromEntries(Object.entries(found.parts_ns).map(([part, values]) => [part, values.reduce((a, b) => a + b, 0)])));
    const named = Object.entries(PART_NAMES);
    return stacked(parts.map((piece) => {
      const part = named.find(([, text]) => text === piece.label && found.parts_ns[named.find(([, other]) => other === text)![0]])?.[0] ?? "other";
      const values = found.parts_ns[part] ?? [];
      return { label: piece.label, colour: partColour(part), values: values.map((ns, i) => (found.total_ns[i] ? ns / found.total_ns[i]! : null)) };
    }));
  }, [found]);
  return (
    <section aria-label="breakdown over time"><h2>Where the step time goes</h2>
      {failure ? <Failed failure={failure} /> : !found ? <Waiting height={180} /> : found.time_ns.length === 0 || lines.length === 0 ? <p class="empty">The breakdown of steps is {UNKNOWN} in this time.</p>
        : <Series time_ns={found.time_ns} lines={lines} height={180} text={share} label="parts of the step time over time" onZoom={zoomTo} from_ns={range.from} to_ns={range.to} max={1} />}
    </section>
  );
}

const shown = (job: Job, finding: FindingRow): { text: string; href: string }[] => {
  const around = { from: Math.round(Math.max(job.row.started_ns, finding.opened_ns - 300e9)), to: Math.round((finding.closed_ns || job.row.updated_ns) + 60e9) };
  const rank = finding.ranks[0];
  return [
    { text: "show me: when and where", href: write(["job", job.row.job], { ...around, ...(rank === undefined ? {} : { rank }), map: "lateness" }) },
    ...(rank === undefined ? [] : [{ text: "show me: the code", href: write(["job", job.row.job, "flame"], { ...around, rank }) }]),
    ...(finding.capture ? [{ text: "show me: timeline", href: write(["trace", finding.capture, "timeline"]) }] : []),
  ];
};

function Findings({ job }: { job: Job }) {
  const open = job.findings.filter((finding) => finding.state === "open").sort((a, b) => b.gain_high_ratio - a.gain_high_ratio);
  const closed = job.findings.filter((finding) => finding.state !== "open");
  const card = (finding: FindingRow, i: number) => <FindingCard number={i + 1} show={shown(job, finding)} finding={{ ...finding, rank: finding.ranks.length === 1 ? finding.ranks[0]! : null, place: [finding.place, finding.ranks.length > 1 ? plural(finding.ranks.length, "rank") : ""].filter(Boolean).join(", "), evidence: finding.evidence, places: [] }} />;
  return <>
    <h2>{open.length ? plural(open.length, "finding") : "Nothing is found to be wrong"}</h2>
    {open.length === 0 && <p class="empty">Findings open by themselves when a rule sees something worth 0.5 % of the step or more.</p>}
    <ol class="findings">{open.map(card)}</ol>
    {closed.length > 0 && <details><summary>{plural(closed.length, "finding")} closed</summary><ol class="findings">{closed.map(card)}</ol></details>}
    <h2 class="later">GPU hours</h2>
    <Table label="GPU hours" rows={[["all", job.waste.gpu_hours], ["compute", job.waste.busy_hours], ...Object.entries(job.waste.wasted_hours).sort((a, b) => b[1] - a[1]).map(([part, lost]) => [PART_NAMES[part] ?? part, lost]), ["step time not known", job.waste.unknown_hours], ["outside of steps", job.waste.outside_hours]].filter((row) => Number(row[1]) >= 0.0005) as [string, number][]}
      columns={[{ title: "", isText: true, cell: (row) => row[0] }, { title: "", cell: (row) => hours(row[1]) }, { title: "", cell: (row) => (job.waste.gpu_hours ? share(row[1] / job.waste.gpu_hours) : "") }]} />
    {Object.keys(job.losses).length > 0 && <><h2 class="partial">Lost on the way</h2><ul>{Object.entries(job.losses).map(([what, number]) => <li>{count(number)} {what}</li>)}</ul></>}
  </>;
}

function JobFlame({ job, range }: Part) {
  const { query } = useAddress();
  const rank = query["rank"] ?? "";
  const [text, setText] = useState(query["q"] ?? "");
  const [name, setName] = useState<number | null>(null);
  const { value: stacks, failure } = useData<StackTime[]>(`v1/stacks?job=${encodeURIComponent(job.row.job)}&limit=5000${rank === "" ? "" : `&rank=${rank}`}&${spanOf(range)}`);
  const laid = useMemo(() => (stacks ? lay(stackTree(stacks)) : null), [stacks]);
  const sandwich = useMemo(() => (laid && name !== null ? { up: lay(callers(laid.tree, laid.total, name)), down: lay(callees(laid.tree, name)) } : null), [laid, name]);
  const palette = ["unknown", "running", "waiting", "gil", "disk"];
  return (
    <section aria-label="flame graph">
      <div class="tools"><h2>Python stacks{rank === "" ? " of all ranks" : ` of rank ${rank}`}</h2>
        <Field label="rank"><select value={rank} onChange={(event) => change({ rank: (event.target as HTMLSelectElement).value || null })}><option value="">all</option>{job.ranks.slice(0, 2000).map((row) => <option value={String(row.rank)}>{row.rank}</option>)}</select></Field>
        <Search value={text} onInput={(given) => { setText(given); remember({ q: given }); }} /><Zoomed range={range} />
        <span class="legend">{palette.slice(1).map((state) => <span><span class="swatch" style={{ background: `var(--${state})` }} />{state === "gil" ? "waiting for the GIL" : state}</span>)}</span></div>
      {failure ? <Failed failure={failure} /> : !laid ? <Waiting height={300} /> : laid.total[0] === 0
        ? <Empty title="No stack in this time" command="pilotlight run -- python train.py">Stacks come from the sampler that <code>pilotlight run</code> starts in each process; by rank they are kept for three days.</Empty>
        : sandwich && name !== null
          ? <div class="split"><div><h2>{laid.tree.names[name]} <button type="button" onClick={() => setName(null)}>back to the whole</button></h2><h3>called by</h3><Flame laid={sandwich.up} query={text} label="Callers" palette={palette} /></div><div><h2>&nbsp;</h2><h3>calls</h3><Flame laid={sandwich.down} query={text} label="Callees" palette={palette} /></div></div>
          : <Flame laid={laid} query={text} label="Flame graph" palette={palette} onPick={setName} />}
    </section>
  );
}

function Kernels({ job, range, news }: Part) {
  const { value: rows, failure } = useData<Hot[]>(`v1/kernels?job=${encodeURIComponent(job.row.job)}&limit=500&${spanOf(range)}`, news);
  if (failure) return <Failed failure={failure} />;
  if (!rows) return <Waiting height={300} />;
  return <><Zoomed range={range} /><Table title="Kernels and copies over all ranks" rows={rows} limit={100} empty="No kernel was recorded in this time: the agents saw no GPU, or the job ran without pilotlight's GPU library." columns={[
    { title: "kernel", isText: true, cell: (row) => <span title={row.name}>{shortName(row.name)}</span>, sort: (row) => row.name }, { title: "kind", isText: true, cell: (row) => row.kind, sort: (row) => row.kind },
    { title: "count", cell: (row) => count(row.count), sort: (row) => row.count }, { title: "total", cell: (row) => duration(row.total_ns), sort: (row) => row.total_ns }, { title: "", cell: (row) => share(row.ratio) },
    { title: "mean", cell: (row) => duration(row.mean_ns), sort: (row) => row.mean_ns }, { title: "min", cell: (row) => duration(row.min_ns) }, { title: "max", cell: (row) => duration(row.max_ns), sort: (row) => row.max_ns }]} /></>;
}

function Collectives({ job, range, news }: Part) {
  const { value: rows, failure } = useData<CollectiveRow[]>(`v1/collectives?job=${encodeURIComponent(job.row.job)}&limit=200&${spanOf(range)}`, news);
  if (failure) return <Failed failure={failure} />;
  if (!rows) return <Waiting height={300} />;
  return <><Zoomed range={range} /><Table title="Collectives" rows={rows} empty="No collective was recorded in this time." columns={[
    { title: "operation", isText: true, cell: (row) => row.operation, sort: (row) => row.operation }, { title: "group", isText: true, cell: (row) => row.group, sort: (row) => row.group }, { title: "ranks", cell: (row) => count(row.ranks) },
    { title: "count", cell: (row) => count(row.count), sort: (row) => row.count }, { title: "total", cell: (row) => duration(row.total_ns), sort: (row) => row.total_ns }, { title: "waiting for others", cell: (row) => `${duration(row.wait_ns)} (${share(row.total_ns ? row.wait_ns / row.total_ns : 0)})`, sort: (row) => row.wait_ns },
    { title: "mean", cell: (row) => duration(row.mean_ns) }, { title: "longest", cell: (row) => duration(row.max_ns), sort: (row) => row.max_ns }, { title: "bytes", cell: (row) => size(row.bytes), sort: (row) => row.bytes }, { title: "GB/s", cell: (row) => value(row.gigabytes_per_s) }]} /></>;
}

function Counters({ job, range, news }: Part) {
  const { query } = useAddress();
  const { value: names, failure } = useData<CounterName[]>(`v1/counter-names?job=${encodeURIComponent(job.row.job)}&${spanOf(range)}`, news);
  const chosen = query["counter"] ?? names?.find((name) => name.name.includes("clock"))?.name ?? names?.[0]?.name ?? null;
  const { value: series } = useData<CounterSeries[]>(chosen === null ? null : `v1/counters?name=${encodeURIComponent(chosen)}&job=${encodeURIComponent(job.row.job)}&points=300&limit=64&${spanOf(range)}`, news);
  const drawn = useMemo(() => {
    if (!series?.length) return null;
    const times = [...new Set(series.flatMap((row) => row.time_ns))].sort((a, b) => a - b);
    const place = new Map(times.map((time, i) => [time, i]));
    const rows = series.map((row) => { const values: (number | null)[] = times.map(() => null); row.time_ns.forEach((time, i) => { values[place.get(time)!] = row.mean[i]!; }); return { row, values, mean: row.mean.reduce((a, b) => a + b, 0) / Math.max(row.mean.length, 1) }; });
    const middle = rows.map((row) => row.mean).sort((a, b) => a - b)[Math.floor(rows.length / 2)]!;
    // Those furthest from the middle stand out; the others are the ground.
    const far = new Set(rows.slice().sort((a, b) => Math.abs(b.mean - middle) - Math.abs(a.mean - middle)).slice(0, 1));
    rows.sort((a, b) => Number(far.has(a)) - Number(far.has(b)));
    return { times, lines: rows.slice(-24).map((each) => ({ label: `${each.row.rank >= 0 ? `rank ${each.row.rank}` : `${each.row.node} gpu ${each.row.gpu}`}`, colour: far.has(each) ? "accent" : "compute", values: each.values, width: far.has(each) ? 2.5 : 1 })) };
  }, [series]);
  if (failure) return <Failed failure={failure} />;
  if (!names) return <Waiting height={300} />;
  if (!names.length) return <Empty title="No counter in this time" command="pilotlight doctor">The agents read GPU and host counters where the drivers allow it; the doctor says what is missing.</Empty>;
  return (
    <section aria-label="counters">
      <div class="tools"><Field label="counter"><select value={chosen ?? ""} onChange={(event) => change({ counter: (event.target as HTMLSelectElement).value })}>{names.map((name) => <option value={name.name}>{name.name}</option>)}</select></Field><Zoomed range={range} /><span class="quiet">the one furthest from the others stands out</span></div>
      {drawn ? <Series time_ns={drawn.times} lines={drawn.lines} height={320} text={value} label={chosen ?? "counter"} onZoom={zoomTo} from_ns={range.from} to_ns={range.to} min={null} /> : <Waiting height={320} />}
    </section>
  );
}

function Facts({ job }: { job: Job }) {
  return <div class="columns">
    <Table title="Facts" rows={[["command", job.row.command], ["launcher", job.row.launcher], ["cluster", job.row.cluster], ["world size", String(job.row.world_size)], ...Object.entries(job.facts).map(([name, fact]) => [name, typeof fact === "string" ? fact : JSON.stringify(fact)])] as [string, string][]}
      columns={[{ title: "", isText: true, cell: (row) => row[0] }, { title: "", isText: true, cell: (row) => row[1] }]} />
    <Table title="Attempts" rows={job.attempts} columns={[
      { title: "attempt", cell: (row) => String(row.attempt) }, { title: "state", isText: true, cell: (row) => row.state }, { title: "started", cell: (row) => <span title={clock(row.started_ns)}>{ago(row.started_ns, job.now_ns)}</span> }, { title: "nodes", cell: (row) => count(row.nodes) }, { title: "ranks", cell: (row) => count(row.ranks) }, { title: "exit code", cell: (row) => (row.ended_ns ? String(row.exit_code) : "") }]} />
    <Table title="Ranks" rows={job.ranks} limit={64} columns={[
      { title: "rank", cell: (row) => <a href={write(["job", job.row.job], { rank: row.rank })}>{row.rank}</a>, sort: (row) => row.rank }, { title: "node", isText: true, cell: (row) => row.node, sort: (row) => row.node }, { title: "gpu", cell: (row) => String(row.gpu) }, { title: "pid", cell: (row) => String(row.pid) }, { title: "step", cell: (row) => count(row.step), sort: (row) => row.step },
      { title: "mean step", cell: (row) => duration(row.step_ns), sort: (row) => row.step_ns }, { title: "", cell: (row) => <Bar pieces={storedPieces(row.parts_ns)} /> }, { title: "state", isText: true, cell: (row) => row.state }, { title: "drops", cell: (row) => count(row.records_dropped), sort: (row) => row.records_dropped }]} />
  </div>;
}
