// Captures: take one, see how it goes, open it.
import { useState } from "preact/hooks";
import { useAddress, write } from "../data/address";
import { useData, useNews, useSource } from "../data/load";
import type { CaptureRow, JobRow } from "../data/types";
import { ago, clock, count, duration, plural, size } from "../look/format";
import { Empty, Failed, Field, Table, Waiting } from "../parts/parts";

export function CapturesPage() {
  const { query } = useAddress();
  const news = useNews(2000);
  const only = query["job"] ?? "";
  const { value: rows, failure, again } = useData<CaptureRow[]>(`v1/captures?limit=500${only ? `&job=${encodeURIComponent(only)}` : ""}`, news);
  const now = Date.now() * 1e6;
  if (failure) return <Failed failure={failure} again={again} />;
  const busy = rows?.filter((row) => !["done", "failed", "expired"].includes(row.state)).length ?? 0;
  return (
    <>
      <header><p class="about">captures{only && <> of <a href={write(["job", only])}>{only}</a></>}</p><h1>{rows ? `${plural(rows.length, "capture")}${busy ? `, ${busy} on the way` : ""}` : "Asking the store …"}</h1></header>
      <Ask only={only} rank={query["rank"] ?? ""} done={again} />
      {!rows ? <Waiting height={260} /> : rows.length === 0 ? <Empty title="No capture yet" command={`pilotlight capture ${only || "JOB"} --steps 3 --ranks all`}>A capture takes the last seconds out of the flight recorders of the ranks: by hand, or by a trigger when a step is slow, a rank late or a job hangs.</Empty>
        : <Table rows={rows} limit={100} label="captures" columns={[
          { title: "capture", isText: true, cell: (row) => (row.files > 0 ? <a href={write(["trace", row.id])}>{row.id}</a> : row.id), sort: (row) => row.id },
          { title: "job", isText: true, cell: (row) => <a href={write(["job", row.job])}>{row.job}</a>, sort: (row) => row.job },
          { title: "asked", cell: (row) => <span title={clock(row.requested_ns)}>{ago(row.requested_ns, now)}</span>, sort: (row) => row.requested_ns },
          { title: "by", isText: true, cell: (row) => `${row.asked_by || "a rule"}: ${row.reason}` },
          { title: "state", isText: true, cell: (row) => <>{row.state}{row.problem && <span class="partial">: {row.problem}</span>}</>, sort: (row) => row.state },
          { title: "ranks", cell: (row) => `${count(row.files)} of ${row.ranks.length ? count(row.ranks.length) : "all"}` },
          { title: "covers", cell: (row) => duration(row.to_ns - row.from_ns) }, { title: "size", cell: (row) => size(row.bytes), sort: (row) => row.bytes },
          { title: "expires", cell: (row) => (row.expires_ns ? (row.expires_ns > now ? `in ${duration(row.expires_ns - now)}` : "now") : "never") }]} />}
    </>
  );
}

function Ask({ only, rank, done }: { only: string; rank: string; done(): void }) {
  const source = useSource();
  const { value: jobs } = useData<JobRow[]>("v1/jobs?since=7d&limit=1000");
  const [job, setJob] = useState(only);
  const [ranks, setRanks] = useState(rank);
  const [seconds, setSeconds] = useState("30");
  const [told, setTold] = useState("");
  const ask = async (event: Event) => {
    event.preventDefault();
    setTold("asking …");
    try {
      await source.post("v1/captures", { job, ranks: (ranks.match(/[0-9]+/g) ?? []).map(Number), seconds: Number(seconds) });
      setTold("asked: the agents take it with their next message");
      done();
    } catch (error) { setTold(`not taken: ${(error as Error).message}`); }
  };
  const running = jobs?.filter((row) => row.state === "running") ?? [];
  return (
    <form class="tools" onSubmit={(event) => void ask(event)} aria-label="take a capture">
      <Field label="job"><select value={job} required onChange={(event) => setJob((event.target as HTMLSelectElement).value)}><option value="">choose a running job …</option>{running.map((row) => <option value={row.job}>{row.job}</option>)}</select></Field>
      <Field label="ranks"><input value={ranks} size={10} pattern="[0-9, ]*" placeholder="all" onInput={(event) => setRanks((event.target as HTMLInputElement).value)} /></Field>
      <Field label="the last"><select value={seconds} onChange={(event) => setSeconds((event.target as HTMLSelectElement).value)}>{["10", "30", "60", "120"].map((value) => <option value={value}>{value} s</option>)}</select></Field>
      <button type="submit" disabled={!job}>take a capture</button>
      <span class="quiet" aria-live="polite">{told}</span>
    </form>
  );
}
