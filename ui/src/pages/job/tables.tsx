// Kernels, collectives and counters of a job.
import { useMemo } from "preact/hooks";
import { Series } from "../../charts/Series";
import { change, useAddress } from "../../data/address";
import { useData } from "../../data/load";
import type { CollectiveRow, CounterName, CounterSeries, Hot } from "../../data/types";
import { count, duration, share, shortName, size, value } from "../../look/format";
import { Choose, Empty, Failed, Table, Waiting } from "../../parts/parts";
import { type Part, spanOf, Zoomed, zoomTo } from "./part";

export function Kernels({ job, range, news }: Part) {
  const { value: rows, failure } = useData<Hot[]>(`v1/kernels?job=${encodeURIComponent(job.row.job)}&limit=500&${spanOf(range)}`, news);
  if (failure) return <Failed failure={failure} />;
  if (!rows) return <Waiting height={300} />;
  const part = job.cost.records_ratio;
  return <><Zoomed job={job.row.job} range={range} />{part !== null && part < 0.995 && rows.length > 0 && <p class="quiet">Kernels are recorded {share(part)} of the time now: counts and totals are of what was recorded, shares and means stand for all of it.</p>}<Table title="Kernels and copies over all ranks" rows={rows} limit={100} empty="No kernel was recorded in this time: the agents saw no GPU, or the job ran without pilotlight's GPU library." columns={[
    { title: "kernel", isText: true, isName: true, cell: (row) => <span title={row.name}>{shortName(row.name)}</span>, sort: (row) => row.name }, { title: "kind", isText: true, isBrief: true, cell: (row) => row.kind, sort: (row) => row.kind },
    { title: "count", cell: (row) => count(row.count), sort: (row) => row.count }, { title: "total", cell: (row) => duration(row.total_ns), sort: (row) => row.total_ns }, { title: "", cell: (row) => share(row.ratio) },
    { title: "mean", cell: (row) => duration(row.mean_ns), sort: (row) => row.mean_ns }, { title: "min", cell: (row) => duration(row.min_ns) }, { title: "max", cell: (row) => duration(row.max_ns), sort: (row) => row.max_ns }]} /></>;
}

export function Collectives({ job, range, news }: Part) {
  const { value: rows, failure } = useData<CollectiveRow[]>(`v1/collectives?job=${encodeURIComponent(job.row.job)}&limit=200&${spanOf(range)}`, news);
  if (failure) return <Failed failure={failure} />;
  if (!rows) return <Waiting height={300} />;
  return <><Zoomed job={job.row.job} range={range} /><Table title="Collectives" rows={rows} empty="No collective was recorded in this time." columns={[
    { title: "operation", isText: true, isBrief: true, cell: (row) => row.operation, sort: (row) => row.operation }, { title: "group", isText: true, cell: (row) => row.group, sort: (row) => row.group }, { title: "ranks", cell: (row) => count(row.ranks) },
    { title: "count", cell: (row) => count(row.count), sort: (row) => row.count }, { title: "total", cell: (row) => duration(row.total_ns), sort: (row) => row.total_ns }, { title: "waiting for others", cell: (row) => `${duration(row.wait_ns)} (${share(row.total_ns ? row.wait_ns / row.total_ns : 0)})`, sort: (row) => row.wait_ns },
    { title: "mean", cell: (row) => duration(row.mean_ns) }, { title: "longest", cell: (row) => duration(row.max_ns), sort: (row) => row.max_ns }, { title: "bytes", cell: (row) => size(row.bytes), sort: (row) => row.bytes }, { title: "GB/s", cell: (row) => value(row.gigabytes_per_s) }]} /></>;
}

export function Counters({ job, range, news }: Part) {
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
    return { times, left: Math.max(0, rows.length - 24), lines: rows.slice(-24).map((each) => ({ label: `${each.row.rank >= 0 ? `rank ${each.row.rank}` : `${each.row.node} gpu ${each.row.gpu}`}`, colour: far.has(each) ? "accent" : "compute", values: each.values, width: far.has(each) ? 2.5 : 1 })) };
  }, [series]);
  if (failure) return <Failed failure={failure} />;
  if (!names) return <Waiting height={300} />;
  if (!names.length) return <Empty title="No counter in this time" command="pilotlight doctor">The agents read GPU and host counters where the drivers allow it; the doctor says what is missing.</Empty>;
  return (
    <section aria-label="counters">
      <div class="tools"><Choose label="counter" value={chosen ?? ""} onChange={(name) => change({ counter: name })}>{names.map((name) => <option value={name.name}>{name.name}</option>)}</Choose><Zoomed job={job.row.job} range={range} /><span class="quiet">the one furthest from the others stands out{drawn && drawn.left > 0 && <>; {count(drawn.left)} of {count(drawn.left + drawn.lines.length)} are not drawn</>}{series?.length === 64 && <>; there may be more</>}</span></div>
      {drawn ? <Series time_ns={drawn.times} lines={drawn.lines} height={320} text={value} label={chosen ?? "counter"} onZoom={zoomTo} from_ns={range.from} to_ns={range.to} min={null} /> : <Waiting height={320} />}
    </section>
  );
}
