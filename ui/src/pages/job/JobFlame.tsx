// Where the hosts of a job spend their time, by Python stacks.
import { useMemo, useState } from "preact/hooks";
import { Flame } from "../../charts/Flame";
import { callees, callers, lay } from "../../charts/tree";
import { change, remember, useAddress } from "../../data/address";
import { useData } from "../../data/load";
import { stackTree } from "../../data/stacks";
import type { StackTime } from "../../data/types";
import { Empty, Failed, Field, Search, Waiting } from "../../parts/parts";
import { type Part, spanOf, Zoomed } from "./part";

export function JobFlame({ job, range }: Part) {
  const { query } = useAddress();
  const rank = query["rank"] ?? "";
  const [text, setText] = useState(query["q"] ?? "");
  const [name, setName] = useState<number | null>(null);
  const { value: stacks, failure } = useData<StackTime[]>(`v1/stacks?job=${encodeURIComponent(job.row.job)}&limit=5000${rank === "" ? "" : `&rank=${rank}`}&${spanOf(range)}`);
  const laid = useMemo(() => (stacks ? lay(stackTree(stacks)) : null), [stacks]);
  const sandwich = useMemo(() => (laid && name !== null ? { up: lay(callers(laid.tree, laid.total, name)), down: lay(callees(laid.tree, name)) } : null), [laid, name]);
  const palette = ["unknown", "running", "waiting", "gil", "disk"];
  return (
    <section aria-label="flame graph">
      <div class="tools"><h2>Python stacks{rank === "" ? " of all ranks" : ` of rank ${rank}`}</h2>
        <Field label="rank"><select value={rank} onChange={(event) => change({ rank: (event.target as HTMLSelectElement).value || null })}><option value="">all</option>{job.ranks.slice(0, 2000).map((row) => <option value={String(row.rank)}>{row.rank}</option>)}</select></Field>
        <Search value={text} onInput={(given) => { setText(given); remember({ q: given }); }} /><Zoomed range={range} />
        <span class="legend">{palette.slice(1).map((state) => <span><span class="swatch" style={{ background: `var(--${state})` }} />{state === "gil" ? "waiting for the GIL" : state}</span>)}</span></div>
      {failure ? <Failed failure={failure} /> : !laid ? <Waiting height={300} /> : laid.total[0] === 0
        ? <Empty title="No stack in this time" command="pilotlight run -- python train.py">Stacks come from the sampler that <code>pilotlight run</code> starts in each process; by rank they are kept for three days.</Empty>
        : sandwich && name !== null
          ? <div class="split"><div><h2>{laid.tree.names[name]} <button type="button" onClick={() => setName(null)}>back to the whole</button></h2><h3>called by</h3><Flame laid={sandwich.up} query={text} label="Callers" palette={palette} /></div><div><h2>&nbsp;</h2><h3>calls</h3><Flame laid={sandwich.down} query={text} label="Callees" palette={palette} /></div></div>
          : <Flame laid={laid} query={text} label="Flame graph" palette={palette} onPick={setName} />}
    </section>
  );
}
