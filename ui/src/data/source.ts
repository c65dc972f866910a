// Where the page's data is: behind the API of a server, or in the file that the page itself is.
import { type Columns, columnsOf } from "./table";

export class Failure extends Error {
  constructor(readonly status: number, message: string) { super(message); }
}

export interface Source {
  // Whether there is a server that can compute, search and change.
  readonly served: boolean;
  json<T>(path: string): Promise<T>;
  table(path: string, signal?: AbortSignal): Promise<Columns>;
  post<T>(path: string, body: unknown): Promise<T>;
  href(path: string): string;
}

interface Inlined { page: string; version: string; answers: Record<string, unknown>; tables: Record<string, string> }

export function inlined(): Inlined | null {
  const element = document.getElementById("data");
  return element === null ? null : (JSON.parse(element.textContent ?? "null") as Inlined);
}

// The collector's own questions are below v1/, those made for the page below api/.
const rooted = (path: string): string => (path.startsWith("v1/") ? path : `api/${path}`);

// The server wants a token, also where it was content before: a cookie expires, a token is revoked.
export const LOCKED = "pilotlight-locked";

async function answer(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(rooted(path), { credentials: "same-origin", ...init });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Failure(0, "The server does not answer. It may have been stopped; this page asks again every few seconds.");
  }
  if (response.ok) return response;
  if (response.status === 401) dispatchEvent(new Event(LOCKED));
  let text = `${response.status} ${response.statusText}`;
  try {
    const body = (await response.json()) as { error?: unknown; detail?: unknown };
    text = String(body.error ?? body.detail ?? text);
  } catch { /* not JSON: the status has to do */ }
  throw new Failure(response.status, text);
}

export const server: Source = {
  served: true,
  async json<T>(path: string) { return (await (await answer(path)).json()) as T; },
  async table(path, signal) {
    const response = await answer(path, signal ? { signal } : {});
    return columnsOf(new Uint8Array(await response.arrayBuffer()));
  },
  async post<T>(path: string, body: unknown) {
    const headers = { "content-type": "application/json", "x-pilotlight": "page" };
    const response = await answer(path, { method: "POST", headers, body: JSON.stringify(body) });
    return (response.status === 204 ? undefined : await response.json()) as T;
  },
  href: rooted,
};

export function fileSource(data: Inlined): Source {
  const missing = (path: string) => new Failure(404, `this is not in the file, which has only so much room (${path}); pilotlight analyze TRACE --serve shows all of it`);
  return {
    served: false,
    async json<T>(path: string) {
      if (!(path in data.answers)) throw missing(path);
      return data.answers[path] as T;
    },
    async table(path) {
      const text = data.tables[path];
      if (text === undefined) throw missing(path);
      const raw = atob(text);
      const bytes = new Uint8Array(raw.length);
      for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
      return columnsOf(bytes);
    },
    post: () => Promise.reject(new Failure(405, "This is a file: it can only be read.")),
    href: (path) => path,
  };
}
