/* The page of `hga view`. The graph comes as it is stored: blocks, families, orders; everything shown is computed from
   them, so that a million tokens cost little more than a thousand.
   window.hga lets tests (and the console) ask what the page knows and what it has drawn. */
"use strict";
(function () {

/* ---- what came with the page ---- */

const data = JSON.parse(document.getElementById("graph").textContent);
const byId = (id) => document.getElementById(id);

/* differences, [d, count] for count times d */
function series(runs) {
  let n = 0;
  for (const run of runs) n += Array.isArray(run) ? run[1] : 1;
  const out = new Int32Array(n);
  let at = 0, value = 0;
  for (const run of runs) {
    if (!Array.isArray(run)) { out[at++] = value += run; continue; }
    for (let i = 0; i < run[1]; i++) out[at++] = value += run[0];
  }
  return out;
}

const levelPtr = [0];
for (const n of data.levels) levelPtr.push(levelPtr[levelPtr.length - 1] + n);
const nLevels = data.levels.length, nNodes = levelPtr[nLevels], nTokens = levelPtr[1];
const spanFirst = series(data.span_first), spanLast = series(data.span_last);
const childPtr = data.child_ptr ? series(data.child_ptr) : null;
const childList = data.child_list ? series(data.child_list) : null;
const crossing = data.queries[0] !== data.keys[0] || data.queries[1] !== data.keys[1];

function levelOf(node) {
  let l = 0;
  while (node >= levelPtr[l + 1]) l++;
  return l;
}
const firstToken = (node) => node < nTokens ? node : spanFirst[node - nTokens];
const endToken = (node) => node < nTokens ? node + 1 : spanLast[node - nTokens] + 1;

/* Do the nodes of a level stand for token after token? Then an interval of them stands for one of tokens. */
const gapless = data.levels.map((n, l) => {
  for (let v = levelPtr[l]; v + 1 < levelPtr[l + 1]; v++)
    if (firstToken(v) >= endToken(v) || firstToken(v + 1) !== endToken(v)) return false;
  return n > 0 && firstToken(levelPtr[l]) < endToken(levelPtr[l]);
});

const parent = childPtr ? findParents() : null;
function findParents() {
  const up = new Int32Array(nNodes).fill(-1);
  for (let i = 0; i + 1 < childPtr.length; i++)
    for (let c = childPtr[i]; c < childPtr[i + 1]; c++) up[childList ? childList[c] : c] = nTokens + i;
  return up;
}
/* the node and everything above it */
function lineage(node) {
  const line = [node];
  while (parent && parent[line[line.length - 1]] >= 0) line.push(parent[line[line.length - 1]]);
  return line;
}

/* ---- relations ---- */

const SHAPES = { ALL: 0, LOWER: 1, STRICT_LOWER: 2, UPPER: 3, STRICT_UPPER: 4, OFF_DIAGONAL: 5, BAND: 6 };

function inverse(order, n) {
  const rank = new Int32Array(n).fill(-1);
  order.forEach((node, at) => { rank[node] = at; });
  return rank;
}

/* Blocks with their shape as a band lo <= column - row <= hi, and a hole on the diagonal or none. */
function readBlocks(raw) {
  const b = {};
  for (const name of Object.keys(raw)) if (name !== "weight") b[name] = series(raw[name]);
  const n = b.dst.length;
  b.n = n;
  b.weight = raw.weight || null;
  b.lo = new Int32Array(n);
  b.hi = new Int32Array(n);
  b.hole = new Uint8Array(n);
  for (let i = 0; i < n; i++) {
    const shape = b.shape[i];
    if (b.count[i] === 0) b.count[i] = 1;
    b.lo[i] = shape === SHAPES.BAND ? b.band_first[i] : shape === SHAPES.UPPER ? 0 : shape === SHAPES.STRICT_UPPER ? 1 : 1 - b.n_dst[i];
    b.hi[i] = shape === SHAPES.BAND ? b.band_last[i] : shape === SHAPES.LOWER ? 0 : shape === SHAPES.STRICT_LOWER ? -1 : b.n_src[i] - 1;
    b.hole[i] = shape === SHAPES.OFF_DIAGONAL ? 1 : 0;
  }
  return b;
}

function readExplicit(raw) {
  const degree = series(raw.degree), ptr = new Int32Array(nNodes + 1);
  for (let v = 0; v < nNodes; v++) ptr[v + 1] = ptr[v] + degree[v];
  return { ptr, src: series(raw.src), type: raw.type ? series(raw.type) : null, weight: raw.weight || null };
}

function readRelation(raw) {
  const r = { name: raw.name, nEdges: raw.n_edges, nBlocks: raw.n_blocks, nExplicit: raw.n_explicit };
  r.dstOrder = raw.dst_order ? series(raw.dst_order) : null;
  r.srcOrder = raw.src_order ? series(raw.src_order) : null;
  r.dstRank = r.dstOrder && inverse(r.dstOrder, nNodes);
  r.srcRank = r.srcOrder && inverse(r.srcOrder, nNodes);
  r.blocks = raw.blocks ? readBlocks(raw.blocks) : null;
  r.explicit = raw.explicit ? readExplicit(raw.explicit) : null;
  r.lost = (r.nBlocks && !r.blocks ? r.nBlocks : 0);
  r.left = (r.nExplicit && !r.explicit ? r.nExplicit : 0);
  return r;
}
const relations = data.relations.map(readRelation);

const dstNode = (r, position) => r.dstOrder ? r.dstOrder[position] : position;
const srcNode = (r, position) => r.srcOrder ? r.srcOrder[position] : position;
const dstPosition = (r, node) => r.dstRank ? r.dstRank[node] : node;
const srcPosition = (r, node) => r.srcRank ? r.srcRank[node] : node;

/* The positions that a relation uses: rows [0, 1), columns [2, 3). */
function extent(r) {
  let box = [Infinity, -Infinity, Infinity, -Infinity];
  const add = (r0, r1, c0, c1) => { box = [Math.min(box[0], r0), Math.max(box[1], r1), Math.min(box[2], c0), Math.max(box[3], c1)]; };
  const b = r.blocks;
  for (let i = 0; b && i < b.n; i++) {
    const last = b.count[i] - 1;
    add(b.dst[i], b.dst[i] + last * b.dst_step[i] + b.n_dst[i], b.src[i], b.src[i] + last * b.src_step[i] + b.n_src[i]);
  }
  const x = r.explicit;
  for (let v = 0; x && v < nNodes; v++)
    for (let e = x.ptr[v]; e < x.ptr[v + 1]; e++) {
      const p = dstPosition(r, v), c = srcPosition(r, x.src[e]);
      add(p, p + 1, c, c + 1);
    }
  return box[0] < box[1] ? box : [0, nNodes, 0, nNodes];
}

/* ---- counting, without looking at single edges ---- */

/* pairs (row, column) of an nr x nc rectangle with column - row <= h */
function pairsUpTo(nr, nc, h) {
  const clamp = (x, lo, hi) => Math.min(Math.max(x, lo), hi);
  const a = clamp(-h, 0, nr), b = clamp(nc - h - 1, a, nr);
  return (b - a) * (h + 1) + (b * (b - 1) - a * (a - 1)) / 2 + (nr - b) * nc;
}

/* edges of one instance of block i in its own rows [r0, r1), columns [c0, c1) */
function instancePairs(b, i, r0, r1, c0, c1) {
  if (r0 >= r1 || c0 >= c1) return 0;
  const within = (first, last) => first > last ? 0 : pairsUpTo(r1 - r0, c1 - c0, last - c0 + r0) - pairsUpTo(r1 - r0, c1 - c0, first - 1 - c0 + r0);
  return within(b.lo[i], b.hi[i]) - (b.hole[i] ? within(0, 0) : 0);
}

/* The instances whose interval, start + k * step of length n, meets [first, end). */
function meeting(start, n, step, count, first, end) {
  if (step === 0) return start < end && start + n > first ? [0, count] : [0, 0];
  const a = Math.max(0, Math.floor((first - start - n) / step) + 1), z = Math.min(count, Math.ceil((end - start) / step));
  return a < z ? [a, z] : [0, 0];
}
/* ... and those that lie inside it */
function inside(start, n, step, count, first, end) {
  if (step === 0) return start >= first && start + n <= end ? [0, count] : [0, 0];
  const a = Math.max(0, Math.ceil((first - start) / step)), z = Math.min(count, Math.floor((end - n - start) / step) + 1);
  return a < z ? [a, z] : [0, 0];
}
const both = (x, y) => { const a = Math.max(x[0], y[0]), z = Math.min(x[1], y[1]); return a < z ? [a, z] : [0, 0]; };
const rowInstances = (how, b, i, first, end) => how(b.dst[i], b.n_dst[i], b.dst_step[i], b.count[i], first, end);
const columnInstances = (how, b, i, first, end) => how(b.src[i], b.n_src[i], b.src_step[i], b.count[i], first, end);
const instances = (how, b, i, box) => both(rowInstances(how, b, i, box[0], box[1]), columnInstances(how, b, i, box[2], box[3]));

function countBlock(b, i, box) {
  const some = instances(meeting, b, i, box), whole = instances(inside, b, i, box), n = whole[1] - whole[0];
  let sum = n ? n * instancePairs(b, i, 0, b.n_dst[i], 0, b.n_src[i]) : 0;
  for (let k = some[0]; k < some[1]; k++) {
    if (n && k === whole[0]) k = whole[1];
    if (k >= some[1]) break;
    const r = b.dst[i] + k * b.dst_step[i], c = b.src[i] + k * b.src_step[i];
    sum += instancePairs(b, i, Math.max(0, box[0] - r), Math.min(b.n_dst[i], box[1] - r), Math.max(0, box[2] - c), Math.min(b.n_src[i], box[3] - c));
  }
  return sum;
}

/* edges in rows [box 0, 1), columns [box 2, 3) of a relation, by position */
function countEdges(r, box) {
  let sum = 0;
  const b = r.blocks, x = r.explicit;
  for (let i = 0; b && i < b.n; i++) sum += countBlock(b, i, box);
  if (!x) return sum;
  const rows = Math.min(box[1], nNodes);
  for (let p = Math.max(0, box[0]); p < rows; p++) {
    const v = dstNode(r, p);
    for (let e = x.ptr[v]; e < x.ptr[v + 1]; e++) {
      const c = srcPosition(r, x.src[e]);
      if (c >= box[2] && c < box[3]) sum++;
    }
  }
  return sum;
}
const everything = () => [0, nNodes, 0, nNodes];

/* ---- single edges ---- */

/* calls back with every edge of row position p: column position, type, weight */
function eachEdgeOfRow(r, p, visit) {
  const b = r.blocks, x = r.explicit;
  for (let i = 0; b && i < b.n; i++) {
    const [k0, k1] = meeting(b.dst[i], b.n_dst[i], b.dst_step[i], b.count[i], p, p + 1);
    for (let k = k0; k < k1; k++) {
      const row = p - b.dst[i] - k * b.dst_step[i], start = b.src[i] + k * b.src_step[i];
      const c0 = Math.max(0, row + b.lo[i]), c1 = Math.min(b.n_src[i], row + b.hi[i] + 1);
      for (let c = c0; c < c1; c++)
        if (!b.hole[i] || c !== row) visit(start + c, b.type[i] + row * b.type_dst[i] + c * b.type_src[i], weightOf(b, i));
    }
  }
  const v = dstNode(r, p);
  for (let e = x ? x.ptr[v] : 0; x && e < x.ptr[v + 1]; e++) visit(srcPosition(r, x.src[e]), x.type ? x.type[e] : 0, x.weight ? x.weight[e] : 1);
}

const weightOf = (b, i) => (b.weight && b.weight[i]) || 1;

/* the edges between row position p and the columns of a set, without walking along the row */
function edgesBetween(r, p, columns) {
  const found = [], b = r.blocks, x = r.explicit;
  for (let i = 0; b && i < b.n; i++) {
    const [k0, k1] = meeting(b.dst[i], b.n_dst[i], b.dst_step[i], b.count[i], p, p + 1);
    for (let k = k0; k < k1; k++) {
      const row = p - b.dst[i] - k * b.dst_step[i];
      for (const at of columns) {
        const c = at - b.src[i] - k * b.src_step[i], offset = c - row;
        if (c < 0 || c >= b.n_src[i] || offset < b.lo[i] || offset > b.hi[i] || (b.hole[i] && offset === 0)) continue;
        const type = b.type[i] + row * b.type_dst[i] + c * b.type_src[i];
        found.push({ destination: dstNode(r, p), source: srcNode(r, at), type, weight: weightOf(b, i) });
      }
    }
  }
  const v = dstNode(r, p);
  for (let e = x ? x.ptr[v] : 0; x && e < x.ptr[v + 1]; e++) {
    if (!columns.includes(srcPosition(r, x.src[e]))) continue;
    found.push({ destination: v, source: x.src[e], type: x.type ? x.type[e] : 0, weight: x.weight ? x.weight[e] : 1 });
  }
  return found;
}

const MOST_LINKS = 2000;
function allEdges(r) {
  const list = [];
  for (let p = 0; p < nNodes; p++) {
    const destination = dstNode(r, p);
    eachEdgeOfRow(r, p, (c, type, weight) => list.push({ destination, source: srcNode(r, c), type, weight }));
  }
  return list;
}

/* ---- sets of nodes as sorted intervals [first, end, first, end, ..] ---- */

function tidy(pairs) {
  const n = pairs.length / 2, at = Array.from({ length: n }, (_, i) => 2 * i).sort((x, y) => pairs[x] - pairs[y]), out = [];
  for (const i of at) {
    if (pairs[i] >= pairs[i + 1]) continue;
    if (out.length && pairs[i] <= out[out.length - 1]) out[out.length - 1] = Math.max(out[out.length - 1], pairs[i + 1]);
    else out.push(pairs[i], pairs[i + 1]);
  }
  return out;
}
function sizeOf(set) {
  let n = 0;
  for (let i = 0; i < set.length; i += 2) n += set[i + 1] - set[i];
  return n;
}
function eachOf(set, visit) {
  for (let i = 0; i < set.length; i += 2) for (let v = set[i]; v < set[i + 1]; v++) visit(v);
}
/* the parts of a set that lie in one level each */
function byLevel(set, visit) {
  for (let i = 0; i < set.length; i += 2)
    for (let l = 0; l < nLevels; l++) {
      const a = Math.max(set[i], levelPtr[l]), z = Math.min(set[i + 1], levelPtr[l + 1]);
      if (a < z) visit(l, a, z);
    }
}
function mapped(set, map) {
  if (!map) return set;
  const out = [];
  eachOf(set, (v) => { if (map[v] >= 0) out.push(map[v], map[v] + 1); });
  return tidy(out);
}

function childrenOf(set) {
  const out = [];
  eachOf(set, (v) => {
    if (v < nTokens || !childPtr) return;
    const a = childPtr[v - nTokens], z = childPtr[v - nTokens + 1];
    if (!childList) out.push(a, z);
    else for (let c = a; c < z; c++) out.push(childList[c], childList[c] + 1);
  });
  return tidy(out);
}
function withAncestors(set) {
  let all = set, rising = set;
  while (parent && rising.length) {
    const up = [];
    eachOf(rising, (v) => { if (parent[v] >= 0 && up[up.length - 1] !== parent[v] + 1) up.push(parent[v], parent[v] + 1); });
    rising = tidy(up);
    all = tidy(all.concat(rising));
  }
  return all;
}
/* the tokens that nodes stand for */
function tokensOf(set) {
  const out = [];
  byLevel(set, (l, a, z) => {
    if (gapless[l]) { out.push(firstToken(a), endToken(z - 1)); return; }
    for (let v = a; v < z; v++) {
      if (firstToken(v) < endToken(v)) out.push(firstToken(v), endToken(v));
      else out.push(...tokensOf(childrenOf([v, v + 1])));
    }
  });
  return tidy(out);
}

/* ---- which nodes a set of rows gathers from ---- */

const MOST_STEPS = 3e7;
class TooMuch extends Error {}

function blockSources(b, i, first, end, out) {
  const [k0, k1] = meeting(b.dst[i], b.n_dst[i], b.dst_step[i], b.count[i], first, end);
  const one = (k) => {
    const r = b.dst[i] + k * b.dst_step[i], c = b.src[i] + k * b.src_step[i];
    const p0 = Math.max(0, first - r), p1 = Math.min(b.n_dst[i], end - r), c0 = Math.max(0, p0 + b.lo[i]), c1 = Math.min(b.n_src[i], p1 + b.hi[i]);
    if (b.hole[i] && p1 - p0 === 1 && p0 >= c0 && p0 < c1) out.push(c + c0, c + p0, c + p0 + 1, c + c1);
    else if (c0 < c1) out.push(c + c0, c + c1);
  };
  const [w0, w1] = rowInstances(inside, b, i, first, end), c0 = Math.max(0, b.lo[i]), c1 = Math.min(b.n_src[i], b.n_dst[i] + b.hi[i]);
  const joined = w1 - w0 > 2 && b.src_step[i] <= c1 - c0 && b.n_dst[i] > 1;
  for (let k = k0; k < k1; k++) {
    if (joined && k === w0) {
      out.push(b.src[i] + w0 * b.src_step[i] + c0, b.src[i] + (w1 - 1) * b.src_step[i] + c1);
      k = w1;
      if (k >= k1) break;
    }
    one(k);
  }
}

function sourcesOf(r, set) {
  const rows = mapped(set, r.dstRank), b = r.blocks, x = r.explicit;
  let out = [];
  if (b && rows.length / 2 * b.n > MOST_STEPS) throw new TooMuch();
  for (let i = 0; b && i < b.n; i++) {
    for (let j = 0; j < rows.length; j += 2) blockSources(b, i, rows[j], rows[j + 1], out);
    if (out.length > 2e6) out = tidy(out);
  }
  out = mapped(tidy(out), r.srcOrder);
  if (!x) return out;
  eachOf(set, (v) => { for (let e = x.ptr[v]; e < x.ptr[v + 1]; e++) out.push(x.src[e], x.src[e] + 1); });
  return tidy(out);
}

/* ---- reach: backwards through the program, from rows of a field to the caller's rows whose values get there ---- */

const MESSAGE = { COPY: 0, SCALED: 1, SCORE: 2, STATE: 3, ENERGY: 4, GATE: 5, USER: 6 };
const TREE_UP = -1, TREE_DOWN = -2, BOUND_OUT = 4, ROWS_TOKENS = 1;
const MERGES = 1;

function gathered(stage, set) {
  if (stage.relation === TREE_UP) return childrenOf(set);
  if (stage.relation === TREE_DOWN) {
    const up = [];
    if (parent) eachOf(set, (v) => { if (parent[v] >= 0) up.push(parent[v], parent[v] + 1); });
    return tidy(up);
  }
  return sourcesOf(relations[stage.relation], set);
}
/* the rows and everything they gather from, again and again: what a stage that runs level after level in place hands on */
function closure(stage, set) {
  if (stage.relation === TREE_DOWN) return withAncestors(set);
  let all = set;
  for (let l = 0; l < nLevels; l++) {
    const more = tidy(all.concat(gathered(stage, all)));
    if (sizeOf(more) === sizeOf(all)) break;
    all = more;
  }
  return all;
}
/* coarsening in place: tokens keep their own, a node has what its children have */
function coarsened(stage, set) {
  if (stage.relation === TREE_UP) return tokensOf(set);
  const all = closure(stage, set);
  return tidy(mapLevels(all));
}
function mapLevels(set) {
  const out = [];
  byLevel(set, (l, a, z) => { if (l === 0) out.push(a, z); });
  return out;
}

function origins(field, set, before) {
  if (!set.length) return [];
  for (let j = before - 1; j >= 0; j--) {
    const s = data.program.stages[j];
    if (s.out === field) return throughStage(s, field, set, j);
  }
  const f = data.program.fields[field];
  if (f.binding === 0 || f.binding === BOUND_OUT) return [];
  return f.io <= ROWS_TOKENS ? mapLevels(set) : set;
}
function throughStage(s, field, set, j) {
  switch (s.message) {
  case MESSAGE.STATE: return origins(field, closure(s, set), j);
  case MESSAGE.GATE: return origins(s.value, closure(s, set), j);
  case MESSAGE.ENERGY: return [];
  case MESSAGE.USER: return throughUser(s, set, j);
  }
  if (s.value === field) return origins(field, coarsened(s, set), j);
  const from = origins(s.value, gathered(s, set), j);
  return s.update === MERGES ? tidy(from.concat(origins(field, set, j))) : from;
}
function throughUser(s, set, j) {
  const ends = tidy(set.concat(gathered(s, set)));
  let out = [];
  for (let f = 0; f < data.program.fields.length; f++)
    if (s.reads & (1 << f)) out = out.concat(origins(f, ends, j));
  return tidy(out);
}

/* What a token sees after 1, 2, .. layers; each layer as {tokens: intervals, n}. Ends when nothing new comes. */
function reach(token, most) {
  const layers = [], out = data.program ? data.program.fields.findIndex((f) => f.binding === BOUND_OUT) : -1;
  if (!data.program || out < 0) return { layers, why: "The graph has no program: nothing is known of what goes where." };
  if (relations.some((r) => r.lost || r.left)) return { layers, why: "Edges were left out of this page, so the reach would be wrong." };
  let nodes = [token, token + 1], why = "";
  try {
    for (let l = 0; l < most; l++) {
      const next = origins(out, nodes, data.program.stages.length), tokens = tokensOf(next), n = sizeOf(tokens);
      const wider = tidy(nodes.concat(next));
      if (l && n === layers[l - 1].n && sizeOf(wider) === sizeOf(nodes)) break;
      layers.push({ tokens, n });
      nodes = l ? wider : next;
      if (crossing) { why = "Queries and keys are different tokens: one layer."; break; }
      if (n === data.keys[1]) break;
      if (l + 1 === most) why = "The next layers were not followed.";
    }
  } catch (e) {
    if (!(e instanceof TooMuch)) throw e;
    why = "Further layers are too scattered to follow here.";
  }
  return { layers, why };
}

/* ---- colours ---- */

const colourOf = (level) => data.colours[level];
const rgbOf = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
const LEVEL_RGB = data.colours.map(rgbOf);
const styleColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/* ---- painting rectangles into pixels: each pixel adds up how much of it is covered, and in which colours, so that what is too small to see is still
   shown in its true share ---- */

const canvas = byId("canvas"), ink = canvas.getContext("2d");
const LEFT = 62, TOP = 26;
const FAINTEST = 0.2;
let picture = null; /* {width, height, sums, box} of the matrix, in device pixels; sums: red, green, blue, share of each */
let drawn = {};

function paint(y0, y1, x0, x1, level, share) {
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
  const { sums } = picture, { data: pixels } = image, paper = rgbOf(styleColour("--paper"));
  for (let at = 0; at < pixels.length; at += 4) {
    const part = sums[at + 3], alpha = part > 1e-6 ? Math.max(FAINTEST, Math.min(1, part)) : 0, scale = alpha ? alpha / part : 0;
    for (let c = 0; c < 3; c++) pixels[at + c] = paper[c] * (1 - alpha) + sums[at + c] * scale;
    pixels[at + 3] = 255;
  }
}

/* ---- the window on the matrix: rows from `row`, columns from `column`, so many CSS pixels a cell ---- */

let mode = "nodes", chosen = 0, selected = -1;
let eye = { row: 0, column: 0, x: 1, y: 1 }, home = eye;
let ratio = 1;

const relation = () => relations[chosen];
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
  x = Math.min(x, 46), y = Math.min(y, 46);
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
  if (r.dstOrder || r.srcOrder) { paintCells(r0, r1, c0, c1, Math.max(levelOf(dstNode(r, r0)), levelOf(srcNode(r, c0))), share); return; }
  byLevel([r0, r1], (l, a, z) => byLevel([c0, c1], (m, b, y) => paintCells(a, z, b, y, Math.max(l, m), share)));
}
function paintTokens(r, r0, r1, c0, c1, share) {
  const box = picture.box, rows = tokenRuns(r.dstOrder, r0, r1), columns = tokenRuns(r.srcOrder, c0, c1);
  for (const [l, a, z] of rows) {
    if (z <= box[0] || a >= box[1] || (l && !statesGoDown)) continue;
    const top = Math.max(a, box[0]), bottom = Math.min(z, box[1]);
    for (const [m, b, y] of columns)
      if (y > box[2] && b < box[3]) paintCells(top, bottom, Math.max(b, box[2]), Math.min(y, box[3]), Math.max(l, m), share);
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
  if (mode === "nodes") return [box];
  if (r.dstOrder || r.srcOrder) return [everything()];
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
  const pixels = stepPixels(r, i), scattered = mode === "tokens" && (r.dstOrder || r.srcOrder);
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
  const width = Math.round(roomX() * ratio), height = Math.round(roomY() * ratio), image = ink.createImageData(width, height);
  const box = clip(seen(), bounds());
  picture = { width, height, sums: new Float32Array(width * height * 4), box };
  const r = relation();
  if (r && box[0] < box[1] && box[2] < box[3])
    for (const positions of positionBoxes(r, box)) {
      for (let i = 0; r.blocks && i < r.blocks.n; i++) paintBlock(r, i, positions);
      if (r.explicit) paintExplicit(r, positions);
    }
  develop(image);
  ink.putImageData(image, Math.round(LEFT * ratio), Math.round(TOP * ratio));
  ink.save();
  ink.scale(ratio, ratio);
  frame(box);
  ink.restore();
  if (mode === "nodes" && r) drawn.edges = countEdges(r, box);
}

const toX = (column) => LEFT + (column - eye.column) * eye.x, toY = (row) => TOP + (row - eye.row) * eye.y;

/* everything around the cells: border, grid where cells are large, levels, numbers, the chosen row */
function frame(box) {
  const right = Math.min(LEFT + roomX(), toX(bounds()[3])), bottom = Math.min(TOP + roomY(), toY(bounds()[1]));
  const left = Math.max(LEFT, toX(bounds()[2])), top = Math.max(TOP, toY(bounds()[0]));
  ink.lineWidth = 1;
  if (eye.x >= 7 && eye.y >= 7) grid(box, left, top, right, bottom);
  ink.strokeStyle = styleColour("--line");
  ink.strokeRect(left - .5, top - .5, Math.max(0, right - left) + 1, Math.max(0, bottom - top) + 1);
  ink.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  ink.fillStyle = styleColour("--soft");
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
function numbers(box) {
  const stepX = tickStep(eye.x, 64), stepY = tickStep(eye.y, 22);
  ink.textAlign = "center";
  ink.textBaseline = "alphabetic";
  for (let c = Math.ceil(box[2] / stepX) * stepX; c < box[3]; c += stepX) {
    const x = toX(c) + (eye.x >= 12 ? eye.x / 2 : 0);
    if (x >= LEFT && x <= LEFT + roomX()) ink.fillText(String(nameOf(c, "srcOrder")), x, TOP - 7);
  }
  ink.textAlign = "right";
  ink.textBaseline = "middle";
  for (let p = Math.ceil(box[0] / stepY) * stepY; p < box[1]; p += stepY) {
    const y = toY(p) + (eye.y >= 12 ? eye.y / 2 : 0);
    if (y >= TOP && y <= TOP + roomY()) ink.fillText(String(nameOf(p, "dstOrder")), LEFT - 7, y);
  }
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
  if (selected < 0) return;
  const p = mode === "tokens" ? selected : relation() ? dstPosition(relation(), selected) : -1;
  if (p < box[0] || p >= box[1]) return;
  ink.strokeStyle = styleColour("--ink");
  ink.strokeRect(left - 1, toY(p) - .5, right - left + 2, Math.max(2, eye.y) + 1);
}

/* ---- nodes and links ---- */

let spots = [], linkEdges = [], pointed = -1;
const canLink = (r) => r && r.nEdges <= MOST_LINKS && nNodes <= 2 * MOST_LINKS && !r.lost && !r.left;

function fitLinks() {
  eye = { row: 0, column: 0, x: 1, y: 1 };
  home = eye;
  redraw();
}
/* a node stands over the middle of its tokens, its level above them */
function placeNodes() {
  const wide = canvas.clientWidth - 60, high = canvas.clientHeight - 60, each = wide / Math.max(1, nTokens);
  spots = [];
  for (let v = 0; v < nNodes; v++) {
    const l = levelOf(v), placed = firstToken(v) < endToken(v), share = (v - levelPtr[l] + .5) / data.levels[l];
    const middle = placed ? (firstToken(v) + endToken(v)) / 2 * each : share * wide;
    const y = nLevels > 1 ? high - l * (high - 20) / (nLevels - 1) : high * .6;
    spots.push([30 + (middle - eye.column) * eye.x, 30 + (y - eye.row) * eye.y, l]);
  }
}
function drawLinks() {
  placeNodes();
  linkEdges = allEdges(relation());
  drawn.edges = linkEdges.length;
  ink.save();
  ink.scale(ratio, ratio);
  ink.strokeStyle = styleColour("--line");
  if (parent) {
    ink.beginPath();
    for (let v = 0; v < nNodes; v++) if (parent[v] >= 0) ink.moveTo(spots[v][0], spots[v][1]), ink.lineTo(spots[parent[v]][0], spots[parent[v]][1]);
    ink.stroke();
  }
  const focus = pointed >= 0 ? pointed : selected;
  for (const e of linkEdges) if (e.destination !== focus) drawLink(e, focus >= 0 ? .18 : .5, 1);
  for (const e of linkEdges) if (e.destination === focus) drawLink(e, 1, 2);
  spots.forEach(([x, y, l], v) => drawSpot(x, y, l, v === focus));
  ink.restore();
}
/* edges bend to the right of their direction, so that the two between a pair stay apart; loops stand over their node */
function drawLink(e, alpha, width) {
  const [x0, y0, l] = spots[e.source], [x1, y1, m] = spots[e.destination];
  ink.globalAlpha = alpha;
  ink.lineWidth = width;
  ink.strokeStyle = colourOf(Math.max(l, m));
  ink.beginPath();
  if (e.source === e.destination) ink.arc(x0, y0 - 8, 6, 0, 2 * Math.PI);
  else {
    const bend = l === m ? Math.min(80, Math.abs(x1 - x0) * .45) : 0, way = x1 > x0 ? -1 : 1;
    ink.moveTo(x0, y0);
    ink.quadraticCurveTo((x0 + x1) / 2, (y0 + y1) / 2 + bend * way, x1, y1);
  }
  ink.stroke();
  ink.globalAlpha = 1;
}
function drawSpot(x, y, l, focus) {
  const size = nNodes > 400 ? 2.5 : 4.5;
  ink.beginPath();
  ink.arc(x, y, focus ? size + 3 : size, 0, 2 * Math.PI);
  ink.fillStyle = colourOf(l);
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
    if (d < near) near = d, best = v;
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
  canvas.width = Math.round(canvas.clientWidth * ratio);
  canvas.height = Math.round(canvas.clientHeight * ratio);
  drawn = { mode, relation: relation() ? relation().name : null, rectangles: 0, blocks: 0, edges: 0, nodes: 0, unplaced: 0 };
  if (mode === "links") drawLinks();
  else drawMatrix();
  drawn.milliseconds = performance.now() - start;
  window.hga.drawn = drawn;
  showNotice();
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
  if (l === 0) return "token " + tokenName(v);
  const called = named(v);
  const a = firstToken(v), z = endToken(v);
  return "node " + v + called + " (level " + l + (a < z ? ", tokens " + a + (z - a > 1 ? " to " + (z - 1) : "") : "") + ")";
}
/* tokens of two sides are counted each on its own */
function tokenName(v) {
  if (!crossing) return v + named(v);
  const q = v - data.queries[0], k = v - data.keys[0];
  return q >= 0 && q < data.queries[1] ? "query " + q + named(v) : "key " + k + named(v);
}
/* what the graph calls a node */
const named = (v) => data.names && data.names[v] !== null ? " \u201c" + data.names[v] + "\u201d" : "";

const MOST_LISTED = 6;
function showEdges(head, edges) {
  const under = byId("under");
  under.replaceChildren();
  element("p", head, under);
  for (const e of edges.slice(0, MOST_LISTED)) {
    const line = element("p", undefined, under);
    element("span", undefined, line, "swatch").style.background = colourOf(Math.max(levelOf(e.source), levelOf(e.destination)));
    line.append(nodeWords(e.destination) + " \u2190 " + nodeWords(e.source) + ", type " + e.type + ", weight " + Number(e.weight.toPrecision(7)));
  }
  if (edges.length > MOST_LISTED) element("p", "and " + (edges.length - MOST_LISTED) + " more", under, "hint");
  if (!edges.length) element("p", "no edge", under, "hint");
}

/* the cell under canvas point x, y, as [row, column], or null outside */
function cellAt(x, y) {
  const p = Math.floor(eye.row + (y - TOP) / eye.y), c = Math.floor(eye.column + (x - LEFT) / eye.x), box = bounds();
  return x >= LEFT && y >= TOP && p >= box[0] && p < box[1] && c >= box[2] && c < box[3] ? [p, c] : null;
}

/* the edges that let query token q see key token k in this relation */
function edgesOfPair(r, q, k) {
  const columns = lineage(k).map((u) => srcPosition(r, u)).filter((c) => c >= 0);
  return (statesGoDown ? lineage(q) : [q]).flatMap((v) => edgesBetween(r, dstPosition(r, v), columns));
}

function describe(x, y) {
  const r = relation();
  if (!r) return;
  if (mode === "links") { describeSpot(spotAt(x, y)); return; }
  const cell = cellAt(x, y);
  if (!cell) return;
  const [p, c] = cell, high = Math.max(1, Math.ceil(1 / eye.y)), wide = Math.max(1, Math.ceil(1 / eye.x));
  if (mode === "tokens") { showEdges(tokenName(p) + " sees " + tokenName(c) + " by", edgesOfPair(r, p, c)); return; }
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
  if (v >= 0) showEdges(nodeWords(v) + " gathers from", linkEdges.filter((e) => e.destination === v));
}

/* ---- reach ---- */

const MOST_LAYERS = 12;

function showReach(token) {
  const place = byId("reach"), found = reach(token, MOST_LAYERS), all = data.keys[1];
  place.replaceChildren();
  element("p", "Tokens whose values reach " + (crossing ? tokenName(token) : "token " + token) + ":", place);
  found.layers.forEach((layer, i) => {
    const share = 100 * layer.n / all;
    const percent = share >= 99.95 || share < .05 ? share.toPrecision(3) : share.toFixed(1);
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

function select(token) {
  if (token < data.queries[0] || token >= data.queries[0] + data.queries[1]) return;
  selected = token;
  byId("token").value = token - (crossing ? data.queries[0] : 0);
  showReach(token);
  redraw();
}
function selectAt(x, y) {
  const cell = mode === "links" ? null : cellAt(x, y);
  const v = mode === "links" ? spotAt(x, y) : cell ? (mode === "tokens" ? cell[0] : dstNode(relation(), cell[0])) : -1;
  if (v >= 0 && firstToken(v) < endToken(v)) select(firstToken(v));
}

/* ---- moving ---- */

const LARGEST = 60;
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
  byId("relation").addEventListener("change", (event) => set({ relation: Number(event.target.value) }));
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
  fit();
}

function row(table, cells, tag) {
  const line = element("tr", undefined, table);
  for (const cell of cells) element(tag || "td", cell, line);
  return line;
}
function fillTables() {
  row(byId("levels"), ["level", "nodes", "tokens each"], "th");
  data.levels.forEach((n, l) => {
    const a = levelPtr[l], tokens = n ? endToken(a) - firstToken(a) : 0;
    const ragged = n > 1 && endToken(a + n - 1) - firstToken(a + n - 1) !== tokens;
    const line = row(byId("levels"), [String(l), n.toLocaleString("en"), tokens > 0 ? (ragged ? "up to " : "") + tokens.toLocaleString("en") : "-"]);
    const swatch = element("span", undefined, undefined, "swatch");
    swatch.style.background = colourOf(l);
    line.firstChild.prepend(swatch);
  });
  row(byId("relations"), ["name", "edges", "blocks", "explicit"], "th");
  relations.forEach((r, i) => {
    row(byId("relations"), [r.name, r.nEdges.toLocaleString("en"), r.nBlocks.toLocaleString("en"), r.nExplicit.toLocaleString("en")]);
    element("option", r.name, byId("relation")).value = i;
  });
}

/* the relation that is attended first, else the last stage's, else the first */
function mainRelation() {
  const stages = data.program ? data.program.stages.filter((s) => s.relation >= 0) : [], scored = stages.find((s) => s.message === MESSAGE.SCORE);
  return scored ? scored.relation : stages.length ? stages[stages.length - 1].relation : 0;
}

function start() {
  const edges = relations.reduce((sum, r) => sum + r.nEdges, 0);
  const sides = plural(data.queries[1], "query token") + ", " + plural(data.keys[1], "key token");
  byId("summary").textContent = (crossing ? sides : plural(nTokens, "token")) + ", " + plural(nNodes, "node") + " in " + plural(nLevels, "level") +
    ", " + plural(edges, "edge") + (data.claims.length ? "; claims to be " + data.claims.join(", ") : "");
  byId("made").textContent = "made by " + data.tool + " view";
  byId("token").max = data.queries[1] - 1;
  fillTables();
  listen();
  set({ relation: mainRelation(), mode: "nodes" });
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
  set, select, draw,
  where: (position, column) => onScreen(toX(column) + eye.x / 2, toY(position) + eye.y / 2),
  spot: (v) => onScreen(spots[v][0], spots[v][1]),
  pixel: (position, column) => pixelAt(toX(column) + eye.x * .4, toY(position) + eye.y * .4),
  paper: () => rgbOf(styleColour("--paper")),
  state: () => ({ mode, relation: chosen, selected, eye: { ...eye } }),
};
start();

}());
