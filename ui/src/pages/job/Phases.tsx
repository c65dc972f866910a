// What the steps are made of, as the adapters of frameworks tell it: data, forward, backward, optimizer.
import { useMemo } from "preact/hooks";
import { Series, stacked } from "../../charts/Series";
import { useData } from "../../data/load";
import type { Phases as Told } from "../../data/types";
import { share } from "../../look/format";
import { Bar, Failed, Legend, type Piece, Waiting } from "../../parts/parts";
import { type Part, spanOf, zoomTo } from "./part";

const PHASES: [string, string, string][] = [
  ["data", "data loading", "input"], ["forward", "forward", "compute"], ["backward", "backward", "backward"], ["optimizer", "optimizer", "host"],
  ["communication", "communication", "communication"], ["checkpoint", "checkpoint", "overhead"],
];

// Known phases in their order, others by name, what none covers last.
export function phasesOf(told: Record<string, number[]>): { name: string; label: string; colour: string }[] {
  const known = PHASES.filter(([name]) => told[name]).map(([name, label, colour]) => ({ name, label, colour }));
  const rest = Object.keys(told).filter((name) => name !== "other" && !PHASES.some(([each]) => each === name)).sort();
  return [...known, ...rest.map((name) => ({ name, label: name, colour: "copy" })), ...(told["other"] ? [{ name: "other", label: "other", colour: "other" }] : [])];
}

// The steps of the latest windows may be there before their phases, or all of them, are: that is not a time without any.
export function settled(told: Told): Told {
  const named = Object.entries(told.phases_ns).filter(([name]) => name !== "other").map(([, values]) => values);
  let end = told.time_ns.length;
  const covered = told.time_ns.map((_, i) => { const sum = named.reduce((ns, values) => ns + (values[i] ?? 0), 0); return sum / (sum + (told.phases_ns["other"]?.[i] ?? 0) || 1); });
  while (end > 0 && !covered[end - 1]) end--;
  const usual = covered.slice(0, end).sort((a, b) => a - b)[end >> 1] ?? 0;
  if (end > 2 && covered[end - 1]! < usual / 2) end--;
  return { ...told, time_ns: told.time_ns.slice(0, end), phases_ns: Object.fromEntries(Object.entries(told.phases_ns).map(([name, values]) => [name, values.slice(0, end)])) };
}

export function Phases({ job, range, news }: Part) {
  const { value, failure } = useData<Told>(`v1/phases?job=${encodeURIComponent(job.row.job)}&points=400&${spanOf(range)}`, news);
  const told = useMemo(() => value && settled(value), [value]);
  const [lines, pieces] = useMemo(() => {
    if (!told) return [[], []];
    const shown = phasesOf(told.phases_ns);
    const whole = told.time_ns.map((_, i) => shown.reduce((sum, { name }) => sum + told.phases_ns[name]![i]!, 0));
    return [
      stacked(shown.map(({ name, label, colour }) => ({ label, colour, values: told.phases_ns[name]!.map((ns, i) => (whole[i] ? ns / whole[i]! : null)) }))),
      shown.map(({ name, label, colour }): Piece => ({ label, colour, ns: told.phases_ns[name]!.reduce((a, b) => a + b, 0) })).filter((piece) => piece.ns > 0),
    ];
  }, [told]);
  return (
    <section aria-label="phases over time"><h2>Phases of the steps, on the host</h2>
      {failure ? <Failed failure={failure} /> : !told ? <Waiting height={180} />
        : told.time_ns.length === 0 ? <p class="empty">No phase was told in this time. They are told of PyTorch programs that run under <code>pilotlight run</code>.</p>
        : <><Bar pieces={pieces} wide /><Legend pieces={pieces} />
          {told.time_ns.length > 1 && <Series time_ns={told.time_ns} lines={lines} height={180} text={share} label="phases of the steps over time" onZoom={zoomTo} from_ns={range.from} to_ns={range.to} max={1} />}</>}
    </section>
  );
}
