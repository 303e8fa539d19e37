/* The matrix: relations as rectangles of cells. */

/* ---- colours ---- */

const colourOf = (level) => data.colours[level];
const rgbOf = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
const LEVEL_RGB = data.colours.map(rgbOf);
const styleColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/* ---- painting rectangles into pixels: each pixel adds up how much of it is covered, and in which colours, so that what is too small to see is still
   shown in its true share ---- */

const canvas = byId("canvas"), real = canvas.getContext("2d");
let ink = real, recorded = null; /* the pen; the rectangles, while they are kept for SVG */
const TITLE = 16, LEFT = TITLE + (NAMES.size ? 104 : 46), TOP = TITLE + (NAMES.size ? 76 : 26); /* the axes' titles stand outside of their numbers */
const FAINTEST = 0.2, MEAN_OF_HEADS = -1;
const faintest = () => weighsHere() ? WEAKEST : FAINTEST;
let picture = null; /* {width, height, sums, box} of the matrix, in device pixels; sums: red, green, blue, share of each */
let drawn = {};

function paint(y0, y1, x0, x1, level, share) {
  if (recorded) recorded.push([Math.max(0, x0), Math.max(0, y0), Math.min(picture.width, x1) - Math.max(0, x0), Math.min(picture.height, y1) - Math.max(0, y0), level, share]);
  const { width, height, sums } = picture, [red, green, blue] = LEVEL_RGB[level];
  const top = Math.max(0, y0), bottom = Math.min(height, y1), left = Math.max(0, x0), right = Math.min(width, x1);
  for (let y = Math.floor(top); y < bottom; y++) {
    const row = share * (Math.min(bottom, y + 1) - Math.max(top, y));
    for (let x = Math.floor(left), at = (y * width + x) * 4; x < right; x++, at += 4) {
      const part = row * (Math.min(right, x + 1) - Math.max(left, x));
      sums[at] += red * part;
      sums[at + 1] += green * part;
      sums[at + 2] += blue * part;
      sums[at + 3] += part;
    }
  }
  drawn.rectangles++;
}

/* sums over the page's colour; nothing that is there fades away altogether */
function develop(image) {
  const { sums } = picture, { data: pixels } = image, paper = rgbOf(styleColour("--paper")), least = faintest();
  for (let at = 0; at < pixels.length; at += 4) {
    const part = sums[at + 3], alpha = part > 1e-6 ? Math.max(least, Math.min(1, part)) : 0, scale = alpha ? alpha / part : 0;
    for (let c = 0; c < 3; c++) pixels[at + c] = paper[c] * (1 - alpha) + sums[at + c] * scale;
    pixels[at + 3] = 255;
  }
}

/* ---- the window on the matrix: rows from `row`, columns from `column`, so many CSS pixels a cell ---- */

let mode = "nodes", chosen = 0, selected = -1;
const hidden = new Set(); /* levels whose nodes' edges are not drawn */
const visible = (l, m) => !hidden.has(l) && !hidden.has(m) && (onlyLevel < 0 || l === onlyLevel);
let eye = { row: 0, column: 0, x: 1, y: 1 }, home = eye;
let ratio = 1;
const LARGEST = 100; /* pixels of a cell's side */

const relation = () => chosen === ALL ? union : drawable[chosen];
const roomX = () => Math.max(50, canvas.clientWidth - LEFT - 8), roomY = () => Math.max(50, canvas.clientHeight - TOP - 8);
function bounds() {
  if (mode === "tokens") return [data.queries[0], data.queries[0] + data.queries[1], data.keys[0], data.keys[0] + data.keys[1]];
  return relations.length ? relation().extent || (relation().extent = extent(relation())) : everything();
}
const seen = () => [Math.floor(eye.row), Math.ceil(eye.row + roomY() / eye.y), Math.floor(eye.column), Math.ceil(eye.column + roomX() / eye.x)];
const clip = (a, b) => [Math.max(a[0], b[0]), Math.min(a[1], b[1]), Math.max(a[2], b[2]), Math.min(a[3], b[3])];

function fit() {
  if (mode === "links") { fitLinks(); return; }
  const box = bounds(), rows = Math.max(1, box[1] - box[0]), columns = Math.max(1, box[3] - box[2]);
  let x = roomX() / columns, y = roomY() / rows;
  if (x / y < 5 && y / x < 5) x = y = Math.min(x, y);
  x = Math.min(x, LARGEST), y = Math.min(y, LARGEST);
  home = eye = { row: box[0], column: box[2], x, y };
  redraw();
}

/* a rectangle of cells, by position, that lies in one level each way */
function paintCells(r0, r1, c0, c1, level, share) {
  const y = (row) => (row - eye.row) * eye.y * ratio, x = (column) => (column - eye.column) * eye.x * ratio;
  paint(y(r0), y(r1), x(c0), x(c1), level, share);
}

/* intervals of positions as intervals of nodes of one level each */
function nodeRuns(order, first, end) {
  const runs = [];
  const split = (a, z) => byLevel([a, z], (l, x, y) => runs.push([l, x, y]));
  if (!order) { split(first, end); return runs; }
  for (let p = first; p < end;) {
    let q = p + 1;
    while (q < end && order[q] === order[q - 1] + 1) q++;
    split(order[p], order[p] + (q - p));
    p = q;
  }
  return runs;
}
/* ... and as the tokens these stand for: [level, first, end]; counts nodes that stand for no interval */
function tokenRuns(order, first, end) {
  const out = [];
  for (const [l, a, z] of nodeRuns(order, first, end)) {
    if (gapless[l]) { out.push([l, firstToken(a), endToken(z - 1)]); continue; }
    for (let v = a; v < z; v++)
      if (firstToken(v) < endToken(v)) out.push([l, firstToken(v), endToken(v)]);
      else drawn.unplaced++;
  }
  return out;
}

/* Rows [r0, r1) to all columns [c0, c1) of a relation, by position, of which `share` is there. */
function paintAll(r, r0, r1, c0, c1, share) {
  if (mode === "tokens") { paintTokens(r, r0, r1, c0, c1, share); return; }
  if (r.dstOrder || r.srcOrder) { paintOrdered(r, r0, r1, c0, c1, share); return; }
  byLevel([r0, r1], (l, a, z) => byLevel([c0, c1], (m, b, y) => { if (visible(l, m)) paintCells(a, z, b, y, Math.max(l, m), share); }));
}
/* Alone, a relation with orders of its own is drawn by position; among others, by node. */
function paintOrdered(r, r0, r1, c0, c1, share) {
  if (chosen !== ALL) {
    const l = levelOf(dstNode(r, r0)), m = levelOf(srcNode(r, c0));
    if (visible(l, m)) paintCells(r0, r1, c0, c1, Math.max(l, m), share);
    return;
  }
  const columns = nodeRuns(r.srcOrder, c0, c1);
  for (const [l, a, z] of nodeRuns(r.dstOrder, r0, r1))
    for (const [m, b, y] of columns) if (visible(l, m)) paintCells(a, z, b, y, Math.max(l, m), share);
}
function paintTokens(r, r0, r1, c0, c1, share) {
  const box = picture.box, rows = tokenRuns(r.dstOrder, r0, r1), columns = tokenRuns(r.srcOrder, c0, c1);
  for (const [l, a, z] of rows) {
    if (z <= box[0] || a >= box[1] || (l && !statesGoDown)) continue;
    const top = Math.max(a, box[0]), bottom = Math.min(z, box[1]);
    for (const [m, b, y] of columns)
      if (y > box[2] && b < box[3] && visible(l, m)) paintCells(top, bottom, Math.max(b, box[2]), Math.min(y, box[3]), Math.max(l, m), share);
  }
}
/* Without a way down, what a node above the tokens gathers is its own and no token's. */
const handsDown = (s) => s.message === MESSAGE.STATE || s.message === MESSAGE.GATE || (s.message <= MESSAGE.SCALED && s.relation >= 0);
const statesGoDown = !data.program || data.program.stages.some(handsDown);

/* One instance of a block: a full one is a rectangle, a band goes row after row, or as many rows together as share a pixel. */
function paintInstance(r, i, row, column, box) {
  const b = r.blocks, n = b.n_dst[i], m = b.n_src[i], lo = b.lo[i], hi = b.hi[i];
  const r0 = Math.max(0, box[0] - row), r1 = Math.min(n, box[1] - row);
  if (lo <= 1 - n && hi >= m - 1 && !b.hole[i]) {
    paintAll(r, row + r0, row + r1, column + Math.max(0, box[2] - column), column + Math.min(m, box[3] - column), 1);
    return;
  }
  const together = rowsTogether(r, row + r0, n);
  for (let p = r0; p < r1; p += together) {
    const q = Math.min(p + together, r1), c0 = Math.max(0, p + lo), c1 = Math.min(m, q + hi);
    if (c0 >= c1) continue;
    if (q - p === 1 && b.hole[i] && p >= c0 && p < c1) {
      if (c0 < p) paintAll(r, row + p, row + q, column + c0, column + p, 1);
      if (p + 1 < c1) paintAll(r, row + p, row + q, column + p + 1, column + c1, 1);
    } else paintAll(r, row + p, row + q, column + c0, column + c1, instancePairs(b, i, p, q, c0, c1) / ((q - p) * (c1 - c0)));
  }
}
/* how many rows, from position p on, share a pixel */
function rowsTogether(r, p, n) {
  if (mode === "nodes") return Math.max(1, Math.floor(1 / (eye.y * ratio)));
  if (r.dstOrder) return Math.max(1, Math.ceil(n / 4096));
  const v = dstNode(r, p), tokens = Math.max(1, endToken(v) - firstToken(v));
  return Math.max(1, Math.floor(1 / (tokens * eye.y * ratio)));
}

/* The positions that can meet the window. In tokens x tokens, a window on tokens is one on each level. */
function positionBoxes(r, box) {
  const ordered = r.dstOrder || r.srcOrder;
  if (ordered && (mode === "tokens" || chosen === ALL)) return [everything()];
  if (mode === "nodes") return [box];
  const boxes = [];
  for (let l = 0; l < (statesGoDown ? nLevels : 1); l++)
    for (let m = 0; m < nLevels; m++) boxes.push([...levelWindow(l, box[0], box[1]), ...levelWindow(m, box[2], box[3])]);
  return boxes.filter((x) => x[0] < x[1] && x[2] < x[3]);
}
/* the nodes of a level whose tokens meet [first, end) */
const levelWindow = remembering((l, first, end) => {
  if (!gapless[l]) return [levelPtr[l], levelPtr[l + 1]];
  const search = (good) => {
    let a = levelPtr[l], z = levelPtr[l + 1];
    while (a < z) {
      const h = (a + z) >> 1;
      if (good(h)) z = h; else a = h + 1;
    }
    return a;
  };
  return [search((v) => endToken(v) > first), search((v) => firstToken(v) >= end)];
});
function remembering(f) {
  let memory = new Map();
  return (...given) => {
    const key = given.join();
    if (memory.size > 500) memory = new Map();
    if (!memory.has(key)) memory.set(key, f(...given));
    return memory.get(key);
  };
}

/* pixels that an instance's step takes, in the direction it goes fastest */
function stepPixels(r, i) {
  const b = r.blocks;
  let rows = b.dst_step[i], columns = b.src_step[i];
  if (mode === "tokens") {
    const v = dstNode(r, b.dst[i]), u = srcNode(r, b.src[i]);
    rows *= r.dstOrder ? 1 : Math.max(1, endToken(v) - firstToken(v));
    columns *= r.srcOrder ? 1 : Math.max(1, endToken(u) - firstToken(u));
  }
  return Math.max(rows * eye.y, columns * eye.x) * ratio;
}

function paintBlock(r, i, box) {
  const b = r.blocks, [k0, k1] = instances(meeting, b, i, box);
  if (k0 >= k1) return;
  const pixels = stepPixels(r, i), scattered = (mode === "tokens" || chosen === ALL) && (r.dstOrder || r.srcOrder);
  const group = k1 - k0 > 1 && pixels < 1 && !scattered ? Math.min(k1 - k0, Math.ceil(1 / Math.max(pixels, 1e-9))) : 1;
  drawn.blocks++;
  for (let k = k0; k < k1; k += group) {
    const row = b.dst[i] + k * b.dst_step[i], column = b.src[i] + k * b.src_step[i], n = Math.min(group, k1 - k);
    if (n === 1) { paintInstance(r, i, row, column, box); continue; }
    const high = (n - 1) * b.dst_step[i] + b.n_dst[i], wide = (n - 1) * b.src_step[i] + b.n_src[i];
    paintAll(r, row, row + high, column, column + wide, Math.min(1, n * instancePairs(b, i, 0, b.n_dst[i], 0, b.n_src[i]) / (high * wide)));
  }
}

function paintExplicit(r, box) {
  const x = r.explicit;
  for (let v = 0; v < nNodes; v++) {
    const p = dstPosition(r, v);
    if (x.ptr[v] === x.ptr[v + 1] || p < box[0] || p >= box[1]) continue;
    for (let e = x.ptr[v]; e < x.ptr[v + 1]; e++) {
      const c = srcPosition(r, x.src[e]);
      if (c >= box[2] && c < box[3]) paintAll(r, p, p + 1, c, c + 1, 1);
    }
  }
}

/* ---- the matrix ---- */

function drawMatrix() {
  const width = Math.round(roomX() * ratio), height = Math.round(roomY() * ratio), image = real.createImageData(width, height);
  const box = clip(seen(), bounds());
  picture = { width, height, sums: new Float32Array(width * height * 4), box };
  const r = relation();
  if (weighsHere() && box[0] < box[1] && box[2] < box[3]) drawn.largest = mode === "tokens" ? paintTokenWeights(box) : paintNodeWeights(box);
  else if (r && box[0] < box[1] && box[2] < box[3]) for (const part of r.parts || [r]) paintRelation(part, box);
  if (recorded) putRectangles(ink, recorded);
  else develop(image), ink.putImageData(image, Math.round(LEFT * ratio), Math.round(TOP * ratio));
  ink.save();
  ink.scale(ratio, ratio);
  frame(box);
  ink.restore();
  if (mode === "nodes" && r) drawn.edges = countEdges(r, box);
}

function paintRelation(r, box) {
  for (const positions of positionBoxes(r, box)) {
    for (let i = 0; r.blocks && i < r.blocks.n; i++) paintBlock(r, i, positions);
    if (r.explicit) paintExplicit(r, positions);
  }
}

const toX = (column) => LEFT + (column - eye.column) * eye.x, toY = (row) => TOP + (row - eye.row) * eye.y;

/* everything around the cells: border, grid where cells are large, axes, levels, the chosen row */
function frame(box) {
  const right = Math.min(LEFT + roomX(), toX(bounds()[3])), bottom = Math.min(TOP + roomY(), toY(bounds()[1]));
  const left = Math.max(LEFT, toX(bounds()[2])), top = Math.max(TOP, toY(bounds()[0]));
  ink.lineWidth = 1;
  if (eye.x >= 7 && eye.y >= 7) grid(box, left, top, right, bottom);
  ink.strokeStyle = styleColour("--line");
  ink.strokeRect(left - .5, top - .5, Math.max(0, right - left) + 1, Math.max(0, bottom - top) + 1);
  ink.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  ink.fillStyle = styleColour("--soft");
  titles(left, right, top, bottom);
  numbers(box);
  if (mode === "nodes" && relation() && !relation().dstOrder) levelLines(top, bottom, left, right);
  markSelected(box, left, right);
}

function grid(box, left, top, right, bottom) {
  ink.strokeStyle = styleColour("--paper");
  ink.beginPath();
  for (let c = box[2]; c <= box[3]; c++) ink.moveTo(toX(c), top), ink.lineTo(toX(c), bottom);
  for (let p = box[0]; p <= box[1]; p++) ink.moveTo(left, toY(p)), ink.lineTo(right, toY(p));
  ink.stroke();
}

/* 1, 2 or 5 times a power of ten, so that numbers stand `apart` pixels from each other */
function tickStep(cell, apart) {
  const least = Math.max(1, apart / cell), power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((f) => f * power).find((s) => s >= least);
}
/* what rows and columns do */
function titles(left, right, top, bottom) {
  ink.textAlign = "center";
  ink.textBaseline = "alphabetic";
  ink.fillText("is attended", (left + right) / 2, TITLE - 4);
  upright("attends", TITLE - 3, (top + bottom) / 2);
}
/* The texts along an axis, at most one every APART pixels: words, where each has room; over tokens, the finest headings that have room; else
   numbers, before their words where there are any. */
const APART = 13;
function labelsOf(order, from, to, cell, apart) {
  if (!NAMES.size || cell >= 12) {
    const step = NAMES.size ? 1 : tickStep(cell, apart), middle = cell >= 12 ? .5 : 0, found = [];
    for (let p = Math.ceil(from / step) * step; p < to; p += step) found.push([p + middle, NAMES.size ? calledAt(p, order) || String(nameOf(p, order)) : String(nameOf(p, order))]);
    return found;
  }
  const found = mode === "tokens" ? headingsOf(from, to, cell) : [];
  if (found.length) return found;
  for (let step = tickStep(cell, APART), p = Math.ceil(from / step) * step; p < to; p += step) found.push([p, (nameOf(p, order) + " " + calledAt(p, order)).trim()]);
  return found;
}
/* Above the tokens: nodes with names of their own, each where it begins, the one that contains others before them; where these begin at once it has no room. */
const headings = [...NAMES.keys()].filter((v) => v >= nTokens && firstToken(v) < endToken(v)).sort((u, v) => firstToken(u) - firstToken(v) || v - u);
function headingsOf(from, to, cell) {
  const at = (v) => Math.max(from, firstToken(v)) + Math.min(.5, 6 / cell);
  for (let least = 1; least < nLevels; least++) {
    const seen = headings.filter((v) => v >= levelPtr[least] && endToken(v) > from && firstToken(v) < to), near = (u, v) => (at(v) - at(u)) * cell < APART;
    const found = seen.filter((v, i) => i + 1 === seen.length || !near(v, seen[i + 1]) || endToken(seen[i + 1]) > endToken(v));
    if (found.length > 1 && found.every((v, i) => i === 0 || !near(found[i - 1], v))) return found.map((v) => [at(v), NAMES.get(v)]);
  }
  return [];
}
function numbers(box) {
  ink.textAlign = "center";
  ink.textBaseline = "alphabetic";
  for (const [c, text] of labelsOf("srcOrder", box[2], box[3], eye.x, 64)) {
    const x = toX(c);
    if (x < LEFT || x > LEFT + roomX()) continue;
    if (NAMES.size) ink.textAlign = "left", upright(fitted(text, TOP - TITLE - 11), x + 4, TOP - 7);
    else ink.fillText(text, x, TOP - 7);
  }
  ink.textAlign = "right";
  ink.textBaseline = "middle";
  for (const [p, text] of labelsOf("dstOrder", box[0], box[1], eye.y, 22)) {
    const y = toY(p);
    if (y >= TOP && y <= TOP + roomY()) ink.fillText(NAMES.size ? fitted(text, LEFT - TITLE - 11) : text, LEFT - 7, y);
  }
}
/* a text from a point upwards */
function upright(text, x, y) {
  ink.save();
  ink.translate(x, y);
  ink.rotate(-Math.PI / 2);
  ink.fillText(text, 0, 0);
  ink.restore();
}
function calledAt(position, order) {
  const r = relation();
  return calledOf(mode === "tokens" || !r || !r[order] ? position : r[order][position]);
}
/* as much of a text as has room in so many pixels */
function fitted(text, room) {
  for (let n = Math.min(text.length, 40); n > 1; n--) {
    const part = short(text, n);
    if (ink.measureText(part).width <= room) return part;
  }
  return text.slice(0, 1);
}
/* rows and columns that stand in an order of their own are labelled with their nodes */
function nameOf(position, order) {
  if (mode === "tokens") return position - (order === "dstOrder" ? data.queries[0] : data.keys[0]);
  const r = relation();
  return r && r[order] ? r[order][position] : position;
}

function levelLines(top, bottom, left, right) {
  ink.strokeStyle = styleColour("--soft");
  ink.globalAlpha = .6;
  ink.setLineDash([3, 3]);
  ink.beginPath();
  for (let l = 1; l < nLevels; l++) {
    if (data.levels[l - 1] * eye.x < 8) continue;
    const y = Math.round(toY(levelPtr[l])) + .5, x = Math.round(toX(levelPtr[l])) + .5;
    if (y > top && y < bottom) ink.moveTo(left, y), ink.lineTo(right, y);
    if (x > left && x < right && !relation().srcOrder) ink.moveTo(x, top), ink.lineTo(x, bottom);
  }
  ink.stroke();
  ink.setLineDash([]);
  ink.globalAlpha = 1;
}

function markSelected(box, left, right) {
  markRow(box, left, right, selected, "--ink");
  if (mode === "nodes") markRow(box, left, right, marked, "--accent");
}
function markRow(box, left, right, v, colour) {
  if (v < 0) return;
  const p = mode === "tokens" ? v : relation() ? dstPosition(relation(), v) : -1;
  if (p < box[0] || p >= box[1]) return;
  ink.strokeStyle = styleColour(colour);
  ink.strokeRect(left - 1, toY(p) - .5, right - left + 2, Math.max(2, eye.y) + 1);
}

