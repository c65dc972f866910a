// All jobs, the worst first, and the machines below them.
import { useMemo } from "preact/hooks";
import { Scale } from "../charts/Scale";
import { change, useAddress, useChoice, write } from "../data/address";
import { useAnswer, useNews } from "../data/load";
import type { Fleet, FleetJob, GpuNow, Node } from "../data/types";
import { heatColour, useDark } from "../look/colours";
import { ago, clock, count, duration, glued, hours, plural, share, signedShare, UNKNOWN } from "../look/format";
import { Bar, Check, Choose, Empty, Legend, PageFailed, Partial, Search, Table, Waiting } from "../parts/parts";
import { storedPieces } from "../parts/time";

const SORTS: Record<string, (job: FleetJob) => number> = {
  findings: (job) => (job.worst_gain_ratio ?? 0) * 1e6 + job.open_findings + (job.state === "running" ? 0.5 : 0),
  lost: (job) => job.lost_hours ?? -1,
  newest: (job) => job.started_ns,
  size: (job) => job.ranks,
};

export function FleetPage() {
  const { query } = useAddress();
  const news = useNews();
  const since = query["since"] ?? "24h";
  const { value: fleet, failure, again } = useAnswer<Fleet>(`fleet?since=${encodeURIComponent(since)}`, news);
  const [text, setText] = useChoice("q");
  const [sort, setSort] = useChoice("sort", "findings");
  const [state, setState] = useChoice("state");
  const jobs = useMemo(() => {
    const wanted = text.trim().toLowerCase();
    return (fleet?.jobs ?? [])
      .filter((job) => (state === "" || job.state === state) && (!wanted || job.job.toLowerCase().includes(wanted) || job.worst_finding.toLowerCase().includes(wanted) || job.cluster.toLowerCase().includes(wanted)))
      .sort((a, b) => (SORTS[sort] ?? SORTS["findings"]!)(b) - (SORTS[sort] ?? SORTS["findings"]!)(a));
  }, [fleet, text, sort, state]);
  if (failure) return <PageFailed failure={failure} again={again} />;
  return (
    <>
      <header><p class="about">fleet{fleet && <> · the last {since} · {clock(fleet.now_ns)}</>}</p><h1>{fleet ? glued(fleet.headline) : "Asking the store …"}</h1><Partial when={fleet?.is_partial} /></header>
      {!fleet ? <Waiting height={420} label="jobs" /> : fleet.jobs.length === 0
        ? <Empty title="Send a job here" command={`PILOTLIGHT_COLLECTOR=${location.origin} pilotlight run -- python train.py`}>The command below sends a job of this machine here. On a cluster, start an agent on each node: <code>pilotlight agent --collector {location.origin}</code></Empty>
        : <>
          <div class="tools">
            <Search value={text} onInput={setText} />
            <Choose label="by" value={sort} onChange={setSort}><option value="findings">findings</option><option value="lost">lost hours</option><option value="newest">newest</option><option value="size">size</option></Choose>
            <Choose label="state" value={state} onChange={setState}><option value="">any</option>{["running", "finished", "failed", "lost"].map((name) => <option value={name}>{name}</option>)}</Choose>
            <Choose label="time" value={since} onChange={(value) => change({ since: value })}>{["1h", "6h", "24h", "7d", "30d"].map((value) => <option value={value}>{value}</option>)}</Choose>
            <span class="quiet" aria-live="polite">{count(jobs.length)} of {plural(fleet.jobs.length, "job")}</span>
          </div>
          <Jobs jobs={jobs} now={fleet.now_ns} since={since} />
          <Together jobs={jobs} />
          <Machines nodes={fleet.nodes} wanted={text.trim().toLowerCase()} jobs={jobs} />
        </>}
    </>
  );
}

function Jobs({ jobs, now, since }: { jobs: FleetJob[]; now: number; since: string }) {
  const whose = jobs.every((job) => job.has_gpus) ? "GPU hours" : jobs.some((job) => job.has_gpus) ? "hours" : "rank hours";
  return <Table rows={jobs} limit={100} label="jobs" isCards empty="No job fits." columns={[
    { title: "job", isText: true, cell: (job) => <a href={write(["job", job.job])} title={job.job}>{job.job}</a>, sort: (job) => job.job },
    { title: "state", isText: true, isBrief: true, cell: (job) => <span title={clock(job.updated_ns)}>{job.state}{job.state !== "running" && <small> {ago(job.updated_ns, now)}</small>}{job.attempts > 1 && <small> · {job.attempts} attempts</small>}</span>, sort: (job) => job.state },
    { title: "ranks", cell: (job) => count(job.ranks), sort: (job) => job.ranks },
    { title: "step", hint: "the mean of the last 10 min, and how that differs from yesterday or, of a younger job, from its time before; of a job that has ended the mean of all its steps", cell: (job) => <>{duration(job.step_ns)}{job.change_ratio !== null && Math.abs(job.change_ratio) >= 0.02 && <small class={job.change_ratio > 0 ? "partial" : ""} title={`the mean of its last 10 min against ${job.earlier}`}> {signedShare(job.change_ratio)}</small>}</>, sort: (job) => job.step_ns ?? 0 },
    { title: `its last ${since}`, hint: "the step time over that time, or since a job of less than two hours began", isText: true, isBrief: true, cell: (job) => <Spark values={job.trend_ns} /> },
    ...(jobs.some((job) => job.mfu_ratio !== null) ? [{ title: "MFU", hint: "model FLOPs utilisation: how much of the GPUs' peak the model uses, as the program tells it", cell: (job: FleetJob) => (job.mfu_ratio === null ? <small>{UNKNOWN}</small> : share(job.mfu_ratio)), sort: (job: FleetJob) => job.mfu_ratio ?? 0 }] : []),
    { title: "where the time goes", cell: (job) => (Object.keys(job.parts_ns).length ? <Bar pieces={storedPieces(job.parts_ns)} /> : <small>{UNKNOWN}</small>) },
    { title: "worst finding", isText: true, isName: true, cell: (job) => (job.worst_finding ? <a href={write(["job", job.job])} title={job.worst_finding}>{job.worst_finding}</a> : <span class={job.open_findings ? "quiet" : "quiet none"}>{job.open_findings ? `${job.open_findings} open` : "none"}</span>), sort: (job) => job.worst_gain_ratio ?? 0 },
    { title: whose, hint: "the time of all GPUs of the job together; of all ranks where it has none", cell: (job) => hours(job.gpu_hours, job.has_gpus), sort: (job) => job.gpu_hours },
    { title: "of them lost", hint: "hours in which nothing was computed: waiting for others, copies, input, the host", cell: (job) => hours(job.lost_hours, job.has_gpus, job.gpu_hours), sort: (job) => job.lost_hours ?? 0 },
  ]} />;
}

// What the colours of the bars are, with the sum of what is shown.
function Together({ jobs }: { jobs: FleetJob[] }) {
  const parts: Record<string, number> = {};
  for (const job of jobs) for (const [part, ns] of Object.entries(job.parts_ns)) parts[part] = (parts[part] ?? 0) + ns;
  const pieces = storedPieces(parts);
  return pieces.length ? <section class="together"><span class="legend" title="the time of all steps of all ranks of the jobs above">{jobs.length === 1 ? "this job" : `${count(jobs.length)} jobs together`}:</span> <Legend pieces={pieces} /></section> : null;
}

export function Spark({ values }: { values: (number | null)[] }) {
  const known = values.filter((value): value is number => value !== null);
  if (known.length < 2) return <span class="quiet">–</span>;
  // A few steps that compiled must not make the rest a flat line.
  const usual = known.slice().sort((a, b) => a - b)[known.length >> 1]!;
  const most = Math.min(Math.max(...known), 2 * usual), low = Math.min(...known) - 0.05 * most, high = most + 0.05 * most;
  const points = values.map((value, i) => (value === null ? null : `${(i / (values.length - 1)) * 96 + 2},${22 - ((Math.min(value, most) - low) / (high - low || 1)) * 18}`));
  let path = "";
  points.forEach((point, i) => { if (point) path += points[i - 1] ? `L${point}` : `M${point}h.1`; });
  const told = `from ${duration(known[0])} to ${duration(known.at(-1))}`;
  return <svg width="100" height="24" viewBox="0 0 100 24" role="img" aria-label={told}><title>{told}</title><path d={path} fill="none" stroke="var(--thin)" stroke-width="1.5" stroke-linecap="round" /></svg>;
}

type Colouring = "busy" | "temperature" | "clock" | "throttling" | "findings";

const COLOURINGS: Record<Colouring, { of(gpu: GpuNow, node: Node): number | null; low: number; high: number; text(value: number): string }> = {
  busy: { of: (gpu) => gpu.busy_ratio ?? null, low: 1, high: 0, text: (value) => `${share(value)} busy` },
  temperature: { of: (gpu) => gpu.temperature_c ?? null, low: 40, high: 90, text: (value) => `${value.toFixed(0)} °C` },
  clock: { of: (gpu) => gpu.clock_mhz ?? null, low: 2000, high: 1000, text: (value) => `${value.toFixed(0)} MHz` },
  throttling: { of: (gpu) => gpu.throttle_ratio ?? null, low: 0, high: 1, text: (value) => `throttled ${share(value)} of the time` },
  findings: { of: (_, node) => node.open_findings, low: 0, high: 3, text: (value) => plural(value, "open finding") },
};

// What is searched for is a machine, or a job that runs on it.
export function fitting(nodes: Node[], wanted: string, jobs: FleetJob[]): Node[] {
  if (!wanted) return nodes;
  const names = new Set(jobs.map((job) => job.job));
  return nodes.filter((node) => [node.node, node.cluster].some((text) => text.toLowerCase().includes(wanted)) || node.jobs.some((job) => names.has(job)));
}

function Machines({ nodes, wanted, jobs }: { nodes: Node[]; wanted: string; jobs: FleetJob[] }) {
  const [colouring, setBy] = useChoice("colour", "busy");
  const by = (colouring in COLOURINGS ? colouring : "busy") as Colouring;
  const [only, setOnly] = useChoice("only");
  const { of, low, high, text } = COLOURINGS[by];
  const dark = useDark();
  const shown = fitting(nodes, wanted, jobs).filter((node) => only !== "findings" || node.open_findings > 0);
  if (!nodes.length) return null;
  return (
    <section>
      <div class="tools"><h2>{shown.length < nodes.length && `${count(shown.length)} of `}{plural(nodes.length, "node")}</h2>
        <Choose label="colour by" value={by} onChange={setBy}>{Object.keys(COLOURINGS).map((name) => <option value={name}>{name}</option>)}</Choose>
        <Check label="only nodes with findings" checked={only === "findings"} onChange={(checked) => setOnly(checked ? "findings" : "")} />
        <Scale low={text(low)} high={text(high)} /></div>
      <div class="map">{shown.slice(0, 512).map((node) => <div class="node"><span title={node.jobs.join(", ")}>{node.node}{node.state === "up" ? "" : " (silent)"}</span>{node.open_findings > 0 && <b class="partial"> {plural(node.open_findings, "finding")}</b>}
        <div class="gpus">{node.gpus.map((gpu) => {
          const value = of(gpu, node);
          const told = `${node.node} gpu ${gpu.gpu}: ${value === null ? UNKNOWN : text(value)}${node.jobs.length ? `, ${node.jobs.join(", ")}` : ""}`;
          const colour = value === null ? "var(--unknown)" : `rgb(${heatColour(Math.min(Math.max((value - low) / (high - low), 0.05), 1), dark).join(",")})`;
          const job = node.jobs[0];
          return job ? <a class="gpu" href={write(["job", job])} title={told} aria-label={told} style={{ background: colour }} /> : <span class="gpu" title={told} role="img" aria-label={told} style={{ background: colour }} />;
        })}{node.gpus.length === 0 && <small>GPUs {UNKNOWN}</small>}</div></div>)}</div>
      {shown.length > 512 && <p class="quiet">… and {count(shown.length - 512)} more: search or filter.</p>}
    </section>
  );
}
