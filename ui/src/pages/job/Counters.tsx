// Counters of a job: all of them small, one of them large; a rank that is unlike the others stands out.
import { useMemo } from "preact/hooks";
import { type Line, Series } from "../../charts/Series";
import { change, useAddress, write } from "../../data/address";
import { useData } from "../../data/load";
import type { CounterName, CounterSeries } from "../../data/types";
import { counterWords } from "../../look/counter";
import { count, UNKNOWN } from "../../look/format";
import { Choose, Empty, Failed, Waiting } from "../../parts/parts";
import { type Part, spanOf, Zoomed, zoomTo } from "./part";

const LARGE = 64, SMALL = 32, CHARTS = 12;

interface Drawn { times: number[]; lines: Line[] }

const nameOf = (row: CounterSeries): string => (row.rank >= 0 ? `rank ${row.rank}` : `${row.node} gpu ${row.gpu}`);
const middleOf = (values: number[]): number => values.slice().sort((a, b) => a - b)[values.length >> 1] ?? 0;

// Many times the usual distance from the middle: by the rule of Iglewicz and Hoaglin, 3.5 standard deviations.
const UNLIKE = 3.5 / 0.6745;

// So few are named each: there is no middle between two.
const FEW = ["compute", "text", "quiet"];

// Who was asked for, or else who is furthest from the others if it is far, stands out and is named; the others are the ground, named by their median.
export function drawnOf(series: CounterSeries[], named: number | null = null): Drawn {
  const times = [...new Set(series.flatMap((row) => row.time_ns))].sort((a, b) => a - b);
  const place = new Map(times.map((time, i) => [time, i]));
  const rows = series.map((row) => {
    const values: (number | null)[] = times.map(() => null);
    row.time_ns.forEach((time, i) => { values[place.get(time)!] = row.mean[i]!; });
    return { label: nameOf(row), rank: row.rank, values, mean: row.mean.reduce((a, b) => a + b, 0) / Math.max(row.mean.length, 1) };
  });
  const middle = middleOf(rows.map((row) => row.mean));
  const asked = rows.find((row) => row.rank === named);
  const far = asked ?? rows.reduce((most, row) => (Math.abs(row.mean - middle) > Math.abs(most.mean - middle) ? row : most), rows[0]!);
  const distances = rows.map((row) => Math.abs(row.mean - middle));
  const isFar = asked !== undefined || rows.length > 2 && Math.abs(far.mean - middle) > Math.max(UNLIKE * middleOf(distances), 1e-6 * Math.abs(middle));
  if (rows.length <= FEW.length && (!isFar || rows.length < 3)) return { times, lines: rows.map(({ label, values }, i) => ({ label, values, colour: FEW[i]!, width: 1.5 })) };
  const others = isFar ? rows.filter((row) => row !== far) : rows;
  const ground: Line[] = others.map((row) => ({ label: row.label, values: row.values, colour: "compute", width: 1, isQuiet: true }));
  const typical: Line[] = others.length ? [{ label: `median of ${isFar ? `${count(others.length)} others` : `all ${count(others.length)}`}`, colour: "compute", width: 1, values: times.map((_, i) => { const known = others.flatMap((row) => (row.values[i] === null ? [] : [row.values[i]!])); return known.length ? middleOf(known) : null; }) }] : [];
  const shown: Line[] = isFar ? [{ label: far.label, values: far.values, colour: "accent", width: 2.5 }] : [];
  return { times, lines: [...ground, ...typical, ...shown] };
}

// The rank that a finding is about, as its link has it.
function useNamed(): number | null {
  const { query: { rank = "" } } = useAddress();
  return /^\d{1,9}$/.test(rank) ? Number(rank) : null;
}

function useDrawn(part: Part, name: string, limit: number): { drawn: Drawn | null; isEmpty: boolean; isCut: boolean; failure: ReturnType<typeof useData>["failure"] } {
  const { job, range, news } = part;
  const named = useNamed();
  const { value, failure } = useData<CounterSeries[]>(`v1/counters?name=${encodeURIComponent(name)}&job=${encodeURIComponent(job.row.job)}&points=300&limit=${limit}${named === null ? "" : `&rank=${named}`}&${spanOf(range)}`, news);
  const drawn = useMemo(() => (value?.length ? drawnOf(value, named) : null), [value, named]);
  return { drawn, isEmpty: value?.length === 0, isCut: value?.length === limit, failure };
}

export function Counters(part: Part) {
  const { job, range, news } = part;
  const { query } = useAddress();
  const named = useNamed();
  const { value: names, failure } = useData<CounterName[]>(`v1/counter-names?job=${encodeURIComponent(job.row.job)}&${spanOf(range)}`, news);
  if (failure) return <Failed failure={failure} />;
  if (!names) return <Waiting height={300} />;
  if (!names.length) return <Empty title="No counter in this time" command="pilotlight doctor">The agents read GPU and host counters where the drivers allow it; the doctor says what is missing.</Empty>;
  const chosen = query["counter"] ?? "";
  const left = names.length - CHARTS;
  return (
    <section aria-label="counters">
      <div class="tools"><Choose label="counter" value={chosen} onChange={(name) => change({ counter: name || null })}><option value="">{names.length > CHARTS ? `the first ${CHARTS}` : "all"}</option>{names.map(({ name }) => <option value={name}>{counterWords(name).title} ({name})</option>)}</Choose>
        <Zoomed job={job.row.job} range={range} /><span class="quiet">{named === null ? "a rank that is unlike the others stands out" : <>rank {named} stands out <button type="button" onClick={() => change({ rank: null })}>whoever is unlike the others</button></>}{!chosen && left > 0 && <>; {count(left)} more counters in the list</>}</span></div>
      {chosen ? <Large part={part} name={chosen} /> : <div class="split">{names.slice(0, CHARTS).map(({ name }) => <Small part={part} name={name} />)}</div>}
    </section>
  );
}

function Large({ part, name }: { part: Part; name: string }) {
  const { drawn, isEmpty, isCut, failure } = useDrawn(part, name, LARGE);
  const { title, text } = counterWords(name);
  return <>{failure ? <Failed failure={failure} /> : drawn ? <><Series time_ns={drawn.times} lines={drawn.lines} height={360} text={text} label={title} onZoom={zoomTo} from_ns={part.range.from} to_ns={part.range.to} min={null} />{isCut && <p class="quiet">Drawn are {LARGE}: where there are more GPUs or hosts, those that are least like the others, and some that stand for the rest.</p>}</> : isEmpty ? <p class="empty">{title}: {UNKNOWN} in this time.</p> : <Waiting height={360} />}</>;
}

function Small({ part, name }: { part: Part; name: string }) {
  const { query: { from, to, rank } } = useAddress();
  const { drawn, isEmpty, failure } = useDrawn(part, name, SMALL);
  const { title, text } = counterWords(name);
  return <div><h2><a href={write(["job", part.job.row.job, "counters"], { counter: name, from, to, rank })} title={`${name}: show it large`}>{title}</a></h2>
    {failure ? <p class="partial">{failure.message}</p> : drawn ? <Series time_ns={drawn.times} lines={drawn.lines} height={150} text={text} label={title} onZoom={zoomTo} from_ns={part.range.from} to_ns={part.range.to} min={null} /> : isEmpty ? <p class="empty">{UNKNOWN} in this time</p> : <Waiting height={190} label={title} />}</div>;
}
