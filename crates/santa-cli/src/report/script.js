"use strict";
// Draws the figures of the report from the data in the page. No framework, no network.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  root.classList.add("scripted");

  // ---------------------------------------------------------------- elements

  const SVG = "http://www.w3.org/2000/svg";

  /** An element with attributes and children; texts become text, never markup. */
  function make(space, name, attributes, children) {
    const element = space ? document.createElementNS(space, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes ?? {})) {
      if (value !== undefined && value !== "") element.setAttribute(key, value);
    }
    element.append(...(children ?? []));
    return element;
  }
  const html = (name, attributes, ...children) => make(null, name, attributes, children);
  const svg = (name, attributes, ...children) => make(SVG, name, attributes, children);

  // ------------------------------------------------------------------ numbers

  /** A number as a person reads it. */
  function show(value, digits = 4) {
    if (value === null || !Number.isFinite(value)) return "–";
    if (value === 0) return "0";
    const size = Math.abs(value);
    const text = size >= 1e-3 && size < 1e5
      ? String(Number(value.toPrecision(digits)))
      : value.toExponential(Math.max(0, digits - 2)).replace(/\.?0+e/, "e").replace("e+", "e");
    return text.replace("-", "−");
  }

  /** Round numbers between two ends, about `count` of them. */
  function linearTicks(low, high, count) {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * ([1, 2, 5].find((d) => rough <= d * power * (1 + 1e-9)) ?? 10);
    if (!(step > 0) || !Number.isFinite(step)) return [];
    const ticks = [];
    const last = Math.floor(high / step + 1e-9);
    for (let i = Math.ceil(low / step - 1e-9); i <= last && ticks.length < 100; i++) ticks.push(i * step);
    return ticks;
  }

  /** Powers of ten; with few of them, also 2 and 5 times them; within a decade, as on a linear axis. */
  function logTicks(low, high, count) {
    const first = Math.floor(Math.log10(low));
    const last = Math.ceil(Math.log10(high));
    const exponents = Array.from({ length: last - first + 1 }, (_, i) => first + i);
    const inside = (v) => v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9);
    const decades = exponents.map((e) => Number(`1e${e}`)).filter(inside);
    if (decades.length >= 3) {
      const stride = Math.ceil(decades.length / count);
      return decades.filter((_, i) => i % stride === 0);
    }
    const finer = exponents.flatMap((e) => [1, 2, 5].map((d) => Number(`${d}e${e}`))).filter(inside);
    return finer.length >= 3 ? finer : linearTicks(low, high, count).filter((v) => v > 0);
  }

  /** An axis: its ends, and where a value lies between two pixels. */
  function axis(values, { log = false, range = null, pad = 0 }, from, to) {
    // The largest numbers have no place: their differences would be infinite.
    const usable = (v) => v !== null && Math.abs(v) <= 1e300 && (!log || v > 0);
    let low = Infinity;
    let high = -Infinity;
    for (const v of values) {
      if (!usable(v)) continue;
      low = Math.min(low, v);
      high = Math.max(high, v);
    }
    if (range) [low, high] = range;
    if (low > high) [low, high] = log ? [0.1, 1] : [0, 1];
    if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - (Math.abs(low) / 2 || 1), high + (Math.abs(high) / 2 || 1)];
    if (pad && !range) {
      if (log) {
        const room = (high / low) ** pad;
        [low, high] = [low / room, high * room];
      } else {
        const room = pad * (high - low);
        low = low >= 0 ? Math.max(0, low - room) : low - room;
        high += room;
      }
    }
    const map = log ? Math.log : (v) => v;
    const [start, span] = [map(low), map(high) - map(low)];
    return {
      low, high, usable,
      place: (v) => from + ((map(v) - start) / span) * (to - from),
      value: (pixel) => {
        const at = start + ((pixel - from) / (to - from)) * span;
        return log ? Math.exp(at) : at;
      },
      ticks: (count) => (log ? logTicks : linearTicks)(low, high, Math.max(2, count)),
    };
  }

  // -------------------------------------------------------------------- charts

  // Pixels: about the axes, for a mark on each axis, and what a letter takes about.
  const MARGIN = { top: 14, stages: 20, right: 14, bottom: 38, left: 14 };
  const PER_TICK = { x: 64, y: 42 };
  const LETTER = 7;
  /** Height of a figure: a share of its width, within limits. */
  const HEIGHT = { share: 0.62, least: 150, most: 300, square: 380 };
  /** Opacity of the band about a mean. */
  const BAND = 0.16;

  /**
   * A figure with axes. `spec()` says what to draw now:
   *   title, x: {label, log, range}, y: {…}, small,
   *   series: [{name, group, colour, dash, x, y, thin, low, high, radius}],
   *   bands: [{x, low, high, opacity}], shades: [{stage, from, to}], diagonal
   */
  class Chart {
    constructor(parent, spec) {
      this.spec = spec;
      this.caption = html("figcaption");
      this.svg = svg("svg", { tabindex: 0, role: "img" });
      this.tip = html("div", { class: "tip", hidden: "hidden" });
      this.spoken = html("div", { class: "unseen", "aria-live": "polite" });
      this.figure = html("figure", { class: "chart" }, this.caption, this.svg, this.tip, this.spoken);
      parent.append(this.figure);
      this.svg.addEventListener("pointermove", (e) => this.point(e));
      this.svg.addEventListener("pointerdown", (e) => this.point(e));
      this.svg.addEventListener("pointerleave", (e) => e.pointerType === "mouse" && this.leave());
      this.svg.addEventListener("blur", () => this.leave());
      this.svg.addEventListener("keydown", (e) => this.key(e));
      // A frame later: drawing changes sizes, which an observer must not do while it observes.
      new ResizeObserver(() => requestAnimationFrame(() => {
        if (this.figure.clientWidth !== this.drawnWidth) this.draw();
      })).observe(this.figure);
      this.draw();
    }

    draw() {
      const now = (this.now = this.spec());
      this.leave();
      this.figure.hidden = now === null;
      if (now === null) return;
      this.drawnWidth = this.figure.clientWidth;
      const width = Math.max(160, this.svg.clientWidth);
      const height = now.square
        ? Math.min(width, HEIGHT.square)
        : Math.round(Math.min(HEIGHT.most, Math.max(HEIGHT.least, width * HEIGHT.share)));
      const bands = now.bands ?? [];
      const columns = [...now.series, ...bands];
      // Names of stages stand above the axes.
      const top = now.shades ? MARGIN.stages : MARGIN.top;
      const bottom = height - MARGIN.bottom;
      const every = (pick) => columns.flatMap(pick);
      const yValues = every((s) => [...(s.y ?? []), ...(s.low ?? []), ...(s.high ?? [])]);
      const y = axis(yValues, { pad: 0.04, ...now.y }, bottom, top);
      const yTicks = y.ticks(Math.round((bottom - top) / PER_TICK.y));
      const left = MARGIN.left + LETTER * Math.max(...yTicks.map((v) => show(v).length), 1);
      const right = width - MARGIN.right;
      const x = axis(every((s) => s.x), now.x, left, right);
      Object.assign(this, { x, y, left, right, top, bottom, width, height });

      this.caption.textContent = now.title;
      const names = now.series.map((s) => s.name).filter(Boolean).join(", ");
      this.svg.setAttribute("aria-label", `${now.title} by ${now.x.label}${names ? `: ${names}` : ""}. Arrow keys read values.`);
      this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.svg.replaceChildren(
        ...(now.shades ?? []).flatMap((s) => this.shade(s)),
        ...yTicks.flatMap((v) => this.yTick(v)),
        ...x.ticks(Math.round((right - left) / PER_TICK.x)).flatMap((v) => this.xTick(v)),
        svg("path", { class: "axis", d: `M${left} ${bottom}H${right}` }),
        svg("text", { x: (left + right) / 2, y: height - 4, "text-anchor": "middle" }, now.x.label),
        ...(now.diagonal ? [svg("path", { class: "reference", d: `M${left} ${bottom}L${right} ${top}` })] : []),
        ...bands.map((b) => this.area(b, b.opacity)),
        ...now.series.map((s) => this.series(s)),
        ...(columns.length ? [] : [svg("text", { x: (left + right) / 2, y: (top + bottom) / 2, "text-anchor": "middle" }, "nothing to show")]),
        (this.cross = svg("g")),
      );
    }

    shade({ stage, from, to }) {
      const clamp = (v) => Math.min(this.right, Math.max(this.left, this.x.place(v)));
      const [a, b] = [clamp(from), clamp(to)];
      if (!(b > a)) return [];
      const box = svg("rect", { class: `shade-${stage}`, x: a, y: this.top, width: b - a, height: this.bottom - this.top });
      if (b - a < LETTER * stage.length) return [box];
      return [box, svg("text", { x: (a + b) / 2, y: this.top - 5, "text-anchor": "middle" }, stage)];
    }

    yTick(value) {
      const at = this.y.place(value);
      return [
        svg("path", { class: "grid", d: `M${this.left} ${at}H${this.right}` }),
        svg("text", { x: this.left - 6, y: at + 4, "text-anchor": "end" }, show(value)),
      ];
    }

    xTick(value) {
      const at = this.x.place(value);
      return [
        svg("path", { class: "axis", d: `M${at} ${this.bottom}v4` }),
        svg("text", { x: at, y: this.bottom + 17, "text-anchor": "middle" }, show(value)),
      ];
    }

    /** Places of the points that can be shown, in pieces between gaps. */
    pieces(xs, ys) {
      const pieces = [[]];
      xs.forEach((vx, i) => {
        if (this.x.usable(vx) && this.y.usable(ys[i])) pieces.at(-1).push([this.x.place(vx), this.y.place(ys[i]), i]);
        else pieces.push([]);
      });
      return pieces.filter((p) => p.length);
    }

    path(points) {
      return "M" + points.map(([px, py]) => `${px.toFixed(1)} ${py.toFixed(1)}`).join("L");
    }

    area({ x, low, high, colour = 0 }, opacity) {
      // Both ends have the same gaps: a band is null where its mean is. On a logarithmic axis a low
      // end at zero has no place, and the band stops there.
      const both = x.map((_, i) => (this.y.usable(low[i]) ? high[i] : null));
      const d = this.pieces(x, both).map((piece) => {
        const back = piece.map(([px, , i]) => [px, this.y.place(low[i])]).reverse();
        return this.path([...piece, ...back]) + "Z";
      });
      return svg("path", { class: "band", d: d.join(""), fill: `var(--series-${colour})`, "fill-opacity": opacity });
    }

    series(s) {
      const colour = `var(--series-${s.colour})`;
      const pieces = this.pieces(s.x, s.y);
      const lines = pieces.filter((p) => p.length > 1).map((p) => this.path(p)).join("");
      const dots = pieces.flatMap((p) => (p.length === 1 || s.radius ? p : []));
      return svg("g", { class: "series", "data-group": s.group },
        ...(s.low ? [this.area(s, BAND)] : []),
        svg("path", { class: s.thin ? "line thin" : "line", d: lines, stroke: colour, "stroke-dasharray": s.dash }),
        ...dots.map(([cx, cy, i]) => svg("circle", { cx, cy, r: s.radius?.[i] ?? 2.5, fill: colour })));
    }

    // Reading values: by pointer, touch or keys.

    point(event) {
      const box = this.svg.getBoundingClientRect();
      this.read(this.x.value(((event.clientX - box.left) / box.width) * this.width), false);
    }

    key(event) {
      const xs = this.now?.series[0]?.x ?? [];
      if (event.key === "Escape") return this.leave();
      const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
      if (!(event.key in moves) || !xs.length) return;
      event.preventDefault();
      const from = this.at === undefined ? -1 : nearest(xs, this.at);
      const step = moves[event.key] * (event.shiftKey ? 10 : 1);
      this.read(xs[Math.min(xs.length - 1, Math.max(0, from + step))], true);
    }

    read(value, aloud) {
      const { now, x, y } = this;
      const found = now.series
        .map((s) => ({ s, i: nearest(s.x, value) }))
        .filter(({ s, i }) => i >= 0 && x.usable(s.x[i]));
      if (!found.length) return this.leave();
      // The crosshair stands on the point nearest to it.
      const near = (f) => Math.abs(x.place(f.s.x[f.i]) - x.place(value));
      const first = found.reduce((a, b) => (near(b) < near(a) ? b : a));
      this.at = first.s.x[first.i];
      const at = x.place(this.at);
      const dots = found.filter(({ s, i }) => y.usable(s.y[i])).map(({ s, i }) =>
        svg("circle", { cx: x.place(s.x[i]), cy: y.place(s.y[i]), r: 3.5, fill: `var(--series-${s.colour})` }));
      this.cross.replaceChildren(svg("path", { class: "cross", d: `M${at} ${this.top}V${this.bottom}` }), ...dots);
      const head = `${now.x.label} ${show(this.at)}`;
      const rows = found.map(({ s, i }) => [s, s.say ? s.say(i) : show(s.y[i])]);
      this.tip.replaceChildren(html("strong", {}, head), ...rows.map(([s, text]) =>
        html("div", {},
          html("span", {}, html("span", { class: "swatch", style: `--colour: var(--series-${s.colour})` }), s.name),
          html("span", {}, text))));
      this.tip.hidden = false;
      this.putTip(at);
      if (aloud) this.spoken.textContent = [head, ...rows.map(([s, text]) => `${s.name} ${text}`)].join("; ");
    }

    /** Puts the tip beside the crosshair; where it would hide most of the figure, below that. */
    putTip(at) {
      const [outer, inner] = [this.figure, this.svg].map((e) => e.getBoundingClientRect());
      const cross = inner.left - outer.left + at * (inner.width / this.width);
      const [wide, gap] = [this.tip.offsetWidth, 12];
      const left = cross + gap + wide <= outer.width ? cross + gap : cross - gap - wide;
      this.tip.style.left = `${Math.max(0, Math.min(left, outer.width - wide))}px`;
      this.tip.style.top = `${wide > outer.width * 0.4 ? outer.height : inner.top - outer.top + this.top}px`;
    }

    leave() {
      this.at = undefined;
      this.tip.hidden = true;
      this.cross?.replaceChildren();
    }
  }

  /** Where in a rising list the value nearest to another is. */
  function nearest(list, value) {
    let [low, high] = [0, list.length - 1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (list[middle] < value) low = middle;
      else high = middle;
    }
    return high > 0 && Math.abs(list[high] - value) < Math.abs(list[low] - value) ? high : Math.min(low, list.length - 1);
  }

  // ---------------------------------------------------------------- experiments

  for (const section of document.querySelectorAll("[data-experiment]")) {
    const id = section.dataset.experiment;
    const { groups } = data.experiments[id];
    const hidden = new Set();
    const shown = () => groups.map((g, i) => [g, i]).filter(([, i]) => !hidden.has(i));
    const place = (name) => section.querySelector(`[data-charts=${name}]`);
    const chosen = (name, otherwise) =>
      section.querySelector(`input[name="${name}-${id}"]:checked, select[name="${name}-${id}"]`)?.value ?? otherwise;
    const style = (group, i) => ({ name: group.label, group: i, colour: group.colour, dash: group.dash });
    const charts = [];
    const add = (parent, spec) => charts.push(new Chart(parent, spec));

    // Learning curves

    const curves = place("curves");
    const curveSeries = (pick, scale = 1) => {
      const across = chosen("x", "epoch");
      const scaled = (list) => (scale === 1 ? list : list.map((v) => (v === null ? null : v * scale)));
      return shown().flatMap(([group, i]) =>
        pick(group).filter(([curve]) => curve).map(([curve, extra]) => ({
          ...style(group, i), ...extra,
          x: curve[across],
          y: scaled(curve.mean),
          ...(group.band && !extra.thin ? { low: scaled(curve.low), high: scaled(curve.high) } : {}),
        })));
    };
    const curveAxes = () => ({
      x: { label: chosen("x", "epoch") === "epoch" ? "epoch" : "seconds" },
      y: { log: chosen("y", "log") === "log" },
    });
    const scores = (measure) => (group) => {
      const { last, averaged } = group[chosen("part", curves.dataset.part ?? "test")][measure];
      const prediction = chosen("prediction", "last");
      if (prediction === "both") {
        return [[last, { thin: true, name: `${group.label}, last` }], [averaged, { name: `${group.label}, averaged` }]];
      }
      return [[prediction === "last" ? last : averaged, {}]];
    };
    const partName = () => (chosen("part", curves.dataset.part ?? "test") === "test" ? "Test" : "Validation");
    const exists = (measure) => groups.some((g) => ["test", "validation"].some((p) => g[p][measure].last || g[p][measure].averaged));
    if (exists("error")) {
      add(curves, () => ({ title: `${partName()} error, %`, ...curveAxes(), series: curveSeries(scores("error"), 100) }));
    }
    if (exists("nll")) {
      add(curves, () => ({ title: `${partName()} NLL`, ...curveAxes(), series: curveSeries(scores("nll")) }));
    }
    add(curves, () => ({ title: "Training loss", ...curveAxes(), series: curveSeries((g) => [[g.loss, {}]]) }));

    // Temperature and momentum of one run

    const annealed = () => groups[Number(chosen("run", "0"))]?.annealing ?? null;
    const temperature = place("temperature");
    if (temperature) {
      add(temperature, () => {
        const run = annealed();
        const group = groups[Number(chosen("run", "0"))];
        return run && run.temperature.some((t) => t > 0) ? {
          title: "Temperature",
          x: { label: "epoch" },
          y: { log: chosen("temperature", "log") === "log" },
          shades: run.stages,
          series: [{ name: "temperature", group: -1, colour: group.colour, dash: "", x: run.epoch, y: run.temperature }],
        } : null;
      });
      const most = Math.max(...groups.map((g) => g.annealing?.layers.length ?? 0));
      for (let at = 0; at < most; at++) add(place("momentum"), () => momentum(annealed(), at));
    }
    function momentum(run, at) {
      const layer = run?.layers[at];
      if (!layer) return null;
      // One range for all tensors, so that they compare: that of the values, but not less than a
      // hundredth, so that no drift looks like nothing.
      const all = run.layers.flatMap((l) => l.quantiles.flat()).filter((v) => v !== null);
      const middle = (Math.min(...all) + Math.max(...all)) / 2;
      const half = Math.max(0.005, (Math.max(...all) - Math.min(...all)) / 2);
      const range = [middle - half, middle + half];
      const q = layer.quantiles;
      const { colour } = groups[Number(chosen("run", "0"))];
      const band = (low, high, opacity) => ({ x: layer.epoch, low: q[low], high: q[high], colour, opacity });
      const say = (i) => `${show(q[3][i], 3)} (${show(q[2][i], 3)} to ${show(q[4][i], 3)})`;
      return {
        title: layer.name,
        x: { label: "epoch" },
        y: { range },
        bands: [band(0, 6, 0.12), band(1, 5, 0.18), band(2, 4, 0.3)],
        series: [{ name: "median", group: -1, colour, dash: "", x: layer.epoch, y: q[3], say }],
      };
    }

    // Calibration

    const calibration = place("calibration");
    if (calibration) {
      add(calibration, () => {
        const found = shown()
          .map(([group, i]) => [group, i, group.calibration[chosen("calibration", "last")]])
          .filter(([, , bins]) => bins);
        const most = Math.max(1, ...found.flatMap(([, , bins]) => bins.count));
        return {
          title: "Accuracy by confidence",
          square: true,
          diagonal: true,
          x: { label: "confidence", range: [0, 1] },
          y: { range: [0, 1] },
          series: found.map(([group, i, bins]) => ({
            ...style(group, i),
            x: bins.confidence,
            y: bins.accuracy,
            radius: bins.count.map((n) => 2 + 4 * Math.sqrt(n / most)),
            say: (at) => `${show(bins.accuracy[at], 3)} of ${bins.count[at]}`,
          })),
        };
      });
    }

    // What changes them

    const redraw = () => charts.forEach((chart) => chart.draw());
    section.addEventListener("change", (event) => {
      if (event.target.dataset.show === "validation") {
        section.querySelector(".results").classList.toggle("brief", !event.target.checked);
      } else redraw();
    });
    section.querySelector(".legend").append(...groups.map((group, i) => {
      const stroke = svg("path", {
        d: "M0 4H28", stroke: `var(--series-${group.colour})`, "stroke-width": 3, "stroke-dasharray": group.dash,
      });
      const sample = svg("svg", { class: "sample", viewBox: "0 0 28 8", "aria-hidden": "true" }, stroke);
      const button = html("button", { type: "button", "aria-pressed": "true" }, sample, group.label);
      button.addEventListener("click", () => {
        if (!hidden.delete(i)) hidden.add(i);
        button.setAttribute("aria-pressed", String(!hidden.has(i)));
        redraw();
      });
      return button;
    }));
  }

  // ---------------------------------------------------------------------- theme

  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const tell = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Change to light colours" : "Change to dark colours");
  };
  const wanted = new URLSearchParams(location.search).get("theme");
  if (wanted === "dark" || wanted === "light") root.dataset.theme = wanted;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    tell();
  });
  system.addEventListener("change", tell);
  tell();
})();
