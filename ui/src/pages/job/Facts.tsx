// What a job is: command, versions, attempts and what changed between them, ranks.
import { write } from "../../data/address";
import type { Job } from "../../data/types";
import { ago, clock, count, duration } from "../../look/format";
import { Bar, Table } from "../../parts/parts";
import { wholePieces } from "../../parts/time";

// What the store knows of each job, then what the program's own environment told; each once, and none that is empty.
export function factsOf({ row, facts }: Pick<Job, "row" | "facts">): [string, string][] {
  const told = Object.entries(facts).map(([name, fact]) => [name === "version" ? "pilotlight" : name, typeof fact === "string" ? fact : JSON.stringify(fact)] as [string, string]);
  const known: [string, string][] = [["command", row.command], ["launcher", row.launcher], ["cluster", row.cluster], ["world size", row.world_size ? String(row.world_size) : ""]];
  return [...known, ...told.filter(([name]) => !known.some(([each]) => each === name))].filter(([, text]) => text !== "");
}

export function Facts({ job }: { job: Job }) {
  return <div class="columns">
    <Table title="Facts" rows={factsOf(job)}
      columns={[{ title: "fact", isText: true, isBrief: true, cell: (row) => row[0] }, { title: "value", isText: true, cell: (row) => row[1] }]} />
    <Table title="Attempts" rows={job.attempts} columns={[
      { title: "attempt", cell: (row) => String(row.attempt) }, { title: "state", isText: true, cell: (row) => row.state }, { title: "started", cell: (row) => <span title={clock(row.started_ns)}>{ago(row.started_ns, job.now_ns)}</span> }, { title: "nodes", cell: (row) => count(row.nodes) }, { title: "ranks", cell: (row) => count(row.ranks) }, { title: "exit code", cell: (row) => (row.ended_ns ? String(row.exit_code) : "") }]} />
    <Table title="What changed between attempts" rows={job.changes} empty={job.attempts.length > 1 ? "Nothing: all attempts had the same command, versions and size." : "There was one attempt only."} columns={[
      { title: "attempt", cell: (row) => String(row.attempt) }, { title: "fact", isText: true, isBrief: true, cell: (row) => row.name }, { title: "before", isText: true, cell: (row) => row.before || "–" }, { title: "after", isText: true, cell: (row) => row.after || "–" }]} />
    <Table title="Ranks" rows={job.ranks} limit={64} columns={[
      { title: "rank", cell: (row) => <a href={write(["job", job.row.job], { rank: row.rank })}>{row.rank}</a>, sort: (row) => row.rank }, { title: "node", isText: true, cell: (row) => row.node, sort: (row) => row.node }, { title: "gpu", cell: (row) => (row.gpu < 0 ? "–" : String(row.gpu)) }, { title: "pid", cell: (row) => String(row.pid) }, { title: "step", cell: (row) => count(row.step), sort: (row) => row.step },
      { title: "mean step", cell: (row) => duration(row.step_ns), sort: (row) => row.step_ns }, { title: "time", cell: (row) => <Bar pieces={wholePieces(row.parts_ns, row.steps * row.step_ns)} narrow /> }, { title: "state", isText: true, isBrief: true, cell: (row) => row.state }, { title: "drops", cell: (row) => count(row.records_dropped), sort: (row) => row.records_dropped }]} />
  </div>;
}
