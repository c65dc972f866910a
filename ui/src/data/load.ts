// One answer of the source, with the states that every page has to show.
import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import { Failure, type Source, server } from "./source";

export const SourceContext = createContext<Source>(server);
export const useSource = (): Source => useContext(SourceContext);

export interface Loaded<T> { value: T | null; failure: Failure | null; fresh: boolean; again(): void }

// Old data stays while new data is on its way: nothing flickers.
export function useLoaded<T>(key: string | null, load: (source: Source) => Promise<T>, news = 0): Loaded<T> {
  const source = useSource();
  const [state, setState] = useState<{ value: T | null; failure: Failure | null; key: string | null }>({ value: null, failure: null, key: null });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (key === null) return;
    let current = true;
    load(source).then(
      (value) => { if (current) setState({ value, failure: null, key }); },
      (error: unknown) => {
        const failure = error instanceof Failure ? error : new Failure(0, String(error));
        if (current) setState((old) => ({ value: old.key === key ? old.value : null, failure, key }));
      },
    );
    return () => { current = false; };
  }, [key, turn, source, news]);
  return { value: state.value, failure: state.failure, fresh: state.key === key, again: () => setTurn((old) => old + 1) };
}

// An answer of the collector: the data, and whether a part of the store did not answer.
export const useData = <T>(path: string | null, news = 0): Loaded<T> & { partial: boolean } => {
  const loaded = useLoaded<{ data: T; partial: boolean }>(path, (source) => source.json(path ?? ""), news);
  return { ...loaded, value: loaded.value?.data ?? null, partial: loaded.value?.partial ?? false };
};

export const useAnswer = <T>(path: string | null, news = 0): Loaded<T> => useLoaded<T>(path, (source) => source.json<T>(path ?? ""), news);

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
    return () => { events.close(); clearTimeout(waiting); };
  }, [source]);
  return news;
}
