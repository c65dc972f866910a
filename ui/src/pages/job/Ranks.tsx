// The map of ranks and steps, and the rank that was chosen on it.
import { useMemo } from "preact/hooks";
import { Heat, type Window } from "../../charts/Heat";
import { change, useAddress, useChoice, useKept, write } from "../../data/address";
import { useData } from "../../data/load";
import type { CounterName, RankRow, StepRow } from "../../data/types";
import { counterWords } from "../../look/counter";
import { ago, clock, count, duration, plural } from "../../look/format";
import { Bar, Choose, Legend, Table } from "../../parts/parts";
import { wholePieces } from "../../parts/time";
import { type Part, spanOf } from "./part";

export function Ranks({ job, range, news }: Part) {
  const { query } = useAddress();
  // A rank alone is never late.
  const [measure, setMeasure] = useChoice("map", job.ranks.length > 1 ? "lateness" : "time");
  const [window, changeWindow] = useKept<Window | null>((told) => {
    const given = told["window"]?.split(",").map(Number);
    return given?.length === 4 ? { first: given[0]!, last: given[1]!, top: given[2]!, bottom: given[3]! } : null;
  }, (next) => ({ window: next && [next.first, next.last, next.top, next.bottom].map((number) => Math.round(number * 10) / 10).join(",") }));
  const { value: counters } = useData<CounterName[]>(`v1/counter-names?job=${encodeURIComponent(job.row.job)}&${spanOf(range)}`);
  const byRank = useMemo(() => new Map(job.ranks.map((rank) => [rank.rank, rank])), [job.ranks]);
  const ranks = job.ranks.reduce((most, rank) => Math.max(most, rank.rank), -1) + 1;
  const chosen = query["rank"] === undefined ? null : Number(query["rank"]);
  const label = (rank: number) => { const row = byRank.get(rank); return `rank ${rank}${row ? `, ${row.node}${row.gpu < 0 ? "" : `, gpu ${row.gpu}`}` : ""}`; };
  if (ranks <= 0 || job.last_step <= 0) return <section><h2>Ranks × steps</h2><p class="empty">No step with a rank is stored: steps are kept for two weeks.</p></section>;
  return (
    <section aria-label="ranks and steps">
      <div class="tools"><h2>Ranks × steps</h2>
        <Choose label="shows" value={measure} onChange={setMeasure}><option value="lateness">lateness</option><option value="time">longest step</option><option value="wait">wait for others</option>{counters?.map(({ name }) => <option value={`counter:${name}`}>{counterWords(name).title}</option>)}{measure.startsWith("counter:") && !counters?.some(({ name }) => measure === `counter:${name}`) && <option value={measure}>{measure.slice(8)}</option>}</Choose>
        {window && <button type="button" onClick={() => changeWindow(null)}>whole map</button>}
        <span class="quiet">{plural(ranks, "rank")}, {job.attempts.length > 1 ? `attempt ${job.attempt}, ` : ""}steps {count(job.first_step)} to {count(job.last_step)}</span></div>
      <Heat key={measure} job={job.row.job} value={measure} text={measure.startsWith("counter:") ? counterWords(measure.slice(8)).text : duration} first={job.first_step} last={job.last_step + 1} ranks={ranks} window={window} onWindow={changeWindow} rankLabel={label} least={measure.startsWith("counter:") ? 0 : Math.round((measure === "time" ? 0.1 : 0.02) * job.row.step_ns)} onOpen={(rank) => change({ rank })} news={news} />
      {chosen !== null && <OneRank job={job} range={range} news={news} rank={chosen} row={byRank.get(chosen) ?? null} />}
    </section>
  );
}

function OneRank({ job, range, rank, row, news }: Part & { rank: number; row: RankRow | null }) {
  const path = `job=${encodeURIComponent(job.row.job)}&rank=${rank}&${spanOf(range)}`;
  const { value: steps } = useData<StepRow[]>(`v1/steps?limit=12&${path}`, news);
  return (
    <div class="panel" role="group" aria-label={`rank ${rank}`}>
      <h3>Rank {rank}{row && <> on {row.node}{row.gpu >= 0 && <>, gpu {row.gpu}</>} <small>{row.gpu_name}</small></>} <button type="button" onClick={() => change({ rank: null })}>close</button></h3>
      {row && <><p>{plural(row.steps, "step")}, mean {duration(row.step_ns)}, longest {duration(row.slowest_ns)}; {row.state}; drops {count(row.records_dropped)}</p><Bar pieces={wholePieces(row.parts_ns, row.steps * row.step_ns)} wide /><Legend pieces={wholePieces(row.parts_ns, row.steps * row.step_ns)} /></>}
      <p class="links"><a class="button" href={write(["job", job.row.job, "flame"], { rank, from: Math.round(range.from), to: Math.round(range.to) })}>where its host spends the time</a><a class="button" href={write(["captures"], { job: job.row.job, rank })}>take a capture of it</a></p>
      {steps && <Table rows={steps} limit={12} label="latest steps" columns={[
        { title: "step", cell: (step) => count(step.step) }, { title: "took", cell: (step) => duration(step.duration_ns) }, { title: "where the time went", cell: (step) => <Bar pieces={wholePieces(step.parts_ns, step.duration_ns)} /> }, { title: "began", cell: (step) => <span title={clock(step.start_ns)}>{ago(step.start_ns, job.now_ns)}</span> }]} />}
    </div>
  );
}
