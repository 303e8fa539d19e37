/* The parts around the picture: pointer, reach, tables, buttons. window.hga lets tests (and the console) ask what the page knows and has drawn. */

/* ---- under the pointer ---- */

function element(tag, text, parentElement, className) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  if (parentElement) parentElement.append(e);
  return e;
}
function nodeWords(v) {
  const l = levelOf(v);
  const called = calledOf(v) ? " \u201c" + short(calledOf(v), 60) + "\u201d" : "";
  if (l === 0) return "token " + tokenName(v) + called;
  const a = firstToken(v), z = endToken(v);
  return "node " + v + " (level " + l + (a < z ? ", tokens " + a + (z - a > 1 ? " to " + (z - 1) : "") : "") + ")" + called;
}
/* tokens of two sides are counted each on its own */
function tokenName(v) {
  if (!crossing) return String(v);
  const q = v - data.queries[0], k = v - data.keys[0];
  return q >= 0 && q < data.queries[1] ? "query " + q : "key " + k;
}

const MOST_LISTED = 6;
/* edges, and what they weigh: for a query token, or on the mean */
function showEdges(title, edges, token) {
  const under = byId("under");
  under.replaceChildren();
  element("p", title, under);
  for (const e of edges.slice(0, MOST_LISTED)) {
    const line = element("p", undefined, under);
    element("span", undefined, line, "swatch").style.background = colourOf(Math.max(levelOf(e.source), levelOf(e.destination)));
    line.append(nodeWords(e.destination) + " \u2190 " + nodeWords(e.source) + ", type " + e.type + ", weight " + Number(e.weight.toPrecision(7)) + (e.name ? ", " + e.name : "") + sayAttention(attentionOf(e, token)));
  }
  if (edges.length > MOST_LISTED) element("p", "and " + (edges.length - MOST_LISTED) + " more", under, "hint");
  if (!edges.length) element("p", "no edge", under, "hint");
  const weighed = weighs && token !== undefined && WEIGHTS.heads.length > 1 ? edges.flatMap((e) => (attentionOf(e, token) || { edges: [] }).edges) : [];
  if (weighed.length) element("p", "by head: " + headsOf(weighed).map((w, h) => WEIGHTS.heads[h] + ": " + digits(w)).join(", "), under);
}

/* the cell under canvas point x, y, as [row, column], or null outside */
function cellAt(x, y) {
  const p = Math.floor(eye.row + (y - TOP) / eye.y), c = Math.floor(eye.column + (x - LEFT) / eye.x), box = bounds();
  return x >= LEFT && y >= TOP && p >= box[0] && p < box[1] && c >= box[2] && c < box[3] ? [p, c] : null;
}

/* the edges that let query token q see key token k in this relation */
function edgesOfPair(r, q, k) {
  if (r.parts) return r.parts.flatMap((part) => edgesOfPair(part, q, k).map((e) => ({ ...e, name: part.name })));
  const columns = lineage(k).map((u) => srcPosition(r, u)).filter((c) => c >= 0);
  return (statesGoDown ? lineage(q) : [q]).flatMap((v) => edgesBetween(r, dstPosition(r, v), columns));
}

const wordOf = (v) => tokenName(v) + (calledOf(v) ? " \u201c" + short(calledOf(v), 30) + "\u201d" : "");
function describe(x, y) {
  const r = relation();
  if (!r) return;
  if (mode === "links") { describeSpot(spotAt(x, y)); return; }
  const cell = cellAt(x, y);
  if (!cell) return;
  const [p, c] = cell, high = Math.max(1, Math.ceil(1 / eye.y)), wide = Math.max(1, Math.ceil(1 / eye.x));
  if (mode === "tokens") { showEdges(wordOf(p) + " sees " + wordOf(c) + " by", edgesOfPair(r, p, c), p); return; }
  if (high > 1 || wide > 1) {
    const n = countEdges(r, [p, p + high, c, c + wide]);
    const where = "rows " + p + " to " + (p + high - 1) + ", columns " + c + " to " + (c + wide - 1);
    showEdges(plural(n, "edge") + " in this pixel: " + where + (n ? "; the first cell has" : ""), edgesBetween(r, p, [c]));
    return;
  }
  const edges = edgesBetween(r, p, [c]);
  showEdges(edges.length ? "row " + dstNode(r, p) + ", column " + srcNode(r, c) : nodeWords(dstNode(r, p)) + ", " + nodeWords(srcNode(r, c)), edges);
}
function describeSpot(v) {
  if (v !== pointed) pointed = v, redraw();
  if (v >= 0) showEdges(nodeWords(v) + " gathers from", linkEdges.filter((e) => e.destination === v), v < nTokens ? v : undefined);
}

/* ---- reach ---- */

const MOST_LAYERS = 12;

function showReach(token) {
  const place = byId("reach"), found = reach(token, MOST_LAYERS), all = data.keys[1];
  place.replaceChildren();
  element("p", "Tokens whose values reach " + (crossing ? "" : "token ") + wordOf(token) + ":", place);
  found.layers.forEach((layer, i) => {
    const share = 100 * layer.n / all;
    const percent = share >= 99.95 ? String(Math.floor(100 * share) / 100) : share < .05 ? share.toPrecision(3) : share.toFixed(1);
    element("p", "layer " + (i + 1) + ": " + layer.n.toLocaleString("en") + " of " + plural(all, "token") + " (" + percent + "\u00a0%)", place);
    drawStrip(element("canvas", undefined, place), layer.tokens, i ? found.layers[i - 1].tokens : [], token);
  });
  const last = found.layers[found.layers.length - 1];
  if (last && !found.why) element("p", last.n === all ? "Everything is reached." : "Nothing more comes after that.", place, "hint");
  if (found.why) element("p", found.why, place, "hint");
}
/* the tokens from left to right: what is new in this layer strong, what was there before light */
function drawStrip(strip, tokens, before, token) {
  strip.width = Math.round(Math.max(200, strip.clientWidth) * ratio);
  strip.height = Math.round(12 * ratio);
  const pen = strip.getContext("2d"), scale = strip.width / data.keys[1], from = data.keys[0];
  const bars = (set, colour) => {
    pen.fillStyle = colour;
    for (let i = 0; i < set.length; i += 2) pen.fillRect((set[i] - from) * scale, 0, Math.max(1, (set[i + 1] - set[i]) * scale), strip.height);
  };
  bars(tokens, styleColour("--accent"));
  pen.globalAlpha = .55;
  bars(before, styleColour("--paper"));
  pen.globalAlpha = 1;
  if (!crossing) pen.fillStyle = styleColour("--ink"), pen.fillRect((token - from) * scale - ratio, 0, 2 * ratio, strip.height);
}

/* `told`: by the page beside this one, which need not hear of it */
function select(token, told) {
  if (token < data.queries[0] || token >= data.queries[0] + data.queries[1]) return;
  selected = token;
  if (framed && !told) window.parent.hgaChosen(window.name, token);
  byId("token").value = token - (crossing ? data.queries[0] : 0);
  showReach(token);
  showAttention(token);
  redraw();
}
function selectAt(x, y) {
  const cell = mode === "links" ? null : cellAt(x, y);
  const v = mode === "links" ? spotAt(x, y) : cell ? (mode === "tokens" ? cell[0] : dstNode(relation(), cell[0])) : -1;
  if (v >= 0 && firstToken(v) < endToken(v)) select(firstToken(v));
}

/* ---- moving ---- */

function zoom(factor, x, y) {
  const matrix = mode !== "links", left = matrix ? LEFT : 30, top = matrix ? TOP : 30;
  const f = Math.min(Math.max(factor, Math.min(1, .5 * home.x / eye.x)), Math.max(1, (matrix ? LARGEST : 40) / Math.max(eye.x, eye.y)));
  eye = { row: eye.row + (y - top) / eye.y * (1 - 1 / f), column: eye.column + (x - left) / eye.x * (1 - 1 / f), x: eye.x * f, y: eye.y * f };
  redraw();
}
function move(dx, dy) {
  eye = { ...eye, row: eye.row - dy / eye.y, column: eye.column - dx / eye.x };
  if (mode !== "links") {
    const box = bounds(), most = (v, lo, hi, n) => Math.min(Math.max(v, lo - n / 2), hi - n / 2);
    eye.row = most(eye.row, box[0], box[1], roomY() / eye.y);
    eye.column = most(eye.column, box[2], box[3], roomX() / eye.x);
  }
  redraw();
}
const place = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };

function listen() {
  const down = new Map();
  let moved = 0, apart = 0;
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * (event.deltaMode ? .05 : .0016)), ...place(event));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    down.set(event.pointerId, place(event));
    moved = 0, apart = 0;
    try { canvas.setPointerCapture(event.pointerId); } catch (error) { /* a made-up pointer cannot be captured */ }
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = place(event), was = down.get(event.pointerId);
    if (!was) { describe(...now); return; }
    down.set(event.pointerId, now);
    moved += Math.abs(now[0] - was[0]) + Math.abs(now[1] - was[1]);
    if (down.size === 1) { if (moved > 4) move(now[0] - was[0], now[1] - was[1]); return; }
    const [a, b] = [...down.values()], d = Math.hypot(a[0] - b[0], a[1] - b[1]);
    if (apart) zoom(d / apart, (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
    apart = d;
  });
  const up = (event) => {
    const was = down.get(event.pointerId);
    down.delete(event.pointerId);
    if (was && moved <= 4 && event.type === "pointerup") describe(...was), selectAt(...was);
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => { if (pointed >= 0) pointed = -1, redraw(); });
  canvas.addEventListener("dblclick", (event) => zoom(2, ...place(event)));
  canvas.addEventListener("keydown", keyed);
  byId("in").addEventListener("click", () => zoom(1.6, canvas.clientWidth / 2, canvas.clientHeight / 2));
  byId("out").addEventListener("click", () => zoom(1 / 1.6, canvas.clientWidth / 2, canvas.clientHeight / 2));
  byId("fit").addEventListener("click", fit);
  byId("token").addEventListener("change", (event) => select(Number(event.target.value) + (crossing ? data.queries[0] : 0)));
  byId("relation").addEventListener("change", (event) => { stop(); playing = -1, onlyLevel = -1, byId("steps").hidden = true; set({ relation: Number(event.target.value) }); });
  byId("search").addEventListener("keydown", (event) => { if (event.key === "Enter") search(event.target.value); });
  byId("search").addEventListener("search", (event) => { if (!event.target.value) search(""), marked = -1, redraw(); });
  byId("save").addEventListener("click", saveSvg);
  addEventListener("hashchange", () => { if (!framed && location.hash.slice(1) !== written) readAddress(location.hash.slice(1)); });
  listenToPlay();
  listenToWeights();
  for (const button of document.querySelectorAll("[data-mode]")) button.addEventListener("click", () => set({ mode: button.dataset.mode }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { redraw(); if (selected >= 0) showReach(selected); });
  let size = "";
  new ResizeObserver(() => {
    const now = canvas.clientWidth + " " + canvas.clientHeight;
    if (now === size) return;
    const untouched = eye === home;
    size = now;
    if (untouched) fit(); else redraw();
  }).observe(canvas);
}
function keyed(event) {
  const step = 60, moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] }[event.key];
  if (moves) move(...moves);
  else if (event.key === "+" || event.key === "=") zoom(1.6, canvas.clientWidth / 2, canvas.clientHeight / 2);
  else if (event.key === "-") zoom(1 / 1.6, canvas.clientWidth / 2, canvas.clientHeight / 2);
  else if (event.key === "0") fit();
  else return;
  event.preventDefault();
}

/* ---- the parts around the picture ---- */

function set(change) {
  if (change.relation !== undefined) chosen = change.relation;
  if (change.mode !== undefined) mode = change.mode;
  if (mode === "links" && !canLink(relation())) mode = "nodes";
  pointed = -1;
  byId("relation").value = chosen;
  for (const button of document.querySelectorAll("[data-mode]")) {
    button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
    if (button.dataset.mode !== "links") continue;
    button.disabled = !canLink(relation());
    button.title = button.disabled ? "Nodes and links are drawn up to " + plural(MOST_LINKS, "edge") : "Nodes and links";
  }
  document.body.classList.toggle("links", mode === "links");
  fit();
}

function row(table, cells, tag) {
  const line = element("tr", undefined, table);
  for (const cell of cells) element(tag || "td", cell, line);
  return line;
}
/* how many tokens each node of a level stands for: the least and the most of them, all of them looked at */
function tokensEach(l) {
  let least = Infinity, most = 0;
  for (let v = levelPtr[l]; v < levelPtr[l + 1]; v++) {
    const n = firstToken(v) < endToken(v) ? endToken(v) - firstToken(v) : sizeOf(tokensOf([v, v + 1]));
    least = Math.min(least, n), most = Math.max(most, n);
  }
  if (most === 0) return "-";
  return (least < most ? least.toLocaleString("en") + " to " : "") + most.toLocaleString("en");
}
function showLevels() {
  for (const box of document.querySelectorAll("[data-level]")) box.checked = !hidden.has(Number(box.dataset.level));
}
function fillTables() {
  row(byId("levels"), ["level", "nodes", "tokens each"], "th");
  data.levels.forEach((n, l) => {
    const line = row(byId("levels"), ["", n.toLocaleString("en"), tokensEach(l)]), label = element("label", undefined, line.firstChild), box = element("input", undefined, label);
    box.type = "checkbox";
    box.checked = true;
    box.dataset.level = l;
    box.addEventListener("change", () => { if (box.checked) hidden.delete(l); else hidden.add(l); redraw(); });
    const swatch = element("span", undefined, label, "swatch");
    swatch.style.background = colourOf(l);
    label.append(String(l));
    label.title = "Draw the edges of level " + l;
  });
  if (relations.length > 1) element("option", "all relations", byId("relation")).value = ALL;
  row(byId("relations"), ["name", "edges", "blocks", "explicit"], "th");
  relations.forEach((r, i) => {
    row(byId("relations"), [r.name, r.nEdges.toLocaleString("en"), r.nBlocks.toLocaleString("en"), r.nExplicit.toLocaleString("en")]);
  });
  drawable.forEach((r, i) => { element("option", r.name, byId("relation")).value = i; });
}

/* the relation that is attended first, else the last stage's, else the first */
function mainRelation() {
  const stages = data.program ? data.program.stages.filter((s) => s.relation >= 0) : [], scored = stages.find((s) => s.message === MESSAGE.SCORE);
  return scored ? scored.relation : stages.length ? stages[stages.length - 1].relation : 0;
}

// What the graph's builder promised, in words.
function promised(claims) {
  const has = (c) => claims.includes(c), pair = has("causal") ? "every pair of a token and an earlier one or itself" : "every pair of tokens", said = [];
  if (has("single") && has("complete")) said.push(pair + " exactly once");
  else if (has("complete")) said.push(pair);
  else if (has("single")) said.push("no pair of tokens more than once");
  if (has("causal")) said.push("no token sees a later one");
  return said.join("; ");
}

function start() {
  const edges = relations.reduce((sum, r) => sum + r.nEdges, 0);
  const sides = plural(data.queries[1], "query token") + ", " + plural(data.keys[1], "key token");
  byId("summary").textContent = (crossing ? sides : plural(nTokens, "token")) + ", " + plural(nNodes, "node") + " in " + plural(nLevels, "level") +
    ", " + plural(edges, "edge") + (data.claims.length ? "; promised by its builder: " + promised(data.claims) : "");
  byId("made").textContent = "made by " + data.tool + " view";
  byId("token").max = data.queries[1] - 1;
  fillTables();
  listen();
  set({ relation: relations.length > 1 ? ALL : 0, mode: "tokens" });
  byId("search").hidden = false;
  byId("search").placeholder = NAMES.size ? "word or node" : "node";
  const address = framed ? window.parent.hgaAddressOf(window.name) : location.hash.slice(1);
  if (address) readAddress(address);
  draw();
  window.hga.ready = true;
}

function onScreen(x, y) {
  const box = canvas.getBoundingClientRect();
  return [box.left + x, box.top + y];
}
const pixelAt = (x, y) => [...ink.getImageData(Math.floor(x * ratio), Math.floor(y * ratio), 1, 1).data];

window.hga = {
  ready: false, data, relations, drawn,
  nodes: nNodes, tokens: nTokens, levels: data.levels,
  count: (i, box) => countEdges(relations[i], box || everything()),
  edges: (i) => allEdges(relations[i]),
  at: (i, destination, source) => edgesBetween(relations[i], dstPosition(relations[i], destination), [srcPosition(relations[i], source)]),
  pair: (i, q, k) => edgesOfPair(relations[i], q, k),
  reach: (token, most) => reach(token, most || MOST_LAYERS),
  set, select, follow: (token) => select(token, true), draw, search, svg: asSvg, address: addressOf, goTo: readAddress, called: calledOf,
  steps, takeStep, tokensEach, setHead, setWeighs, attention: attentionOf,
  where: (position, column) => onScreen(toX(column) + eye.x / 2, toY(position) + eye.y / 2),
  spot: (v) => onScreen(spots[v][0], spots[v][1]),
  pixel: (position, column) => pixelAt(toX(column) + eye.x * .4, toY(position) + eye.y * .4),
  paper: () => rgbOf(styleColour("--paper")),
  state: () => ({ head, weighs, mode, relation: chosen, selected, playing, onlyLevel, hidden: [...hidden], hits, eye: { ...eye } }),
};
start();

