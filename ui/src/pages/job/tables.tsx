// Kernels and collectives of a job.
import { useAddress, useChoice, write } from "../../data/address";
import { useData } from "../../data/load";
import type { CollectiveRow, Hot } from "../../data/types";
import { count, duration, share, shortName, size, UNKNOWN, value } from "../../look/format";
import { Bar, Failed, Search, Table, Waiting } from "../../parts/parts";
import { type Part, spanOf, Zoomed } from "./part";

export function Kernels({ job, range, news }: Part) {
  const { query: { from, to } } = useAddress();
  const zoomed = from && to ? { from, to } : null;
  const [text, setText] = useChoice("q");
  const { value: rows, failure } = useData<Hot[]>(`v1/kernels?job=${encodeURIComponent(job.row.job)}&limit=500&${spanOf(range)}`, news);
  if (failure) return <Failed failure={failure} />;
  if (!rows) return <Waiting height={300} />;
  const part = job.cost.records_ratio;
  const wanted = text.trim().toLowerCase();
  const shown = rows.filter((row) => !wanted || row.name.toLowerCase().includes(wanted) || row.kind.includes(wanted));
  return <><div class="tools"><h2>Kernels and copies over all ranks</h2><Search value={text} onInput={setText} /><span class="quiet" aria-live="polite">{wanted && `${shown.length} of ${rows.length}`}</span><Zoomed job={job.row.job} range={range} /></div>{part !== null && part < 0.995 && rows.length > 0 && <p class="quiet">Kernels are recorded {share(part)} of the time now: counts and totals are of what was recorded, shares and means stand for all of it.</p>}<Table label="Kernels and copies" rows={shown} limit={100} empty={rows.length ? "No kernel fits." : "No kernel was recorded in this time: the agents saw no GPU, or the job ran without pilotlight's GPU library."} columns={[
    { title: "kernel", isText: true, isName: true, cell: (row) => <a href={write(["job", job.row.job, "flame"], { q: shortName(row.name).replace(/<.*$/, ""), weight: "device", from: zoomed?.from, to: zoomed?.to })} title={`${row.name}: show what launches it`}>{shortName(row.name)}</a>, sort: (row) => row.name }, { title: "kind", isText: true, isBrief: true, cell: (row) => row.kind, sort: (row) => row.kind },
    { title: "count", cell: (row) => count(row.count), sort: (row) => row.count }, { title: "total", cell: (row) => duration(row.total_ns), sort: (row) => row.total_ns }, { title: "of all", cell: (row) => share(row.ratio), sort: (row) => row.ratio },
    { title: "mean", cell: (row) => duration(row.mean_ns), sort: (row) => row.mean_ns }, { title: "min", cell: (row) => duration(row.min_ns) }, { title: "max", cell: (row) => duration(row.max_ns), sort: (row) => row.max_ns }]} /></>;
}

// Of those that are only known to be enqueued, how long they take is not.
const told = (row: CollectiveRow, ns: number) => duration(row.max_ns > 0 ? ns : null);

export function Collectives({ job, range, news }: Part) {
  const { value: rows, failure } = useData<CollectiveRow[]>(`v1/collectives?job=${encodeURIComponent(job.row.job)}&limit=200&${spanOf(range)}`, news);
  if (failure) return <Failed failure={failure} />;
  if (!rows) return <Waiting height={300} />;
  return <><Zoomed job={job.row.job} range={range} /><Table title="Collectives" rows={rows} empty="No collective was recorded in this time." columns={[
    { title: "operation", isText: true, isBrief: true, cell: (row) => row.operation, sort: (row) => row.operation }, { title: "group", isText: true, cell: (row) => row.group, sort: (row) => row.group }, { title: "ranks", cell: (row) => count(row.ranks) },
    { title: "count", cell: (row) => count(row.count), sort: (row) => row.count }, { title: "total", cell: (row) => told(row, row.total_ns), sort: (row) => row.total_ns }, { title: "moving, waiting", cell: (row) => <Bar pieces={[{ label: "moving data", ns: Math.max(0, row.total_ns - row.wait_ns), colour: "communication" }, { label: "waiting for others", ns: row.wait_ns, colour: "idle" }]} narrow /> }, { title: "waiting for others", hint: "until the last rank has come", cell: (row) => row.max_ns > 0 ? `${duration(row.wait_ns)} (${share(row.total_ns ? row.wait_ns / row.total_ns : 0)})` : UNKNOWN, sort: (row) => row.wait_ns },
    { title: "mean", cell: (row) => told(row, row.mean_ns) }, { title: "longest", cell: (row) => told(row, row.max_ns), sort: (row) => row.max_ns }, { title: "bytes", cell: (row) => size(row.bytes), sort: (row) => row.bytes }, { title: "rate", hint: "bytes a second while data moves", cell: (row) => (row.gigabytes_per_s === null ? <small>{UNKNOWN}</small> : `${value(row.gigabytes_per_s)} GB/s`) }]} />
    {rows.length > 0 && <p class="legend together"><span><span class="swatch" style={{ background: "var(--communication)" }} />moving data</span><span><span class="swatch" style={{ background: "var(--idle)" }} />waiting for the last rank to come</span></p>}
    {rows.some((row) => row.operation === "ddp.all_reduce") && <p class="quiet">ddp.all_reduce is the end of DDP's reductions, which no backward hides: all of it counts as waiting, and no rate follows from it.</p>}</>;
}
