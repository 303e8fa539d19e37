/* Nodes and links, and when to draw. */

/* ---- nodes and links ---- */

let spots = [], linkEdges = [], pointed = -1;
const canLink = (r) => r && r.nEdges <= MOST_LINKS && nNodes <= 2 * MOST_LINKS && !r.lost && !r.left;

function fitLinks() {
  eye = { row: 0, column: 0, x: 1, y: 1 };
  home = eye;
  redraw();
}
/* a node stands over the middle of its tokens, its level above them; without levels where edges pull it */
function placeNodes() {
  const wide = canvas.clientWidth - 60, high = canvas.clientHeight - 84, each = wide / Math.max(1, nTokens), at = forced();
  spots = [];
  for (let v = 0; v < nNodes; v++) {
    const l = levelOf(v), placed = firstToken(v) < endToken(v), share = (v - levelPtr[l] + .5) / data.levels[l];
    const middle = placed ? (firstToken(v) + endToken(v)) / 2 * each : share * wide;
    const x = at ? at[v][0] * wide : middle, y = at ? at[v][1] * high : nLevels > 1 ? high - l * (high - 20) / (nLevels - 1) : high * .6;
    spots.push([30 + (x - eye.column) * eye.x, 30 + (y - eye.row) * eye.y, l]);
  }
}
function drawLinks() {
  placeNodes();
  linkEdges = allEdges(relation()).filter((e) => visible(levelOf(e.destination), levelOf(e.source)));
  drawn.edges = linkEdges.length;
  ink.save();
  ink.scale(ratio, ratio);
  ink.strokeStyle = styleColour("--line");
  if (parent) {
    ink.beginPath();
    for (let v = 0; v < nNodes; v++) if (parent[v] >= 0 && !hidden.has(spots[v][2]) && !hidden.has(spots[parent[v]][2])) ink.moveTo(spots[v][0], spots[v][1]), ink.lineTo(spots[parent[v]][0], spots[parent[v]][1]);
    ink.stroke();
  }
  const focus = pointed >= 0 ? pointed : selected;
  if (weighsHere()) drawWeighedLinks(focus);
  else {
    for (const e of linkEdges) if (e.destination !== focus) drawLink(e, focus >= 0 ? .18 : .5, 1);
    for (const e of linkEdges) if (e.destination === focus) drawLink(e, 1, 2);
  }
  if (travel < 1) for (const e of linkEdges) drawTraveller(e);
  spots.forEach(([x, y, l], v) => { if (!hidden.has(l)) drawSpot(x, y, spotColour(v, l), v === focus || v === marked); });
  writeNames(focus);
  writeKinds();
  ink.restore();
}
/* Width and strength by weight: of a token that is looked at its own edges, way up and all, else every edge's mean. */
function drawWeighedLinks(focus) {
  const token = focus >= 0 && focus < nTokens ? focus : undefined;
  const list = linkEdges.map((e) => ({ e, a: attentionOf(e, token) })), largest = list.reduce((most, { a }) => Math.max(most, a ? a.weight : 0), 0);
  for (const { e, a } of list) if (!a) drawLink(e, .06, 1);
  for (const { e, a } of list) {
    if (!a) continue;
    drawLink(e, strength(a.weight, largest), .6 + 6 * a.weight / (largest || 1));
    drawn.weights++;
  }
  drawn.largest = largest;
}
/* edges bend to the right of their direction, so that the two between a pair stay apart; loops stand over their node */
function bendOf(e) {
  const [x0, y0, l] = spots[e.source], [x1, y1, m] = spots[e.destination];
  if (isForced) return [(x0 + x1) / 2 + .12 * (y1 - y0), (y0 + y1) / 2 - .12 * (x1 - x0)];
  const bend = l === m ? Math.min(80, Math.abs(x1 - x0) * .45) : 0, way = x1 > x0 ? -1 : 1;
  return [(x0 + x1) / 2, (y0 + y1) / 2 + bend * way];
}
function drawLink(e, alpha, width) {
  const [x0, y0, l] = spots[e.source], [x1, y1, m] = spots[e.destination];
  ink.globalAlpha = alpha;
  ink.lineWidth = width;
  ink.strokeStyle = colourOf(Math.max(l, m));
  ink.beginPath();
  if (e.source === e.destination) ink.arc(x0, y0 - 8, 6, 0, 2 * Math.PI);
  else {
    ink.moveTo(x0, y0);
    ink.quadraticCurveTo(...bendOf(e), x1, y1);
  }
  ink.stroke();
  ink.globalAlpha = 1;
}
/* a dot on its way along an edge */
function drawTraveller(e) {
  const [x0, y0, l] = spots[e.source], [x1, y1, m] = spots[e.destination], [a, b] = bendOf(e), t = travel, u = 1 - t;
  ink.beginPath();
  ink.arc(u * u * x0 + 2 * u * t * a + t * t * x1, u * u * y0 + 2 * u * t * b + t * t * y1, 3, 0, 2 * Math.PI);
  ink.fillStyle = colourOf(Math.max(l, m));
  ink.fill();
}
/* names under their nodes, as many as have room beside each other; the one in focus always */
function writeNames(focus) {
  ink.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  ink.textAlign = "center";
  ink.textBaseline = "alphabetic";
  const first = focus >= 0 ? [focus] : [], written = new Map(); /* [from, to] of what stands in each line */
  const isFree = (line, from, to) => ![line - 1, line, line + 1].some((l) => (written.get(l) || []).some(([a, z]) => from < z && to > a));
  const write = (v) => {
    const text = short(calledOf(v) || (v === focus ? String(v) : ""), 26), [x, y, l] = spots[v], line = Math.round(y / 14), half = ink.measureText(text).width / 2 + 4;
    if (!text || hidden.has(l) || x + half < 0 || x - half > canvas.clientWidth) return;
    if (v !== focus && !isFree(line, x - half, x + half)) return;
    written.set(line, [...(written.get(line) || []), [x - half, x + half]]);
    ink.fillStyle = styleColour(v === focus ? "--ink" : "--soft");
    const at = Math.min(Math.max(x, half), canvas.clientWidth - half);
    ink.strokeStyle = styleColour("--paper"), ink.lineWidth = 3;
    ink.strokeText(text, at, y + 18);
    ink.fillText(text, at, y + 18);
  };
  first.forEach(write);
  if (NAMES.size) for (let v = 0; v < nNodes; v++) if (v !== focus) write(v);
}
/* kinds of nodes: their colours stand in the place of the level's, and are told in the corner */
const KIND_OF = data.kinds ? series(data.kinds.of) : [];
const spotColour = (v, l) => KIND_OF[v] >= 0 ? data.kinds.colours[KIND_OF[v]] : colourOf(l);
function writeKinds() {
  if (!data.kinds) return;
  ink.font = "12px system-ui, 'DejaVu Sans', sans-serif";
  ink.textAlign = "start";
  ink.textBaseline = "alphabetic";
  data.kinds.names.forEach((name, k) => {
    ink.fillStyle = data.kinds.colours[k];
    ink.fillRect(10, 10 + 18 * k, 11, 11);
    ink.fillStyle = styleColour("--ink");
    ink.fillText(short(name, 40), 27, 20 + 18 * k);
  });
  drawn.kinds = data.kinds.names.length;
}
function drawSpot(x, y, colour, focus) {
  const size = nNodes > 400 ? 2.5 : 4.5;
  ink.beginPath();
  ink.arc(x, y, focus ? size + 3 : size, 0, 2 * Math.PI);
  ink.fillStyle = colour;
  ink.fill();
  ink.lineWidth = 1;
  ink.strokeStyle = focus ? styleColour("--ink") : styleColour("--paper");
  ink.stroke();
  drawn.nodes++;
}
function spotAt(x, y) {
  let best = -1, near = 14 * 14;
  spots.forEach(([a, b], v) => {
    const d = (a - x) ** 2 + (b - y) ** 2;
    if (d < near && !hidden.has(spots[v][2])) near = d, best = v;
  });
  return best;
}

/* ---- drawing when something changed ---- */

let waiting = false;
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); });
}

function draw() {
  const start = performance.now();
  ratio = Math.min(2, window.devicePixelRatio || 1);
  if (ink === real) canvas.width = Math.round(canvas.clientWidth * ratio);
  if (ink === real) canvas.height = Math.round(canvas.clientHeight * ratio);
  drawn = { mode, relation: relation() ? relation().name : null, rectangles: 0, blocks: 0, edges: 0, nodes: 0, unplaced: 0, weights: 0, largest: 0 };
  if (mode === "links") drawLinks();
  else drawMatrix();
  drawn.milliseconds = performance.now() - start;
  window.hga.drawn = drawn;
  showNotice();
  sayStrength();
  writeAddress();
}

const plural = (n, what) => n.toLocaleString("en") + " " + what + (n === 1 ? "" : "s");
function showNotice() {
  const r = relation(), said = [];
  if (!r) said.push("The graph has no relation to draw.");
  if (r && r.left) said.push(plural(r.left, "explicit edge") + " of this relation are too many for a page and are not drawn (--max-edges).");
  if (r && r.lost) said.push(plural(r.lost, "block") + " of this relation are too many for a page and are not drawn.");
  if (drawn.unplaced) said.push("Some nodes stand for no interval of tokens and are not drawn here; Nodes shows them.");
  byId("notice").hidden = said.length === 0;
  byId("notice").textContent = said.join(" ");
}

