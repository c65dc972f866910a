// Host and device time of a rank in one tree; a second rank or stretch of time beside it.
import { useMemo, useState } from "preact/hooks";
import { Flame } from "../charts/Flame";
import { callees, callers, compared, functions, lay, type Tree } from "../charts/tree";
import { change, remember, useAddress } from "../data/address";
import { useLoaded, useSource } from "../data/load";
import type { Columns } from "../data/table";
import type { Trace } from "../data/types";
import { activities } from "../look/colours";
import { duration, share, shortName } from "../look/format";
import { Empty, Failed, Field, Search, Table, Waiting } from "../parts/parts";

const EARLIER = "before";
export type Weight = "host" | "device";

export function treeOf(table: Columns, weight: Weight): Tree {
  const { values, numbers } = table.texts("name");
  return {
    names: values, notes: values.map(() => ""), parent: table.numbers("parent") as Uint32Array, name: numbers,
    activity: table.numbers("activity") as Uint8Array, own: table.numbers(weight) as Float64Array,
  };
}

export const flamePath = (trace: string, rank: number, from: number, to: number): string => `traces/${trace}/flame?rank=${rank}&from=${from}&to=${to}`;

export function FlameGraph({ trace }: { trace: Trace }) {
  const source = useSource();
  const { query } = useAddress();
  const rank = Number(query["rank"] ?? trace.ranks[0]?.rank ?? 0);
  const from = Number(query["from"] ?? 0), to = Number(query["to"] ?? trace.length_ns);
  const against = query["against"] ?? "";
  const hasDevice = trace.ranks.find((row) => row.rank === rank)?.parts !== null;
  const [weight, setWeight] = useState<Weight>((query["weight"] as Weight) || (hasDevice ? "device" : "host"));
  const [text, setText] = useState(query["q"] ?? "");
  const [name, setName] = useState<number | null>(null);
  const path = flamePath(trace.id, rank, from, to);
  const isEarlier = against === EARLIER;
  const other = against === "" ? null : isEarlier ? flamePath(trace.id, rank, 2 * from - to, from) : flamePath(trace.id, Number(against), from, to);
  const main = useLoaded(path, (source) => source.table(path));
  const second = useLoaded(other, (source) => source.table(other ?? ""));
  const laid = useMemo(() => {
    if (!main.value) return null;
    const tree = treeOf(main.value, weight);
    return other && second.value ? compared(treeOf(second.value, weight), tree) : lay(tree);
  }, [main.value, second.value, other, weight]);
  const rows = useMemo(() => (laid && !laid.change ? functions(laid) : []), [laid]);
  const sandwich = useMemo(() => (laid && name !== null && !laid.change ? { up: lay(callers(laid.tree, laid.total, name)), down: lay(callees(laid.tree, name)) } : null), [laid, name]);
  const whole = laid ? laid.total[0]! : 0;
  return (
    <section aria-label="flame graph">
      <div class="tools">
        {trace.ranks.length > 1 && <Field label="rank"><select value={String(rank)} onChange={(event) => change({ rank: (event.target as HTMLSelectElement).value })}>{trace.ranks.map((row) => <option value={String(row.rank)}>{row.rank}</option>)}</select></Field>}
        {(trace.ranks.length > 1 || query["from"]) && <Field label="compared with"><select value={against} onChange={(event) => change({ against: (event.target as HTMLSelectElement).value })}><option value="">nothing</option>{source.served && query["from"] && 2 * from - to >= 0 && <option value={EARLIER}>the time before it</option>}{trace.ranks.filter((row) => row.rank !== rank).map((row) => <option value={String(row.rank)}>rank {row.rank}</option>)}</select></Field>}
        <Field label="time of"><select value={weight} onChange={(event) => { const value = (event.target as HTMLSelectElement).value as Weight; setWeight(value); remember({ weight: value }); }}><option value="device">the device</option><option value="host">the host</option></select></Field>
        <Search value={text} onInput={(value) => { setText(value); remember({ q: value }); }} />
        {query["from"] && <button type="button" onClick={() => change({ from: null, to: null })}>whole time</button>}
        <span class="legend">{laid?.change ? <><span><span class="swatch" style={{ background: "var(--more)" }} />more than {isEarlier ? "in the time before" : `rank ${against}`}</span><span><span class="swatch" style={{ background: "var(--less)" }} />less</span></> : ["host", "compute", "communication", "copy", "overhead"].map((activity) => <span><span class="swatch" style={{ background: `var(--${activity})` }} />{activity}</span>)}</span>
      </div>
      <p class="quiet">{whole ? <>{duration(whole)} of {weight} time{query["from"] ? <> between {duration(from)} and {duration(to)}</> : ""}; host spans above the kernels that they launched.</> : ""}</p>
      {main.failure ? <Failed failure={main.failure} again={main.again} /> : !laid ? <Waiting height={300} /> : whole === 0
        ? <Empty title={`No ${weight} time here`}>Choose the time of the {weight === "host" ? "device" : "host"}, another rank, or a longer stretch.</Empty>
        : sandwich && name !== null
          ? <div class="split"><div><h2>{shortName(laid.tree.names[name]!)} <button type="button" onClick={() => setName(null)}>back to the whole</button></h2><h3>called by</h3><Flame laid={sandwich.up} query={text} label="Callers" /></div><div><h2>&nbsp;</h2><h3>calls</h3><Flame laid={sandwich.down} query={text} label="Callees" /></div></div>
          : <Flame laid={laid} query={text} label="Flame graph" {...(laid.change ? {} : { onPick: setName })} />}
      {rows.length > 0 && <Table title="By name" rows={rows} limit={30} columns={[
        { title: "name", isText: true, isName: true, cell: (row) => <><span class="swatch" style={{ background: `var(--${activities[row.activity]})` }} /> <button type="button" class="plain" title={laid!.tree.names[row.name]} onClick={() => setName(row.name)}>{shortName(laid!.tree.names[row.name]!)}</button></>, sort: (row) => laid!.tree.names[row.name]! },
        { title: "self", cell: (row) => duration(row.own), sort: (row) => row.own },
        { title: "", cell: (row) => share(row.own / whole) },
        { title: "total", cell: (row) => duration(row.total), sort: (row) => row.total },
        { title: "", cell: (row) => share(row.total / whole) },
      ]} />}
    </section>
  );
}
