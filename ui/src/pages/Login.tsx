import { useState } from "preact/hooks";
import { useSource } from "../data/load";

// The token goes to the server once; what comes back is a cookie that scripts cannot read.
export function Login({ done }: { done(): void }) {
  const source = useSource();
  const [token, setToken] = useState("");
  const [told, setTold] = useState("");
  const send = async (event: Event) => {
    event.preventDefault();
    try { await source.post("v1/login", { token: token.trim() }); done(); } catch (error) { setTold((error as Error).message); }
  };
  return (
    <section class="login"><h1>A token is needed</h1><p class="quiet">Whoever runs this collector makes one:</p><p><code>pilotlight token create --scope read</code></p>
      <form onSubmit={(event) => void send(event)}><label>token <input type="password" autocomplete="current-password" required value={token} onInput={(event) => setToken((event.target as HTMLInputElement).value)} /></label><button type="submit" class="primary">log in</button></form>
      <p class="partial" role="alert">{told}</p></section>
  );
}
