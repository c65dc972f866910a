// Operators against what the GPU can do: how many operations for each byte, how many a second.
import { LIMIT_COLOURS, Roof } from "../charts/Roof";
import type { Roofline, RooflineRow } from "../data/types";
import { count, duration, plural, share, threeDigits } from "../look/format";
import { useChoice } from "../data/address";
import { useAnswer } from "../data/load";
import { nameKey } from "../charts/tree";
import { Empty, PageFailed, Table, Waiting } from "../parts/parts";

const ADVICE: Record<string, string> = {
  compute: "near what the arithmetic units can do: a smaller type or fewer operations are what is left",
  memory: "bound by memory: fuse it with its neighbours, or move fewer bytes",
  latency: "neither unit is busy: larger batches, fewer and larger kernels, CUDA graphs",
  launch: "over before the host has launched the next: CUDA graphs, torch.compile, larger batches",
};

const keyOf = (row: RooflineRow): string => nameKey(`${row.operator} ${row.shapes}`);
const advice = (row: RooflineRow): string => ADVICE[row.limit] ?? row.reason;

export function RooflineChart({ roofline }: { roofline: Roofline }) {
  const [key, setKey] = useChoice("operator");
  const chosen = key ? roofline.rows.find((row) => keyOf(row) === key) ?? null : null;
  const setChosen = (row: RooflineRow | undefined) => { if (row) setKey(keyOf(row)); };
  const rows = roofline.rows.filter((row) => row.bytes > 0 && row.flops > 0 && row.total_ns > 0);
  const missing = roofline.missing ?? "";
  if (!roofline.rows.length) return <Empty title="Not measured" {...(/record_shapes/.test(missing) ? { command: "torch.profiler.profile(record_shapes=True)" } : {})}>{missing ? `${missing[0]!.toUpperCase()}${missing.slice(1)}.` : "No operator of this trace has a cost model."}</Empty>;
  const intensity = (row: RooflineRow) => row.flops / row.bytes;
  const rate = (row: RooflineRow) => (row.flops * row.count) / (row.total_ns / 1e9);
  const longest = Math.max(...rows.map((row) => row.total_ns), 1);
  const told = chosen ?? rows[0] ?? null;
  return (
    <section aria-label="roofline">
      <p class="quiet">{roofline.gpu}: MFU {mfu(roofline)}{roofline.mfu_ratio === null ? "" : " of the datasheet's peak"}; {share(roofline.covered_ratio)} of the kernel time has a cost model.</p>
      <div class="split">
        <div>
          <Roof peaks={roofline.peaks} label="roofline chart" chosen={told === null ? -1 : rows.indexOf(told)} onChoose={(i) => setChosen(rows[i])}
            points={rows.slice(0, 300).map((row) => ({ x: intensity(row), y: rate(row), radius: 3 + 13 * Math.sqrt(row.total_ns / longest), colour: LIMIT_COLOURS[row.limit] ?? "other", title: `${row.operator} ${row.shapes}: ${row.limit}. ${advice(row)}` }))} />
          <span class="legend">{Object.entries(LIMIT_COLOURS).map(([limit, name]) => <span><span class="swatch" style={{ background: `var(--${name})` }} />bound by {limit}</span>)}{rows.some((row) => !(row.limit in LIMIT_COLOURS)) && <span><span class="swatch" style={{ background: "var(--other)" }} />not known</span>}<span>size: time</span></span>
          {told && <p class="readout" aria-live="polite"><b>{told.operator}</b> {told.shapes}<br />{duration(told.total_ns)} in {plural(told.count, "call")}, {share(told.roofline_ratio)} of what this GPU reaches, {threeDigits(told.flops / told.bytes)} operations for each byte: {advice(told)}</p>}
        </div>
        <Table rows={roofline.rows} limit={40} label="operators" columns={[
          { title: "operator", isText: true, isName: true, cell: (row) => <button type="button" class="plain" title={`${row.operator} ${row.shapes}`} onClick={() => setChosen(row)}>{row.operator.replace(/^aten::/, "")} <small>{row.shapes}</small></button>, sort: (row) => row.operator },
          { title: "count", cell: (row) => count(row.count), sort: (row) => row.count },
          { title: "time", cell: (row) => duration(row.total_ns), sort: (row) => row.total_ns },
          { title: "of achievable", hint: "of the rate that programs reach on this GPU with as many operations for each byte", cell: (row) => share(row.roofline_ratio), sort: (row) => row.roofline_ratio },
          { title: "limit", isText: true, isBrief: true, cell: (row) => <span title={row.reason}>{row.limit}</span>, sort: (row) => row.limit },
        ]} />
      </div>
    </section>
  );
}

function mfu(roofline: Roofline): string {
  if (roofline.mfu_ratio === null) return "not known";
  return `${roofline.is_mfu_a_bound ? "at least " : ""}${share(roofline.mfu_ratio)}`;
}

// The page of `pilotlight roofline --html`.
export function RooflinePage() {
  const { value, failure } = useAnswer<Roofline>("roofline");
  if (failure) return <PageFailed failure={failure} />;
  if (!value) return <Waiting height={420} />;
  const first = value.rows[0];
  return <><header><p class="about">{value.gpu}</p><h1>MFU {mfu(value)}{first ? `: the most time goes to ${first.operator.replace(/^aten::/, "")}, at ${share(first.roofline_ratio)} of what the GPU reaches (${first.limit})` : ""}</h1></header><RooflineChart roofline={value} /></>;
}
