"use strict";
(() => {
  const SVG = document.getElementById("shapes").namespaceURI;
  const view = { stage: -1, mode: null, tile: null, open: new Set() };
  let data = null, frame = 0;

  /* ---------------------------------------------------------------- small tools */
  const put = (node, attributes, children) => {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
      else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
    return node;
  };
  const el = (tag, attributes, ...children) => put(document.createElement(tag), attributes, children);
  const draw = (tag, attributes, ...children) => put(document.createElementNS(SVG, tag), attributes, children);
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const most = (values) => values.reduce((top, value) => Math.max(top, value), 0);
  const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
  const full = (value) => Math.abs(value) >= 1e15 ? value.toPrecision(3) : value.toLocaleString("en-US", { maximumFractionDigits: value < 100 ? 2 : 0 });
  const short = (value) => {
    for (const [size, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]])
      if (value >= size) { const v = value / (letter === "k" ? 1e3 : size); return v.toPrecision(v >= 100 ? 3 : 2).replace(/\.0$/, "") + letter; }
    return full(value);
  };
  const percent = (share) => share > 0 && share < 0.01 ? "<1%" : share < 1 && share >= 0.995 ? ">99%" : Math.round(share * 100) + "%";

  /* ---------------------------------------------------------------- the page */
  function render() {
    const kind = document.querySelector(".kind").firstChild.textContent;
    document.getElementById("top").replaceChildren(
      el("p", { class: "kind" }, kind,
        el("span", { class: "chip " + data.tone, role: "status" }, data.status)),
      el("h1", {}, data.title));
    const tables = data.tables.map(tableCard).filter(Boolean);
    document.getElementById("page").replaceChildren(
      el("section", { id: "story", class: "story" }, data.sentences.map((text) => el("p", {}, text))),
      el("dl", { class: "figures" }, data.figures.map((one) => el("div", { class: "figure" }, el("dt", {}, one.label),
        el("dd", { class: "value" }, one.value), one.note ? el("dd", { class: "aside" }, one.note) : ""))),
      data.chart ? chartCard(data.chart) : "",
      data.state_map ? mapCard(data.state_map) : "",
      el("div", { class: "columns" }, tables),
      data.command || data.facts.length ? factsCard() : "");
    redraw();
  }
  function redraw() {
    if (data.chart) fillChart(data.chart);
    if (data.state_map) { fillStages(data.state_map); fillMap(data.state_map); }
  }

  /* ---------------------------------------------------------------- over episodes */
  function chartCard(chart) {
    return el("section", { class: "card", "aria-labelledby": "chart-title" }, el("h2", { id: "chart-title" }, chart.title),
      chart.note ? el("p", { class: "note" }, chart.note) : "",
      chart.series.length ? el("div", { class: "chart", id: "chart" }) : "",
      chart.series.length ? el("div", { class: "key", id: "chart-key" }) : "");
  }
  function scale(low, high, from, to, log) {
    const f = log ? Math.log : (v) => v;
    const a = f(low), b = f(high) === a ? a + 1 : f(high);
    return (value) => from + (f(value) - a) / (b - a) * (to - from);
  }
  function ticks(low, high, log, wanted, whole) {
    if (log) {
      const found = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
        for (const step of [1, 2, 5]) found.push(step * 10 ** power);
      const inside = found.filter((v) => v >= low * 0.999 && v <= high * 1.001);
      const tens = inside.filter((v) => Number.isInteger(Math.round(Math.log10(v) * 1e6) / 1e6));
      return inside.length <= wanted + 2 ? inside : tens.length > 1 ? tens.filter((_, i) => i % Math.ceil(tens.length / wanted) === 0) : inside.filter((_, i) => i % 2 === 0);
    }
    const rough = Math.max((high - low) / wanted, whole ? 1 : 0), power = 10 ** Math.floor(Math.log10(rough || 1));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) || 1;
    const found = [];
    for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) found.push(value);
    return found;
  }
  function fillChart(chart) {
    const place = document.getElementById("chart");
    if (!place) return;
    const width = Math.max(260, place.clientWidth), height = clamp(width * 0.34, 200, 320);
    const left = 52, right = 14, top = 22, bottom = 38;
    const xs = chart.series.flatMap((one) => one.x), ys = chart.series.flatMap((one) => one.y);
    for (const rule of chart.rules) (rule.axis === "x" ? xs : ys).push(rule.at);
    const floor = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
    const [x0, x1] = chart.log ? [floor(xs), most(xs)] : [0, most(xs) || 1];
    const [y0, y1] = chart.percent ? [0, 1] : chart.log ? [floor(ys) * 0.9, most(ys) * 1.08] : [0, most(ys) || 1];
    const x = scale(x0, x1, left, width - right, chart.log), y = scale(y0, y1, height - bottom, top, chart.log);
    const say = (value) => chart.percent ? percent(value) : +value.toPrecision(4) + "";
    const picture = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${chart.title}: ${chart.series.map((one) => `${one.name} ends at ${say(one.y[one.y.length - 1])}`).join("; ")}` });
    for (const value of ticks(y0, y1, chart.log, 5)) {
      picture.append(draw("line", { class: "tick", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
        draw("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, chart.percent ? Math.round(value * 100) + "%" : +value.toPrecision(3) + ""));
    }
    for (const value of ticks(x0, x1, chart.log, width < 500 ? 4 : 8, true)) {
      const at = x(value), anchor = at > width - 40 ? "end" : "middle";
      picture.append(draw("text", { x: at > width - 40 ? width - 2 : at, y: height - bottom + 18, "text-anchor": anchor }, short(value)));
    }
    picture.append(draw("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }),
      draw("text", { x: width - right, y: height - 4, "text-anchor": "end" }, chart.x_label),
      draw("text", { x: 4, y: 11 }, chart.y_label));
    chart.series.forEach((one, i) => {
      const path = one.x.map((v, k) => `${k ? "L" : "M"}${x(v).toFixed(1)} ${y(clamp(one.y[k], y0, y1)).toFixed(1)}`).join("");
      picture.append(draw("path", { class: `line l${i % 3}`, d: path }));
    });
    const labels = [];
    for (const rule of chart.rules) {
      if (rule.axis === "x") {
        const at = x(rule.at), end = at > width * 0.6;
        const label = draw("text", { class: "rule-label", x: at + (end ? -6 : 6), y: height - bottom - 8, "text-anchor": end ? "end" : "start" }, `${rule.label}: ${short(rule.at)}`);
        picture.append(draw("line", { class: "rule", x1: at, x2: at, y1: top - 4, y2: height - bottom }), label);
        labels.push(label);
      } else {
        const at = y(rule.at);
        picture.append(draw("line", { class: "rule", x1: left, x2: width - right, y1: at, y2: at }),
          draw("text", { class: "rule-label", x: left + 6, y: at - 6 }, rule.label));
      }
    }
    const cursor = draw("line", { class: "cursor hidden", y1: top - 4, y2: height - bottom });
    picture.append(cursor);
    const key = (at) => document.getElementById("chart-key").replaceChildren(...chart.series.map((one, i) => {
      let k = one.x.length - 1;
      if (at !== null) { k = one.x.findIndex((v) => v >= at); k = k < 0 ? one.x.length - 1 : k; }
      return el("span", {}, draw("svg", { width: 22, height: 8, "aria-hidden": "true" }, draw("line", { class: `line l${i % 3}`, x1: 1, x2: 21, y1: 4, y2: 4, "stroke-width": 2.5 })), one.name, el("b", {}, say(one.y[k])));
    }), at === null ? "" : el("span", {}, "after", el("b", {}, short(Math.round(at))), "episodes"));
    const invert = (pixel) => { const share = clamp((pixel - left) / (width - right - left), 0, 1); return chart.log ? Math.exp(Math.log(x0) + share * (Math.log(x1) - Math.log(x0))) : x0 + share * (x1 - x0); };
    picture.addEventListener("pointermove", (event) => {
      const at = invert((event.clientX - picture.getBoundingClientRect().left) * width / picture.getBoundingClientRect().width);
      cursor.classList.remove("hidden"); cursor.setAttribute("x1", x(at)); cursor.setAttribute("x2", x(at)); key(at);
    });
    picture.addEventListener("pointerleave", () => { cursor.classList.add("hidden"); key(null); });
    place.replaceChildren(picture);
    /* Narrow screens: a label that does not fit is shortened to what its brackets say, and moved inside. */
    for (const label of labels) {
      const room = width - right - left - 4;
      if (label.getComputedTextLength() > room) label.textContent = label.textContent.replace(/^.*\((.*)\)/, "$1");
      const long = label.getComputedTextLength(), first = +label.getAttribute("x") - (label.getAttribute("text-anchor") === "end" ? long : 0);
      put(label, { x: clamp(first, left + 4, width - right - long), "text-anchor": "start" }, []);
    }
    key(null);
  }

  /* ---------------------------------------------------------------- the map of states */
  const MODES = { visits: "Visits", share: "Share of target", policy: "Policy" };
  function modes(map) {
    const found = ["visits"];
    if (map.overall.wanted.some((value) => value > 0)) found.push("share");
    if (map.policy) found.push("policy");
    return found;
  }
  function mapCard(map) {
    const known = modes(map);
    if (!known.includes(view.mode)) view.mode = map.policy ? "policy" : sum(map.overall.missing) > 0 ? "share" : "visits";
    view.stage = clamp(view.stage, -1, map.stages.length - 1);
    if (view.mode === "policy" && view.stage < 0) view.stage = busiest(map);
    if (view.tile === null || view.tile >= map.labels.length) view.tile = favourite(map);
    const title = known.includes("share") ? "Visits against target" : map.policy ? "Policy and visits" : "Visits";
    const note = [map.layout.note, map.note && map.note[0].toUpperCase() + map.note.slice(1) + (map.note.endsWith(".") ? "" : ".")].filter(Boolean).join(" ");
    return el("section", { class: "card", "aria-labelledby": "map-title" }, el("h2", { id: "map-title" }, title),
      note ? el("p", { class: "note" }, note) : "",
      el("div", { class: "tools" }, known.length > 1 ? el("div", { class: "switch", role: "group", "aria-label": "what the colours show" }, known.map((mode) =>
        el("button", { type: "button", "data-mode": mode, "aria-pressed": String(mode === view.mode), on: { click: () => choose(mode) } }, MODES[mode]))) : ""),
      el("div", { class: "stages" },
        el("label", { for: "stage" }, "Stage"),
        el("div", { id: "stage-bars" }), el("span", {}),
        el("span", {}),
        el("input", { type: "range", id: "stage", min: -1, max: map.stages.length - 1, step: 1, value: view.stage, on: { input: (event) => go(+event.target.value) } }),
        el("output", { id: "stage-name", for: "stage" })),
      el("div", { class: "map" }, el("div", {}, el("div", { class: "scroll", id: "field" }), el("div", { class: "legend", id: "legend" })),
        el("div", { class: "panel", id: "panel", "aria-live": "polite" })));
  }
  function favourite(map) {
    const { missing, visits } = map.overall, worst = missing.indexOf(most(missing));
    return most(missing) > 0 ? worst : Math.max(0, visits.indexOf(most(visits)));
  }
  /* The first stage at which the policy is known in the most states. */
  function busiest(map) {
    const known = map.policy.map((row) => row.filter((action) => action >= 0).length);
    return known.indexOf(most(known));
  }
  function choose(mode) {
    view.mode = mode;
    if (mode === "policy" && view.stage < 0) view.stage = busiest(data.state_map);
    for (const button of document.querySelectorAll(".switch button")) button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
    go(view.stage);
  }
  function go(stage) {
    view.stage = view.mode === "policy" ? Math.max(0, stage) : stage;
    fillStages(data.state_map); fillMap(data.state_map);
  }
  const stageName = (map) => view.stage < 0 ? "all stages" : "stage " + map.stages[view.stage];
  function fillStages(map) {
    const input = document.getElementById("stage");
    input.value = view.stage;
    input.setAttribute("aria-valuetext", stageName(map));
    document.getElementById("stage-name").textContent = stageName(map);
    const place = document.getElementById("stage-bars"), width = Math.max(100, place.clientWidth), height = 40, inset = 8;
    const totals = map.by_stage.visits.map(sum), lacking = map.asked_by_stage ? map.by_stage.missing.map(sum) : [];
    const top = most(totals) || 1, step = (width - 2 * inset) / (map.stages.length + 1);
    input.style.marginLeft = `${step / 2}px`; input.style.width = `${width - step}px`;
    const slim = step > 4 ? 1 : 0, every = draw("rect", { class: "every" + (view.stage < 0 ? " on" : ""), x: inset + 1, y: 3, width: Math.max(1, step - 2), height: height - 4, rx: 2 });
    const bars = totals.map((total, i) => {
      const tall = Math.max(1.5, total / top * (height - 4));
      return draw("rect", { class: "bar" + (lacking[i] > 0 ? " lack" : "") + (i === view.stage ? " on" : ""), x: inset + (i + 1) * step + slim, y: height - tall, width: Math.max(0.5, step - 2 * slim), height: tall },
        draw("title", {}, `stage ${map.stages[i]}: ${full(total)} visits${lacking[i] > 0 ? `, ${full(lacking[i])} missing` : ""}`));
    });
    const picture = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, every, step > 20 ? draw("text", { x: inset + step / 2, y: height / 2 + 4 }, "all") : "", bars);
    picture.addEventListener("click", (event) => {
      const box = picture.getBoundingClientRect();
      go(clamp(Math.floor(((event.clientX - box.left) * width / box.width - inset) / step) - 1, -1, map.stages.length - 1));
    });
    place.replaceChildren(picture);
  }
  function amounts(map, i) {
    const s = view.stage, by = map.by_stage;
    if (s < 0) return { visits: map.overall.visits[i], wanted: map.overall.wanted[i], missing: map.overall.missing[i] };
    return { visits: by.visits[s][i], wanted: map.asked_by_stage ? by.wanted[s][i] : 0, missing: map.asked_by_stage ? by.missing[s][i] : 0 };
  }
  /* Where nothing is asked of a stage by itself, the share is that of all stages. */
  function shown(map, i) {
    const here = amounts(map, i);
    if (view.mode === "share" && view.stage >= 0 && !map.asked_by_stage) return { ...here, wanted: map.overall.wanted[i], missing: map.overall.missing[i] };
    return here;
  }
  /* Eight steps from the least to the most visits by equal factors, at least from half of the most. */
  function range(values) {
    const top = most(values) || 1, least = values.reduce((low, value) => value > 0 ? Math.min(low, value) : low, top);
    return [Math.min(least, top / 2), top];
  }
  const level = (value, [low, top]) => value <= 0 ? 0 : 1 + clamp(Math.floor(7.999 * Math.log(value / low) / Math.log(top / low)), 0, 7);
  const shareLevel = (share) => share >= 1 ? 8 : Math.min(7, Math.floor(share * 8));
  function fill(map, i, top) {
    if (view.mode === "policy") {
      const action = map.policy[Math.max(0, view.stage)][i];
      return action < 0 ? "none" : "c" + action % 8;
    }
    const here = shown(map, i);
    if (view.mode === "share") return here.wanted > 0 ? "s" + shareLevel(1 - here.missing / here.wanted) : "none";
    return "v" + level(here.visits, top);
  }
  const DIRECTIONS = { left: [-1, 0], right: [1, 0], up: [0, -1], down: [0, 1], west: [-1, 0], east: [1, 0], north: [0, -1], south: [0, 1] };
  function arrow(name, cx, cy, size) {
    const way = DIRECTIONS[name.toLowerCase().replace(/^(move|go)[ _-]/, "")];
    if (!way) return null;
    const [dx, dy] = way, r = size * 0.24, h = size * 0.15, tx = cx + dx * r, ty = cy + dy * r;
    return draw("path", { class: "arrow", d: `M${cx - dx * r} ${cy - dy * r}L${tx} ${ty}M${tx - dx * h - dy * h} ${ty - dy * h - dx * h}L${tx} ${ty}L${tx - dx * h + dy * h} ${ty - dy * h + dx * h}` });
  }
  function mark(kind, size) {
    if (kind === "hole") return [draw("circle", { class: "hole", cx: size / 2, cy: size / 2, r: size * 0.33 })];
    if (kind === "wall" || kind === "cliff") return [draw("rect", { class: kind, width: size, height: size, rx: size * 0.08 })];
    if (kind === "goal") return [draw("path", { class: "flag", d: `M${size * 0.4} ${size * 0.16}L${size * 0.82} ${size * 0.32}L${size * 0.4} ${size * 0.48}Z` }), draw("line", { class: "pole", x1: size * 0.4, x2: size * 0.4, y1: size * 0.14, y2: size * 0.84 })];
    if (kind === "start") return [draw("circle", { class: "begin", cx: size / 2, cy: size / 2, r: Math.max(3, size * 0.4) })];
    return [];
  }
  function fillMap(map) {
    const { layout } = map, place = document.getElementById("field"), whole = place.closest(".map").clientWidth, room = Math.max(240, whole > 700 ? whole - 320 : whole);
    const graph = layout.kind === "graph", gap = graph ? 0 : layout.columns > 40 ? 1 : 3;
    const largest = { grid: 104, plane: 52, graph: 110, tiles: 40 }[layout.kind];
    const cell = clamp(Math.floor(room / layout.columns), graph ? 46 : 4, largest), size = graph ? cell * 0.5 : cell - gap;
    const width = layout.columns * cell, height = layout.rows * cell;
    const visits = map.labels.map((_, i) => amounts(map, i).visits), top = range(visits);
    const picture = draw("svg", { class: "field", width, height, viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "img", "aria-label": `${MODES[view.mode]} of ${map.labels.length} states, ${stageName(map)}; arrow keys move from state to state` });
    const corner = (i) => [layout.x[i] * cell + (cell - size) / 2, layout.y[i] * cell + (cell - size) / 2];
    for (const [a, b] of layout.edges) picture.append(edge(corner(a), corner(b), size));
    map.labels.forEach((label, i) => {
      const [x, y] = corner(i), here = shown(map, i), kind = layout.marks[i], name = fill(map, i, top);
      const solid = kind === "wall" || (kind === "cliff" && !here.visits);
      const still = (kind === "hole" || kind === "goal") && !map.overall.visits[i];
      const group = draw("g", { class: "tile" + (i === view.tile ? " on" : ""), "data-i": i, transform: `translate(${x} ${y})` },
        draw("rect", { class: "base " + (solid ? kind : still ? "v0" : name), width: size, height: size, rx: graph ? size / 2 : Math.min(6, size * 0.12) }));
      if (!solid && kind && size >= 9) group.append(...mark(kind, size));
      if (view.mode === "policy" && !solid && !still) group.append(...policyMark(map, i, size));
      else if (size >= 30 && !solid && !still && view.mode !== "policy") {
        const text = view.mode === "share" ? (here.missing > 0 ? percent(1 - here.missing / here.wanted) : "") : short(here.visits);
        if (text !== "0" || here.wanted > 0) group.append(draw("text", { class: tint(name), x: size / 2, y: size / 2 + 4 }, text));
      }
      if (view.mode === "visits" && here.missing > 0 && size >= 6) group.append(draw("circle", { class: "lacks", cx: size - Math.max(2.5, size * 0.13), cy: Math.max(2.5, size * 0.13), r: Math.max(2, size * 0.09) }));
      if (graph && cell >= 60) group.append(draw("text", { class: "name", x: size / 2, y: size + 15 }, label.length > cell / 6.5 ? label.slice(0, cell / 6.5 - 1) + "…" : label));
      picture.append(group);
    });
    const reach = (event) => { const tile = event.target.closest("[data-i]"); if (tile) select(map, +tile.dataset.i); };
    picture.addEventListener("pointerover", reach);
    picture.addEventListener("click", reach);
    picture.addEventListener("keydown", (event) => {
      const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (way) { event.preventDefault(); step(map, way); }
    });
    const focused = document.activeElement && document.activeElement.classList.contains("field");
    place.replaceChildren(picture);
    if (focused) picture.focus({ preventScroll: true });
    fillLegend(map, top);
    fillPanel(map);
  }
  function edge([ax, ay], [bx, by], size) {
    const r = size / 2, x1 = ax + r, y1 = ay + r, x2 = bx + r, y2 = by + r, length = Math.hypot(x2 - x1, y2 - y1) || 1;
    const ux = (x2 - x1) / length, uy = (y2 - y1) / length, bend = 0.12 * length + 4, ex = x2 - ux * (r + 4), ey = y2 - uy * (r + 4);
    const mx = (x1 + x2) / 2 + uy * bend, my = (y1 + y2) / 2 - ux * bend;
    const tx = ex - mx, ty = ey - my, t = Math.hypot(tx, ty) || 1, vx = tx / t, vy = ty / t;
    return draw("g", {}, draw("path", { class: "edge", d: `M${x1 + ux * r} ${y1 + uy * r}Q${mx} ${my} ${ex} ${ey}` }),
      draw("path", { class: "tip", d: `M${ex + vx * 3} ${ey + vy * 3}L${ex - vx * 4 - vy * 3} ${ey - vy * 4 + vx * 3}L${ex - vx * 4 + vy * 3} ${ey - vy * 4 - vx * 3}Z` }));
  }
  const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches;
  function tint(name) {
    const at = +name[1];
    if (name[0] === "v") return isDark() ? (at >= 6 ? "dark" : "light") : at >= 5 ? "light" : "dark";
    if (name[0] === "s") return isDark() ? (at >= 8 || at <= 1 ? "dark" : "light") : at >= 7 ? "light" : "dark";
    return "";
  }
  function policyMark(map, i, size) {
    const action = map.policy[Math.max(0, view.stage)][i];
    if (action < 0 || size < 14) return [];
    const drawn = arrow(map.actions[action], size / 2, size / 2, size);
    if (drawn) return [drawn];
    return size < 30 ? [] : [draw("text", { class: "word", x: size / 2, y: size / 2 + 4 }, map.actions[action].replace(/^action /, "").slice(0, Math.floor(size / 8)))];
  }
  function select(map, i) {
    if (i === view.tile) return;
    view.tile = i;
    for (const tile of document.querySelectorAll(".tile.on")) tile.classList.remove("on");
    const now = document.querySelector(`.tile[data-i="${i}"]`);
    if (now) now.classList.add("on");
    fillPanel(map);
  }
  function step(map, [dx, dy]) {
    const { x, y } = map.layout, from = view.tile;
    let best = null, least = Infinity;
    map.labels.forEach((_, i) => {
      const along = (x[i] - x[from]) * dx + (y[i] - y[from]) * dy, aside = Math.abs((x[i] - x[from]) * dy) + Math.abs((y[i] - y[from]) * dx);
      if (along > 0 && along + 3 * aside < least) { least = along + 3 * aside; best = i; }
    });
    if (best !== null) select(map, best);
  }
  const swatch = (name) => draw("svg", { width: 13, height: 13, "aria-hidden": "true" }, draw("rect", { class: name, width: 13, height: 13, rx: 3 }));
  const ramp = (letter) => draw("svg", { width: 99, height: 12, "aria-hidden": "true" }, Array.from({ length: 9 }, (_, k) => k).filter((k) => letter === "s" || k).map((k, n, all) => draw("rect", { class: letter + k, x: n * 99 / all.length, width: 99 / all.length + 0.5, height: 12 })));
  const WORDS = { start: "start", goal: "goal", hole: "hole: ends the episode", wall: "wall", cliff: "cliff" };
  function fillLegend(map, top) {
    const parts = [];
    if (view.mode === "visits") parts.push(el("span", {}, short(Math.ceil(top[0])), ramp("v"), `${short(top[1])} visits`));
    if (view.mode === "share") parts.push(el("span", {}, "0%", ramp("s"), "all of the target"), map.asked_by_stage || view.stage < 0 ? "" : el("span", {}, "(at all stages: none is asked for by itself)"));
    if (view.mode === "policy") {
      const used = [...new Set(map.policy.flat())].filter((a) => a >= 0).sort((a, b) => a - b);
      parts.push(...used.slice(0, 16).map((a) => el("span", {}, swatch("c" + a % 8), map.actions[a])), el("span", {}, "dashed: never seen"));
    }
    if (view.mode === "visits" && sum(map.overall.missing) > 0) parts.push(el("span", {}, draw("svg", { width: 10, height: 10, "aria-hidden": "true" }, draw("circle", { class: "lacks", cx: 5, cy: 5, r: 4 })), "something is missing"));
    for (const kind of [...new Set(map.layout.marks)].filter(Boolean)) parts.push(el("span", {}, draw("svg", { width: 16, height: 16, "aria-hidden": "true" }, mark(kind, 16)), WORDS[kind] || kind));
    document.getElementById("legend").replaceChildren(...parts);
  }
  function fillPanel(map) {
    const i = view.tile, here = amounts(map, i), parts = [el("h3", {}, map.labels[i])];
    const whole = map.overall.wanted[i] > 0 && view.stage >= 0 && !map.asked_by_stage;
    let said = `${full(here.visits)} visit${here.visits === 1 ? "" : "s"}`;
    if (here.wanted > 0) said = here.missing > 0 ? `${full(here.wanted - here.missing)} of ${full(here.wanted)} visits that were asked for` : `${said}; all ${full(here.wanted)} that were asked for`;
    else if (whole) said += `; at all stages ${full(map.overall.wanted[i] - map.overall.missing[i])} of ${full(map.overall.wanted[i])} that were asked for`;
    else if (map.overall.wanted.some((value) => value > 0)) said += "; nothing was asked for";
    parts.push(el("p", { class: "sum" }, `${said} (${stageName(map)}).`));
    if (map.policy) { const action = map.policy[Math.max(0, view.stage)][i]; parts.push(el("p", { class: "sum" }, action < 0 ? `Never seen at stage ${map.stages[Math.max(0, view.stage)]}.` : `Policy at stage ${map.stages[Math.max(0, view.stage)]}: ${map.actions[action]}.`)); }
    const bars = actionBars(map, i);
    if (bars) parts.push(bars);
    parts.push(el("p", { class: "hint" }, "Point at a state, tap it, or use the arrow keys."));
    document.getElementById("panel").replaceChildren(...parts);
  }
  function actionBars(map, i) {
    const detail = map.overall_actions;
    if (!detail) return null;
    const staged = view.stage >= 0;
    if (staged && !map.stage_actions) return null;
    const visits = staged ? map.stage_actions[view.stage][i] : detail.visits[i];
    const wanted = staged ? visits.map(() => 0) : detail.wanted[i], missing = staged ? wanted : detail.missing[i];
    const top = most(visits) || 1, box = el("div", { class: "bars" });
    visits.slice(0, 24).forEach((count, a) => {
      const asks = wanted[a] > 0, share = asks ? (wanted[a] - missing[a]) / wanted[a] : count / top;
      box.append(el("span", {}, map.actions[a]), draw("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
        draw("rect", { class: "back", width: 100, height: 10 }), draw("rect", { class: missing[a] > 0 ? "short" : "had", width: 100 * share, height: 10 })),
        el("span", {}, asks && missing[a] > 0 ? `${full(wanted[a] - missing[a])} of ${full(wanted[a])}` : full(count)));
    });
    if (visits.length > 24) box.append(el("span", {}, `and ${visits.length - 24} more`), el("span", {}), el("span", {}));
    return box;
  }

  /* ---------------------------------------------------------------- tables */
  const FEW = 8;
  function tableCard(list) {
    const wide = list.wide, stack = list.heads.length > 2, head = [el("h2", {}, list.title), list.note ? el("p", { class: "note" }, list.note) : ""];
    const attributes = { class: "card" + (wide ? " wide" : ""), id: "list-" + list.name };
    if (!list.rows.length) return list.empty ? el("section", attributes, head[0], el("p", { class: "note" }, list.empty)) : null;
    const open = view.open.has(list.name), late = (k) => !open && k >= FEW ? "hidden" : null;
    const body = list.heads.length
      ? el("table", { class: stack ? "stack" : null }, el("thead", {}, el("tr", {}, list.heads.map((word, k) => el("th", { class: k < list.numeric ? "number" : null, scope: "col" }, word)))),
        el("tbody", {}, list.rows.map((row, k) => el("tr", { class: late(k) }, row.map((text, c) => el("td", { class: c < list.numeric ? "number" : null, "data-head": list.heads[c] }, text))))))
      : el("ul", { class: "lines" }, list.rows.map((row, k) => el("li", { class: late(k) }, row[0])));
    const card = el("section", attributes, head, body);
    if (list.rows.length > FEW && !open) card.append(el("button", { class: "more", type: "button", on: { click: (event) => {
      view.open.add(list.name);
      for (const row of card.querySelectorAll(".hidden")) row.classList.remove("hidden");
      event.target.remove();
    } } }, `Show ${list.rows.length - FEW} more`));
    if (list.more) card.append(el("p", { class: "note" }, `and ${full(list.more)} more`));
    return card;
  }
  function factsCard() {
    return el("section", { class: "card" }, el("h2", {}, data.command ? "How to do it again" : "About this page"),
      data.command ? el("pre", {}, data.command) : "",
      el("table", { class: "facts" }, el("tbody", {}, data.facts.map(([label, value]) => el("tr", {}, el("th", { scope: "row" }, label), el("td", {}, value))),
        el("tr", {}, el("th", { scope: "row" }, "made with"), el("td", {}, data.made_with)))));
  }

  /* ---------------------------------------------------------------- begin, and load again */
  async function unpacked(text) {
    const found = JSON.parse(text);
    if (!found.deflate) return found;
    const bytes = Uint8Array.from(atob(found.deflate), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }
  /* A page of a run that goes on loads itself again, and keeps what was chosen and scrolled to. */
  function reloadLater(written) {
    const minutes = Math.floor((Date.now() / 1000 - written) / 60), chip = document.querySelector(".chip");
    if (minutes >= 2 && chip) { chip.className = "chip open"; chip.textContent = `no update for ${full(minutes)} minutes`; }
    history.scrollRestoration = "manual";
    setTimeout(function reload() {
      if (document.hidden) { document.addEventListener("visibilitychange", reload, { once: true }); return; }
      history.replaceState({ scroll: scrollY, view: { ...view, open: [...view.open] } }, "");
      location.reload();
    }, 2000);
  }
  addEventListener("resize", () => { cancelAnimationFrame(frame); frame = requestAnimationFrame(() => data && redraw()); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => data && redraw());
  unpacked(document.getElementById("data").textContent).then((found) => {
    data = found;
    const kept = history.state, written = document.documentElement.dataset.written;
    if (kept && kept.view) Object.assign(view, kept.view, { open: new Set(kept.view.open) });
    render();
    if (kept && kept.view) scrollTo(0, kept.scroll);
    if (written) reloadLater(+written);
  }).catch((error) => {
    document.getElementById("page").append(el("p", { class: "note" }, `This browser cannot draw the page (${error.message}); a newer one can.`));
  });
})();
