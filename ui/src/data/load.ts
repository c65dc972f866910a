// One answer of the source, with the states that every page has to show.
import { createContext } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import { Failure, type Source, server } from "./source";

export const SourceContext = createContext<Source>(server);
export const useSource = (): Source => useContext(SourceContext);

export interface Loaded<T> { value: T | null; failure: Failure | null; fresh: boolean; again(): void }

const AGAIN_MS = 5000;
const LIVE = "api/live";

// What could not be asked anew: the page says so once, whoever asked.
const late = new Set<string>();
const watching = new Set<(late: boolean) => void>();
function tellLate(key: string, isLate: boolean): void {
  if (isLate ? late.has(key) : !late.delete(key)) return;
  if (isLate) late.add(key);
  for (const watch of watching) watch(late.size > 0);
}
export function useLate(): boolean {
  const [isLate, setLate] = useState(late.size > 0);
  useEffect(() => { watching.add(setLate); return () => { watching.delete(setLate); }; }, []);
  return isLate;
}

// Old data stays while new data is on its way, and where it does not come: then it is asked for again.
export function useLoaded<T>(key: string | null, load: (source: Source) => Promise<T>, news = 0): Loaded<T> {
  const source = useSource();
  const [state, setState] = useState<{ value: T | null; failure: Failure | null; key: string | null }>({ value: null, failure: null, key: null });
  const [turn, setTurn] = useState(0);
  const shown = useRef<string | null>(null);
  useEffect(() => {
    if (key === null) return undefined;
    let current = true;
    let timer: ReturnType<typeof setTimeout> | undefined;
    load(source).then(
      (value) => { if (current) { tellLate(key, false); setState({ value, failure: null, key }); } },
      (error: unknown) => {
        const failure = error instanceof Failure ? error : new Failure(NaN, String(error));
        if (!current) return;
        setState((old) => ({ value: old.key === key ? old.value : null, failure, key }));
        if (failure.status !== 0) return;
        if (shown.current === key) tellLate(key, true);
        timer = setTimeout(() => setTurn((old) => old + 1), AGAIN_MS);
      },
    );
    return () => { current = false; clearTimeout(timer); };
  }, [key, turn, source, news]);
  useEffect(() => () => { if (key !== null) tellLate(key, false); }, [key]);
  // A server that is away for a moment takes nothing off the screen.
  const isKept = state.failure?.status === 0 && state.value !== null;
  shown.current = state.value === null ? null : state.key;
  return { value: state.value, failure: isKept ? null : state.failure, fresh: state.key === key, again: () => setTurn((old) => old + 1) };
}

// An answer of the collector: the data, and whether a part of the store did not answer.
export const useData = <T>(path: string | null, news = 0): Loaded<T> & { partial: boolean } => {
  const loaded = useLoaded<{ data: T; partial: boolean }>(path, (source) => source.json(path ?? ""), news);
  return { ...loaded, value: loaded.value?.data ?? null, partial: loaded.value?.partial ?? false };
};

export const useAnswer = <T>(path: string | null, news = 0): Loaded<T> => useLoaded<T>(path, (source) => source.json<T>(path ?? ""), news);

// What agents sent waits this many seconds for the tables; 0 where it does not.
export const BEHIND = "pilotlight-behind";

// Counts up whenever the server says that there is news: at once, then not more often than every few seconds.
export function useNews(everyMs = 5000): number {
  const source = useSource();
  const [news, setNews] = useState(0);
  useEffect(() => {
    if (!source.served || typeof EventSource === "undefined") return undefined;
    const events = new EventSource("api/live");
    let waiting: ReturnType<typeof setTimeout> | undefined;
    let last = -Infinity;
    events.addEventListener("news", () => {
      if (waiting !== undefined || document.hidden) return;
      waiting = setTimeout(() => { waiting = undefined; last = performance.now(); setNews((old) => old + 1); }, Math.max(0, last + everyMs - performance.now()));
    });
    const tellBehind = (seconds: number) => dispatchEvent(new CustomEvent<number>(BEHIND, { detail: seconds }));
    events.addEventListener("behind", (event) => tellBehind(Number((event as MessageEvent).data)));
    // Without news nothing is asked, so nothing else would notice that the server is away. Who connects anew is told
    // anew, and asks for what came meanwhile.
    let wasAway = false;
    events.addEventListener("error", () => { wasAway = events.readyState === EventSource.CONNECTING; tellLate(LIVE, wasAway); });
    events.addEventListener("open", () => { tellLate(LIVE, false); tellBehind(0); if (wasAway) setNews((old) => old + 1); wasAway = false; });
    return () => { events.close(); clearTimeout(waiting); tellLate(LIVE, false); };
  }, [source]);
  return news;
}
