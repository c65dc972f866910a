// The state of the page is its address: #/job/name?from=1&to=2. A link shows what its sender saw.
import { useEffect, useState } from "preact/hooks";

export interface Address { path: string[]; query: Record<string, string> }

export function parse(hash: string): Address {
  const [before = "", after = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const path = before.split("/").filter(Boolean).map(decoded);
  return { path, query: Object.fromEntries(new URLSearchParams(after)) };
}

function decoded(part: string): string {
  try { return decodeURIComponent(part); } catch { return part; }
}

export function write(path: string[], query: Record<string, string | number | null | undefined> = {}): string {
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

// Changes the query without a new entry in the history: for what changes with every wheel. Gathered for
// a moment, since browsers allow only so many; forgotten where the page has moved on meanwhile.
let pending: ReturnType<typeof setTimeout> | undefined;
let gathered: Record<string, string | number | null | undefined> = {};
let place = "";
export function remember(changes: Record<string, string | number | null | undefined>): void {
  const now = parse(location.hash).path.join("/");
  gathered = now === place ? { ...gathered, ...changes } : changes;
  place = now;
  clearTimeout(pending);
  pending = setTimeout(() => {
    const { path, query } = parse(location.hash);
    const hash = write(path, { ...query, ...gathered });
    gathered = {};
    if (path.join("/") === place && hash !== location.hash) history.replaceState(null, "", hash);
  }, 150);
}

export function go(path: string[], query: Record<string, string | number | null | undefined> = {}): void {
  location.hash = write(path, query);
}

// The same view with other choices: a new entry in the history, which the page follows.
export function change(changes: Record<string, string | number | null | undefined>): void {
  const now = parse(location.hash);
  location.hash = write(now.path, { ...now.query, ...changes });
}
