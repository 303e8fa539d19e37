/* Facts about a page of `hga view`, checked inside it by browser.py, after `const expected = {..}`:
     relation    the one that `edges` are of
     edges       [source, destination, type] of every edge, as `hga build -o FILE.npy` lists them; null: too many to list
     n_edges     their number
     reach       [token, layer, number of tokens] triples that must hold
     together    groups of nodes that links draw nearer to one another than to the others
     paid        [token][head][token] what the engine pays, in a page with weights
   Each fact becomes a line of the element `verdict`. */
"use strict";
(function () {
const verdict = document.createElement("pre"), page = window.hga || {};
verdict.id = "verdict";
const fact = (name, holds, detail) => { verdict.textContent += (holds ? "true  " + name : "FALSE " + name + ": " + JSON.stringify(detail)) + "\n"; };
const same = (name, got, want) => fact(name, JSON.stringify(got) === JSON.stringify(want), { got, want });
const canvas = document.getElementById("canvas"), under = document.getElementById("under"), reach = document.getElementById("reach");
const r = expected.relation, relation = page.relations && page.relations[r];

/* the slow way: spans by walking down from a node to its tokens, pairs by looking at every edge */
const children = new Map();
function findChildren() {
  const unroll = (runs) => {
    const out = [];
    let value = 0;
    for (const run of runs) for (let i = 0; i < (run.length ? run[1] : 1); i++) out.push(value += run.length ? run[0] : run);
    return out;
  };
  if (!page.data.child_ptr) return;
  const ptr = unroll(page.data.child_ptr), list = page.data.child_list && unroll(page.data.child_list);
  for (let i = 0; i + 1 < ptr.length; i++) {
    const own = Array.from({ length: ptr[i + 1] - ptr[i] }, (_, j) => ptr[i] + j);
    children.set(page.tokens + i, list ? own.map((at) => list[at]) : own);
  }
}
const below = (v) => v < page.tokens ? [v] : (children.get(v) || []).flatMap(below);
/* an edge is shown over tokens when both ends stand for an interval of them */
const whole = (tokens) => tokens.length > 0 && Math.max(...tokens) - Math.min(...tokens) + 1 === tokens.length;

const coloured = (pixel) => page.paper().some((c, i) => Math.abs(c - pixel[i]) > 12);
function pointer(type, [x, y]) {
  canvas.dispatchEvent(new PointerEvent(type, { clientX: x, clientY: y, pointerId: 1, bubbles: true, cancelable: true }));
}
function click(at) {
  pointer("pointerdown", at);
  pointer("pointerup", at);
  page.draw();
}

function edges_are_the_engines() {
  same("as_many_edges_as_the_engine_counts", page.count(r), expected.n_edges);
  if (!expected.edges) return;
  const key = (e) => e.join(" "), order = (list) => list.map(key).sort();
  same("every_edge_is_the_engines", order(page.edges(r).map((e) => [e.source, e.destination, e.type])), order(expected.edges));
}

/* positions of a matrix that has `n` rows and columns: every cell is coloured exactly where there is an edge */
function cells_are_drawn(name, rows, columns, has) {
  const wrong = [];
  for (const p of rows) for (const c of columns) if (coloured(page.pixel(p, c)) !== has(p, c)) wrong.push([p, c]);
  same(name, wrong.slice(0, 5), []);
}
const range = (n) => Array.from({ length: n }, (_, i) => i);

function nodes_are_drawn() {
  page.set({ relation: r, mode: "nodes" });
  page.draw();
  same("all_edges_are_in_the_first_view", page.drawn.edges, expected.n_edges);
  if (!expected.edges) return;
  const there = new Set(expected.edges.map(([s, d]) => d + " " + s)), box = relation.extent;
  const node = (order, p) => order ? order[p] : p;
  const has = (p, c) => there.has(node(relation.dstOrder, p) + " " + node(relation.srcOrder, c));
  cells_are_drawn("cells_are_coloured_where_edges_are", range(box[1]).slice(box[0]), range(box[3]).slice(box[2]), has);
  const half = [0, Math.ceil(page.nodes / 2), 0, Math.ceil(page.nodes / 3)];
  const rank = (table, v) => table ? table[v] : v;
  const inCorner = expected.edges.filter(([s, d]) => rank(relation.dstRank, d) < half[1] && rank(relation.srcRank, s) < half[3]);
  same("a_corner_is_counted_as_its_edges", page.count(r, half), inCorner.length);
}

function tokens_are_drawn() {
  if (!expected.edges || expected.scattered) return;
  page.set({ relation: r, mode: "tokens" });
  page.draw();
  const stages = page.data.program ? page.data.program.stages : [], down = stages.some((s) => s.message === 3 || s.message === 4 || s.message === 5);
  const there = new Map();
  for (const [s, d] of expected.edges) {
    const to = below(d), from = below(s);
    if (!whole(to) || !whole(from) || (d >= page.tokens && !down)) continue;
    for (const q of to) for (const k of from) there.set(q + " " + k, (there.get(q + " " + k) || 0) + 1);
  }
  const [q0, queries] = page.data.queries, [k0, keys] = page.data.keys;
  const rows = range(queries).map((i) => i + q0), columns = range(keys).map((i) => i + k0);
  cells_are_drawn("tokens_are_coloured_where_they_see_each_other", rows, columns, (q, k) => there.has(q + " " + k));
  const wrong = rows.flatMap((q) => columns.filter((k) => page.pair(r, q, k).length !== (there.get(q + " " + k) || 0)).map((k) => [q, k]));
  same("pairs_have_as_many_edges_as_by_brute_force", wrong.slice(0, 5), []);
}

function pointing_tells_the_edge() {
  if (!expected.edges) return;
  page.set({ relation: r, mode: "nodes" });
  page.draw();
  const [s, d, type] = expected.edges[expected.edges.length >> 1];
  const p = relation.dstRank ? relation.dstRank[d] : d, c = relation.srcRank ? relation.srcRank[s] : s;
  pointer("pointermove", page.where(p, c));
  fact("pointing_tells_type_and_weight", under.textContent.includes("type " + type + ", weight "), under.textContent);
  const name = s < page.tokens ? "\u2190 token " : "\u2190 node " + s + " (level ";
  fact("pointing_tells_the_source_and_its_level", under.textContent.includes(name) || page.data.queries[1] !== page.tokens, under.textContent);
}

function clicking_shows_the_reach() {
  page.set({ relation: r, mode: "tokens" });
  page.draw();
  const q = page.data.queries[0] + (page.data.queries[1] >> 1);
  click(page.where(q, page.data.keys[0]));
  if (expected.edges) same("a_click_chooses_the_rows_token", page.state().selected, q);
  const layers = reach.textContent.includes("layer 1: ") && reach.querySelector("canvas") !== null;
  fact("a_click_shows_layers_or_says_why_not", page.data.program ? layers : reach.textContent.includes("no program"), reach.textContent);
  for (const [token, layer, n] of expected.reach) {
    const layers = page.reach(token, layer).layers;
    const last = layers[Math.min(layer, layers.length) - 1];
    same("token_" + token + "_reaches_" + n + "_in_layer_" + layer, last && last.n, n);
  }
}

function links_are_drawn_when_few() {
  const few = expected.n_edges <= 2000 && page.nodes <= 4000;
  page.set({ relation: r, mode: "links" });
  page.draw();
  same("links_are_drawn_only_when_few", page.state().mode, few ? "links" : "nodes");
  if (!few) return;
  same("every_link_is_drawn", page.drawn.edges, expected.n_edges);
  same("every_node_is_drawn", page.drawn.nodes, page.nodes);
  const box = canvas.getBoundingClientRect(), inside = ([x, y]) => x >= box.left && x <= box.right && y >= box.top && y <= box.bottom;
  same("and_on_the_canvas", [...Array(page.nodes).keys()].filter((v) => !inside(page.spot(v))), []);
  if (expected.together) {
    const apart = (u, v) => Math.hypot(...page.spot(u).map((x, i) => x - page.spot(v)[i])), [a, b] = expected.together;
    const mean = (some, others) => some.flatMap((u) => others.filter((v) => v !== u).map((v) => apart(u, v))).reduce((s, x, _, all) => s + x / all.length, 0);
    fact("what_belongs_together_is_near", 2 * Math.max(mean(a, a), mean(b, b)) < mean(a, b), [mean(a, a), mean(b, b), mean(a, b)]);
  }
  same("kinds_of_nodes_are_told", page.drawn.kinds, page.data.kinds ? page.data.kinds.names.length : undefined);
  click(page.spot(1));
  same("a_click_chooses_a_node", page.state().selected, 1);
}

function zooming_stays_inside() {
  page.set({ relation: r, mode: "nodes" });
  const before = page.state().eye;
  canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -900, clientX: 200, clientY: 200, bubbles: true, cancelable: true }));
  page.draw();
  fact("the_wheel_zooms", page.state().eye.x > before.x || before.x >= 46, page.state().eye);
  fact("a_part_has_no_more_edges_than_all", page.drawn.edges <= expected.n_edges, page.drawn.edges);
  document.getElementById("fit").click();
  same("fit_shows_everything_again", page.state().eye, before);
}

/* what query q pays key k in the page: its edges' attention, a node's shared out among its tokens */
const pays = (q, k) => page.pair(r, q, k).reduce((sum, e) => sum + page.attention(e, q).weight / below(e.source).length, 0);
function weights_are_the_engines() {
  if (!expected.paid) { same("without_weights_there_is_no_head_to_choose", [document.getElementById("weighing").hidden, document.getElementById("attended").hidden], [true, true]); return; }
  const n = page.tokens, heads = page.data.weights.heads, engines = (q, h, k) => expected.paid[(q * heads.length + h) * n + k];
  const differing = (got) => range(n).flatMap((q) => range(n).filter((k) => !(Math.abs(pays(q, k) - got(q, k)) < 2e-4)).map((k) => [q, k, pays(q, k), got(q, k)])).slice(0, 5);
  page.set({ relation: r, mode: "tokens" });
  same("the_mean_over_heads_is_the_engines", differing((q, k) => heads.reduce((sum, _, h) => sum + engines(q, h, k), 0) / heads.length), []);
  heads.forEach((head, h) => {
    page.setHead(head);
    same("head_" + head + "_is_the_engines", differing((q, k) => engines(q, h, k)), []);
  });
  page.draw();
  fact("every_weight_is_drawn", page.drawn.weights > 0 && page.drawn.weights <= page.data.weights.value.length, page.drawn);
  strong_cells_are_heavy_ones();
  fact("the_page_tells_what_strength_means", document.getElementById("strength").textContent.includes("full at "), document.getElementById("strength").textContent);
  pointer("pointermove", page.where(3, 5));
  fact("pointing_tells_the_attention_of_every_head", under.textContent.includes(", attention ") && heads.every((head) => under.textContent.includes(head + ": ")), under.textContent);
  page.select(3);
  const ranked = [...document.querySelectorAll("#attention b")].map((b) => Number(b.textContent));
  fact("a_chosen_token_tells_whom_it_attends_to_heaviest_first", ranked.length > 2 && ranked.every((w, i) => i === 0 || w <= ranked[i - 1]), ranked);
  const address = page.address();
  page.setHead(-1);
  page.goTo(address);
  same("the_address_keeps_the_head", page.state().head, heads[heads.length - 1]);
  page.set({ mode: "links" });
  page.draw();
  fact("links_are_as_wide_as_they_weigh", page.state().mode !== "links" || page.drawn.weights > 0, page.drawn);
  document.getElementById("weighs").click();
  page.set({ mode: "tokens" });
  page.draw();
  same("switched_off_they_are_not_drawn", page.drawn.weights, 0);
}
/* of two cells of one level, the one that is paid much more is further from the page's colour */
function strong_cells_are_heavy_ones() {
  const apart = (q, k) => page.paper().reduce((sum, c, i) => sum + Math.abs(c - page.pixel(q, k)[i]), 0), wrong = [];
  for (let q = 0; q < page.tokens; q++) {
    const plain = range(page.tokens).filter((k) => page.pair(r, q, k).length === 1 && page.pair(r, q, k)[0].source === k && page.pair(r, q, k)[0].destination === q);
    for (const a of plain) for (const b of plain) if (pays(q, a) > 2 * pays(q, b) && apart(q, a) <= apart(q, b)) wrong.push([q, a, b]);
  }
  same("heavy_cells_are_strong_cells", wrong.slice(0, 3), []);
}

function levels_tell_their_tokens() {
  const l = page.levels.length - 1, first = page.nodes - page.levels[l], sizes = range(page.levels[l]).map((i) => below(first + i).length);
  if (!expected.edges || expected.scattered || l === 0) return;
  const least = Math.min(...sizes), most = Math.max(...sizes), want = most === 0 ? "-" : (least < most ? least + " to " : "") + most;
  same("a_level_tells_how_many_tokens_its_nodes_stand_for", page.tokensEach(l), want);
}

function playing_steps_through_the_program() {
  const button = document.getElementById("play");
  if (!page.data.program) { same("without_a_program_nothing_plays", button.disabled, true); return; }
  button.click();
  same("play_begins_with_the_first_stage", page.state().playing, 0);
  fact("play_tells_the_stage", document.getElementById("step").textContent.includes(page.data.program.stages[0].name), document.getElementById("step").textContent);
  button.click();
  document.getElementById("next").click();
  same("next_goes_on", page.state().playing, Math.min(1, page.steps.length - 1));
  document.getElementById("leave").click();
  same("leaving_shows_the_relation_again", [page.state().playing, document.getElementById("steps").hidden], [-1, true]);
}

function search_finds_nodes() {
  const field = document.getElementById("search");
  field.value = "2";
  field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
  fact("a_number_finds_its_node", page.state().hits.includes(2), page.state().hits.slice(0, 5));
  const names = page.data.names ? page.data.names.text : [];
  if (names.length) {
    page.search(names[0]);
    fact("a_name_finds_its_node", page.state().hits.length > 0 && page.called(page.state().hits[0]).includes(names[0]), page.state().hits);
  }
  same("what_is_not_there_is_not_found", page.search("no such name"), 0);
}

function toggles_hide_levels() {
  page.set({ relation: r, mode: "nodes" });
  const box = document.querySelector("[data-level='0']"), paint = () => { page.draw(); return page.drawn.rectangles; }, all = paint();
  for (const b of document.querySelectorAll("[data-level]")) b.click();
  same("hidden_levels_are_not_drawn", paint(), 0);
  for (const b of document.querySelectorAll("[data-level]")) b.click();
  same("shown_again_they_are", [paint(), box.checked], [all, true]);
}

function the_address_brings_the_view_back() {
  page.set({ relation: r, mode: "tokens" });
  page.select(page.data.queries[0]);
  const address = page.address();
  page.set({ mode: "nodes" });
  page.goTo(address);
  same("the_address_brings_the_view_back", [page.state().mode, page.state().selected, page.address()], ["tokens", page.data.queries[0], address]);
}

function what_is_seen_is_svg() {
  page.set({ relation: r, mode: "nodes" });
  const drawing = new DOMParser().parseFromString(page.svg(), "image/svg+xml");
  fact("the_svg_is_well_formed", drawing.querySelector("parsererror") === null, drawing.documentElement.textContent.slice(0, 200));
  fact("the_svg_has_what_is_seen", drawing.querySelectorAll("rect, image").length > 1, drawing.querySelectorAll("*").length);
}

try {
  same("the_page_is_ready", page.ready, true);
  findChildren();
  weights_are_the_engines();
  edges_are_the_engines();
  nodes_are_drawn();
  tokens_are_drawn();
  pointing_tells_the_edge();
  clicking_shows_the_reach();
  links_are_drawn_when_few();
  zooming_stays_inside();
  levels_tell_their_tokens();
  playing_steps_through_the_program();
  search_finds_nodes();
  toggles_hide_levels();
  the_address_brings_the_view_back();
  what_is_seen_is_svg();
} catch (error) {
  fact("the_check_ran_to_its_end", false, String(error.stack));
}
verdict.textContent += "end\n";
document.body.append(verdict);
}());
