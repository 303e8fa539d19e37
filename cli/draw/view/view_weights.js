/* Attention weights, where the page was given some: what every query token's edges weigh, head by head, and how that is shown. */

const WEIGHTS = data.weights ? readWeights(data.weights) : null;
let head = WEIGHTS ? firstHead() : MEAN_OF_HEADS, weighs = WEIGHTS !== null;

/* Edges of query token q: [ptr q, q + 1). `relation`: an index of drawable. */
function readWeights(raw) {
  const ptr = [0];
  for (const n of series(raw.count)) ptr.push(ptr[ptr.length - 1] + n);
  const named = (tree) => drawable.findIndex((r) => r.tree === tree);
  const ofStage = data.program.stages.map((s) => s.relation >= 0 ? s.relation : named(s.relation === TREE_UP ? "tree up" : "tree down"));
  return { ptr, heads: raw.heads, destination: series(raw.destination), source: series(raw.source), value: raw.value, relation: series(raw.stage).map((s) => ofStage[s]) };
}

/* what edge i has in the chosen head, or in the mean over all */
function weightAt(i) {
  const n = WEIGHTS.heads.length;
  if (head !== MEAN_OF_HEADS) return WEIGHTS.value[i * n + WEIGHTS.heads.indexOf(head)];
  let sum = 0;
  for (let h = 0; h < n; h++) sum += WEIGHTS.value[i * n + h];
  return sum / n;
}
/* the same of every head in turn, added up over edges */
const headsOf = (edges) => WEIGHTS.heads.map((_, h) => edges.reduce((sum, i) => sum + WEIGHTS.value[i * WEIGHTS.heads.length + h], 0));

const isDrawn = (i) => chosen === ALL || WEIGHTS.relation[i] === chosen;
/* the edges of a query token by which it pays something to a node's tokens */
function eachWeighed(token, visit) {
  const q = token - data.queries[0];
  if (q < 0 || q >= data.queries[1]) return;
  for (let i = WEIGHTS.ptr[q]; i < WEIGHTS.ptr[q + 1]; i++) visit(i);
}

/* An edge of a node is in the outputs of all tokens below it: what it weighs is the mean over them. */
const edgeKey = (r, destination, source) => (r + 1) * nNodes * nNodes + destination * nNodes + source;
let meansOf = null, means = new Map();
function meanWeights() {
  if (meansOf === head) return means;
  const sums = new Map();
  for (let i = 0; i < WEIGHTS.source.length; i++) {
    const key = edgeKey(WEIGHTS.relation[i], WEIGHTS.destination[i], WEIGHTS.source[i]), sum = sums.get(key) || { sum: 0, n: 0, i };
    sum.sum += weightAt(i), sum.n++;
    sums.set(key, sum);
  }
  means = new Map();
  for (const [key, { sum, n, i }] of sums) means.set(key, { weight: sum / n, i });
  meansOf = head;
  return means;
}

/* ---- strength: the largest is full, a thousandth of it nearly nothing ---- */

const DECADES = 3, WEAKEST = 0.04;
const strength = (weight, largest) => weight > 0 && largest > 0 ? Math.max(WEAKEST, 1 + Math.log10(weight / largest) / DECADES) : 0;
const shareOf = (i) => weightAt(i) / Math.max(1, endToken(WEIGHTS.source[i]) - firstToken(WEIGHTS.source[i]));
function largestOf(weight) {
  let most = 0;
  for (let i = 0; i < WEIGHTS.source.length; i++) if (isDrawn(i)) most = Math.max(most, weight(i));
  return most;
}
const weighsHere = () => weighs && relation() && (chosen === ALL || WEIGHTS.relation.includes(chosen));

/* what the strength of colour and the width of links mean in the picture as it is */
function sayStrength() {
  const what = { tokens: "what a token pays another", nodes: "an edge's weight, the mean over the tokens below it", links: "an edge's weight" }[mode];
  byId("strength").textContent = weighsHere() ? "Colour: " + what + "; full at " + digits(drawn.largest) + ", nearly none at a thousandth of that." : "";
}

/* ---- the matrix ---- */

/* Rows are query tokens: each pays its edge's weight to the source's tokens alike. */
function paintTokenWeights(box) {
  const largest = largestOf(shareOf);
  for (let q = box[0]; q < box[1]; q++)
    eachWeighed(q, (i) => {
      const u = WEIGHTS.source[i], a = Math.max(box[2], firstToken(u)), z = Math.min(box[3], endToken(u)), l = levelOf(u), m = levelOf(WEIGHTS.destination[i]);
      if (a >= z || !isDrawn(i) || !visible(m, l)) return;
      paintCells(q, q + 1, a, z, Math.max(l, m), strength(shareOf(i), largest));
      drawn.weights++;
    });
  return largest;
}
/* Rows are destinations, each edge its mean. */
function paintNodeWeights(box) {
  const largest = largestDrawn(), r = relation();
  for (const { weight, i } of meanWeights().values()) {
    if (!isDrawn(i)) continue;
    const v = WEIGHTS.destination[i], u = WEIGHTS.source[i], p = chosen === ALL ? v : dstPosition(r, v), c = chosen === ALL ? u : srcPosition(r, u), l = levelOf(v), m = levelOf(u);
    if (p < box[0] || p >= box[1] || c < box[2] || c >= box[3] || !visible(l, m)) continue;
    paintCells(p, p + 1, c, c + 1, Math.max(l, m), strength(weight, largest));
    drawn.weights++;
  }
  return largest;
}
function largestDrawn() {
  let most = 0;
  for (const { weight, i } of meanWeights().values()) if (isDrawn(i)) most = Math.max(most, weight);
  return most;
}

/* ---- single edges ---- */

/* What an edge weighs for a token, or without one on the mean; undefined where nothing was weighed. */
function attentionOf(e, token) {
  if (!weighs) return undefined;
  const r = e.name ? drawable.findIndex((d) => d.name === e.name) : chosen;
  if (token === undefined) {
    const mean = meanWeights().get(edgeKey(r, e.destination, e.source));
    return mean && { weight: mean.weight, edges: null };
  }
  const edges = [];
  eachWeighed(token, (i) => { if (WEIGHTS.destination[i] === e.destination && WEIGHTS.source[i] === e.source && (r < 0 || WEIGHTS.relation[i] === r)) edges.push(i); });
  return edges.length ? { weight: edges.reduce((sum, i) => sum + weightAt(i), 0), edges } : undefined;
}
const digits = (x) => x === 0 ? "0" : x < 1e-3 ? x.toExponential(2) : String(Number(x.toPrecision(3)));
const sayAttention = (a) => a ? ", attention " + digits(a.weight) : "";

/* ---- what a token attends to, heaviest first ---- */

const MOST_RANKED = 12;
function showAttention(token) {
  const place = byId("attention");
  place.replaceChildren();
  if (!WEIGHTS) return;
  const list = [];
  eachWeighed(token, (i) => { list.push({ i, weight: weightAt(i) }); });
  list.sort((x, y) => y.weight - x.weight);
  if (token < 0) element("p", "Click a row, or type a token above: what it attends to, heaviest first.", place, "hint");
  else if (!list.length) element("p", "Token " + wordOf(token) + " attends to nothing.", place);
  else element("p", "Token " + wordOf(token) + " in " + (head === MEAN_OF_HEADS ? "the mean over heads" : "head " + head) + ":", place);
  for (const { i, weight } of list.slice(0, MOST_RANKED)) {
    const line = element("p", undefined, place, "ranked"), bar = element("span", undefined, line, "bar"), u = WEIGHTS.source[i];
    bar.style.width = 100 * weight / list[0].weight + "%";
    bar.style.background = colourOf(Math.max(levelOf(u), levelOf(WEIGHTS.destination[i])));
    element("b", digits(weight), line);
    element("span", nodeWords(u), line);
    line.title = WEIGHTS.heads.map((h, at) => "head " + h + ": " + digits(headsOf([i])[at])).join(", ");
  }
  if (list.length > MOST_RANKED) element("p", "and " + (list.length - MOST_RANKED) + " more, " + digits(list.slice(MOST_RANKED).reduce((s, x) => s + x.weight, 0)) + " together", place, "hint");
}

/* what the page begins with */
function firstHead() { return WEIGHTS.heads.length > 1 ? MEAN_OF_HEADS : WEIGHTS.heads[0]; }
function setHead(now) {
  head = WEIGHTS.heads.includes(now) ? now : firstHead();
  byId("head").value = head;
  showAttention(selected);
  redraw();
}
function setWeighs(now) {
  weighs = now;
  byId("weighs").checked = now;
  redraw();
}
function listenToWeights() {
  byId("weighing").hidden = byId("attended").hidden = !WEIGHTS;
  if (!WEIGHTS) return;
  if (WEIGHTS.heads.length > 1) element("option", "mean", byId("head")).value = MEAN_OF_HEADS;
  for (const h of WEIGHTS.heads) element("option", String(h), byId("head")).value = h;
  byId("head").addEventListener("change", (event) => setHead(Number(event.target.value)));
  byId("weighs").addEventListener("change", (event) => setWeighs(event.target.checked));
  showAttention(-1);
}
