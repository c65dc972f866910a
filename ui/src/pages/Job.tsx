// A job: the sentence, the steps, the ranks, what is wrong and what to do.
import { useMemo } from "preact/hooks";
import { cutOf } from "../charts/cut";
import { Series, stacked } from "../charts/Series";
import { useAddress, write } from "../data/address";
import { useAnswer, useData, useNews } from "../data/load";
import type { Breakdown, FindingRow, Job, Series as StepSeries } from "../data/types";
import { counterWords } from "../look/counter";
import { ago, clock, count, duration, glued, hours, plural, share, signedShare, UNKNOWN } from "../look/format";
import { costText, Empty, Failed, FindingCard, Fold, PageFailed, Partial, sourceOf, Table, Waiting } from "../parts/parts";
import { PART_NAMES, partColour, storedPieces } from "../parts/time";
import { Counters } from "./job/Counters";
import { Facts } from "./job/Facts";
import { JobFlame } from "./job/JobFlame";
import { chosenOf, type Part, type Range, spanOf, Zoomed, zoomTo } from "./job/part";
import { Phases } from "./job/Phases";
import { Ranks } from "./job/Ranks";
import { RunningRoof } from "./job/RunningRoof";
import { Collectives, Kernels } from "./job/tables";

// Why it is over, as far as its launcher told it.
export const endOf = ({ state, exit_code, signal }: { state: string; exit_code: number; signal: number }): string =>
  signal ? `${state} by signal ${signal}` : exit_code ? `${state} with exit code ${exit_code}` : state;

const VIEWS = [["", "overview"], ["flame", "flame graph"], ["kernels", "kernels"], ["roofline", "roofline"], ["collectives", "collectives"], ["counters", "counters"], ["facts", "facts"], ["captures", "captures"]] as const;

export function JobPage({ name, view }: { name: string; view: string }) {
  const news = useNews();
  const { query } = useAddress();
  const { value: job, failure, again } = useAnswer<Job>(`job?job=${encodeURIComponent(name)}`, news);
  if (failure) return <PageFailed failure={failure} again={again} />;
  const kept = Object.fromEntries(["from", "to"].filter((key) => query[key]).map((key) => [key, query[key]]));
  const views = <nav class="views" aria-label="views">{VIEWS.map(([key, text]) => <a href={key === "captures" ? write(["captures"], { job: name }) : write(key ? ["job", name, key] : ["job", name], kept)} aria-current={view === key ? "page" : undefined}>{text}</a>)}
    <a href={write(["compare"], { before: name, after: name })}>compare</a></nav>;
  if (!job) return <><header><p class="about">{name}</p><h1>Asking the store …</h1></header>{views}{view ? <Waiting height={420} /> : <Shape />}</>;
  const whole = { from: Math.max(job.row.started_ns, job.row.updated_ns - 86_400e9), to: job.row.updated_ns + 10e9 };
  const range = chosenOf(query["from"], query["to"]) ?? whole;
  const gpu = job.ranks.find((rank) => rank.gpu_name)?.gpu_name;
  const dropped = job.ranks.reduce((sum, rank) => sum + rank.records_dropped, 0);
  return (
    <>
      <header>
        <p class="about">{[job.row.job, job.row.state === "running" ? `running ${duration(job.now_ns - job.row.started_ns)}` : `${endOf(job.row)}, ${ago(job.row.updated_ns, job.now_ns)}`, `${plural(job.row.ranks, "rank")} on ${plural(job.row.nodes, "node")}`, gpu, hours(job.row.gpu_hours, job.row.has_gpus), costText(job.cost), `drops ${count(dropped)}`].filter(Boolean).map((text, i) => <>{i > 0 && "  ·  "}<bdi>{text}</bdi></>)}</p>
        <h1>{glued(job.headline)}</h1>
        <Partial when={job.is_partial} />
      </header>
      {views}
      {view === "flame" ? <JobFlame job={job} range={range} news={0} />
        : view === "kernels" ? <Kernels job={job} range={range} news={news} />
        : view === "roofline" ? <RunningRoof job={job} range={range} news={news} />
        : view === "collectives" ? <Collectives job={job} range={range} news={news} />
        : view === "counters" ? <Counters job={job} range={range} news={news} />
        : view === "facts" ? <Facts job={job} />
        : <Overview job={job} range={range} news={news} />}
    </>
  );
}

// Where everything will be, before anything is there.
function Shape() {
  return <div class="with-side">
    <div><section><h2>Step time</h2><Waiting height={260} /></section><section><h2>Ranks × steps</h2><Waiting height={320} /></section></div>
    <aside><h2>Findings</h2><Waiting height={200} /></aside>
  </div>;
}

function Overview({ job, range, news }: Part) {
  return (
    <div class="with-side">
      <div>
        <StepTime job={job} range={range} news={news} />
        {job.row.steps > 0 && <><Ranks job={job} range={range} news={news} />
        <BreakdownOverTime job={job} range={range} news={news} />
        <Phases job={job} range={range} news={news} /></>}
      </div>
      <aside><Findings job={job} /></aside>
    </div>
  );
}

function StepTime({ job, range, news }: Part) {
  const { value: series, failure, again } = useData<StepSeries>(`v1/series?job=${encodeURIComponent(job.row.job)}&points=800&${spanOf(range)}`, news);
  const lines = useMemo(() => (series ? [
    { label: "longest", colour: "quiet", values: series.max_ns, width: 1 },
    { label: "mean", colour: "compute", values: series.mean_ns, width: 2 },
    { label: "shortest", colour: "waiting", values: series.min_ns, width: 1 },
  ] : []), [series]);
  const cut = useMemo(() => (series ? cutOf(series.max_ns) : null), [series]);
  const marks = useMemo(() => job.events.map((event) => ({ time_ns: event.time_ns, text: event.kind, isLoud: LOUD.has(event.kind) })), [job.events]);
  const changed = job.step_ns && job.earlier_step_ns ? job.step_ns / job.earlier_step_ns - 1 : null;
  return (
    <section aria-label="step time">
      <div class="tools"><h2>Step time</h2>
        <span class="quiet">{job.step_ns !== null && <>the last 10 min {duration(job.step_ns)}{changed !== null && <> ({signedShare(changed)} to {job.earlier})</>} · </>}{job.row.steps > 0 && <>all its steps: {[...(job.step_ns === null ? [`mean ${duration(job.row.step_ns)}`] : []), ...Object.entries(job.quantiles_ns).map(([name, ns]) => `${name} ${duration(ns)}`)].join(", ")}</>}</span>
        <Zoomed job={job.row.job} range={range} /></div>
      {failure ? <Failed failure={failure} again={again} /> : !series ? <Waiting height={276} /> : series.time_ns.length === 0 ? (job.row.steps ? <p class="empty">No step in this time.</p> : <Empty title="Steps make the job readable" command="pilotlight.step()">They come by themselves from the frameworks that pilotlight knows. In a loop of its own, a program says it once a step; until then its stacks, kernels and counters are in the other views.</Empty>)
        : <Series time_ns={series.time_ns} lines={lines} text={duration} label="step time over time" height={240} onZoom={zoomTo} marks={marks} from_ns={range.from} to_ns={range.to} max={cut} />}
      {cut !== null && series && <p class="quiet">Cut off at {duration(cut)}; the longest step takes {duration(Math.max(...series.max_ns.map(Number)))}. Drag over it to see it whole.</p>}
      <Events job={job} range={range} />
    </section>
  );
}

const LOUD = new Set(["restart", "finding"]);

function Events({ job, range }: { job: Job; range: Range }) {
  const shown = job.events.filter((event) => event.time_ns >= range.from && event.time_ns <= range.to).slice(-6).reverse();
  if (!shown.length) return null;
  return <ul class="events" aria-label="events">{shown.map((event) => <li>
    <a href={write(["job", job.row.job], { from: Math.round(event.time_ns - 300e9), to: Math.round(event.time_ns + 300e9) })} title={`${clock(event.time_ns)}: show five minutes before and after`}>{event.kind}</a> <span title={clock(event.time_ns)}>{ago(event.time_ns, job.now_ns)}</span>{event.text && <span class="quiet">: {event.text}</span>}</li>)}</ul>;
}

function BreakdownOverTime({ job, range, news }: Part) {
  const { value: found, failure, again } = useData<Breakdown>(`v1/breakdown?job=${encodeURIComponent(job.row.job)}&points=400&${spanOf(range)}`, news);
  const lines = useMemo(() => {
    if (!found) return [];
    const whole = found.total_ns.reduce((a, b) => a + b, 0);
    // What is nowhere to be seen needs no line in the legend.
    const parts = storedPieces(Object.fromEntries(Object.entries(found.parts_ns).map(([part, values]) => [part, values.reduce((a, b) => a + b, 0)]))).filter((piece) => piece.ns >= 5e-4 * whole);
    const named = Object.entries(PART_NAMES);
    return stacked(parts.map((piece) => {
      const part = named.find(([, text]) => text === piece.label && found.parts_ns[named.find(([, other]) => other === text)![0]])?.[0] ?? "other";
      const values = found.parts_ns[part] ?? [];
      return { label: piece.label, colour: partColour(part), values: values.map((ns, i) => (found.total_ns[i] ? ns / found.total_ns[i]! : null)) };
    }));
  }, [found]);
  return (
    <section aria-label="breakdown over time"><h2>Where the step time goes</h2>
      {failure ? <Failed failure={failure} again={again} /> : !found ? <Waiting height={180} /> : found.time_ns.length === 0 || lines.length === 0 ? <p class="empty">The breakdown of steps is {UNKNOWN} in this time.</p>
        : lines.every((line) => line.label === PART_NAMES["unknown"]) ? <p class="empty">What the steps are made of is {UNKNOWN}: PyTorch, JAX and GPUs tell it. <a href={write(["job", job.row.job, "flame"])}>The flame graph</a> shows where their time goes.</p>
        : <Series time_ns={found.time_ns} lines={lines} height={180} text={share} label="parts of the step time over time" onZoom={zoomTo} from_ns={range.from} to_ns={range.to} max={1} />}
    </section>
  );
}

// Where the evidence of a cause is, beside its time: a counter, a view, the words to look for in the code. `code: null`: no code is to blame.
const EVIDENCE: Record<string, { counter?: string; view?: string; code?: string | null }> = {
  throttle: { counter: "gpu.sm_clock_mhz", code: null }, slow_gpu: { counter: "gpu.sm_clock_mhz", code: null }, silent: { code: null },
  xid: { code: null }, lost: { code: null }, oom_kill: { code: null }, node_event: { code: null },
  slow_link: { view: "collectives", code: null }, degraded_link: { view: "collectives", code: null }, contended: { view: "collectives", code: null },
  loader: { code: "dataloader" }, loader_cpu: { code: "dataloader" }, storage: { code: "dataloader" }, recompile: { code: "compile" },
};

// How a slower run names the one before it (collector/watch/history.py).
const RUN_BEFORE = "the run before: ";

// Whom a rank is like where nothing is wrong: the one beside it.
export const besides = (rank: number, ranks: number[]): number | undefined => ranks.filter((other) => other !== rank).sort((a, b) => Math.abs(a - rank) - Math.abs(b - rank))[0];

const shown = (job: Job, finding: FindingRow): { text: string; href: string }[] => {
  const around = { from: Math.round(Math.max(job.row.started_ns, finding.opened_ns - 300e9)), to: Math.round((finding.closed_ns || job.row.updated_ns) + 60e9) };
  const rank = finding.ranks[0], at = (view: string, more: Record<string, string> = {}) => write(["job", job.row.job, view], { ...around, ...more });
  const { counter, view, code = sourceOf(finding.place) } = EVIDENCE[finding.cause] ?? {};
  // Where nothing explains why a rank is late (A26), its stacks do beside those of one that is not.
  const peer = finding.rule === "A26" && !code && finding.ranks.length === 1 ? besides(rank!, job.ranks.map((row) => row.rank)) : undefined;
  const earlier = finding.evidence.find((text) => text.startsWith(RUN_BEFORE))?.slice(RUN_BEFORE.length);
  return [
    ...(earlier ? [{ text: "show me: compared with the run before", href: write(["compare"], { before: earlier, after: job.row.job }) }] : []),
    ...(counter ? [{ text: `show me: ${counterWords(counter).title}`, href: at("counters", { counter, ...(rank === undefined ? {} : { rank: String(rank) }) }) }] : []),
    { text: "show me: when and where", href: write(["job", job.row.job], { ...around, ...(rank === undefined ? { map: "time" } : { rank, map: "lateness" }) }) },
    ...(view ? [{ text: `show me: ${view}`, href: at(view) }] : []),
    ...(code === null ? [] : [{ text: `show me: the code${peer === undefined ? "" : `, against rank ${peer}`}`, href: at("flame", { ...(rank === undefined ? {} : { rank: String(rank) }), ...(peer === undefined ? {} : { against: String(peer) }), ...(code ? { q: code } : {}) }) }]),
    ...(finding.capture ? [{ text: "show me: timeline", href: write(["trace", finding.capture, "timeline"]) }] : []),
  ];
};

// With the end of a job its findings close, which mends nothing: those that it ended with are what its next run meets.
const isStanding = ({ row }: Job, finding: FindingRow): boolean => finding.state === "open" || (row.state !== "running" && finding.closed_ns >= (row.ended_ns || row.updated_ns));

// As the headline has it (web/jobs.py): a job that did not end well, or became slower, is not said to be well.
const isUnexplained = ({ row, step_ns, earlier_step_ns }: Job): boolean => row.state === "failed" || row.state === "lost" || (!!step_ns && !!earlier_step_ns && step_ns / earlier_step_ns - 1 >= 0.02);

// A part of it that is worth a row: of a job of a minute, too.
export const isSeen = (hours: number, whole: number): boolean => hours > 0 && hours >= 5e-4 * whole;

function Findings({ job }: { job: Job }) {
  const open = job.findings.filter((finding) => isStanding(job, finding)).sort((a, b) => b.gain_high_ratio - a.gain_high_ratio);
  const whose = job.row.has_gpus ? "GPU hours" : "Rank hours";
  const closed = job.findings.filter((finding) => !isStanding(job, finding)), isOver = job.row.state !== "running";
  const card = (finding: FindingRow, i: number) => <FindingCard number={i + 1} show={shown(job, finding)} finding={{ ...finding, rank: finding.ranks.length === 1 ? finding.ranks[0]! : null, place: [finding.place, finding.ranks.length > 1 ? plural(finding.ranks.length, "rank") : ""].filter(Boolean).join(", "), evidence: finding.evidence, places: [] }} />;
  return <>
    <h2>{open.length ? `${plural(open.length, "finding")}${isOver ? " when it ended" : ""}` : isUnexplained(job) ? "No rule has found why" : "Nothing is found to be wrong"}</h2>
    {open.length === 0 && <p class="empty">Findings open by themselves when a rule sees something worth 0.5 % of the step or more.</p>}
    <ol class="findings">{open.map(card)}</ol>
    {closed.length > 0 && <Fold name="closed" summary={`${plural(closed.length, "finding")} closed`}><ol class="findings">{closed.map(card)}</ol></Fold>}
    <h2 class="later">{whose}</h2>
    <Table label={whose} rows={[["all", job.waste.gpu_hours], ["compute", job.waste.busy_hours], ...Object.entries(job.waste.wasted_hours).sort((a, b) => b[1] - a[1]).map(([part, lost]) => [PART_NAMES[part] ?? part, lost]), ["step time not known", job.waste.unknown_hours], ["outside of steps", job.waste.outside_hours]].filter((row) => isSeen(Number(row[1]), job.waste.gpu_hours)) as [string, number][]}
      columns={[{ title: "spent in", isText: true, cell: (row) => row[0] }, { title: "hours", cell: (row) => hours(row[1], job.row.has_gpus, job.waste.gpu_hours) }, { title: "of all", cell: (row) => (job.waste.gpu_hours ? share(row[1] / job.waste.gpu_hours) : "") }]} />
    {Object.keys(job.losses).length > 0 && <><h2 class="partial">Lost on the way</h2><ul>{Object.entries(job.losses).map(([what, number]) => <li>{count(number)} {what}</li>)}</ul></>}
  </>;
}
