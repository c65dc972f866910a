// A trace: the answer first, then the evidence behind it, one view deep at a time.
import { ROOFS } from "../charts/Roof";
import { change, useAddress, write } from "../data/address";
import { useAnswer, useSource } from "../data/load";
import type { Kernel, Parts, Rank, Roofline, Trace } from "../data/types";
import { count, duration, glued, plural, share, shortName } from "../look/format";
import { Bar, Choose, Empty, Failed, FindingCard, Fold, Legend, PageFailed, piecesOf, type Shown, Table, Waiting } from "../parts/parts";
import { Stalls } from "../parts/Stalls";
import { FlameGraph } from "./FlameGraph";
import { RooflineChart } from "./RooflineChart";
import { Timeline } from "./Timeline";

export function TracePage({ id, view, base }: { id: string; view: string; base: string[] }) {
  const { value: trace, failure, again } = useAnswer<Trace>(`traces/${id}`);
  if (failure) return <PageFailed failure={failure} again={again} />;
  if (!trace) return <><header><p class="about">&nbsp;</p><h1>Reading the trace …</h1></header><Waiting height={420} /></>;
  const device = trace.ranks.find((rank) => rank.device)?.device;
  return (
    <>
      <header>
        <p class="about">{[trace.title, trace.ranks.length > 1 ? `${trace.ranks.length} ranks` : trace.ranks[0]?.format, device, `${count(trace.ranks.reduce((sum, rank) => sum + rank.spans, 0))} spans`].filter(Boolean).map((text, i) => <>{i > 0 && "  ·  "}<bdi>{text}</bdi></>)}</p>
        <h1>{glued(trace.headline)}</h1>
      </header>
      <Views base={base} view={view} trace={trace} />
      {view === "timeline" ? <Timeline trace={trace} base={base} />
        : view === "flame" ? <FlameGraph trace={trace} />
        : view === "roofline" ? <RooflineView trace={trace} />
        : <Overview trace={trace} base={base} />}
    </>
  );
}

function Views({ base, view, trace }: { base: string[]; view: string; trace: Trace }) {
  const source = useSource();
  const shown = [["", "overview"], ["timeline", "timeline"], ["flame", "flame graph"], ...(source.served || trace.findings ? [["roofline", "roofline"]] : [])] as [string, string][];
  return <nav class="views" aria-label="views">{shown.map(([key, text]) => <a href={write(key ? [...base, key] : base)} aria-current={view === key ? "page" : undefined}>{text}</a>)}</nav>;
}

const brief = (name: string): string => (name.length > 30 ? `${name.slice(0, 29)}…` : name);

export function placesOf(trace: Trace, base: string[], finding: Trace["findings"][number]): Shown[] {
  const places = finding.places.slice(0, 3);
  const seen = places.map((place, i) => {
    const around = Math.max(place.duration_ns, 20_000);
    // Of several places with one name the first is named, the others are told by their time.
    const isNamed = places.findIndex((each) => each.name === place.name) === i;
    return {
      text: `${isNamed ? `show me: ${brief(shortName(place.name))} ` : ""}at ${duration(place.start_ns)}`,
      title: `${place.name}, ${duration(place.duration_ns)} on rank ${place.rank}`,
      href: write([...base, "timeline"], { from: Math.round(place.start_ns - around), to: Math.round(place.start_ns + place.duration_ns + around), open: place.rank, range: `${Math.round(place.start_ns)},${Math.round(place.start_ns + place.duration_ns)},${place.rank}` }),
    };
  });
  if (seen.length || !trace.ranks.length) return seen;
  return [{ text: "show me: timeline", href: write([...base, "timeline"], { open: finding.rank ?? trace.ranks[0]!.rank }) }];
}

// A rank with where the time of its mean step goes: of the steps that the headline speaks of, without the first, which
// holds the start of the profiler (insights/rank.py). Without steps it is all of the trace.
type Divided = Rank & { parts: Parts };

export function divided(rank: Rank): Divided | null {
  const told = rank.steps.flatMap((step) => (step.parts ? [step.parts] : [])), steady = told.length >= 3 ? told.slice(1) : told;
  if (!steady.length) return rank.parts && { ...rank, parts: rank.parts };
  const mean = (of: (parts: Parts) => number) => steady.reduce((sum, parts) => sum + of(parts), 0) / steady.length;
  const causes = [...new Set(steady.flatMap((parts) => Object.keys(parts.idle_by_cause_ns)))];
  return { ...rank, parts: {
    window_ns: mean((parts) => parts.window_ns), compute_ns: mean((parts) => parts.compute_ns), exposed_communication_ns: mean((parts) => parts.exposed_communication_ns),
    exposed_copy_ns: mean((parts) => parts.exposed_copy_ns), idle_ns: mean((parts) => parts.idle_ns), communication_ns: mean((parts) => parts.communication_ns), copy_ns: mean((parts) => parts.copy_ns),
    idle_by_cause_ns: Object.fromEntries(causes.map((cause) => [cause, mean((parts) => parts.idle_by_cause_ns[cause] ?? 0)])),
  } };
}

const SHOWN_RANKS = 16;

// The rank that is shown before the others, and why: whom the first finding is about, or who idles most.
export function chosenOf(ranks: Divided[], findings: Trace["findings"]): { rank: Divided | undefined; why: string } {
  const blamed = ranks.find((each) => each.rank === findings[0]?.rank);
  const idlest = ranks.slice().sort((a, b) => b.parts.idle_ns / b.parts.window_ns - a.parts.idle_ns / a.parts.window_ns)[0];
  return blamed && blamed !== idlest ? { rank: blamed, why: "which the first finding is about" } : { rank: idlest, why: "which idles most" };
}

function Overview({ trace, base }: { trace: Trace; base: string[] }) {
  const withParts = trace.ranks.flatMap((rank) => divided(rank) ?? []);
  const { rank: shown, why } = chosenOf(withParts, trace.findings);
  const hasSteps = shown?.steps.some((step) => step.parts !== null) ?? false;
  // Of more ranks than are shown, those come first that a finding names.
  const named = new Set(trace.findings.map((finding) => finding.rank));
  const ranks = withParts.length > SHOWN_RANKS ? [...withParts.filter((row) => named.has(row.rank)), ...withParts.filter((row) => !named.has(row.rank))] : withParts;
  return (
    <div class="with-side">
      <div>
        {shown && <section><h2>Where the time {hasSteps ? "of a step " : ""}goes{trace.ranks.length > 1 ? ` on rank ${shown.rank}, ${why}` : ""}</h2>
          <Bar pieces={piecesOf(shown.parts)} wide /><Legend pieces={piecesOf(shown.parts)} /></section>}
        <StepsChart trace={trace} base={base} shown={shown} />
        <Table title="Ranks" rows={trace.ranks.length > 1 || !withParts.length ? ranks : []} limit={SHOWN_RANKS} columns={[
          { title: "rank", cell: (row) => <a href={write([...base, "timeline"], { open: row.rank })}>{row.rank < 0 ? "–" : row.rank}</a>, sort: (row) => row.rank },
          { title: hasSteps ? "step" : "window", hint: hasSteps ? "the mean of its steps, without the first, which holds the start of the profiler" : "from the first work of the device to the last", cell: (row) => duration(row.parts.window_ns), sort: (row) => row.parts.window_ns },
          { title: "where the time goes", cell: (row) => <Bar pieces={piecesOf(row.parts)} /> },
          { title: "compute", cell: (row) => share(row.parts.compute_ns / row.parts.window_ns), sort: (row) => row.parts.compute_ns / row.parts.window_ns },
          { title: "exposed communication", cell: (row) => share(row.parts.exposed_communication_ns / row.parts.window_ns), sort: (row) => row.parts.exposed_communication_ns / row.parts.window_ns },
          { title: "exposed copies", cell: (row) => share(row.parts.exposed_copy_ns / row.parts.window_ns), sort: (row) => row.parts.exposed_copy_ns / row.parts.window_ns },
          { title: "idle", cell: (row) => share(row.parts.idle_ns / row.parts.window_ns), sort: (row) => row.parts.idle_ns / row.parts.window_ns },
        ]} {...(withParts.length ? {} : { empty: <>No device activity in this trace. What the host does: <a href={write([...base, "flame"])}>as a flame graph</a>, <a href={write([...base, "timeline"])}>over time</a>.</> })} />
        <Table title="Kernels" rows={trace.kernels} limit={20} columns={[
          { title: "kernel", isText: true, isName: true, cell: (row: Kernel) => <a href={write([...base, "timeline"], { q: shortName(row.name).replace(/<.*$/, "") })} title={row.name}>{shortName(row.name)}</a>, sort: (row) => row.name },
          { title: "kind", isText: true, isBrief: true, cell: (row) => row.category, sort: (row) => row.category },
          { title: "count", cell: (row) => count(row.count), sort: (row) => row.count },
          { title: "total", cell: (row) => duration(row.total_ns), sort: (row) => row.total_ns },
          { title: "median", cell: (row) => duration(row.median_ns), sort: (row) => row.median_ns },
        ]} />
        <Stalls rows={trace.stalls} />
        {trace.problems.length > 0 && <section><h2 class="partial">Partial: not everything could be read</h2><ul>{trace.problems.map((problem) => <li>{problem}</li>)}</ul></section>}
      </div>
      <aside>
        <h2>{trace.findings.length ? plural(trace.findings.length, "finding") : "Nothing found"}</h2>
        {trace.findings.length === 0 && <p class="empty">{trace.not_checked.length ? "No rule that could be checked" : "No rule"} found anything that would gain 0.5 % of the step.</p>}
        <ol class="findings">{trace.findings.map((finding, i) => <FindingCard finding={finding} number={i + 1} show={placesOf(trace, base, finding)} />)}</ol>
        {trace.findings.length > 1 && <p class="quiet">Gains of several findings overlap and do not add up.</p>}
        {trace.not_checked.length > 0 && <Fold name="not-checked" summary={`Not checked: ${trace.not_checked.length}`}><ul>{trace.not_checked.map((row) => <li>{row.rule} {row.cause}: {row.missing}</li>)}</ul></Fold>}
      </aside>
    </div>
  );
}

// A bar a step: its length is its time, its parts where the time went.
function StepsChart({ trace, base, shown }: { trace: Trace; base: string[]; shown: Rank | undefined }) {
  const rank = shown?.steps.some((step) => step.parts !== null) ? shown : trace.ranks.find((row) => row.steps.some((step) => step.parts !== null)) ?? trace.ranks.find((row) => row.steps.length);
  if (!rank) return <section><h2>Steps</h2><p class="empty">No step is marked in this trace. In PyTorch: call <code>prof.step()</code> once a step; in JAX: <code>jax.profiler.StepTraceAnnotation</code>.</p></section>;
  const steps = rank.steps.slice(0, 60);
  const longest = Math.max(...steps.map((step) => step.duration_ns), 1);
  return (
    <section>
      <h2>Steps{trace.ranks.length > 1 ? ` of rank ${rank.rank}` : ""}{rank.steps.length > steps.length ? `: the first ${steps.length} of ${count(rank.steps.length)}` : ""}</h2>
      <table class="steps"><tbody>{steps.map((step) => <tr>
        <td><a href={write([...base, "timeline"], { from: Math.round(step.start_ns - 0.05 * step.duration_ns), to: Math.round(step.start_ns + 1.05 * step.duration_ns), open: rank.rank })}>step {step.number}</a></td>
        <td>{duration(step.duration_ns)}</td>
        <td style={{ width: "100%" }}><div style={{ width: `${(100 * step.duration_ns) / longest}%` }}><Bar wide pieces={step.parts ? piecesOf(step.parts) : [{ label: "not told apart", ns: step.duration_ns, colour: "host" }]} /></div></td>
      </tr>)}</tbody></table>
    </section>
  );
}

function RooflineView({ trace }: { trace: Trace }) {
  const { served } = useSource();
  const { query: { rank = "", gpu = "" } } = useAddress();
  const asked = [["rank", rank], ["gpu", gpu]].filter(([, value]) => value).map(([name, value]) => `${name}=${encodeURIComponent(value!)}`).join("&");
  const hasDevice = trace.ranks.some((row) => row.parts !== null);
  const { value, failure, again } = useAnswer<Roofline>(hasDevice ? `traces/${trace.id}/roofline${asked && `?${asked}`}` : null);
  if (!hasDevice) return <Empty title="No GPU work in this trace">A roofline tells how near kernels come to what their GPU can do; this trace has the host only.</Empty>;
  return (
    <>
      {served && <div class="tools">
        {trace.ranks.length > 1 && <Choose label="rank" value={rank} onChange={(next) => change({ rank: next })}><option value="">the first</option>{trace.ranks.map((row) => <option value={String(row.rank)}>{row.rank}</option>)}</Choose>}
        <Choose label="roof of" value={gpu} onChange={(next) => change({ gpu: next })}><option value="">the GPU of the trace</option>{ROOFS.map((name) => <option value={name}>{name}</option>)}</Choose></div>}
      {failure ? <Failed failure={failure} again={again} /> : value ? <RooflineChart roofline={value} /> : <Waiting height={420} />}
    </>
  );
}
