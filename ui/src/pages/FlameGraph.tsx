// Host and device time of a rank in one tree; beside it a second rank, stretch of time, capture or trace.
import { useMemo } from "preact/hooks";
import { compared, lay, sameTotal, type Tree, wholeOf } from "../charts/tree";
import { change, useAddress, useChoice } from "../data/address";
import { useAnswer, useLoaded, useSource } from "../data/load";
import type { Columns } from "../data/table";
import type { Trace, TraceName } from "../data/types";
import { activities } from "../look/colours";
import { ago, duration } from "../look/format";
import { FlameView, SCALED } from "../parts/FlameView";
import { Choose, Empty, Failed, Search, Waiting } from "../parts/parts";

const EARLIER = "before", TRACE = "trace:";
export type Weight = "host" | "device";

export function treeOf(table: Columns, weight: Weight): Tree {
  const { values, numbers } = table.texts("name");
  return {
    names: values, notes: values.map(() => ""), parent: table.numbers("parent") as Uint32Array, name: numbers,
    activity: table.numbers("activity") as Uint8Array, own: table.numbers(weight) as Float64Array,
  };
}

export const flamePath = (trace: string, rank: number, from: number, to: number): string => `traces/${trace}/flame?rank=${rank}&from=${from}&to=${to}`;

// The rank that the first finding is about, where it is about one.
const firstOf = ({ ranks, findings }: Trace): number => (ranks.find((each) => each.rank === findings[0]?.rank) ?? ranks[0])?.rank ?? 0;

export function FlameGraph({ trace }: { trace: Trace }) {
  const source = useSource();
  const { query } = useAddress();
  const rank = Number(query["rank"] ?? firstOf(trace));
  const isZoomed = source.served && query["from"] !== undefined;
  const from = isZoomed ? Number(query["from"]) : 0, to = isZoomed ? Number(query["to"] ?? trace.length_ns) : trace.length_ns;
  const against = query["against"] ?? "";
  const hasDevice = trace.ranks.find((row) => row.rank === rank)?.parts !== null;
  const [chosen, setWeight] = useChoice("weight", hasDevice ? "device" : "host");
  const weight: Weight = chosen === "host" ? "host" : "device";
  const [text, setText] = useChoice("q");
  const path = flamePath(trace.id, rank, from, to);
  const isEarlier = against === EARLIER;
  // Another trace: the same rank of it where it has that, and all of its time.
  const foreign = against.startsWith(TRACE) ? against.slice(TRACE.length) : null;
  const names = useAnswer<TraceName[]>(source.served ? "traces" : null).value?.filter((each) => each.id !== trace.id) ?? [];
  const strange = useAnswer<Trace>(foreign && `traces/${foreign}`);
  const theirs = strange.value && foreign ? (strange.value.ranks.find((row) => row.rank === rank) ?? strange.value.ranks[0])?.rank ?? 0 : 0;
  const other = against === "" || (foreign && !strange.value) ? null
    : foreign ? flamePath(foreign, theirs, 0, strange.value!.length_ns)
    : isEarlier ? flamePath(trace.id, rank, 2 * from - to, from) : flamePath(trace.id, Number(against), from, to);
  const main = useLoaded(path, (source) => source.table(path));
  const second = useLoaded(other, (source) => source.table(other ?? ""));
  const failure = main.failure ?? (against ? strange.failure ?? second.failure : null);
  const [laid, mine, its] = useMemo(() => {
    if (!main.value || (other && !second.fresh)) return [null, 0, 0];
    const tree = treeOf(main.value, weight);
    if (!other || !second.value) return [lay(tree), wholeOf(tree), 0];
    const beside = treeOf(second.value, weight);
    return [foreign ? compared(...sameTotal(beside, tree)) : compared(beside, tree), wholeOf(tree), wholeOf(beside)];
  }, [main.value, second.value, second.fresh, other, weight]);
  const whole = laid ? laid.total[0]! : 0;
  const sides = isEarlier ? { before: "before", after: "in this time" } : { before: foreign ? "the other" : `rank ${against}`, after: foreign ? "this one" : `rank ${rank}` };
  const than = isEarlier ? "in the time before" : foreign ? `on rank ${theirs} of ${strange.value?.title ?? "the other"}` : `rank ${against}`;
  return (
    <section aria-label="flame graph">
      <div class="tools">
        {trace.ranks.length > 1 && <Choose label="rank" value={String(rank)} onChange={(value) => change({ rank: value })}>{trace.ranks.map((row) => <option value={String(row.rank)}>{row.rank}</option>)}</Choose>}
        {(trace.ranks.length > 1 || isZoomed || names.length > 0 || against) && <Choose label="compared with" value={against} onChange={(value) => change({ against: value, at: null, of: null })}>
          <option value="">nothing</option>
          {isZoomed && 2 * from - to >= 0 && <option value={EARLIER}>the time before it</option>}
          {trace.ranks.length > 1 && <optgroup label="ranks of this one">{trace.ranks.filter((row) => row.rank !== rank).map((row) => <option value={String(row.rank)}>rank {row.rank}</option>)}</optgroup>}
          {(names.length > 0 || foreign) && <optgroup label="other captures and traces">{foreign && !names.some((each) => each.id === foreign) && <option value={against}>{strange.value?.title ?? foreign}</option>}{names.map((each) => <option value={`${TRACE}${each.id}`}>{each.title}{each.taken_ns ? `, ${ago(each.taken_ns, Date.now() * 1e6)}` : ""}</option>)}</optgroup>}
        </Choose>}
        <Choose label="time of" value={weight} onChange={setWeight}><option value="device">the device</option><option value="host">the host</option></Choose>
        <Search value={text} onInput={setText} />
        {isZoomed && <button type="button" onClick={() => change({ from: null, to: null })}>whole time</button>}
        <span class="legend">{laid?.change ? <><span><span class="swatch" style={{ background: "var(--more)" }} />{foreign ? "a greater part than" : "more than"} {than}</span><span><span class="swatch" style={{ background: "var(--less)" }} />{foreign ? "a smaller one" : "less"}</span></> : activities.filter((_, i) => i > 0 && laid?.tree.activity.includes(i)).map((activity) => <span><span class="swatch" style={{ background: `var(--${activity})` }} />{activity}</span>)}</span>
      </div>
      <p class="quiet">{whole ? <>{duration(mine)} of {weight} time{isZoomed ? <> between {duration(from)} and {duration(to)}</> : ""}{laid?.change && <>, {duration(its)} {isEarlier || foreign ? than : `on ${than}`}</>}; host spans above the kernels that they launched, all steps together.{foreign && laid?.change ? ` ${SCALED}` : ""}</> : ""}</p>
      {failure ? <Failed failure={failure} again={main.again} /> : !laid ? <Waiting height={300} /> : whole === 0
        ? <Empty title={`No ${weight} time here`}>Choose the time of the {weight === "host" ? "device" : "host"}, another rank, or a longer stretch.</Empty>
        : <FlameView laid={laid} text={text} palette={activities} limit={20} sides={sides} />}
    </section>
  );
}
