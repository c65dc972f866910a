"use strict";

// columns: [title, cell(row), isText]; a cell is text or an element. Many columns get the whole width.
function table(title, rows, columns, empty) {
  const section = element("section", { className: columns.length === 7 && columns.at(-1)[2] ? "wide" : "" }, element("h2", {}, title));
  if (!rows.length) {
    if (empty) { section.append(element("p", { className: "empty" }, empty)); document.getElementById("tables").append(section); }
    return;
  }
  const head = element("tr", {}, ...columns.map(([name, , isText]) => element("th", { className: isText ? "text" : "", scope: "col" }, name)));
  const body = rows.map((row) => element("tr", {}, ...columns.map(([, cell, isText]) => element("td", { className: isText ? "text" : "" }, cell(row)))));
  const scroll = element("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: title },
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
  section.append(scroll);
  document.getElementById("tables").append(section);
}

function list(title, lines) {
  document.getElementById("tables").append(element("section", {}, element("h2", {}, title),
    element("ul", {}, ...lines.map((line) => element("li", {}, line)))));
}

const timesOf = (times) => [times.unknown_ns, times.running_ns, times.waiting_ns, times.gil_wait_ns, times.disk_ns];

function parts(times) {
  const whole = timesOf(times).reduce((a, b) => a + b, 0) || 1;
  const bar = element("span", { className: "parts", role: "img" });
  const words = [];
  timesOf(times).forEach((ns, state) => {
    if (!ns) return;
    bar.append(element("span", { style: `width: ${(100 * ns) / whole}%; background: var(--${stateColours[state]})` }));
    words.push(`${stateNames[state]} ${share(ns / whole)}`);
  });
  bar.title = bar.ariaLabel = words.join(", ");
  return bar;
}

const ratioOf = (times, part) => { const whole = timesOf(times).reduce((a, b) => a + b, 0); return whole ? share(part / whole) : ""; };
const named = (name, file) => { const box = element("span", { title: file }, name); if (file) box.append(" ", element("small", {}, shortFile(file))); return box; };

const functionTotal = data.functions.reduce((sum, row) => sum + row.self_ns, 0) || 1;
const outliers = data.steps.flatMap((steps) => steps.outliers.map((outlier) => ({ ...outlier, process: steps.process })));
outliers.sort((a, b) => b.duration_ns - a.duration_ns);

document.getElementById("headline").textContent = data.headline;
document.getElementById("about").textContent = [data.job, data.state, duration(data.duration_ns),
  `${data.processes.length} process${data.processes.length === 1 ? "" : "es"} on ${data.node}`,
  new Date(data.created_ns / 1e6).toISOString().slice(0, 16).replace("T", " ") + " UTC", data.command.join(" ")].filter(Boolean).join("  ·  ");

table("Steps", data.steps, [
  ["rank", (row) => label(row.process), true], ["steps", (row) => count(row.count)], ["median", (row) => duration(row.median_ns)],
  ["p95", (row) => duration(row.p95_ns)], ["min", (row) => duration(row.min_ns)], ["max", (row) => duration(row.max_ns)],
  ["outliers", (row) => count(row.outlier_count)], ["cost", (row) => share(row.total_ns ? row.outlier_excess_ns / row.total_ns : 0)],
]);
table("Steps that took much longer", outliers, [
  ["step", (row) => `${row.step}${row.is_first ? " (first)" : ""}`], ["rank", (row) => label(row.process)], ["after", (row) => duration(row.since_start_ns)],
  ["took", (row) => duration(row.duration_ns)], ["× median", (row) => threeDigits(row.ratio)], ["GC", (row) => (row.gc_ns ? duration(row.gc_ns) : "")],
  ["mostly in", (row) => (row.doing ? `${row.doing} (${share(row.doing_ratio)})` : ""), true],
]);
table(`Functions of ${data.functions_of_threads.slice(0, 3).join(", ")}`, data.functions, [
  ["function", (row) => named(row.function, row.file), true], ["self", (row) => share(row.self_ns / functionTotal)],
  ["total", (row) => share(row.total_ns / functionTotal)], ["running", (row) => (row.self_ns ? share(row.running_ns / row.self_ns) : "")], ["samples", (row) => count(row.samples)],
]);
table("Ranges", data.ranges, [
  ["name", (row) => row.name + (row.partial ? ` (${count(row.partial)} partial)` : ""), true], ["count", (row) => count(row.count)], ["total", (row) => duration(row.total_ns)],
  ["self", (row) => (row.is_estimate ? "≥ " : "") + duration(row.self_ns)], ["p50", (row) => (row.is_estimate ? "~" : "") + duration(row.p50_ns)], ["p95", (row) => (row.is_estimate ? "~" : "") + duration(row.p95_ns)],
  ["max", (row) => duration(row.max_ns)],
], "No range was annotated. In the program: with pilotlight.annotate(\"forward\"): …");
table("Threads", data.threads, [
  ["thread", (row) => row.name || `thread ${row.thread}`, true], ["rank", (row) => label(row.process)], ["samples", (row) => count(row.samples)], ["", (row) => parts(row.times)],
  ["running", (row) => ratioOf(row.times, row.times.running_ns)], ["GIL wait", (row) => ratioOf(row.times, row.times.gil_wait_ns)],
]);
table("Counters", data.counters, [
  ["name", (row) => row.name, true], ["rank", (row) => label(row.process)], ["last", (row) => value(row.last)], ["min", (row) => value(row.min)], ["max", (row) => value(row.max)],
]);
table("Garbage collection", data.garbage, [
  ["rank", (row) => label(row.process), true], ["collections", (row) => count(row.count)], ["total", (row) => duration(row.total_ns)], ["of the time", (row) => share(row.ratio)],
  ["longest", (row) => duration(row.longest_ns)], ["after", (row) => (row.longest_since_start_ns === null ? "" : duration(row.longest_since_start_ns))],
], "None seen.");
table("Processes", data.processes, [
  ["rank", (row) => row.label, true], ["pid", (row) => String(row.pid)], ["lived", (row) => duration(row.duration_ns)],
  ["sampled", (row) => (row.sampled_ratio === null ? "not measured" : share(row.sampled_ratio))],
  ["", (row) => (row.times ? parts(row.times) : "")], ["end", (row) => row.how + (row.exception ? ` (${row.exception})` : "") + (row.off ? `, probe off: ${row.off}` : "")],
  ["command", (row) => row.command, true],
]);

const losses = data.losses;
const lost = losses.gaps.map((gap) => `${label(gap.process)}: ${count(gap.count)} records between ${duration(gap.first_since_start_ns)} and ${duration(gap.last_since_start_ns)}` +
  (gap.first_step === null ? "" : `, steps ${gap.first_step} to ${gap.last_step ?? "…"}`) + `: ${gap.reason}`);
for (const [number, what] of [
  [losses.chunks_dropped, "chunks of detail dropped for the budget"], [losses.rows_dropped, "rows dropped by the recorder"],
  [losses.samples_torn, "samples dropped because the stack changed while it was read"], [losses.passes_skipped, "rounds of the sampler left out to keep its cost down"],
  [data.page.steps_left_out, "ordinary steps not drawn (all outliers are)"], [data.page.nodes_left_out, "small nodes of the flame graph shown as (small)"],
]) if (number) lost.push(`${count(number)} ${what}`);
const windowsUntil = Math.max(0, ...data.processes.filter((row) => row.detail_since_start_ns > row.start_since_start_ns).map((row) => row.detail_since_start_ns));
if (windowsUntil) lost.push(`before ${duration(windowsUntil)} only sums of 10 s are kept: no threads, no self time of ranges`);
lost.push(...losses.write_errors.map((error) => `write error: ${error}`), ...losses.warnings);
list("Not in these numbers", lost.length ? lost : ["nothing: no record was lost"]);

const cost = data.overhead;
const worst = cost.samplers.reduce((most, row) => (most && most.cpu_ratio > row.cpu_ratio ? most : row), null);
list("Cost of pilotlight", [
  worst ? `sampler in each process: ${share(worst.cpu_ratio)} of a core at most, ${threeDigits(worst.achieved_hz)} Hz reached of ${threeDigits(worst.asked_hz)} Hz asked` : "sampler: not measured",
  `agent: ${cost.agent_cpu_ratio === null ? "not measured" : share(cost.agent_cpu_ratio)} of a core, memory ${cost.agent_rss_bytes === null ? "not measured" : size(cost.agent_rss_bytes)}`,
  `detail on disk: ${size(cost.recorded_bytes)}`,
]);

document.addEventListener("keydown", (event) => {
  if (event.key === "?" && !(event.target instanceof HTMLInputElement)) {
    const keys = document.getElementById("keys");
    keys.hidden = !keys.hidden;
    if (!keys.hidden) keys.scrollIntoView({ block: "nearest" });
  }
});
