// Why kernels do not go on, by PC samples: the reasons as a bar and in words.
import type { KernelStalls } from "../data/types";
import { count, share, shortName } from "../look/format";
import { Bar, Table } from "./parts";

const SHADES: Record<string, string> = {
  selected: "compute", math_pipe_throttle: "compute", not_selected: "backward", long_scoreboard: "copy", lg_throttle: "copy", drain: "copy",
  short_scoreboard: "input", mio_throttle: "input", barrier: "idle", membar: "idle", wait: "overhead",
};

export function Stalls({ rows }: { rows: KernelStalls[] }) {
  const words = (row: KernelStalls): string => row.reasons.slice(0, 3).map((reason) => `${reason.words} ${share(reason.ratio)}`).join(", ");
  return <Table title="Why kernels stall, by PC samples" label="stalls" rows={rows} limit={20} columns={[
    { title: "kernel", isText: true, isName: true, cell: (row) => <span title={row.name}>{shortName(row.name)}</span>, sort: (row) => row.name },
    { title: "of all samples", cell: (row) => share(row.ratio), sort: (row) => row.samples }, { title: "samples", cell: (row) => count(row.samples), sort: (row) => row.samples },
    { title: "reasons", cell: (row) => <Bar pieces={row.reasons.map((reason) => ({ label: reason.words, ns: reason.samples, colour: SHADES[reason.reason] ?? "other" }))} /> },
    { title: "why", isText: true, cell: (row) => words(row) }]} />;
}
