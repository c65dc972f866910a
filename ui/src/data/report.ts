// The document of `pilotlight report --json`, described in docs/formats.md.
import type { KernelStalls } from "./types";

export interface Times { unknown_ns: number; running_ns: number; waiting_ns: number; gil_wait_ns: number; disk_ns: number }

export interface ReportDocument {
  headline: string; job: string; node: string; state: string; command: string[]; created_ns: number; duration_ns: number;
  processes: { process: number; label: string; pid: number; command: string; end: string; start_since_start_ns: number; duration_ns: number; detail_since_start_ns: number; sampled_ratio: number | null; times: Times | null }[];
  steps: { process: number; count: number; median_ns: number; p95_ns: number; min_ns: number; max_ns: number; outlier_count: number; total_ns: number; outlier_excess_ns: number; outliers: Outlier[] }[];
  functions_of_threads: string[];
  functions_ns: number;
  functions: { function: string; file: string; self_ns: number; total_ns: number; running_ns: number; samples: number }[];
  threads: { name: string; thread: number; process: number; samples: number; times: Times }[];
  ranges: { name: string; partial: number; count: number; total_ns: number; self_ns: number; is_estimate: boolean; p50_ns: number; p95_ns: number; max_ns: number }[];
  garbage: { process: number; count: number; total_ns: number; ratio: number; longest_ns: number; longest_since_start_ns: number | null }[];
  counters: { name: string; process: number; last: number; min: number; max: number }[];
  losses: { gaps: { process: number; count: number; first_since_start_ns: number; last_since_start_ns: number; first_step: number | null; last_step: number | null; reason: string }[]; chunks_dropped: number; rows_dropped: number; samples_torn: number; passes_skipped: number; write_errors: string[]; warnings: string[] };
  overhead: { samplers: { cpu_ratio: number; achieved_hz: number; asked_hz: number }[]; agent_cpu_ratio: number | null; agent_rss_bytes: number | null; recorded_bytes: number };
  stalls: KernelStalls[];
  gpu: { processes: GpuProcess[]; work: GpuWork[]; work_left_out: number };
  flame: FlameDocument;
  step_rows: { process: number; step: number[]; since_start_ns: number[]; duration_ns: number[]; is_outlier: number[] }[];
  page: { nodes_left_out: number; steps_left_out: number };
}

export interface GpuProcess { process: number; devices: number[]; coverage_ratio: number; launches_ratio: number; busy_ratio: number | null; launches: number; activities: number; overhead_ratio: number | null; overhead_low: number | null; overhead_high: number | null; spent_ratio: number | null; clock_uncertainty_ns: number | null; losses: Record<string, number>; missing: string[] }
export interface GpuWork { name: string; kind: string; seen: number; total_count: number; total_ns: number; total_low_ns: number | null; total_high_ns: number | null; ratio: number; median_ns: number; launched_in: string; is_in_graphs: boolean }

export interface Outlier { step: number; is_first: boolean; since_start_ns: number; duration_ns: number; ratio: number; gc_ns: number; doing: string; doing_ratio: number }

export interface FlameDocument {
  states: string[]; threads: string[]; functions: [string, string][]; parents: number[]; function_of: number[];
  entries: { process: number[]; thread: number[]; node: number[]; state: number[]; ns: number[]; samples: number[] };
}
