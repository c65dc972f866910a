// Captures: take one, see how it goes, open it, let it go.
import { useEffect, useState } from "preact/hooks";
import { go, useAddress, useChoice, write } from "../data/address";
import { useAnswer, useData, useNews, useSource } from "../data/load";
import type { CaptureDetail, CapturedNode, CaptureRow, JobRow } from "../data/types";
import { ago, clock, count, duration, plural, size } from "../look/format";
import { Check, Choose, Empty, Field, PageFailed, Partial, Search, Table, Waiting } from "../parts/parts";

const LOOK_MS = 1000;

// "0-3, 7" as numbers; null for what is none of it.
export function ranksOf(text: string): number[] | null {
  const ranks: number[] = [];
  for (const part of text.split(/[\s,]+/).filter(Boolean)) {
    const [, first, last = first] = /^(\d{1,7})(?:-(\d{1,7}))?$/.exec(part) ?? [];
    if (first === undefined || Number(last) < Number(first) || Number(last) - Number(first) > 100_000) return null;
    for (let rank = Number(first); rank <= Number(last); rank++) ranks.push(rank);
  }
  return ranks;
}

// Neighbours together: 0-3, 7.
export function ranksText(ranks: number[]): string {
  const parts: string[] = [];
  for (let i = 0; i < ranks.length; i++) {
    let end = i;
    while (ranks[end + 1] === ranks[end]! + 1) end++;
    parts.push(end > i ? `${ranks[i]}–${ranks[end]}` : String(ranks[i]));
    i = end;
  }
  return parts.join(", ");
}

export function CapturesPage({ id }: { id: string }) {
  return id ? <OneCapture key={id} id={id} /> : <AllCaptures />;
}

const stateOf = (row: CaptureRow, now: number): string => (row.state === "requested" ? (now - row.requested_ns < 180e9 ? "on the way" : "given up") : row.state);

// How many there are and in which state; whose the newest is, and why it was taken.
export function told(rows: CaptureRow[], now: number): string {
  const newest = rows.reduce((last, row) => (row.requested_ns > last.requested_ns ? row : last));
  const states = new Map<string, number>();
  for (const row of rows) states.set(stateOf(row, now), (states.get(stateOf(row, now)) ?? 0) + 1);
  const [[only] = [""]] = states;
  const counted = states.size > 1 ? [...states].map(([state, number]) => `${number} ${state}`).join(", ") : rows.length > 1 ? `all ${only}` : only;
  return `${plural(rows.length, "capture")}, ${counted}; the newest is of ${newest.job}, ${ago(newest.requested_ns, now)} (${newest.reason})`;
}

function AllCaptures() {
  const { query } = useAddress();
  const news = useNews(2000);
  const only = query["job"] ?? "";
  const [text, setText] = useChoice("q");
  const { value: rows, failure, again, partial } = useData<CaptureRow[]>(`v1/captures?limit=500${only ? `&job=${encodeURIComponent(only)}` : ""}`, news);
  const now = Date.now() * 1e6;
  if (failure) return <PageFailed failure={failure} again={again} />;
  const wanted = text.trim().toLowerCase();
  const shown = rows?.filter((row) => !wanted || [row.id, row.job, row.reason, row.asked_by, row.problem, row.state].some((each) => each.toLowerCase().includes(wanted))) ?? [];
  return (
    <>
      <header><p class="about">captures{only && <> of <a href={write(["job", only])}>{only}</a></>}</p><h1>{rows?.length === 0 ? "No capture yet" : rows ? told(rows, now) : "Asking the store …"}</h1><Partial when={partial} /></header>
      <Ask only={only} />
      {!rows ? <Waiting height={260} /> : rows.length === 0 ? <Empty title="Take one above, or on a terminal" command={`pilotlight capture ${only || "JOB"} --steps 3 --collector ${location.origin}`}>A capture takes the last seconds out of the flight recorders of the ranks: by hand, or by a trigger when a step is slow, a rank late or a job hangs.</Empty>
        : <><div class="tools"><Search value={text} onInput={setText} />{only && <a href={write(["captures"])}>of all jobs</a>}</div>
          <Table rows={shown} limit={100} label="captures" isCards empty="No capture fits." columns={[
            { title: "capture", isText: true, cell: (row) => <a href={write(["captures", row.id])}>{row.id}</a>, sort: (row) => row.id },
            { title: "job", isText: true, cell: (row) => <a href={write(["job", row.job])}>{row.job}</a>, sort: (row) => row.job },
            { title: "asked", cell: (row) => <span title={clock(row.requested_ns)}>{ago(row.requested_ns, now)}</span>, sort: (row) => row.requested_ns },
            { title: "by", isText: true, isBrief: true, cell: (row) => `${row.asked_by || "a rule"}: ${row.reason}` },
            { title: "state", isText: true, cell: (row) => <>{stateOf(row, now)}{row.problem && <span class="partial">: {row.problem}</span>}</>, sort: (row) => row.state },
            { title: "nodes", cell: (row) => `${count(row.files)} of ${count(row.nodes.length)}` },
            { title: "covers", cell: (row) => duration(row.to_ns - row.from_ns) }, { title: "size", cell: (row) => size(row.bytes), sort: (row) => row.bytes },
            { title: "expires", cell: (row) => (row.state === "expired" ? "has expired" : row.expires_ns ? (row.expires_ns > now ? `in ${duration(row.expires_ns - now)}` : "now") : "never") },
            { title: "open", isText: true, cell: (row) => (row.files > 0 && row.state !== "expired" ? <a href={write(["trace", row.id, "timeline"])}>timeline</a> : "") }]} /></>}
    </>
  );
}

const WORDS: Record<string, string> = { waiting: "the agent has not asked for work yet", asked: "the agent is collecting it", stored: "stored", expired: "its files have expired" };

// What a rank's own profiler says, in the words of the page.
const RANK_WORDS: Record<string, string> = { found: "found", "waiting for its poll": "has not asked for work yet", asked: "is tracing", done: "traced", "left out": "left out" };
// A rank writes nothing where another one that it waits for hangs (capture/told.py): that one is to blame.
const EMPTY = "its trace has nothing in it";
const missedIn = (nodes: CapturedNode[]) => nodes.flatMap((node) => node.told).filter((one) => one.state === "failed");

export function sentence({ row, is_open, nodes }: CaptureDetail): string {
  const [stored, failed] = ["stored", "failed"].map((state) => nodes.filter((node) => node.state === state).length) as [number, number];
  if (row.state === "expired") return "This capture has expired: its files are gone.";
  if (is_open) return `On the way: ${stored} of ${plural(nodes.length, "node")} stored${failed ? `, ${failed} failed` : ""}.`;
  const missed = missedIn(nodes), first = missed.find((one) => one.why !== EMPTY) ?? missed[0]!;
  if (!failed && missed.length) return `Stored, but the steps of ${missed.length === 1 ? "rank" : "ranks"} ${ranksText(missed.map((one) => one.rank))} were not traced: ${missed.length > 1 ? `rank ${first.rank}, ` : ""}${first.why || first.state}.`;
  if (!failed) return `Stored: ${duration(row.to_ns - row.from_ns)} of ${plural(row.ranks.length, "rank")} on ${plural(nodes.length, "node")}${nodes.some((node) => node.told.length) ? ", and the steps of each" : ""}.`;
  return stored ? `Partial: ${failed} of ${plural(nodes.length, "node")} could not give it.` : "Failed: no node could give it.";
}

function OneCapture({ id }: { id: string }) {
  const source = useSource();
  const [turn, setTurn] = useState(0);
  const { value: capture, failure, again } = useAnswer<CaptureDetail>(`capture?id=${encodeURIComponent(id)}`, turn);
  const [told, setTold] = useState("");
  useEffect(() => {
    if (!capture?.is_open) return undefined;
    const timer = setTimeout(() => setTurn((old) => old + 1), LOOK_MS);
    return () => clearTimeout(timer);
  }, [capture]);
  if (failure) return <PageFailed failure={failure} again={again} />;
  if (!capture) return <Waiting height={260} />;
  const { row, nodes } = capture;
  const expire = async () => {
    try { await source.post("v1/captures/expire", { id }); setTold(""); again(); } catch (error) { setTold(`not removed: ${(error as Error).message}`); }
  };
  const open = nodes.some((node) => node.state === "stored" && node.bytes > 0), stored = nodes.reduce((sum, node) => sum + node.bytes, 0);
  return (
    <>
      <header><p class="about"><a href={write(["captures"])}>captures</a> · {id} · of <a href={write(["job", row.job])}>{row.job}</a> · asked by {row.asked_by || "a rule"} ({row.reason}) {ago(row.requested_ns, capture.now_ns)}</p><h1 aria-live="polite">{sentence(capture)}</h1></header>
      <p class="tools">
        {open && <><a class="button" href={write(["trace", id])}>what is wrong in it</a><a class="button" href={write(["trace", id, "timeline"])}>timeline</a><a class="button" href={write(["trace", id, "flame"])}>flame graph</a></>}
        {!capture.is_open && row.state !== "expired" && <button type="button" onClick={() => void expire()}>remove its files now</button>}
        <span class="quiet">{stored > 0 && `${size(stored)}; `}{clock(row.from_ns)} to {clock(row.to_ns).slice(11)}{row.state !== "expired" && row.expires_ns ? `; expires in ${duration(row.expires_ns - capture.now_ns)}` : ""}</span>
        <span class="partial" role="alert">{told}</span>
      </p>
      <Table title="Node by node" rows={nodes} limit={200} columns={[
        { title: "node", isText: true, cell: (node: CapturedNode) => node.node, sort: (node) => node.node },
        { title: "ranks", isText: true, cell: (node) => ranksText(node.ranks) || "–" },
        { title: "state", isText: true, cell: (node) => (node.state === "failed" ? <span class="partial">failed: {node.why}</span> : WORDS[node.state] ?? node.state), sort: (node) => node.state },
        { title: "size", cell: (node) => (node.bytes ? size(node.bytes) : "–"), sort: (node) => node.bytes },
        { title: "file", isText: true, cell: (node) => (node.state === "stored" && node.bytes ? <a href={source.href(`v1/captures/file?id=${encodeURIComponent(id)}&name=${encodeURIComponent(node.node)}.tar.zst`)} download>download</a> : "") }]} />
      <RankByRank nodes={nodes} />
    </>
  );
}

// The steps of each rank, those first that have none.
function RankByRank({ nodes }: { nodes: CapturedNode[] }) {
  const rows = nodes.flatMap((node) => node.told.map((one) => ({ ...one, node: node.node }))).sort((a, b) => Number(b.state === "failed") - Number(a.state === "failed") || a.rank - b.rank);
  return <Table title="Rank by rank: its traced steps" label="rank by rank" rows={rows} limit={64} columns={[
    { title: "rank", cell: (row) => String(row.rank), sort: (row) => row.rank }, { title: "node", isText: true, cell: (row) => row.node, sort: (row) => row.node },
    { title: "state", isText: true, cell: (row) => (row.state === "failed" ? <span class="partial">failed: {row.why}</span> : <>{RANK_WORDS[row.state] ?? row.state}{row.why && `: ${row.why}`}</>), sort: (row) => row.state }]} />;
}

function Ask({ only }: { only: string }) {
  const source = useSource();
  const { value: jobs } = useData<JobRow[]>("v1/jobs?since=7d&limit=1000");
  const [job, setJob] = useChoice("for", only);
  const [ranks, setRanks] = useChoice("rank");
  const [seconds, setSeconds] = useChoice("seconds", "30");
  const [steps, setSteps] = useChoice("steps", "0");
  const [shapes, setShapes] = useChoice("shapes");
  const [told, setTold] = useState("");
  const ask = async (event: Event) => {
    event.preventDefault();
    const wanted = ranksOf(ranks);
    if (wanted === null) { setTold("not taken: ranks are numbers, as in 0-3, 7"); return; }
    setTold("asking …");
    try {
      const { data } = await source.post<{ data: { id: string } }>("v1/captures", { job, ranks: wanted, seconds: Number(seconds), steps: Number(steps), detail: shapes === "1" ? ["shapes"] : [] });
      go(["captures", data.id]);
    } catch (error) { setTold(`not taken: ${(error as Error).message}`); }
  };
  const running = jobs?.filter((row) => row.state === "running").map((row) => row.job) ?? [];
  // The one that a link named is there before the list is.
  const offered = job && !running.includes(job) ? [job, ...running] : running;
  return (
    <form class="panel" onSubmit={(event) => void ask(event)} aria-label="take a capture">
      <h2>Take a capture</h2><div class="tools">
      <Field label="job"><select value={job} required onChange={(event) => setJob((event.target as HTMLSelectElement).value)}><option value="">choose a running job …</option>{offered.map((name) => <option value={name}>{name}</option>)}</select></Field>
      <Field label="ranks"><input value={ranks} size={10} placeholder="all" onInput={(event) => setRanks((event.target as HTMLInputElement).value)} /></Field>
      <Choose label="the last" value={seconds} onChange={setSeconds}>{["10", "30", "60", "120"].map((value) => <option value={value}>{value} s</option>)}</Choose>
      <Choose label="and trace" value={steps} onChange={setSteps}><option value="0">no step</option>{["1", "3", "10"].map((value) => <option value={value}>the next {plural(Number(value), "step")}</option>)}</Choose>
      {steps !== "0" && <Check label="with shapes, for the roofline" checked={shapes === "1"} onChange={(checked) => setShapes(checked ? "1" : "")} />}
      <button type="submit" class="primary" disabled={!job}>take a capture</button>
      </div>
      <p class="quiet" aria-live="polite">{told || "The last seconds come out of the flight recorders of the ranks, without stopping them; traced steps are recorded in full detail when they come."}</p>
    </form>
  );
}
