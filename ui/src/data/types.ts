// Made by scripts/api_types.py from the descriptions of the API: do not edit.

export interface About {
  kind: string;
  version: string;
}

export interface AgentCost {
  agent: string;
  cpu_ceiling_ratio: number;
  memory_ceiling_bytes: number;
  level: number;
  cost: Cost;
}

export interface AgentRow {
  agent: string;
  cluster: string;
  node: string;
  version: string;
  state: string;
  seen_ns: number;
  offset_ns: number;
  uncertainty_ns: number;
  cpu_ratio: number;
  rss_bytes: number;
  jobs: string[];
  gpus: string[];
  spool_bytes: number;
  batches_lost: number;
  rows_lost: number;
  records_dropped: number;
}

export interface Attempt {
  attempt: number;
  state: string;
  started_ns: number;
  ended_ns: number;
  nodes: number;
  ranks: number;
  exit_code: number;
}

export interface AttemptChange {
  attempt: number;
  name: string;
  before: string;
  after: string;
}

export interface Breakdown {
  period_ns: number;
  time_ns: number[];
  total_ns: number[];
  parts_ns: Record<string, number[]>;
}

export interface CaptureDetail {
  now_ns: number;
  row: CaptureRow;
  is_open: boolean;
  nodes: CapturedNode[];
}

export interface CaptureRow {
  job: string;
  attempt: number;
  id: string;
  reason: string;
  asked_by: string;
  finding: string;
  state: string;
  problem: string;
  ranks: number[];
  nodes: string[];
  from_ns: number;
  to_ns: number;
  requested_ns: number;
  updated_ns: number;
  expires_ns: number;
  files: number;
  bytes: number;
}

export interface CapturedNode {
  node: string;
  ranks: number[];
  state: string;
  why: string;
  bytes: number;
  told: CapturedRank[];
}

export interface CapturedRank {
  rank: number;
  state: string;
  why: string;
}

export interface CollectiveRow {
  operation: string;
  group: string;
  ranks: number;
  count: number;
  total_ns: number;
  mean_ns: number;
  max_ns: number;
  wait_ns: number;
  bytes: number;
  gigabytes_per_s: number | null;
}

export interface Comparison {
  headline: string;
  before: Side;
  after: Side;
  noise_probability: number | null;
  is_noise: boolean | null;
  step: Difference;
  parts: Difference[];
  kernels: Difference[];
  facts: FactChange[];
  is_partial: boolean;
}

export interface Cost {
  processes: number;
  measured: number;
  tiers: string[];
  sampler_ratio: number | null;
  rate_hz: number | null;
  launches_ratio: number | null;
  records_ratio: number | null;
  spent_ratio: number | null;
  overhead_low: number | null;
  overhead_high: number | null;
}

export interface CounterLine {
  rank: number;
  name: string;
  time_ns: number[];
  value: number[];
}

export interface CounterName {
  name: string;
  nodes: number;
  gpus: number;
}

export interface CounterSeries {
  node: string;
  gpu: number;
  rank: number;
  name: string;
  period_ns: number;
  time_ns: number[];
  mean: number[];
  min: number[];
  max: number[];
}

export interface Difference {
  what: string;
  before_ns: number;
  after_ns: number;
}

export interface DoctorRow {
  agent: string;
  node: string;
  what: string;
  state: string;
  detail: string;
  fix: string;
  seen_ns: number;
}

export interface Event {
  time_ns: number;
  kind: string;
  text: string;
}

export interface FactChange {
  name: string;
  before: string;
  after: string;
}

export interface Finding {
  rule: string;
  cause: string;
  title: string;
  rank: number | null;
  place: string;
  evidence: string[];
  fix: string;
  gain_low_ratio: number;
  gain_high_ratio: number;
  confidence: string;
  places: Place[];
}

export interface FindingRow {
  job: string;
  attempt: number;
  id: string;
  rule: string;
  cause: string;
  title: string;
  state: string;
  severity: string;
  ranks: number[];
  nodes: string[];
  place: string;
  evidence: string[];
  fix: string;
  gain_low_ratio: number;
  gain_high_ratio: number;
  confidence: string;
  wasted_gpu_s: number;
  opened_ns: number;
  updated_ns: number;
  closed_ns: number;
  capture: string;
}

export interface Fleet {
  now_ns: number;
  from_ns: number;
  to_ns: number;
  headline: string;
  jobs: FleetJob[];
  nodes: Node[];
  is_partial: boolean;
}

export interface FleetJob {
  job: string;
  cluster: string;
  state: string;
  started_ns: number;
  updated_ns: number;
  ranks: number;
  nodes: number;
  attempts: number;
  step_ns: number | null;
  change_ratio: number | null;
  earlier: string;
  mfu_ratio: number | null;
  trend_ns: (number | null)[];
  parts_ns: Record<string, number>;
  open_findings: number;
  worst_finding: string;
  worst_gain_ratio: number | null;
  gpu_hours: number;
  has_gpus: boolean;
  lost_hours: number | null;
  lost_by_cause_hours: Record<string, number>;
  records_lost: number;
}

export interface GpuNow {
  gpu: number;
  busy_ratio?: number | null;
  temperature_c?: number | null;
  clock_mhz?: number | null;
  throttle_ratio?: number | null;
}

export interface Heatmap {
  period_ns: number;
  rank: number[];
  time_ns: number[];
  mean_ns: number[];
  is_cut: boolean;
}

export interface Hit {
  rank: number;
  row: number;
  span: number;
  start_ns: number;
  duration_ns: number;
  name: string;
}

export interface Hits {
  total: number;
  total_ns: number;
  hits: Hit[];
}

export interface Hot {
  name: string;
  kind: string;
  count: number;
  total_ns: number;
  mean_ns: number;
  min_ns: number;
  max_ns: number;
  ratio: number;
}

export interface Job {
  now_ns: number;
  headline: string;
  row: JobRow;
  attempt: number;
  attempts: Attempt[];
  facts: Record<string, unknown>;
  quantiles_ns: Record<string, number>;
  waste: Waste;
  losses: Record<string, number>;
  step_ns: number | null;
  earlier_step_ns: number | null;
  earlier: string;
  first_step: number;
  last_step: number;
  first_step_ns: number;
  last_step_ns: number;
  ranks: RankRow[];
  findings: FindingRow[];
  events: Event[];
  changes: AttemptChange[];
  cost: Cost;
  is_partial: boolean;
}

export interface JobDetail {
  row: JobRow;
  attempts: Attempt[];
  facts: Record<string, unknown>;
  quantiles_ns: Record<string, number>;
  waste: Waste;
  losses: Record<string, number>;
  first_step: number;
  last_step: number;
  first_step_ns: number;
  last_step_ns: number;
  price_per_gpu_hour?: number;
  currency?: string;
}

export interface JobRoofline {
  gpu: string;
  peaks: Peak[];
  points: RankPoint[];
  kernels: KernelKind[];
  kinds_ns: Record<string, number>;
  captures: CaptureRow[];
  missing: string;
  is_partial: boolean;
}

export interface JobRow {
  job: string;
  cluster: string;
  state: string;
  started_ns: number;
  updated_ns: number;
  ended_ns: number;
  attempts: number;
  nodes: number;
  ranks: number;
  world_size: number;
  launcher: string;
  command: string;
  exit_code: number;
  signal: number;
  steps: number;
  step_ns: number;
  gpu_hours: number;
  has_gpus: boolean;
  busy_ratio: number | null;
  open_findings: number;
  lost: number;
}

export interface Kernel {
  name: string;
  category: string;
  count: number;
  total_ns: number;
  median_ns: number;
}

export interface KernelKind {
  name: string;
  category: string;
  limit: string;
  count: number;
  total_ns: number;
  ratio: number;
}

export interface KernelStalls {
  name: string;
  samples: number;
  ratio: number;
  reasons: StallReason[];
}

export interface Node {
  node: string;
  cluster: string;
  state: string;
  jobs: string[];
  open_findings: number;
  gpus: GpuNow[];
}

export interface NodeRow {
  cluster: string;
  node: string;
  state: string;
  gpus: number;
  jobs: string[];
  ranks: number;
  seen_ns: number;
  counters: Record<string, number>;
  open_findings: number;
}

export interface NotChecked {
  rule: string;
  cause: string;
  missing: string;
}

export interface Parts {
  window_ns: number;
  compute_ns: number;
  exposed_communication_ns: number;
  exposed_copy_ns: number;
  idle_ns: number;
  communication_ns: number;
  copy_ns: number;
  idle_by_cause_ns: Record<string, number>;
}

export interface Peak {
  gpu: string;
  flops: number;
  bytes: number;
}

export interface Phases {
  period_ns: number;
  time_ns: number[];
  total_ns: number[];
  phases_ns: Record<string, number[]>;
}

export interface Place {
  rank: number;
  name: string;
  start_ns: number;
  duration_ns: number;
}

export interface Question {
  job: string;
  ranks?: number[];
  seconds?: number;
  steps?: number;
  detail?: unknown[];
}

export interface Rank {
  rank: number;
  source: string;
  format: string;
  device: string;
  spans: number;
  left_out: number;
  rows: Row[];
  first_ns: number;
  last_ns: number;
  parts: Parts | null;
  steps: Step[];
}

export interface RankPoint {
  rank: number;
  node: string;
  gpu: number;
  tensor_ratio: number;
  memory_ratio: number;
  flops: number;
  bytes: number;
  limit: string;
}

export interface RankRow {
  rank: number;
  node: string;
  gpu: number;
  gpu_name: string;
  pid: number;
  role: string;
  state: string;
  started_ns: number;
  updated_ns: number;
  step: number;
  steps: number;
  step_ns: number;
  slowest_ns: number;
  parts_ns: Record<string, number>;
  records_dropped: number;
  is_reckoned?: boolean;
}

export interface Roofline {
  gpu: string;
  mfu_ratio: number | null;
  covered_ratio: number;
  rows: RooflineRow[];
  peaks: Peak[];
  missing?: string;
  is_mfu_a_bound?: boolean;
}

export interface RooflineRow {
  operator: string;
  shapes: string;
  count: number;
  total_ns: number;
  flops: number;
  bytes: number;
  roofline_ratio: number;
  limit: string;
  reason: string;
}

export interface Row {
  title: string;
  is_device: boolean;
  depth: number;
}

export interface Series {
  period_ns: number;
  time_ns: number[];
  count: number[];
  mean_ns: number[];
  min_ns: number[];
  max_ns: number[];
}

export interface Side {
  job: string;
  from_ns: number;
  to_ns: number;
  steps: number;
}

export interface StackTime {
  frames: string[];
  state: string;
  total_ns: number;
}

export interface StallReason {
  reason: string;
  words: string;
  samples: number;
  ratio: number;
}

export interface Step {
  number: number;
  start_ns: number;
  duration_ns: number;
  parts: Parts | null;
}

export interface StepRow {
  rank: number;
  step: number;
  start_ns: number;
  duration_ns: number;
  parts_ns: Record<string, number>;
  is_reckoned: boolean;
}

export interface Total {
  name: string;
  activity: number;
  count: number;
  total_ns: number;
}

export interface Totals {
  from_ns: number;
  to_ns: number;
  spans: number;
  names: number;
  rows: Total[];
}

export interface Trace {
  id: string;
  title: string;
  headline: string;
  step_ns: number | null;
  length_ns: number;
  levels: number;
  merged_ns: number;
  ranks: Rank[];
  findings: Finding[];
  not_checked: NotChecked[];
  kernels: Kernel[];
  counters: CounterLine[];
  counters_left_out: number;
  problems: string[];
  path_ratios: Record<string, number>;
  path_missing: string;
  clock_offset_ns: number;
  stalls: KernelStalls[];
}

export interface TraceName {
  id: string;
  title: string;
  taken_ns?: number;
}

export interface Waste {
  gpu_hours: number;
  busy_hours: number;
  wasted_hours: Record<string, number>;
  unknown_hours: number;
  outside_hours: number;
}
