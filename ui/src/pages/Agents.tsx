// The agents: what they cost now, what they lost, which versions run where.
import { useMemo } from "preact/hooks";
import { useChoice, write } from "../data/address";
import { useData, useNews } from "../data/load";
import type { AgentCost, AgentRow, DoctorRow } from "../data/types";
import { ago, clock, count, duration, plural, share, size, UNKNOWN, value } from "../look/format";
import { Empty, Fold, Names, overheadText, PageFailed, Partial, Search, Table, Waiting } from "../parts/parts";

const lostOf = (row: AgentRow): string =>
  ([[row.records_dropped, "records"], [row.rows_lost, "rows"], [row.batches_lost, "batches"]] as const).filter(([number]) => number > 0).map(([number, what]) => `${count(number)} ${what}`).join(", ") || "nothing";

// Of the process that is slowed most; null where no one measures it.
export function slowest(costs: AgentCost[]): AgentCost["cost"] | null {
  return costs.map((row) => row.cost).filter((cost) => cost.overhead_high !== null).sort((a, b) => b.overhead_high! - a.overhead_high!)[0] ?? null;
}

const ofBudget = (ceiling: number | undefined, text: (value: number) => string) => (ceiling ? <small> of {text(ceiling)}</small> : null);

function Slows({ cost }: { cost: AgentCost | undefined }) {
  if (!cost || cost.cost.overhead_high === null) return <small>{UNKNOWN}</small>;
  const { processes, measured } = cost.cost;
  return <span title={`the one that is slowed most; measured now on ${measured} of ${processes} processes, by steps with and without recording`}>{overheadText(cost.cost)}{measured < processes && <small> ({measured} of {processes})</small>}</span>;
}

function Collects({ cost }: { cost: AgentCost | undefined }) {
  if (!cost || cost.cost.processes === 0) return <small>no process now</small>;
  const { launches_ratio, records_ratio, tiers } = cost.cost;
  return tiers.length === 0 ? <small>no GPU</small> : <span title={`of the time; launches ${share(launches_ratio)}; ${tiers.join(", ")}`}>{share(records_ratio)}</span>;
}

interface Advice { what: string; state: string; detail: string; fix: string; nodes: string[] }

// The same word about many nodes is said once; the order is that of the answer, the worst first.
export function adviceOf(rows: DoctorRow[]): Advice[] {
  const found = new Map<string, Advice>();
  for (const row of rows) {
    const key = JSON.stringify([row.what, row.state, row.detail, row.fix]);
    const known = found.get(key);
    if (known) known.nodes.push(row.node);
    else found.set(key, { what: row.what, state: row.state, detail: row.detail, fix: row.fix, nodes: [row.node] });
  }
  return [...found.values()];
}

function Doctor({ rows }: { rows: DoctorRow[] }) {
  const advice = adviceOf(rows);
  const [bad, well] = [advice.filter((row) => row.state !== "ok"), advice.filter((row) => row.state === "ok")];
  const table = (list: Advice[], label: string) => <Table rows={list} limit={50} label={label} columns={[
    { title: "state", isText: true, cell: (row) => <span class={row.state === "ok" ? "" : "partial"}>{row.state}</span>, sort: (row) => row.state }, { title: "check", isText: true, cell: (row) => row.what, sort: (row) => row.what },
    { title: "what was found", isText: true, cell: (row) => row.detail }, { title: "what to do", isText: true, cell: (row) => row.fix },
    { title: "nodes", isText: true, cell: (row) => <span title={row.nodes.join(", ")}>{row.nodes.length > 3 ? <><Names names={row.nodes.slice(0, 2)} /> and {row.nodes.length - 2} more</> : <Names names={row.nodes} />}</span>, sort: (row) => row.nodes.length }]} />;
  return (
    <section aria-label="doctor"><h2>What the doctor says</h2>
      {rows.length === 0 ? <p class="empty">No agent has told it yet: they look 20 s after their start and every hour. On a node: <code>pilotlight doctor</code></p>
        : bad.length === 0 ? <p>All checks are well on all nodes that were looked at.</p> : table(bad, "checks that are not well")}
      {well.length > 0 && <Fold name="well" summary={`${plural(well.length, "check")} well`}>{table(well, "checks that are well")}</Fold>}
    </section>
  );
}

export function AgentsPage() {
  const news = useNews();
  const { value: rows, failure, again, partial } = useData<AgentRow[]>("v1/agents?limit=5000", news);
  const { value: costs } = useData<AgentCost[]>("v1/costs?limit=5000", news);
  const costOf = useMemo(() => new Map(costs?.map((row) => [row.agent, row])), [costs]);
  const { value: doctor } = useData<DoctorRow[]>("v1/doctor?limit=5000", news);
  const [text, setText] = useChoice("q");
  if (failure) return <PageFailed failure={failure} again={again} />;
  if (!rows) return <><header><p class="about">agents</p><h1>Asking the store …</h1></header><Waiting height={300} /></>;
  const now = Date.now() * 1e6;
  const up = rows.filter((row) => row.state === "up");
  const versions = [...new Set(rows.map((row) => row.version))];
  const worst = up.reduce((most, row) => Math.max(most, row.cpu_ratio), 0);
  const lost = rows.reduce((sum, row) => sum + row.rows_lost + row.records_dropped + row.batches_lost, 0);
  const slowed = slowest(costs ?? []);
  const wanted = text.trim().toLowerCase();
  const shown = rows.filter((row) => !wanted || [row.node, row.agent, row.version, ...row.jobs].some((each) => each.toLowerCase().includes(wanted)));
  // A budget that all have stands in the title and not in every row.
  const budgets = [...new Set(costs?.map((row) => JSON.stringify([row.cpu_ceiling_ratio, row.memory_ceiling_bytes])))];
  const [cpu, memory] = budgets.length === 1 ? (JSON.parse(budgets[0]!) as [number, number]) : [0, 0];
  const sentences = [
    `${up.length} of ${plural(rows.length, "agent")} up`,
    ...(slowed ? [`recording slows no process by more than ${share(slowed.overhead_high)}`] : []),
    ...(up.length ? [`an agent takes at most ${share(worst)} of a core`] : []),
    lost ? `${count(lost)} records or batches lost` : "nothing lost",
    ...(versions.length > 1 ? [`${versions.length} versions run`] : []),
  ];
  const wordOf = (agent: string): string => {
    const mine = doctor?.filter((row) => row.agent === agent) ?? [];
    const bad = ["broken", "limited"].map((state) => [mine.filter((row) => row.state === state).length, state] as const).filter(([number]) => number > 0);
    return mine.length ? bad.map(([number, state]) => `${number} ${state}`).join(", ") || "well" : "not told";
  };
  return (
    <>
      <header><p class="about">agents{versions.length === 1 && ` · pilotlight ${versions[0]}`}</p><h1>{rows.length === 0 ? "No agent has reported yet" : sentences.join("; ")}</h1><Partial when={partial} /></header>
      {rows.length === 0 ? <Empty title="Start one on each node" command={`pilotlight agent --collector ${location.origin}`} />
        : <><div class="tools"><Search value={text} onInput={setText} /><span class="quiet">{slowed ? "" : "What collecting costs jobs is measured where GPUs are recorded; elsewhere: pilotlight overhead. "}An agent over its budget collects less.</span></div>
          <Table rows={shown} limit={200} label="agents" isCards empty="No agent fits." columns={[
            { title: "node", isText: true, cell: (row) => row.node, sort: (row) => row.node },
            { title: "state", isText: true, isBrief: true, cell: (row) => <span class={row.state === "up" ? "" : "partial"} title={clock(row.seen_ns)}>{row.state}, {ago(row.seen_ns, now)}</span>, sort: (row) => row.state },
            { title: "doctor", isText: true, isBrief: true, cell: (row) => wordOf(row.agent), sort: (row) => wordOf(row.agent) },
            ...(versions.length > 1 ? [{ title: "version", isText: true, cell: (row: AgentRow) => row.version, sort: (row: AgentRow) => row.version }] : []),
            { title: "slows jobs by", hint: "the process that is slowed most, measured now by steps with and without recording", cell: (row) => <Slows cost={costOf.get(row.agent)} />, sort: (row) => costOf.get(row.agent)?.cost.overhead_high ?? -1 },
            { title: "sampler", hint: "of a core, in the process that it takes the most of", cell: (row) => { const cost = costOf.get(row.agent)?.cost; return cost && cost.sampler_ratio !== null ? <span title={`the sampler of the process with the most, at ${value(cost.rate_hz)} Hz or more`}>{share(cost.sampler_ratio)}</span> : "–"; }, sort: (row) => costOf.get(row.agent)?.cost.sampler_ratio ?? -1 },
            { title: "kernels seen", hint: "the part of the time in which kernels are recorded one by one", isText: true, isBrief: true, cell: (row) => <Collects cost={costOf.get(row.agent)} /> },
            { title: cpu ? `CPU, budget ${share(cpu)}` : "CPU", hint: "what the agent takes of a core, and its budget", cell: (row) => <>{share(row.cpu_ratio)}{!cpu && ofBudget(costOf.get(row.agent)?.cpu_ceiling_ratio, share)}{(costOf.get(row.agent)?.level ?? 0) > 0 && <small class="partial" title={`It was over its budget of CPU time and looks less often until that holds (level ${costOf.get(row.agent)!.level})`}> collects less</small>}</>, sort: (row) => row.cpu_ratio }, { title: memory ? `memory, budget ${size(memory)}` : "memory", hint: "what the agent has in memory, and its budget", cell: (row) => <>{size(row.rss_bytes)}{!memory && ofBudget(costOf.get(row.agent)?.memory_ceiling_bytes, size)}</>, sort: (row) => row.rss_bytes },
            { title: "clock", hint: "how far the node's clock is off the collector's", cell: (row) => (row.offset_ns || row.uncertainty_ns ? `${row.offset_ns >= 0 ? "+" : "−"}${duration(Math.abs(row.offset_ns))} ± ${duration(row.uncertainty_ns)}` : "the same"), sort: (row) => Math.abs(row.offset_ns) },
            ...(shown.some((row) => row.spool_bytes > 0) ? [{ title: "to be sent", cell: (row: AgentRow) => size(row.spool_bytes), sort: (row: AgentRow) => row.spool_bytes }] : []),
            { title: "lost", cell: (row) => lostOf(row), sort: (row) => row.records_dropped + row.rows_lost + row.batches_lost },
            { title: "GPUs", cell: (row) => (row.gpus.length ? <span title={row.gpus.join(", ")}>{row.gpus.length} × {row.gpus[0]!.replace(/^NVIDIA (\S+).*$/, "$1")}</span> : "none seen") },
            { title: "jobs", isText: true, cell: (row) => <>{row.jobs.slice(0, 4).map((job, i) => <>{i > 0 && ", "}<a href={write(["job", job])} title={job}>{job}</a></>)}{row.jobs.length > 4 && ` and ${row.jobs.length - 4} more`}</> }]} />
          {doctor ? <Doctor rows={doctor.filter((row) => shown.some((agent) => agent.agent === row.agent))} /> : <Waiting height={120} />}</>}
    </>
  );
}
