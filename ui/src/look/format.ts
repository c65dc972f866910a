// How numbers, times and names look: three digits, a unit always, unknown said in words.
const space = "\u00a0";
export const UNKNOWN = "not measured";

export function threeDigits(number: number): string {
  if (Math.abs(number) < 5e-7) return "0";
  if (Math.abs(number) >= 999.5) return Math.round(number).toLocaleString("en");
  const digits = 2 - Math.floor(Math.log10(Math.abs(Number(number.toPrecision(3)))));
  return number.toFixed(Math.min(Math.max(digits, 0), 6));
}

export function duration(ns: number | null | undefined): string {
  if (ns === null || ns === undefined || !Number.isFinite(ns)) return UNKNOWN;
  if (ns === 0) return "0";
  if (ns < 0) return "-" + duration(-ns);
  if (Math.round(ns) < 1e3) return `${Math.round(ns)}${space}ns`;
  if (ns < 999.5e3) return `${threeDigits(ns / 1e3)}${space}µs`;
  if (ns < 999.5e6) return `${threeDigits(ns / 1e6)}${space}ms`;
  const seconds = ns / 1e9;
  if (seconds < 120) return `${threeDigits(seconds)}${space}s`;
  const whole = Math.round(seconds);
  const both = (large: number, unit: string, small: number, part: string) => `${large}${space}${unit}${small ? `${space}${small}${space}${part}` : ""}`;
  if (seconds < 3600) return both(Math.floor(whole / 60), "min", whole % 60, "s");
  const minutes = Math.round(seconds / 60);
  if (minutes < 48 * 60) return both(Math.floor(minutes / 60), "h", minutes % 60, "min");
  return both(Math.floor(minutes / 1440), "d", Math.floor((minutes % 1440) / 60), "h");
}

export const share = (ratio: number | null | undefined): string =>
  ratio === null || ratio === undefined || !Number.isFinite(ratio) ? UNKNOWN : `${Math.abs(ratio) < 5e-5 ? 0 : threeDigits(100 * ratio)}${space}%`;

// Less than a twentieth of a per cent is no difference to anybody.
export const signedShare = (ratio: number): string => (Math.abs(ratio) < 5e-4 ? `0${space}%` : (ratio > 0 ? "+" : "") + share(ratio).replace("-", "−"));
export const count = (number: number): string => number.toLocaleString("en");
export const plural = (number: number, one: string, many = one + "s"): string => `${count(number)} ${number === 1 ? one : many}`;

export function value(number: number | null | undefined): string {
  if (number === null || number === undefined || !Number.isFinite(number)) return UNKNOWN;
  if (number !== 0 && !(Math.abs(number) >= 1e-4 && Math.abs(number) < 1e9)) return number.toExponential(2);
  return threeDigits(number);
}

// A number whose unit nobody told: 97.1 M and not 9.71e+7.
export function brief(number: number): string {
  for (const [unit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]] as const) {
    if (Math.abs(number) >= unit) return `${threeDigits(number / (unit === 1e4 ? 1e3 : unit))}${space}${name}`;
  }
  return threeDigits(number);
}

export function size(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return UNKNOWN;
  for (const [unit, name] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]] as const) {
    if (bytes >= unit) return `${threeDigits(bytes / unit)}${space}${name}`;
  }
  return `${threeDigits(bytes)}${space}B`;
}

// Of GPUs; of ranks where a job has none. In the unit of the whole that they are a part of: of a job that has just
// begun nobody reads 0.00827 hours.
export function hours(number: number | null | undefined, hasGpus: boolean, whole = number): string {
  if (number === null || number === undefined) return UNKNOWN;
  const [unit, inHour] = (whole ?? 0) >= 0.1 ? ["h", 1] as const : (whole ?? 0) >= 1 / 60 ? ["min", 60] as const : ["s", 3600] as const;
  return `${number * inHour < 5e-4 ? 0 : threeDigits(number * inHour)}${space}${hasGpus ? "GPU" : "rank"}-${unit}`;
}

export function ago(ns: number, nowNs: number): string {
  const past = nowNs - ns;
  if (past < 10e9) return "just now";
  if (past < 120e9) return `${Math.round(past / 1e9)} s ago`;
  if (past < 7200e9) return `${Math.round(past / 60e9)} min ago`;
  if (past < 172800e9) return `${Math.round(past / 3600e9)} h ago`;
  return `${Math.round(past / 86400e9)} days ago`;
}

// A number and its unit stay on one line.
export const glued = (text: string): string => text.replace(/(\d) (?=(?:%|[mµn]?s|min|h|MHz|GPUs?|(?:GPU|rank)-(?:hours|minutes|seconds))(?![\w-]))/g, `$1${space}`);

export function clock(ns: number): string {
  const date = new Date(ns / 1e6);
  return Number.isFinite(date.getTime()) ? `${date.toISOString().slice(0, 19).replace("T", " ")} UTC` : UNKNOWN;
}

export function shortFile(file: string): string {
  const installed = file.lastIndexOf("/site-packages/");
  return installed >= 0 ? file.slice(installed + 15) : file.split("/").slice(-2).join("/");
}

// Where a call's arguments begin: the first bracket outside of templates, which have casts such as (int)4 in them.
function argumentsOf(text: string): number {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const letter = text[i];
    if (letter === "<") depth++;
    else if (letter === ">") depth--;
    else if (letter === "(" && depth <= 0) return i;
  }
  return -1;
}

// Python's own: "record.<locals>.wrap (errors/__init__.py)", "_find (<frozen importlib._bootstrap>)". Nothing in it is a template.
const PYTHON = /\.<locals>\.|\.py(?::\d+)?\)$|\(<frozen [^>]*>(?::\d+)?\)$|^<\w+>/;

// What compilers write for ns::name<...>: the names, up to the first that has templates.
function demangled(name: string): string {
  let at = /^_ZN?K?(?=\d)/.exec(name)?.[0].length ?? 0;
  const parts: string[] = [];
  for (let digits = ""; at && (digits = /^\d+/.exec(name.slice(at))?.[0] ?? ""); at += digits.length + Number(digits)) parts.push(name.slice(at + digits.length, at + digits.length + Number(digits)));
  return parts.length ? parts.filter((part) => !part.startsWith("_GLOBAL__N")).join("::") + (name[at] === "I" ? "<…>" : "") : name;
}

// A C++ kernel name without what says nothing about it: return type, arguments, deep templates.
export function shortName(name: string): string {
  if (PYTHON.test(name)) return name;
  let text = (name.startsWith("void ") ? name.slice(5) : demangled(name)).replaceAll("(anonymous namespace)::", "");
  const call = argumentsOf(text);
  if (call > 0 && (text.includes("::") || /\w\(.*\)$/.test(text))) text = text.slice(0, call);
  const template = text.indexOf("<");
  if (template > 0 && text.length > 48) {
    const functor = /\b(?!gpu_kernel_impl|(?:[AB]?Unary|Binary)Functor\b)(\w+(?:Functor(?:_\w+)?|_kernel(?:_cuda|_impl)?|Ops?))\b/.exec(text.slice(template));
    text = text.slice(0, template) + (functor ? `<${functor[1]}>` : "<…>");
  }
  return text.replace(/^(?:at::native::|at::cuda::)+/, "");
}
