"use strict";

function flameGraph() {
  const flame = data.flame;
  const canvas = document.getElementById("flame-canvas");
  const readout = document.getElementById("flame-readout");
  const processSelect = document.getElementById("flame-process");
  const threadSelect = document.getElementById("flame-thread");
  const stateSelect = document.getElementById("flame-state");
  const search = document.getElementById("flame-search");
  const rowHeight = 18;
  const entries = flame.entries;
  if (!entries.ns.length) {
    document.querySelectorAll("#flame .bar > *:not(h2)").forEach((item) => item.remove());
    canvas.remove();
    readout.textContent = "No stack was sampled. Start the job with: pilotlight run -- COMMAND";
    return;
  }

  processOptions(processSelect, [...new Set(entries.process)].sort((a, b) => a - b), "all");
  threadSelect.append(element("option", { value: "" }, "all"));
  flame.threads.forEach((name, number) => {
    if (entries.thread.includes(number)) threadSelect.append(element("option", { value: String(number) }, name));
  });
  const mainThread = flame.threads.findIndex((name) => data.functions_of_threads.length === 1 && name === data.functions_of_threads[0]);
  if (mainThread >= 0) threadSelect.value = String(mainThread);
  stateSelect.append(element("option", { value: "" }, "all"));
  stateNames.forEach((name, state) => {
    if (entries.state.includes(state)) {
      stateSelect.append(element("option", { value: String(state) }, name));
      document.getElementById("flame-legend").append(element("span", {},
        element("span", { className: "swatch", style: `background: var(--${stateColours[state]})` }), name));
    }
  });

  const size = flame.parents.length;
  const nameOf = (node) => (node === 0 ? "all" : flame.functions[flame.function_of[node]][0]);
  const fileOf = (node) => (node === 0 ? "" : flame.functions[flame.function_of[node]][1]);
  const depths = new Uint32Array(size);
  const children = Array.from({ length: size }, () => []);
  for (let node = 1; node < size; node++) {
    depths[node] = depths[flame.parents[node]] + 1;
    children[flame.parents[node]].push(node);
  }
  for (const list of children) list.sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : nameOf(a) > nameOf(b) ? 1 : a - b));

  let total, self, states, matches = new Set(), zoom = 0, hover = 0, rectangles = [], matched = 0;

  function sum() {
    total = new Float64Array(size);
    self = new Float64Array(size);
    states = stateNames.map(() => new Float64Array(size));
    const [process, thread, state] = [processSelect, threadSelect, stateSelect].map((select) => select.value);
    for (let i = 0; i < entries.ns.length; i++) {
      if (process !== "" && entries.process[i] !== Number(process)) continue;
      if (thread !== "" && entries.thread[i] !== Number(thread)) continue;
      if (state !== "" && entries.state[i] !== Number(state)) continue;
      self[entries.node[i]] += entries.ns[i];
      states[Math.min(entries.state[i], 4)][entries.node[i]] += entries.ns[i];
    }
    total.set(self);
    for (let node = size - 1; node > 0; node--) {
      total[flame.parents[node]] += total[node];
      for (const times of states) times[flame.parents[node]] += times[node];
    }
    if (!total[zoom]) zoom = 0;
  }

  function find() {
    const wanted = search.value.trim().toLowerCase();
    matches = new Set();
    matched = 0;
    if (!wanted) return;
    const inside = new Uint8Array(size);
    for (let node = 1; node < size; node++) {
      const parent = flame.parents[node];
      inside[node] = inside[parent];
      if (nameOf(node).toLowerCase().includes(wanted) || fileOf(node).toLowerCase().includes(wanted)) {
        matches.add(node);
        if (!inside[node]) matched += total[node];
        inside[node] = 1;
      }
    }
  }

  // Neighbours of one state differ a little in lightness, the same function always in the same way.
  const shade = flame.functions.map(([name]) => {
    let hash = 0;
    for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)) % 9973;
    return (hash % 4) * 0.07;
  });
  const dominant = (node) => states.reduce((best, times, state) => (times[node] > states[best][node] ? state : best), 1);

  // Only what is at least half a pixel wide is visited, so the size of the tree does not matter.
  function layout(width) {
    rectangles = [];
    const path = [];
    for (let node = zoom; ; node = flame.parents[node]) { path.unshift(node); if (node === 0) break; }
    path.forEach((node) => rectangles.push({ node, x: 0, width, row: depths[node] }));
    const open = [{ node: zoom, x: 0, width }];
    while (open.length) {
      const { node, x, width: wide } = open.pop();
      let left = x;
      for (const child of children[node]) {
        const part = (total[child] / total[node]) * wide;
        if (part >= 0.5) {
          rectangles.push({ node: child, x: left, width: part, row: depths[child] });
          open.push({ node: child, x: left, width: part });
        }
        left += part;
      }
    }
    return rectangles.reduce((most, rectangle) => Math.max(most, rectangle.row), 0) + 1;
  }

  function fitted(context, text, width) {
    if (context.measureText(text).width <= width) return text;
    let low = 0, high = text.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (context.measureText(text.slice(0, middle) + "…").width <= width) low = middle; else high = middle - 1;
    }
    return low ? text.slice(0, low) + "…" : "";
  }

  const redraw = sharpCanvas(canvas, (width) => Math.max(layout(width), 4) * rowHeight + 2, (context) => {
    const colours = stateColours.map(colour);
    const [ink, accent, soft, line, ground] = ["on-node", "accent", "accent-soft", "text", "raised"].map(colour);
    for (const { node, x, width, row } of rectangles) {
      const isMatch = matches.has(node);
      context.globalAlpha = depths[node] < depths[zoom] ? 0.55 : matches.size && !isMatch ? 0.45 : 1;
      context.fillStyle = isMatch ? soft : colours[dominant(node)];
      context.fillRect(x, row * rowHeight + 1, Math.max(width - 1, 0.5), rowHeight - 1);
      if (!isMatch && node) {
        context.globalAlpha *= shade[flame.function_of[node]];
        context.fillStyle = ground;
        context.fillRect(x, row * rowHeight + 1, Math.max(width - 1, 0.5), rowHeight - 1);
      }
      context.globalAlpha = 1;
      if (isMatch && width > 2) { context.strokeStyle = accent; context.lineWidth = 1.5; context.strokeRect(x + 0.75, row * rowHeight + 1.75, width - 2.5, rowHeight - 2.5); }
      if (node === hover && width > 2) { context.strokeStyle = line; context.lineWidth = 2; context.strokeRect(x + 1, row * rowHeight + 2, width - 3, rowHeight - 3); }
      if (width > 22) {
        context.fillStyle = isMatch ? accent : ink;
        context.textAlign = "left";
        context.fillText(fitted(context, nameOf(node), width - 8), x + 4, row * rowHeight + rowHeight / 2 + 1);
      }
    }
    context.globalAlpha = 1;
  });

  function tell() {
    const whole = total[0] || 1;
    readout.replaceChildren(element("b", {}, nameOf(hover)), fileOf(hover) ? ` ${fileOf(hover)}` : "", element("br"),
      `total ${duration(total[hover])} (${share(total[hover] / whole)}), self ${duration(self[hover])} (${share(self[hover] / whole)})`,
      stateNames.map((name, state) => [name, states[state][hover]]).filter(([, ns]) => ns > 0)
        .map(([name, ns]) => `, ${name} ${share(ns / (total[hover] || 1))}`).join(""));
    if (matches.size) readout.append(` · found: ${share(matched / whole)} of the time`);
    else if (search.value.trim()) readout.append(" · nothing found");
  }

  const show = (node) => { hover = node; tell(); redraw(); };
  const zoomTo = (node) => { zoom = node; show(node); };
  const update = () => { sum(); find(); show(zoom); };
  const at = (event) => rectangles.find(({ x, width, row }) =>
    event.offsetX >= x && event.offsetX < x + width && Math.floor(event.offsetY / rowHeight) === row)?.node;

  canvas.addEventListener("pointermove", (event) => {
    const node = at(event) ?? zoom;
    canvas.style.cursor = at(event) === undefined ? "default" : "pointer";
    if (node !== hover) show(node);
  });
  canvas.addEventListener("pointerleave", () => show(zoom));
  canvas.addEventListener("click", (event) => { const node = at(event); if (node !== undefined) zoomTo(node); });
  canvas.addEventListener("keydown", (event) => {
    const shown = (node) => children[node].filter((child) => total[child] > 0);
    const siblings = hover ? shown(flame.parents[hover]) : [0];
    const place = siblings.indexOf(hover);
    if (event.key === "ArrowDown") { const largest = shown(hover).sort((a, b) => total[b] - total[a])[0]; if (largest !== undefined) show(largest); }
    else if (event.key === "ArrowUp") show(flame.parents[hover]);
    else if (event.key === "ArrowRight") show(siblings[Math.min(place + 1, siblings.length - 1)]);
    else if (event.key === "ArrowLeft") show(siblings[Math.max(place - 1, 0)]);
    else if (event.key === "Enter") zoomTo(hover);
    else if (event.key === "Escape") zoomTo(flame.parents[zoom]);
    else return;
    event.preventDefault();
  });
  for (const select of [processSelect, threadSelect, stateSelect]) select.addEventListener("change", update);
  search.addEventListener("input", () => { find(); tell(); redraw(); });
  search.addEventListener("keydown", (event) => { if (event.key === "Escape") { search.value = ""; find(); canvas.focus(); show(zoom); } });
  document.getElementById("flame-reset").addEventListener("click", () => zoomTo(0));
  document.addEventListener("keydown", (event) => {
    if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement) return;
    if (event.key === "/") { event.preventDefault(); search.focus(); }
  });
  update();
}

flameGraph();
