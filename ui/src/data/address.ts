// The state of the page is its address: #/job/name?from=1&to=2. A link shows what its sender saw.
import { useEffect, useRef, useState } from "preact/hooks";

export interface Address { path: string[]; query: Record<string, string> }

export function parse(hash: string): Address {
  const [before = "", after = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const path = before.split("/").filter(Boolean).map(decoded);
  return { path, query: Object.fromEntries(new URLSearchParams(after)) };
}

function decoded(part: string): string {
  try { return decodeURIComponent(part); } catch { return part; }
}

export function write(path: string[], query: Changes = {}): string {
  const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const search = new URLSearchParams(kept.map(([key, value]) => [key, String(value)])).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

export function useAddress(): Address {
  const [address, setAddress] = useState(() => parse(location.hash));
  useEffect(() => {
    const changed = () => setAddress(parse(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return address;
}

type Changes = Record<string, string | number | null | undefined>;

// Changes the query without a new entry in the history: for what changes with every wheel. Gathered for
// a moment, since browsers allow only so many; forgotten where the page has moved on meanwhile.
let pending: ReturnType<typeof setTimeout> | undefined;
let gathered: Changes = {};
let seen = "";
export function remember(changes: Changes): void {
  gathered = location.hash === seen ? { ...gathered, ...changes } : changes;
  seen = location.hash;
  clearTimeout(pending);
  pending = setTimeout(settle, 150);
}

function settle(): void {
  clearTimeout(pending);
  const { path, query } = parse(location.hash);
  const hash = write(path, { ...query, ...gathered });
  gathered = {};
  if (location.hash === seen && hash !== seen) history.replaceState(null, "", hash);
}

export function go(path: string[], query: Changes = {}): void {
  location.hash = write(path, query);
}

// The same view with other choices: a new entry in the history, which the page follows.
export function change(changes: Changes): void {
  settle();
  const now = parse(location.hash);
  location.hash = write(now.path, { ...now.query, ...changes });
}

// State that lives in the address without entries in the history. A link that is opened in the same window changes it.
export function useKept<T>(read: (query: Record<string, string>) => T, written: (value: T) => Changes): [T, (value: T) => void] {
  const [value, setValue] = useState(() => read(parse(location.hash).query));
  const reads = useRef(read);
  reads.current = read;
  useEffect(() => {
    const here = parse(location.hash).path.join("/");
    const follow = () => { const { path, query } = parse(location.hash); if (path.join("/") === here) setValue(reads.current(query)); };
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return [value, (next) => { setValue(next); remember(written(next)); }];
}

// One word of it; what it is anyway is not written.
export const useChoice = (key: string, fallback = ""): [string, (value: string) => void] =>
  useKept((query) => query[key] ?? fallback, (value) => ({ [key]: value === fallback ? null : value }));
