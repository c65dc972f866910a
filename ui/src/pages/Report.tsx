// What a recording says: the page of `pilotlight report --html`.
import { useMemo } from "preact/hooks";
import { type Point, Steps } from "../charts/Steps";
import { lay, type Tree } from "../charts/tree";
import { useChoice, useKept } from "../data/address";
import { useAnswer } from "../data/load";
import type { FlameDocument, GpuProcess, GpuWork, ReportDocument, Times } from "../data/report";
import { counterWords } from "../look/counter";
import { clock, count, duration, glued, share, shortFile, shortName, signedShare, size, threeDigits, UNKNOWN } from "../look/format";
import { FlameAlone } from "../parts/FlameView";
import { Bar, Choose, PageFailed, Search, Table, Waiting } from "../parts/parts";
import { Stalls } from "../parts/Stalls";

const ALL = "all";
const STATES = ["unknown", "running", "waiting", "gil", "disk"];
const STATE_NAMES = ["unknown", "running", "waiting", "waiting for the GIL", "disk"];
const timesOf = (times: Times) => [times.unknown_ns, times.running_ns, times.waiting_ns, times.gil_wait_ns, times.disk_ns];
const pieces = (times: Times) => timesOf(times).map((ns, i) => ({ label: STATE_NAMES[i]!, ns, colour: STATES[i]! })).filter((piece) => piece.ns > 0);
const partOf = (times: Times, part: number) => { const whole = timesOf(times).reduce((a, b) => a + b, 0); return whole ? share(part / whole) : ""; };

export function ReportPage() {
  const { value: report, failure } = useAnswer<ReportDocument>("report");
  if (failure) return <PageFailed failure={failure} />;
  if (!report) return <Waiting height={400} />;
  const labels = new Map(report.processes.map((row) => [row.process, row.label]));
  const label = (process: number) => labels.get(process) ?? `process ${process}`;
  return (
    <>
      <header>
        <p class="about">{[report.job, report.state, duration(report.duration_ns), `${report.processes.length} process${report.processes.length === 1 ? "" : "es"} on ${report.node}`, clock(report.created_ns), report.command.join(" ")].filter(Boolean).join("  ·  ")}</p>
        <h1>{glued(report.headline)}</h1>
      </header>
      <StepTimes report={report} label={label} />
      <Stacks report={report} label={label} />
      <Gpus report={report} label={label} />
      <Tables report={report} label={label} />
    </>
  );
}

interface Part { report: ReportDocument; label(process: number): string }

function StepTimes({ report, label }: Part) {
  const [process, setProcess] = useChoice("steps");
  const [range, setRange] = useKept<{ from: number; to: number } | null>(({ from, to }) => (from && to ? { from: Number(from), to: Number(to) } : null), (next) => ({ from: next && Math.round(next.from), to: next && Math.round(next.to) }));
  const points = useMemo(() => report.step_rows.flatMap((rows) => rows.step.map((step, i) => ({
    process: rows.process, step, x: rows.since_start_ns[i]!, y: rows.duration_ns[i]!, isOutlier: rows.is_outlier[i] === 1,
  }))).filter((point) => process === "" || point.process === Number(process)).sort((a, b) => a.x - b.x), [process]);
  const detail = useMemo(() => new Map(report.steps.flatMap((steps) => steps.outliers.map((row) => [`${steps.process}:${row.step}`, row] as const))), []);
  if (!report.step_rows.length) return <section><h2>Step time</h2><p class="empty">No step was marked. Call pilotlight.step() once a step, or use a framework that pilotlight knows.</p></section>;
  const tell = (i: number | null) => {
    if (i === null) return <>{count(points.length)} steps shown. Hover for the numbers, drag to zoom in, Esc for the whole run.</>;
    const point = points[i]!;
    const more = detail.get(`${point.process}:${point.step}`);
    return <><b>step {point.step}</b> of {label(point.process)}: <b>{duration(point.y)}</b>, begins {duration(point.x)} after the start{more && <>; {threeDigits(more.ratio)} × the median{more.gc_ns ? `, GC ${duration(more.gc_ns)}` : ""}{more.doing ? `, ${share(more.doing_ratio)} in ${more.doing}` : ""}</>}</>;
  };
  return (
    <section aria-label="step time">
      <div class="tools"><h2>Step time</h2><Choose label="rank" value={process} onChange={setProcess}><option value="">all</option>{report.step_rows.map((rows) => <option value={String(rows.process)}>{label(rows.process)}</option>)}</Choose>
        <span class="legend"><span><span class="swatch" style={{ background: "var(--thin)" }} />step</span><span style={{ color: "var(--accent)" }}>▲ outlier</span></span></div>
      <Steps points={points as Point[]} from={range?.from ?? 0} to={range?.to ?? report.duration_ns} onZoom={setRange} tell={tell} label="Step time" xText={(ns) => (ns === 0 ? "start" : duration(ns))} />
    </section>
  );
}

export function treeOfEntries(flame: FlameDocument, keep: (i: number) => boolean): Tree {
  const nodes = flame.parents.length;
  const own = new Float64Array(nodes);
  const states = Array.from({ length: 5 }, () => new Float64Array(nodes));
  const { node, state, ns } = flame.entries;
  for (let i = 0; i < ns.length; i++) {
    if (!keep(i)) continue;
    own[node[i]!]! += ns[i]!;
    states[Math.min(state[i]!, 4)]![node[i]!]! += ns[i]!;
  }
  for (let i = nodes - 1; i > 0; i--) for (const times of states) times[flame.parents[i]!]! += times[i]!;
  const dominant = Uint8Array.from({ length: nodes }, (_, i) => states.reduce((best, times, s) => (times[i]! > states[best]![i]! ? s : best), 1));
  // The last name is that of the root: node 0 is no function.
  const name = Uint32Array.from(flame.function_of);
  name[0] = flame.functions.length;
  return { names: [...flame.functions.map(([text]) => text), "all"], notes: [...flame.functions.map(([, file]) => file), ""], parent: Uint32Array.from(flame.parents), name, activity: dominant, own };
}

function Stacks({ report, label }: Part) {
  const { flame } = report;
  const main = flame.threads.findIndex((name) => report.functions_of_threads.length === 1 && name === report.functions_of_threads[0]);
  const [process, setProcess] = useChoice("process", ALL);
  const [thread, setThread] = useChoice("thread", main >= 0 ? String(main) : ALL);
  const [state, setState] = useChoice("state", ALL);
  const [text, setText] = useChoice("q");
  const entries = flame.entries;
  const laid = useMemo(() => lay(treeOfEntries(flame, (i) =>
    (process === ALL || entries.process[i] === Number(process)) && (thread === ALL || entries.thread[i] === Number(thread)) && (state === ALL || entries.state[i] === Number(state)))), [process, thread, state]);
  if (!entries.ns.length) return <section><h2>Where the time goes</h2><p class="empty">No stack was sampled. Start the job with: pilotlight run -- COMMAND</p></section>;
  const present = (numbers: number[]) => [...new Set(numbers)].sort((a, b) => a - b);
  return (
    <section aria-label="flame graph" class="by-state">
      <div class="tools"><h2>Where the time goes</h2>
        <Choose label="rank" value={process} onChange={setProcess}><option value={ALL}>all</option>{present(entries.process).map((row) => <option value={String(row)}>{label(row)}</option>)}</Choose>
        <Choose label="thread" value={thread} onChange={setThread}><option value={ALL}>all</option>{present(entries.thread).map((row) => <option value={String(row)}>{flame.threads[row]}</option>)}</Choose>
        <Choose label="state" value={state} onChange={setState}><option value={ALL}>all</option>{present(entries.state).map((row) => <option value={String(row)}>{STATE_NAMES[row]}</option>)}</Choose>
        <Search value={text} onInput={setText} />
        <span class="legend">{present(entries.state).map((row) => <span><span class="swatch" style={{ background: `var(--${STATES[row]})` }} />{STATE_NAMES[row]}</span>)}</span></div>
      <FlameAlone laid={laid} text={text} palette={STATES} />
    </section>
  );
}

// A total that was not seen whole: with its 95 % interval, in words and as a line from its low to its high end.
function Estimate({ row }: { row: GpuWork }) {
  const { total_ns, total_low_ns: low, total_high_ns: high } = row;
  if (low === null || high === null) return <span title="seen in too few windows to tell how exact this is">{duration(total_ns)} <small>± unknown</small></span>;
  if (high - low < 1e-3 * total_ns) return <>{duration(total_ns)}</>;
  const scale = 60 / Math.max(high, 1);
  return <span title={`95 % interval: ${duration(low)} to ${duration(high)}`}>{duration(total_ns)} <small>± {duration(Math.max(high - total_ns, total_ns - low))}</small> <svg class="interval" width="64" height="10" aria-hidden="true"><line x1={2 + low * scale} x2={2 + high * scale} y1="5" y2="5" /><circle cx={2 + total_ns * scale} cy="5" r="2.5" /></svg></span>;
}

function Gpus({ report, label }: Part) {
  const { processes, work, work_left_out } = report.gpu;
  if (!processes.length) return null;
  const isPartial = processes.some((row) => row.coverage_ratio < 0.999);
  const notes = processes.flatMap((row) => [
    ...row.missing.map((reason) => `${label(row.process)}: not recorded: ${reason}`),
    ...Object.entries(row.losses).map(([name, number]) => `${label(row.process)}: ${name.replace("gpu/", "").replaceAll("_", " ")}: ${count(number)}`),
  ]);
  return (
    <section aria-label="GPUs" class="columns">
      <Table title={`Work on the GPU${isPartial ? " (totals stand for the time between the windows too)" : ""}`} rows={work} columns={[
        { title: "work", isText: true, isName: true, cell: (row) => <span title={row.name}>{shortName(row.name)}</span> }, { title: "kind", isText: true, isBrief: true, cell: (row) => (row.is_in_graphs ? `${row.kind} of a graph` : row.kind) }, { title: "time", cell: (row) => share(row.ratio), sort: (row) => row.total_ns },
        { title: "total", cell: (row) => <Estimate row={row} />, sort: (row) => row.total_ns }, { title: "count", cell: (row) => count(Math.round(row.total_count)), sort: (row) => row.total_count },
        { title: "seen", cell: (row) => count(row.seen), sort: (row) => row.seen }, { title: "median", cell: (row) => duration(row.median_ns), sort: (row) => row.median_ns }, ...(work.some((row) => row.launched_in) ? [{ title: "launched in", isText: true, cell: (row: GpuWork) => row.launched_in }] : [])]} />
      <Table title="GPUs of each rank" rows={processes} columns={[
        { title: "rank", isText: true, isBrief: true, cell: (row) => label(row.process) }, { title: "gpu", cell: (row) => row.devices.join(", ") }, { title: "busy", cell: (row) => (row.busy_ratio === null ? UNKNOWN : share(row.busy_ratio)) },
        { title: "seen", cell: (row) => share(row.coverage_ratio), sort: (row) => row.coverage_ratio }, { title: "launches seen", cell: (row) => share(row.launches_ratio) }, { title: "launches", cell: (row) => count(row.launches) }, { title: "records", cell: (row) => count(row.activities) },
        { title: "costs, of a step", cell: (row) => (row.overhead_ratio === null || row.overhead_low === null || row.overhead_high === null ? UNKNOWN : `${signedShare(row.overhead_ratio)} (${signedShare(row.overhead_low)} to ${signedShare(row.overhead_high)})`) },
        ...(processes.some((row) => row.clock_uncertainty_ns !== null) ? [{ title: "clock", cell: (row: GpuProcess) => (row.clock_uncertainty_ns === null ? "" : `± ${duration(row.clock_uncertainty_ns)}`) }] : [])]} />
      {notes.length > 0 && <section><h2>Missing of the GPUs</h2><ul>{notes.map((line) => <li>{line}</li>)}</ul></section>}
      <Stalls rows={report.stalls} />
      {work_left_out > 0 && <p class="about">{count(work_left_out)} kinds of work more are left out here.</p>}
    </section>
  );
}

const named = (name: string, file: string) => <span title={file}>{name}{file && <> <small>{shortFile(file)}</small></>}</span>;

function Tables({ report, label }: Part) {
  const total = report.functions_ns || 1;
  const outliers = report.steps.flatMap((steps) => steps.outliers.map((row) => ({ ...row, process: steps.process }))).sort((a, b) => b.duration_ns - a.duration_ns);
  return (
    <div class="columns">
      <Table title="Steps" rows={report.steps} columns={[
        { title: "rank", isText: true, isBrief: true, cell: (row) => label(row.process) }, { title: "steps", cell: (row) => count(row.count) }, { title: "median", cell: (row) => duration(row.median_ns) },
        { title: "p95", cell: (row) => duration(row.p95_ns) }, { title: "min", cell: (row) => duration(row.min_ns) }, { title: "max", cell: (row) => duration(row.max_ns) },
        { title: "outliers", cell: (row) => count(row.outlier_count) }, { title: "cost", cell: (row) => share(row.total_ns ? row.outlier_excess_ns / row.total_ns : 0) }]} />
      <Table title="Steps that took much longer" rows={outliers} columns={[
        { title: "step", cell: (row) => `${row.step}${row.is_first ? " (first)" : ""}` }, { title: "rank", cell: (row) => label(row.process) }, { title: "after", cell: (row) => duration(row.since_start_ns) },
        { title: "took", cell: (row) => duration(row.duration_ns) }, { title: "× median", cell: (row) => threeDigits(row.ratio) }, { title: "GC", cell: (row) => (row.gc_ns ? duration(row.gc_ns) : "") },
        { title: "mostly in", isText: true, isName: true, cell: (row) => (row.doing ? <span title={row.doing}>{share(row.doing_ratio)} {row.doing}</span> : "") }]} />
      <Table title={`Functions of ${report.functions_of_threads.slice(0, 3).join(", ")}`} rows={report.functions} columns={[
        { title: "function", isText: true, isName: true, cell: (row) => <span title={`${row.function} ${row.file}`}>{named(row.function, row.file)}</span>, sort: (row) => row.function }, { title: "self", cell: (row) => share(row.self_ns / total), sort: (row) => row.self_ns },
        { title: "total", cell: (row) => share(row.total_ns / total), sort: (row) => row.total_ns }, { title: "running", cell: (row) => (row.self_ns ? share(row.running_ns / row.self_ns) : "") }, { title: "samples", cell: (row) => count(row.samples), sort: (row) => row.samples }]} />
      <Table title="Ranges" rows={report.ranges} columns={[
        { title: "name", isText: true, isName: true, cell: (row) => <span title={row.name}>{row.name + (row.partial ? ` (${count(row.partial)} partial)` : "")}</span> }, { title: "count", cell: (row) => count(row.count) }, { title: "total", cell: (row) => duration(row.total_ns), sort: (row) => row.total_ns },
        { title: "self", cell: (row) => (row.is_estimate ? "≥ " : "") + duration(row.self_ns) }, { title: "p50", cell: (row) => (row.is_estimate ? "~" : "") + duration(row.p50_ns) }, { title: "p95", cell: (row) => (row.is_estimate ? "~" : "") + duration(row.p95_ns) }, { title: "max", cell: (row) => duration(row.max_ns) }]}
        empty={'No range was annotated. In the program: with pilotlight.annotate("forward"): …'} />
      <Table title="Threads" rows={report.threads} columns={[
        { title: "thread", isText: true, cell: (row) => row.name || `thread ${row.thread}` }, { title: "rank", cell: (row) => label(row.process) }, { title: "samples", cell: (row) => count(row.samples) }, { title: "states", cell: (row) => <Bar pieces={pieces(row.times)} narrow /> },
        { title: "running", cell: (row) => partOf(row.times, row.times.running_ns) }, { title: "GIL wait", cell: (row) => partOf(row.times, row.times.gil_wait_ns) }]} />
      <Table title="Counters" rows={report.counters} columns={[
        { title: "name", isText: true, isName: true, cell: (row) => <span title={row.name}>{row.name}</span> }, { title: "rank", cell: (row) => label(row.process) }, ...(["last", "min", "max"] as const).map((key) => ({ title: key, cell: (row: (typeof report.counters)[number]) => counterWords(row.name).text(row[key]) }))]} />
      <Table title="Garbage collection" rows={report.garbage} empty="None seen." columns={[
        { title: "rank", isText: true, isBrief: true, cell: (row) => label(row.process) }, { title: "collections", cell: (row) => count(row.count) }, { title: "total", cell: (row) => duration(row.total_ns) }, { title: "of the time", cell: (row) => share(row.ratio) },
        { title: "longest", cell: (row) => duration(row.longest_ns) }, { title: "after", cell: (row) => (row.longest_since_start_ns === null ? "" : duration(row.longest_since_start_ns)) }]} />
      <Table title="Processes" rows={report.processes} columns={[
        { title: "rank", isText: true, isBrief: true, cell: (row) => row.label }, { title: "pid", cell: (row) => String(row.pid) }, { title: "lived", cell: (row) => duration(row.duration_ns) },
        { title: "sampled", cell: (row) => share(row.sampled_ratio) }, { title: "states", cell: (row) => (row.times ? <Bar pieces={pieces(row.times)} narrow /> : "") },
        { title: "end", cell: (row) => row.end }, { title: "command", isText: true, isName: true, cell: (row) => <span title={row.command}>{row.command}</span> }]} />
      <section><h2>Not in these numbers</h2><ul>{lostOf(report, label).map((line) => <li>{line}</li>)}</ul></section>
      <section><h2>Cost of pilotlight</h2><ul>{costOf(report).map((line) => <li>{line}</li>)}</ul></section>
    </div>
  );
}

function lostOf(report: ReportDocument, label: (process: number) => string): string[] {
  const { losses, page } = report;
  const lost = losses.gaps.map((gap) => `${label(gap.process)}: ${count(gap.count)} records between ${duration(gap.first_since_start_ns)} and ${duration(gap.last_since_start_ns)}${gap.first_step === null ? "" : `, steps ${gap.first_step} to ${gap.last_step ?? "…"}`}: ${gap.reason}`);
  for (const [number, what] of [
    [losses.chunks_dropped, "chunks of detail dropped for the budget"], [losses.rows_dropped, "rows dropped by the recorder"],
    [losses.samples_torn, "samples dropped: the stack changed while it was read, or over 512 threads"], [losses.passes_skipped, "rounds of the sampler left out to keep its cost down"],
    [page.steps_left_out, "ordinary steps not drawn (all outliers are)"], [page.nodes_left_out, "small nodes of the flame graph shown as (small)"],
  ] as const) if (number) lost.push(`${count(number)} ${what}`);
  const until = Math.max(0, ...report.processes.filter((row) => row.detail_since_start_ns > row.start_since_start_ns).map((row) => row.detail_since_start_ns));
  if (until) lost.push(`before ${duration(until)} only sums of 10 s are kept: no threads, no self time of ranges`);
  lost.push(...losses.write_errors.map((error) => `write error: ${error}`), ...losses.warnings);
  return lost.length ? lost : ["nothing: no record was lost"];
}

function costOf({ overhead }: ReportDocument): string[] {
  const worst = overhead.samplers.reduce<(typeof overhead.samplers)[number] | null>((most, row) => (most && most.cpu_ratio > row.cpu_ratio ? most : row), null);
  return [
    worst ? `sampler in each process: ${share(worst.cpu_ratio)} of a core at most, ${threeDigits(worst.achieved_hz)} Hz reached of ${threeDigits(worst.asked_hz)} Hz asked` : `sampler: ${UNKNOWN}`,
    overhead.agent_cpu_ratio === null ? `agent: ${UNKNOWN}` : `agent: ${share(overhead.agent_cpu_ratio)} of a core, memory ${size(overhead.agent_rss_bytes)}`,
    `detail on disk: ${size(overhead.recorded_bytes)}`,
  ];
}
