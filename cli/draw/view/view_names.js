/* Names: what nodes are called, on screen and in the search. */

const NAMES = new Map();
if (data.names) series(data.names.nodes).forEach((v, i) => NAMES.set(v, data.names.text[i].trim()));

const short = (text, most) => text.length > most ? text.slice(0, most - 1) + "\u2026" : text;

/* The name of a node; of one above the tokens that has none, its first and last words. */
function calledOf(v) {
  if (!NAMES.size) return "";
  if (NAMES.has(v)) return NAMES.get(v);
  const a = firstToken(v), z = endToken(v) - 1;
  if (v < nTokens || a > z || !NAMES.has(a)) return "";
  return a === z ? NAMES.get(a) : NAMES.get(a) + " \u2026 " + (NAMES.get(z) || z);
}

/* ---- search: a number, or a part of a name ---- */

let hits = [], hit = -1, sought = "";

function findAll(text) {
  const wanted = text.trim().toLowerCase(), out = [];
  if (!wanted) return out;
  for (const [v, name] of NAMES) if (name.toLowerCase().includes(wanted)) out.push(v);
  if (/^\d+$/.test(wanted) && Number(wanted) < nNodes && !out.includes(Number(wanted))) out.push(Number(wanted));
  return out.sort((x, y) => x - y);
}
function search(text) {
  if (text !== sought) { sought = text; hits = findAll(text); hit = -1; }
  if (hits.length) {
    hit = (hit + 1) % hits.length;
    show(hits[hit]);
  }
  byId("found").textContent = !text.trim() ? "" : hits.length ? (hit + 1) + " of " + hits.length : "nothing";
  return hits.length;
}
/* Bring a node to the middle and ask for what is known of it. */
function show(v) {
  const p = mode === "tokens" ? firstToken(v) : mode === "nodes" ? dstPosition(relation(), v) : -1;
  if (p >= 0) {
    const box = bounds(), cell = Math.max(Math.min(eye.y, LARGEST), 14), column = mode === "tokens" ? p : srcPosition(relation(), v), f = cell / eye.y;
    const at = (x, n, lo, hi) => Math.max(lo, Math.min(x - n / 2, hi - n));
    eye = { x: eye.x * f, y: eye.y * f, row: 0, column: 0 };
    eye.row = at(p, roomY() / eye.y, box[0], Math.max(box[1], box[0] + roomY() / eye.y));
    eye.column = at(column < 0 ? box[2] : column, roomX() / eye.x, box[2], Math.max(box[3], box[2] + roomX() / eye.x));
  } else pointed = v;
  if (firstToken(v) < endToken(v) && v < nTokens && v >= data.queries[0] && v < data.queries[0] + data.queries[1]) select(v);
  marked = v;
  redraw();
}
let marked = -1;

/* ---- the state of the page in its address, so that it can be sent and kept ---- */

const round = (x) => Number(x.toPrecision(6));
const framed = (() => { try { return window.frameElement !== null && typeof window.parent.hgaAddress === "function"; } catch (e) { return false; } })();

/* In another page's frame, as a notebook has it, there is no address of one's own. */
const addressed = ["file:", "http:", "https:"].includes(location.protocol);

function addressOf() {
  const state = new URLSearchParams();
  state.set("mode", mode);
  state.set("relation", chosen === ALL ? "all" : relation() ? relation().name : "");
  if (selected >= 0) state.set("token", selected - (crossing ? data.queries[0] : 0));
  if (hidden.size) state.set("hide", [...hidden].sort((x, y) => x - y).join(","));
  if (WEIGHTS && head !== firstHead()) state.set("head", head);
  if (WEIGHTS && !weighs) state.set("weights", "no");
  if (playing >= 0) state.set("step", playing + 1);
  if (eye !== home) state.set("eye", [eye.row, eye.column, eye.x, eye.y].map(round).join(","));
  return state.toString();
}
let written = "", writing = 0;
function writeAddress() {
  clearTimeout(writing);
  writing = setTimeout(() => {
    const now = addressOf();
    if (now === written) return;
    written = now;
    if (framed) window.parent.hgaAddress(window.name, now);
    else if (addressed) history.replaceState(null, "", "#" + now);
  }, 250);
}
function readAddress(text) {
  const state = new URLSearchParams(text), all = state.get("relation") === "all" && relations.length > 1, named = drawable.findIndex((r) => r.name === state.get("relation"));
  hidden.clear();
  for (const l of (state.get("hide") || "").split(",")) if (/^\d+$/.test(l) && Number(l) < nLevels) hidden.add(Number(l));
  const step = Number(state.get("step")) - 1;
  if (step >= 0 && step < steps.length) takeStep(step);
  set({ relation: all ? ALL : named >= 0 ? named : chosen, mode: ["nodes", "tokens", "links"].includes(state.get("mode")) ? state.get("mode") : mode });
  const token = state.get("token");
  if (token !== null && /^\d+$/.test(token)) select(Number(token) + (crossing ? data.queries[0] : 0));
  if (WEIGHTS) setHead(state.has("head") ? Number(state.get("head")) : firstHead()), setWeighs(state.get("weights") !== "no");
  const at = (state.get("eye") || "").split(",").map(Number);
  if (at.length === 4 && at.every(Number.isFinite) && at[2] > 0 && at[3] > 0) eye = { row: at[0], column: at[1], x: at[2], y: at[3] };
  showLevels();
  redraw();
}
