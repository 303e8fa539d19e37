/* What the page was given and what follows from it: nodes, relations, edges, sets, reach. view_graph.js to view_page.js are one script, in
   the order of pages.cmake. The graph comes as it is stored: blocks, families, orders; everything shown is computed from them, so that a million
   tokens cost little more than a thousand. */

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

/* The tree as relations, so that it is drawn like them; and everything at once, whose parts these are not. */
function treeRelation(tree) {
  const ptr = new Int32Array(nNodes + 1), src = [];
  for (let v = 0; v < nNodes; v++) {
    if (tree === "tree up" && v >= nTokens) eachOf(childrenOf([v, v + 1]), (c) => src.push(c));
    if (tree === "tree down" && parent[v] >= 0) src.push(parent[v]);
    ptr[v + 1] = src.length;
  }
  return { name: tree, tree, nEdges: src.length, nBlocks: 0, nExplicit: src.length, dstOrder: null, srcOrder: null, dstRank: null, srcRank: null, blocks: null,
    explicit: { ptr, src, type: null, weight: null }, lost: 0, left: 0 };
}
const ALL = -1, MOST_TREE = 300000;
const drawable = relations.concat(parent && nNodes <= MOST_TREE ? [treeRelation("tree up"), treeRelation("tree down")] : []);
const total = (of) => relations.reduce((sum, r) => sum + of(r), 0);
const union = { name: "all relations", parts: relations, nEdges: total((r) => r.nEdges), dstOrder: null, srcOrder: null, dstRank: null, srcRank: null, blocks: null, explicit: null,
  lost: total((r) => r.lost), left: total((r) => r.left) };

const dstNode = (r, position) => r.dstOrder ? r.dstOrder[position] : position;
const srcNode = (r, position) => r.srcOrder ? r.srcOrder[position] : position;
const dstPosition = (r, node) => r.dstRank ? r.dstRank[node] : node;
const srcPosition = (r, node) => r.srcRank ? r.srcRank[node] : node;

/* The positions that a relation uses: rows [0, 1), columns [2, 3). */
function extent(r) {
  if (r.parts) return [0, nNodes, 0, nNodes];
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
  if (r.parts) return r.parts.reduce((n, part) => n + countByNode(part, box), 0);
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
/* the same by node where a relation's positions are not the nodes: by looking at its edges */
function countByNode(r, box) {
  if (!r.dstOrder && !r.srcOrder) return countEdges(r, box);
  if (box[0] <= 0 && box[2] <= 0 && box[1] >= nNodes && box[3] >= nNodes) return r.nEdges;
  let n = 0;
  for (let v = Math.max(0, box[0]); v < Math.min(box[1], nNodes); v++)
    if (dstPosition(r, v) >= 0) eachEdgeOfRow(r, dstPosition(r, v), (c) => { const u = srcNode(r, c); n += u >= box[2] && u < box[3] ? 1 : 0; });
  return n;
}

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
  if (r.parts) return r.parts.flatMap((part) => edgesBetween(part, dstPosition(part, p), columns.map((c) => srcPosition(part, c)).filter((c) => c >= 0)).map((e) => ({ ...e, name: part.name })));
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
  if (r.parts) return r.parts.flatMap(allEdges);
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

