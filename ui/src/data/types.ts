// Made by scripts/api_types.py from src/pilotlight/web/answers.py: do not edit.

export interface Finding {
  rule: string;
  cause: string;
  title: string;
  rank: number | null;
  place: string;
  evidence: (string)[];
  fix: string;
  gain_low_ratio: number;
  gain_high_ratio: number;
  confidence: string;
  places: (Place)[];
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
  hits: (Hit)[];
}

export interface Kernel {
  name: string;
  category: string;
  count: number;
  total_ns: number;
  median_ns: number;
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

export interface Place {
  rank: number;
  name: string;
  start_ns: number;
  duration_ns: number;
}

export interface Rank {
  rank: number;
  source: string;
  format: string;
  device: string;
  spans: number;
  left_out: number;
  rows: (Row)[];
  first_ns: number;
  last_ns: number;
  parts: Parts | null;
  steps: (Step)[];
}

export interface Roofline {
  gpu: string;
  mfu_ratio: number;
  covered_ratio: number;
  rows: (RooflineRow)[];
  peaks: (Peak)[];
  missing?: string;
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
  rank: number;
  name: string;
  time_ns: (number)[];
  value: (number)[];
}

export interface Step {
  number: number;
  start_ns: number;
  duration_ns: number;
  parts: Parts | null;
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
  rows: (Total)[];
}

export interface Trace {
  id: string;
  title: string;
  headline: string;
  step_ns: number | null;
  length_ns: number;
  levels: number;
  ranks: (Rank)[];
  findings: (Finding)[];
  not_checked: (NotChecked)[];
  kernels: (Kernel)[];
  counters: (Series)[];
  problems: (string)[];
}

export interface TraceName {
  id: string;
  title: string;
}
