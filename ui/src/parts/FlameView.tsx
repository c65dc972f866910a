// A flame graph with what belongs to it: callers and callees of a name, and the table of names. What is
// zoomed into and looked at is in the address.
import { useMemo } from "preact/hooks";
import { Flame, NOW_AND_BEFORE, type Sides } from "../charts/Flame";
import { callees, callers, changes, functions, type Laid, lay, nameKey, nodeKey, nodeOf, type Tree } from "../charts/tree";
import { change, useAddress, useChoice } from "../data/address";
import { duration, share, shortName, signedShare } from "../look/format";
import { Table } from "./parts";

export const SCALED = "Both are scaled to the same time: what is compared are parts of it.";

interface Properties { laid: Laid; text: string; palette: readonly string[]; sides?: Sides }

export function FlameAlone({ laid, text, palette, sides }: Properties) {
  const { query } = useAddress();
  const { tree } = laid;
  const [at, setAt] = useChoice("at");
  const zoom = useMemo(() => (at ? nodeOf(tree, at) : 0), [laid, at]);
  const name = useMemo(() => (query["of"] ? tree.names.findIndex((each) => nameKey(each) === query["of"]) : -1), [laid, query["of"]]);
  const sandwich = useMemo(() => (name >= 0 && !laid.change ? { up: lay(callers(tree, name)), down: lay(callees(tree, name)) } : null), [laid, name]);
  const zoomTo = (node: number) => setAt(node ? nodeKey(tree, node) : "");
  return sandwich
    ? <><div class="tools"><h2 title={tree.names[name]}>{shortName(tree.names[name]!)}</h2><button type="button" onClick={() => change({ of: null })}>back to the whole</button></div>
      <div class="split"><div><h3>called by</h3><Flame laid={sandwich.up} query={text} label="Callers" palette={palette} /></div><div><h3>calls</h3><Flame laid={sandwich.down} query={text} label="Callees" palette={palette} /></div></div></>
    : <Flame laid={laid} query={text} label="Flame graph" palette={palette} zoom={zoom} onZoom={zoomTo} {...(sides ? { sides } : {})} {...(laid.change ? {} : { onPick: (number: number) => look(tree, number) })} />;
}

const look = (tree: Tree, number: number): void => change({ of: nameKey(tree.names[number]!) });

export function FlameView({ laid, text, palette, limit, sides = NOW_AND_BEFORE }: Properties & { limit: number }) {
  const { tree } = laid;
  const rows = useMemo(() => (laid.change ? [] : functions(laid)), [laid]);
  const moved = useMemo(() => (laid.change ? changes(laid) : []), [laid]);
  const whole = laid.total[0] || 1;
  return (
    <>
      <FlameAlone laid={laid} text={text} palette={palette} sides={sides} />
      {rows.length > 0 && <Table title="By name" rows={rows} limit={limit} columns={[
        { title: "name", isText: true, isName: true, cell: (row) => <><span class="swatch" style={{ background: `var(--${palette[row.activity]})` }} /> <button type="button" class="plain" title={row.label} onClick={() => look(tree, row.name)}>{shortName(row.label)}</button></>, sort: (row) => tree.names[row.name]! },
        { title: "self", cell: (row) => duration(row.own), sort: (row) => row.own }, { title: "of all", cell: (row) => share(row.own / whole) },
        { title: "total", cell: (row) => duration(row.total), sort: (row) => row.total }, { title: "of all", cell: (row) => share(row.total / whole) }]} />}
      {laid.change && <Table title="What differs, by name" rows={moved} limit={limit} empty="No name takes more or less by half a thousandth of the whole." columns={[
        { title: "name", isText: true, isName: true, cell: (row) => <><span class="swatch" style={{ background: `var(--${row.change > 0 ? "more" : "less"})` }} /> <span title={row.label}>{shortName(row.label)}</span></>, sort: (row) => row.label },
        { title: sides.before, hint: "in the name itself, without what it calls", cell: (row) => duration(row.before), sort: (row) => row.before }, { title: sides.after, hint: "in the name itself, without what it calls", cell: (row) => duration(row.after), sort: (row) => row.after },
        { title: "difference", cell: (row) => <>{row.change >= 0 ? "+" : "−"}{duration(Math.abs(row.change))}</>, sort: (row) => row.change }, { title: "of the whole", cell: (row) => signedShare(row.change / whole), sort: (row) => Math.abs(row.change) }]} />}
    </>
  );
}
