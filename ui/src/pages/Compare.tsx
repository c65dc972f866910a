// Two jobs, or two stretches of one: what differs, and whether it is more than noise.
import { useMemo } from "preact/hooks";
import { compared, sameTotal } from "../charts/tree";
import { change, useAddress, useChoice, write } from "../data/address";
import { useAnswer, useData } from "../data/load";
import { PALETTE, stackTree } from "../data/stacks";
import type { Comparison, Difference, JobRow, StackTime } from "../data/types";
import { ago, clock, duration, glued, plural, shortName, signedShare } from "../look/format";
import { FlameView, SCALED } from "../parts/FlameView";
import { Choose, Empty, Failed, PageFailed, Partial, Search, Table, Waiting } from "../parts/parts";
import { PART_NAMES } from "../parts/time";

// "2h..1h" and such: how long ago a stretch began and ended, seen from now.
const SPANS: [string, string, number, number][] = [["all", "all its time", 0, 0], ["1h", "the last hour", 3600, 0], ["1h-1h", "the hour before", 7200, 3600], ["24h", "the last day", 86_400, 0], ["24h-24h", "the day before", 172_800, 86_400], ["half1", "its first half", -1, -1], ["half2", "its second half", -2, -2]];

// A stretch that was chosen on a chart: "from..to" in nanoseconds.
const CHOSEN = /^(\d{1,19})\.\.(\d{1,19})$/;

export function spanOf(key: string, row: JobRow | undefined): { from: number; to: number } {
  const [, low, high] = CHOSEN.exec(key) ?? [];
  if (low !== undefined && high !== undefined) return { from: Number(low), to: Number(high) };
  const found = SPANS.find(([name]) => name === key);
  if (!found || !row || key === "all") return { from: 0, to: 0 };
  const middle = (row.started_ns + row.updated_ns) / 2;
  if (key === "half1") return { from: row.started_ns, to: middle };
  if (key === "half2") return { from: middle, to: row.updated_ns + 1e9 };
  return { from: row.updated_ns - found[2] * 1e9, to: row.updated_ns - found[3] * 1e9 + 1e9 };
}

export function ComparePage() {
  const { query } = useAddress();
  const { value: jobs, failure, again } = useData<JobRow[]>("v1/jobs?since=400d&limit=2000");
  const [before, after] = [query["before"] ?? "", query["after"] ?? ""];
  const [beforeSpan, afterSpan] = [query["before_span"] ?? (before === after ? "half1" : "all"), query["after_span"] ?? (before === after ? "half2" : "all")];
  if (failure) return <PageFailed failure={failure} again={again} />;
  if (!jobs) return <><header><p class="about">compare</p><h1>Asking the store …</h1></header><Waiting height={300} /></>;
  const side = (which: "before" | "after", job: string, span: string) => (
    <div class="tools side">
      <Choose label={which} value={job} onChange={(name) => change({ [which]: name })}><option value="">choose a job …</option>{job && !jobs.some((row) => row.job === job) && <option value={job}>{job}</option>}{jobs.map((row) => row.job).sort().map((name) => <option value={name}>{name}</option>)}</Choose>
      <Choose label="in" value={span} onChange={(key) => change({ [`${which}_span`]: key })}>{CHOSEN.test(span) && <option value={span}>{clock(spanOf(span, undefined).from)} to {clock(spanOf(span, undefined).to).slice(11)}</option>}{SPANS.map(([key, text]) => <option value={key}>{text}</option>)}</Choose>
      {job && <a href={write(["job", job])}>to the job</a>}
    </div>
  );
  return (
    <>
      {!before || !after ? <><header><p class="about">compare</p><h1>Which two? Jobs, or two stretches of one.</h1></header>{side("before", before, beforeSpan)}{side("after", after, afterSpan)}
        {jobs.length === 0 ? <Empty title="No job is stored yet" command={`PILOTLIGHT_COLLECTOR=${location.origin} pilotlight run -- python train.py`} /> : <Offers jobs={jobs} />}</>
        : <Compared key={`${before}${after}`} before={before} after={after} a={spanOf(beforeSpan, jobs.find((row) => row.job === before))} b={spanOf(afterSpan, jobs.find((row) => row.job === after))} tools={<>{side("before", before, beforeSpan)}{side("after", after, afterSpan)}</>} />}
    </>
  );
}

// What somebody asks most often of a job, ready to click.
function Offers({ jobs }: { jobs: JobRow[] }) {
  const link = (job: string, before: string, after: string, text: string) => <a href={write(["compare"], { before: job, before_span: before, after: job, after_span: after })}>{text}</a>;
  const now = Date.now() * 1e6;
  return <Table title="A job with itself" label="offers" rows={jobs.slice().sort((a, b) => Number(b.state === "running") - Number(a.state === "running") || b.started_ns - a.started_ns)} limit={12} columns={[
    { title: "job", isText: true, isBrief: true, cell: (row) => <a href={write(["job", row.job])}>{row.job}</a>, sort: (row) => row.job }, { title: "state", isText: true, isBrief: true, cell: (row) => `${row.state}, ${ago(row.updated_ns, now)}`, sort: (row) => row.state },
    { title: "ran for", cell: (row) => duration(row.updated_ns - row.started_ns), sort: (row) => row.updated_ns - row.started_ns },
    { title: "compare", isText: true, cell: (row) => <>{link(row.job, "half1", "half2", "its first half with its second")}{row.updated_ns - row.started_ns > 5400e9 && <> · {link(row.job, "1h-1h", "1h", "the last hour with the one before")}</>}{row.updated_ns - row.started_ns > 129_600e9 && <> · {link(row.job, "24h-24h", "24h", "the last day with the one before")}</>}</> }]} />;
}

function Compared({ before, after, a, b, tools }: { before: string; after: string; a: { from: number; to: number }; b: { from: number; to: number }; tools: preact.ComponentChildren }) {
  const [text, setText] = useChoice("q");
  const path = `compare?before=${encodeURIComponent(before)}&before_from=${Math.round(a.from)}&before_to=${Math.round(a.to)}&after=${encodeURIComponent(after)}&after_from=${Math.round(b.from)}&after_to=${Math.round(b.to)}`;
  const { value: found, failure, again } = useAnswer<Comparison>(path);
  const stacks = (of: "stacks" | "device-stacks", job: string, span: { from: number; to: number }) => `v1/${of}?job=${encodeURIComponent(job)}&limit=5000&from_ns=${Math.round(span.from)}&to_ns=${Math.round(span.to) || "4611686018427387903"}`;
  const old = useData<StackTime[]>(stacks("stacks", before, a)), fresh = useData<StackTime[]>(stacks("stacks", after, b));
  const oldDevice = useData<StackTime[]>(stacks("device-stacks", before, a)), freshDevice = useData<StackTime[]>(stacks("device-stacks", after, b));
  const laid = useMemo(() => (old.value && fresh.value && oldDevice.value && freshDevice.value ? compared(...sameTotal(stackTree([...old.value, ...oldDevice.value]), stackTree([...fresh.value, ...freshDevice.value]))) : null), [old.value, fresh.value, oldDevice.value, freshDevice.value]);
  if (failure) return <><header><h1>Compare</h1></header>{tools}<Failed failure={failure} again={again} /></>;
  const rows = (title: string, list: Difference[], name: (text: string) => string) => <Table title={title} rows={list} limit={25} columns={[
    { title: "what", isText: true, isName: true, cell: (row) => <span title={row.what}>{name(row.what)}</span>, sort: (row) => row.what },
    { title: "before", cell: (row) => duration(row.before_ns), sort: (row) => row.before_ns }, { title: "after", cell: (row) => duration(row.after_ns), sort: (row) => row.after_ns },
    { title: "difference", cell: (row) => <>{row.after_ns >= row.before_ns ? "+" : "−"}{duration(Math.abs(row.after_ns - row.before_ns))}</>, sort: (row) => row.after_ns - row.before_ns },
    { title: "change", cell: (row) => (row.before_ns ? signedShare(row.after_ns / row.before_ns - 1) : "new") }]} />;
  return (
    <>
      <header><p class="about">{before} → {after}{found && <> · {plural(found.before.steps, "step")} and {plural(found.after.steps, "step")} · {found.noise_probability === null ? "not to be told from noise" : `chance alone does this in ${found.noise_probability < 0.001 ? "less than 0.1" : (100 * found.noise_probability).toFixed(1)} % of cases`}</>}</p><h1>{found ? glued(found.headline) : "Comparing …"}</h1><Partial when={found?.is_partial} /></header>
      {tools}
      {!found ? <Waiting height={300} /> : <div class="columns">
        {rows("Parts of a step", [found.step, ...found.parts], (what) => PART_NAMES[what] ?? what)}
        <Table title="Facts that differ" rows={found.facts} empty="None: same command, versions and size." columns={[{ title: "fact", isText: true, isBrief: true, cell: (row) => row.name }, { title: "before", isText: true, cell: (row) => row.before || "–" }, { title: "after", isText: true, cell: (row) => row.after || "–" }]} />
        {rows("Kernels, in a step of a rank", found.kernels.filter((row) => row.before_ns || row.after_ns), shortName)}
      </div>}
      {laid && laid.total[0]! > 0 && <section><div class="tools"><h2>Stacks, on CPU and GPU</h2><Search value={text} onInput={setText} /><span class="legend"><span><span class="swatch" style={{ background: "var(--more)" }} />a greater part than before</span><span><span class="swatch" style={{ background: "var(--less)" }} />a smaller one</span></span></div><p class="quiet">{SCALED}</p><FlameView laid={laid} text={text} palette={PALETTE} limit={20} sides={{ before: "before", after: "after" }} /></section>}
    </>
  );
}
