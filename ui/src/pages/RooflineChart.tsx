// Operators against what the GPU can do: how many operations for each byte, how many a second.
import { useState } from "preact/hooks";
import type { Roofline, RooflineRow } from "../data/types";
import { count, duration, share, threeDigits } from "../look/format";
import { useAnswer } from "../data/load";
import { Empty, Failed, Table, Waiting } from "../parts/parts";

const WIDTH = 760, HEIGHT = 420, LEFT = 96, BOTTOM = 40, TOP = 14, RIGHT = 16;
const COLOURS: Record<string, string> = { compute: "compute", memory: "copy", latency: "communication" };
const ADVICE: Record<string, string> = {
  compute: "near what the arithmetic units can do: a smaller type or fewer operations are what is left",
  memory: "bound by memory: fuse it with its neighbours, or move fewer bytes",
  latency: "neither unit is busy: larger batches, fewer and larger kernels, CUDA graphs",
};

const advice = (row: RooflineRow): string => ADVICE[row.limit] ?? row.reason;

export function RooflineChart({ roofline }: { roofline: Roofline }) {
  const [chosen, setChosen] = useState<RooflineRow | null>(null);
  const rows = roofline.rows.filter((row) => row.bytes > 0 && row.flops > 0 && row.total_ns > 0);
  if (!roofline.rows.length) return <Empty title="No operator with a cost model" command="torch.profiler.profile(record_shapes=True)">{roofline.missing || "The roofline needs the shapes of the operators' inputs."}</Empty>;
  const intensity = (row: RooflineRow) => row.flops / row.bytes;
  const rate = (row: RooflineRow) => (row.flops * row.count) / (row.total_ns / 1e9);
  const mine = roofline.peaks[0]!;
  const xs = rows.map(intensity).concat(mine.flops / mine.bytes), ys = rows.map(rate).concat(roofline.peaks.map((peak) => peak.flops));
  const [x0, x1] = [Math.floor(Math.log10(Math.min(...xs))), Math.ceil(Math.log10(Math.max(...xs)) + 0.3)];
  const [y0, y1] = [Math.floor(Math.log10(Math.max(Math.min(...ys), 1e6))), Math.ceil(Math.log10(Math.max(...ys)) + 0.1)];
  const x = (value: number) => LEFT + ((Math.log10(value) - x0) / (x1 - x0)) * (WIDTH - LEFT - RIGHT);
  const y = (value: number) => HEIGHT - BOTTOM - ((Math.log10(Math.max(value, 10 ** y0)) - y0) / (y1 - y0)) * (HEIGHT - BOTTOM - TOP);
  const longest = Math.max(...rows.map((row) => row.total_ns), 1);
  const roof = (flops: number, bytes: number) => `M${x(10 ** x0)},${y(bytes * 10 ** x0)}L${x(flops / bytes)},${y(flops)}L${x(10 ** x1)},${y(flops)}`;
  const decades = (low: number, high: number) => Array.from({ length: high - low + 1 }, (_, i) => low + i);
  const told = chosen ?? rows[0] ?? null;
  return (
    <section aria-label="roofline">
      <p class="quiet">{roofline.gpu}: MFU {share(roofline.mfu_ratio)} of the datasheet's peak; {share(roofline.covered_ratio)} of the kernel time has a cost model.</p>
      <div class="split">
        <div>
          <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width="100%" role="group" aria-label="roofline chart">
            {decades(x0, x1).map((power) => <><line class="grid" x1={x(10 ** power)} x2={x(10 ** power)} y1={TOP} y2={HEIGHT - BOTTOM} /><text x={x(10 ** power)} y={HEIGHT - BOTTOM + 16} text-anchor="middle">{10 ** power}</text></>)}
            {decades(y0, y1).map((power) => <><line class="grid" x1={LEFT} x2={WIDTH - RIGHT} y1={y(10 ** power)} y2={y(10 ** power)} /><text x={LEFT - 6} y={y(10 ** power) + 4} text-anchor="end">{rateText(10 ** power)}</text></>)}
            <text x={(LEFT + WIDTH) / 2} y={HEIGHT - 6} text-anchor="middle">operations for each byte</text>
            {roofline.peaks.slice(1).map((peak) => <path class="roof other" d={roof(peak.flops, peak.bytes)}><title>{peak.gpu}</title></path>)}
            <path class="roof" d={roof(mine.flops, mine.bytes)} />
            <text x={WIDTH - RIGHT} y={y(mine.flops) + 16} text-anchor="end">{mine.gpu}, as far as programs reach it</text>
            {rows.slice(0, 300).map((row) => (
              <circle cx={x(intensity(row))} cy={y(rate(row))} r={3 + 13 * Math.sqrt(row.total_ns / longest)} fill={`var(--${COLOURS[row.limit] ?? "other"})`}
                stroke={row === told ? "var(--text)" : undefined} style={row === told ? { stroke: "var(--text)", strokeWidth: 2 } : {}}
                onPointerEnter={() => setChosen(row)} onClick={() => setChosen(row)}><title>{`${row.operator} ${row.shapes}: ${row.limit}. ${advice(row)}`}</title></circle>))}
          </svg>
          <span class="legend">{Object.entries(COLOURS).map(([limit, name]) => <span><span class="swatch" style={{ background: `var(--${name})` }} />bound by {limit}</span>)}<span>size: time</span></span>
          {told && <p class="readout" aria-live="polite"><b>{told.operator}</b> {told.shapes}<br />{duration(told.total_ns)} in {count(told.count)}, {share(told.roofline_ratio)} of what this GPU reaches, {threeDigits(told.flops / told.bytes)} operations for each byte: {advice(told)}</p>}
        </div>
        <Table rows={roofline.rows} limit={40} label="operators" columns={[
          { title: "operator", isText: true, cell: (row) => <button type="button" class="plain" onClick={() => setChosen(row)}>{row.operator.replace(/^aten::/, "")} <small>{row.shapes}</small></button>, sort: (row) => row.operator },
          { title: "count", cell: (row) => count(row.count), sort: (row) => row.count },
          { title: "time", cell: (row) => duration(row.total_ns), sort: (row) => row.total_ns },
          { title: "of achievable", cell: (row) => share(row.roofline_ratio), sort: (row) => row.roofline_ratio },
          { title: "limit", isText: true, cell: (row) => <span title={row.reason}>{row.limit}</span>, sort: (row) => row.limit },
        ]} />
      </div>
    </section>
  );
}

const rateText = (value: number): string => (value >= 1e12 ? `${threeDigits(value / 1e12)} TFLOP/s` : value >= 1e9 ? `${threeDigits(value / 1e9)} GFLOP/s` : `${threeDigits(value / 1e6)} MFLOP/s`);

// The page of `pilotlight roofline --html`.
export function RooflinePage() {
  const { value, failure } = useAnswer<Roofline>("roofline");
  if (failure) return <Failed failure={failure} />;
  if (!value) return <Waiting height={420} />;
  const first = value.rows[0];
  return <><header><p class="about">{value.gpu}</p><h1>MFU {share(value.mfu_ratio)}{first ? `: the most time goes to ${first.operator.replace(/^aten::/, "")}, at ${share(first.roofline_ratio)} of what the GPU reaches (${first.limit})` : ""}</h1></header><RooflineChart roofline={value} /></>;
}
