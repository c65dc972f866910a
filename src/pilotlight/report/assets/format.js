"use strict";

const data = JSON.parse(document.getElementById("data").textContent);

function threeDigits(number) {
  if (number === 0) return "0";
  if (Math.abs(number) >= 999.5) return Math.round(number).toLocaleString("en");
  const digits = 2 - Math.floor(Math.log10(Math.abs(Number(number.toPrecision(3)))));
  return number.toFixed(Math.min(Math.max(digits, 0), 6));
}

function duration(ns) {
  if (ns === 0) return "0";
  if (ns < 0) return "-" + duration(-ns);
  if (Math.round(ns) < 1e3) return `${Math.round(ns)}\u00a0ns`;
  if (ns < 999.5e3) return `${threeDigits(ns / 1e3)}\u00a0µs`;
  if (ns < 999.5e6) return `${threeDigits(ns / 1e6)}\u00a0ms`;
  const seconds = ns / 1e9;
  if (seconds < 120) return `${threeDigits(seconds)}\u00a0s`;
  const whole = Math.round(seconds);
  if (seconds < 7200) return `${Math.floor(whole / 60)}\u00a0min\u00a0${whole % 60}\u00a0s`;
  const minutes = Math.round(seconds / 60);
  return `${Math.floor(minutes / 60)}\u00a0h\u00a0${minutes % 60}\u00a0min`;
}

const share = (ratio) => `${threeDigits(100 * ratio)}\u00a0%`;
const count = (number) => number.toLocaleString("en");

function value(number) {
  if (number !== 0 && !(Math.abs(number) >= 1e-4 && Math.abs(number) < 1e9)) return number.toExponential(2);
  return threeDigits(number);
}

function size(bytes) {
  for (const [unit, name] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (bytes >= unit) return `${threeDigits(bytes / unit)}\u00a0${name}`;
  }
  return `${bytes}\u00a0B`;
}

// Names come from the profiled program: they only ever become text nodes.
function element(tag, properties, ...children) {
  const made = document.createElement(tag);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

const labels = new Map(data.processes.map((process) => [process.process, process.label]));
const label = (process) => labels.get(process) ?? `process ${process}`;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const stateColours = ["unknown", "running", "waiting", "gil", "disk"];
const stateNames = ["unknown", "running", "waiting", "waiting for the GIL", "disk"];

function shortFile(file) {
  const installed = file.lastIndexOf("/site-packages/");
  return installed >= 0 ? file.slice(installed + 15) : file.split("/").slice(-2).join("/");
}

// A canvas that is as sharp as the screen; draw(context, width, height) is called when it must.
function sharpCanvas(canvas, heightOf, draw) {
  const redraw = () => {
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth;
    const height = heightOf(width);
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    draw(context, width, height);
  };
  new ResizeObserver(redraw).observe(canvas.parentElement);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  return redraw;
}

function processOptions(select, processes, everything) {
  select.append(element("option", { value: "" }, everything));
  for (const process of processes) select.append(element("option", { value: String(process) }, label(process)));
}
