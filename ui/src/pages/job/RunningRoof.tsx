// A running job under the roof of its GPUs: what counters measure, and what the names of kernels suggest.
import { useMemo } from "preact/hooks";
import { LIMIT_COLOURS, rateText, Roof, ROOFS } from "../../charts/Roof";
import { change, useAddress, useChoice, write } from "../../data/address";
import { useAnswer } from "../../data/load";
import type { CaptureRow, JobRoofline, RankPoint, Roofline } from "../../data/types";
import { ago, count, duration, plural, share, shortName, threeDigits } from "../../look/format";
import { Bar, Choose, Empty, Failed, Legend, Partial, Table, Waiting } from "../../parts/parts";
import { RooflineChart } from "../RooflineChart";
import { type Part, spanOf, Zoomed } from "./part";

const KIND_COLOURS: Record<string, string> = { compute: "compute", memory: "copy", communication: "communication", "not known": "other" };
const ADVICE: Record<string, string> = {
  compute: "its tensor units are busy: a smaller type or fewer operations are what is left",
  memory: "its memory is busy: fuse kernels, or move fewer bytes",
  latency: "neither its tensor units nor its memory are busy: look at idle time and small kernels first",
};
const pointText = (point: RankPoint): string => `tensor units busy ${share(point.tensor_ratio)} (${rateText(point.flops)} if they compute in bf16), memory ${share(point.memory_ratio)} (${threeDigits(point.bytes / 1e9)} GB/s)`;

// Those that differ most from the middle first: that is whom one looks for.
export function unlike(points: RankPoint[]): RankPoint[] {
  const middle = (values: number[]): number => values.sort((a, b) => a - b)[values.length >> 1] ?? 0;
  const [tensor, memory] = [middle(points.map((point) => point.tensor_ratio)), middle(points.map((point) => point.memory_ratio))];
  const distance = (point: RankPoint): number => Math.hypot(point.tensor_ratio - tensor, point.memory_ratio - memory);
  return points.slice().sort((a, b) => distance(b) - distance(a));
}

export function RunningRoof({ job, range, news }: Part) {
  const { query } = useAddress();
  const [chosen, setChosen] = useChoice("rank");
  const gpu = query["gpu"] ?? "";
  const { value: found, failure, again } = useAnswer<JobRoofline>(`roofline?job=${encodeURIComponent(job.row.job)}${gpu ? `&gpu=${encodeURIComponent(gpu)}` : ""}&${spanOf(range)}`, news);
  const points = useMemo(() => unlike(found?.points ?? []), [found]);
  if (failure) return <Failed failure={failure} again={again} />;
  if (!found) return <Waiting height={420} />;
  if (!found.points.length && !found.kernels.length && !job.ranks.some((rank) => rank.gpu_name)) return <Empty title="No GPU was seen in this job" command="pilotlight doctor">A roofline tells how near kernels come to what their GPU can do. Where the job does use one, the doctor says what is missing.</Empty>;
  const told = points.find((point) => String(point.rank) === chosen) ?? points[0] ?? null;
  const idle = points.filter((point) => point.flops <= 0).length;
  const choose = (point: number) => setChosen(String(points[point]?.rank ?? ""));
  const kinds = Object.entries(found.kinds_ns).sort((a, b) => b[1] - a[1]).map(([limit, ns]) => ({ label: limit === "not known" ? limit : `${limit} as a rule`, ns, colour: KIND_COLOURS[limit] ?? "other" }));
  return (
    <section aria-label="roofline">
      <div class="tools"><h2>{found.gpu ? `The GPUs of the job under the roof of ${found.gpu}` : "Roofline"}</h2>
        <Choose label="roof of" value={gpu} onChange={(value) => change({ gpu: value })}><option value="">the job's GPU</option>{ROOFS.map((name) => <option value={name}>{name}</option>)}</Choose><Zoomed job={job.row.job} range={range} /></div>
      <Partial when={found.is_partial} />
      {found.missing && <p class="partial">Not measured. {found.missing}</p>}
      <div class="split">
        <div>
          {points.length > 0 && <><Roof peaks={found.peaks} label="GPUs of the job under their roof" chosen={told ? points.indexOf(told) : -1} onChoose={choose}
            points={points.map((point) => ({ x: point.flops / Math.max(point.bytes, 1), y: point.flops, radius: 6, colour: LIMIT_COLOURS[point.limit] ?? "other", title: `rank ${point.rank}: ${pointText(point)}` }))} />
          <span class="legend">{Object.entries(LIMIT_COLOURS).map(([limit, name]) => <span><span class="swatch" style={{ background: `var(--${name})` }} />bound by {limit}</span>)}<span>a point a rank, from hardware counters{idle > 0 && `; ${plural(idle, "rank")} with no activity ${idle === 1 ? "has" : "have"} none`}</span></span>
          {told && <p class="readout" aria-live="polite"><b>rank {told.rank}</b> on {told.node}, gpu {told.gpu}<br />{pointText(told)}: {ADVICE[told.limit] ?? told.limit}.</p>}</>}
          {kinds.length > 0 && <><h3>What the kernels are, by their names</h3><Bar pieces={kinds} wide /><Legend pieces={kinds} /></>}
        </div>
        <div>
          {points.length > 0 && <Table title="Ranks, the least like the others first" label="ranks" rows={points} limit={16} columns={[
            { title: "rank", cell: (row) => <button type="button" class="plain" onClick={() => choose(points.indexOf(row))}>{row.rank}</button>, sort: (row) => row.rank }, { title: "node", isText: true, cell: (row) => row.node, sort: (row) => row.node },
            { title: "tensor units", cell: (row) => share(row.tensor_ratio), sort: (row) => row.tensor_ratio }, { title: "memory", cell: (row) => share(row.memory_ratio), sort: (row) => row.memory_ratio }, { title: "bound by", isText: true, isBrief: true, cell: (row) => row.limit, sort: (row) => row.limit }]} />}
        </div>
      </div>
      <Operators job={job.row.job} captures={found.captures} gpu={gpu} now={job.now_ns} />
      <Table title={`${plural(found.kernels.length, "kernel")} (low confidence: by name)`} label="kernels by kind" rows={found.kernels} limit={20} empty="No kernel was recorded in this time." columns={[
            { title: "kernel", isText: true, isName: true, cell: (row) => <span title={row.name}>{shortName(row.name)}</span>, sort: (row) => row.name }, { title: "kind", isText: true, isBrief: true, cell: (row) => row.category, sort: (row) => row.category }, { title: "bound by", isText: true, isBrief: true, cell: (row) => row.limit, sort: (row) => row.limit },
            { title: "count", cell: (row) => count(row.count), sort: (row) => row.count }, { title: "time", cell: (row) => duration(row.total_ns), sort: (row) => row.total_ns }, { title: "of all", cell: (row) => share(row.ratio) }]} />
    </section>
  );
}

// Operators are known where shapes were recorded: in the traces of a capture.
function Operators({ job, captures, gpu, now }: { job: string; captures: CaptureRow[]; gpu: string; now: number }) {
  const { query } = useAddress();
  const chosen = captures.find((row) => row.id === query["capture"]) ?? captures[0];
  const { value, failure } = useAnswer<Roofline>(chosen ? `traces/${chosen.id}/roofline${gpu ? `?gpu=${encodeURIComponent(gpu)}` : ""}` : null);
  const take = <p class="links"><a class="button" href={write(["captures"], { job, steps: 3, shapes: 1 })}>trace 3 steps with shapes</a></p>;
  if (!chosen) return <Empty title="Operators: not measured" command={`pilotlight capture ${job} --steps 3 --shapes --collector ${location.origin}`}>What runs all the time carries names and times of kernels and no shapes of tensors, so it is not known how near a single operator comes to the roof. A capture of a few steps with shapes tells it. {take}</Empty>;
  return (
    <section aria-label="operators">
      <div class="tools"><h2>Operators, from a capture</h2>
        <Choose label="capture" value={chosen.id} onChange={(value) => change({ capture: value })}>{captures.map((row) => <option value={row.id}>{row.reason}, {ago(row.requested_ns, now)}</option>)}</Choose>
        <a href={write(["trace", chosen.id, "roofline"])}>open it</a></div>
      {failure || value?.missing ? <><p class="quiet">Not measured: {failure?.message ?? value?.missing}.</p>{take}</> : value ? <RooflineChart roofline={value} /> : <Waiting height={200} label="reading the capture" />}
    </section>
  );
}
