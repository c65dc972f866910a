"use strict";

function stepChart() {
  const section = document.getElementById("steps");
  const canvas = document.getElementById("steps-canvas");
  const readout = document.getElementById("steps-readout");
  const select = document.getElementById("steps-process");
  if (!data.step_rows.length) {
    canvas.remove();
    readout.textContent = "No step was marked. Call pilotlight.step() once a step, or use a framework that pilotlight knows.";
    select.parentElement.remove();
    return;
  }
  processOptions(select, data.step_rows.map((rows) => rows.process), "all");
  document.getElementById("steps-legend").append(
    element("span", {}, element("span", { className: "swatch", style: "background: var(--running)" }), "step"),
    element("span", {}, element("span", { className: "swatch mark" }, "▲"), "outlier"),
  );

  const margin = { left: 62, right: 12, top: 12, bottom: 24 };
  let from = 0, to = data.duration_ns, chosen = null, drag = null, top = 1;

  const points = [];
  for (const rows of data.step_rows) {
    for (let i = 0; i < rows.step.length; i++) {
      points.push({
        process: rows.process, step: rows.step[i], start: rows.since_start_ns[i],
        duration: rows.duration_ns[i], outlier: rows.is_outlier[i] === 1,
      });
    }
  }
  points.sort((a, b) => a.start - b.start);
  const detail = new Map();
  for (const steps of data.steps) for (const outlier of steps.outliers) detail.set(`${steps.process}:${outlier.step}`, outlier);

  const visible = () => points.filter((point) =>
    (select.value === "" || point.process === Number(select.value)) && point.start >= from && point.start <= to);
  const x = (ns, width) => margin.left + ((ns - from) / Math.max(to - from, 1)) * (width - margin.left - margin.right);
  const y = (ns, height) => height - margin.bottom - (ns / top) * (height - margin.top - margin.bottom);
  const time = (px) => from + ((px - margin.left) / (canvas.clientWidth - margin.left - margin.right)) * (to - from);

  function niceStep(whole) {
    const raw = whole / 4;
    const power = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw);
  }

  function axes(context, width, height) {
    context.fillStyle = colour("quiet");
    context.strokeStyle = colour("line");
    context.textAlign = "right";
    for (let tick = 0; tick <= top; tick += niceStep(top)) {
      const at = Math.round(y(tick, height)) + 0.5;
      context.beginPath(); context.moveTo(margin.left, at); context.lineTo(width - margin.right, at); context.stroke();
      context.fillText(duration(tick), margin.left - 6, at);
    }
    context.textAlign = "center";
    const span = niceStep(to - from);
    for (let tick = Math.ceil(from / span) * span; tick <= to; tick += span) {
      const at = Math.min(Math.max(x(tick, width), margin.left + 14), width - margin.right - 18);
      context.fillText(tick === 0 ? "start" : duration(tick), at, height - 10);
    }
  }

  function mark(context, point, width, height, size) {
    const px = x(point.start, width), py = y(point.duration, height);
    context.beginPath(); context.moveTo(px, py - size); context.lineTo(px + size, py + 0.8 * size); context.lineTo(px - size, py + 0.8 * size); context.closePath();
    context.fill();
  }

  const redraw = sharpCanvas(canvas, () => 220, (context, width, height) => {
    const shown = visible();
    top = 1.08 * shown.reduce((most, point) => Math.max(most, point.duration), 1);
    axes(context, width, height);
    context.fillStyle = colour("running");
    context.globalAlpha = shown.length > 4000 ? 0.4 : 0.75;
    for (const point of shown) {
      if (!point.outlier) context.fillRect(x(point.start, width) - 1, y(point.duration, height) - 1, 2.5, 2.5);
    }
    context.globalAlpha = 1;
    context.fillStyle = colour("accent");
    const outliers = shown.filter((point) => point.outlier);
    for (const point of outliers) mark(context, point, width, height, outliers.length > 200 ? 2.5 : 5);
    if (chosen) {
      context.strokeStyle = colour("text");
      context.lineWidth = 1.5;
      context.beginPath(); context.arc(x(chosen.start, width), y(chosen.duration, height), 8, 0, 7); context.stroke();
    }
    if (drag && Math.abs(drag.end - drag.begin) > 3) {
      context.fillStyle = colour("running");
      context.globalAlpha = 0.15;
      context.fillRect(Math.min(drag.begin, drag.end), margin.top, Math.abs(drag.end - drag.begin), height - margin.top - margin.bottom);
      context.globalAlpha = 1;
    }
  });

  function tell(point) {
    chosen = point;
    readout.replaceChildren();
    if (point) {
      readout.append(element("b", {}, `step ${point.step}`), ` of ${label(point.process)}: `, element("b", {}, duration(point.duration)),
        `, begins ${duration(point.start)} after the start`);
      const more = detail.get(`${point.process}:${point.step}`);
      if (more) {
        readout.append(`; ${threeDigits(more.ratio)} × the median`);
        if (more.gc_ns) readout.append(`, GC ${duration(more.gc_ns)}`);
        if (more.doing) readout.append(`, ${share(more.doing_ratio)} in ${more.doing}`);
      }
    } else {
      readout.append(`${count(points.length)} steps shown. Hover for the numbers, drag to zoom in, Esc for the whole run.`);
    }
    redraw();
  }

  canvas.addEventListener("pointermove", (event) => {
    if (drag) { drag.end = event.offsetX; redraw(); return; }
    let best = null, least = 30 * 30;
    for (const point of visible()) {
      const dx = x(point.start, canvas.clientWidth) - event.offsetX;
      if (dx * dx > least) continue;
      const dy = (y(point.duration, 220) - event.offsetY) / 2;
      const distance = dx * dx + dy * dy;
      if (distance < least) { least = distance; best = point; }
    }
    if (best !== chosen) tell(best);
  });
  canvas.addEventListener("pointerdown", (event) => {
    drag = { begin: event.offsetX, end: event.offsetX };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => {
    if (drag && Math.abs(drag.end - drag.begin) > 3) {
      [from, to] = [time(Math.min(drag.begin, drag.end)), time(Math.max(drag.begin, drag.end))];
    }
    drag = null;
    tell(null);
  });
  canvas.addEventListener("keydown", (event) => {
    const outliers = visible().filter((point) => point.outlier);
    const at = outliers.indexOf(chosen);
    if (event.key === "ArrowRight" && outliers.length) tell(outliers[(at + 1) % outliers.length]);
    else if (event.key === "ArrowLeft" && outliers.length) tell(outliers[(at - 1 + outliers.length) % outliers.length]);
    else if (event.key === "Escape") { [from, to] = [0, data.duration_ns]; tell(null); }
    else return;
    event.preventDefault();
  });
  select.addEventListener("change", () => tell(null));
  section.hidden = false;
  tell(null);
}

stepChart();
