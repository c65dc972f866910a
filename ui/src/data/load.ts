// One answer of the source, with the states that every page has to show.
import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import { Failure, type Source, server } from "./source";

export const SourceContext = createContext<Source>(server);
export const useSource = (): Source => useContext(SourceContext);

export interface Loaded<T> { value: T | null; failure: Failure | null; fresh: boolean; again(): void }

// Old data stays while new data is on its way: nothing flickers.
export function useLoaded<T>(key: string | null, load: (source: Source) => Promise<T>): Loaded<T> {
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
  }, [key, turn, source]);
  return { value: state.value, failure: state.failure, fresh: state.key === key, again: () => setTurn((old) => old + 1) };
}

export const useAnswer = <T>(path: string | null): Loaded<T> => useLoaded<T>(path, (source) => source.json<T>(path ?? ""));
