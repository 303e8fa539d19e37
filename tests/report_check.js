/* Facts about the report of `hga run`, checked inside it as view_check.js does for the viewer: it clicks through tables, patterns and the viewer that
   the page carries along. Each fact becomes a line of the element `verdict`. */
"use strict";
(async function () {
const verdict = document.createElement("pre");
verdict.id = "verdict";
const fact = (name, holds, detail) => { verdict.textContent += (holds ? "true  " + name : "FALSE " + name + ": " + JSON.stringify(detail)) + "\n"; };
const same = (name, got, want) => fact(name, JSON.stringify(got) === JSON.stringify(want), { got, want });
const soon = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const until = async (holds) => { for (let i = 0; i < 100 && !holds(); i++) await soon(20); };

function a_click_on_a_heading_sorts() {
  const table = document.querySelector("main table"), headings = [...table.tHead.rows[0].cells], at = headings.findIndex((h) => h.textContent === "ms");
  const column = () => [...table.tBodies[0].rows].map((row) => parseFloat(row.cells[at].textContent)), before = column();
  headings[at].click();
  same("a_click_sorts_upwards", [column(), headings[at].getAttribute("aria-sort")], [[...before].sort((x, y) => x - y), "ascending"]);
  headings[at].click();
  same("another_click_downwards", column(), [...before].sort((x, y) => y - x));
  headings[0].dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
  const names = [...table.tBodies[0].rows].map((row) => row.cells[0].textContent);
  same("the_keyboard_sorts_names", names, [...names].sort((x, y) => x.localeCompare(y)));
  same("only_one_column_says_so", headings.map((h) => h.getAttribute("aria-sort")).filter((x) => x).length, 1);
}

/* the middle of cell (row, column) of a pattern */
function point(svg, row, column) {
  svg.scrollIntoView({ block: "center" });
  const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
  svg.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + (column + .5) / view.width * box.width, clientY: box.top + (row + .5) / view.height * box.height, bubbles: true }));
  return document.getElementById("tip").textContent;
}
function pointing_tells_the_words() {
  const section = [...document.querySelectorAll("section.case")].find((s) => s.querySelector("h3").textContent.startsWith("dense causal=1")), svg = section.querySelectorAll("svg.pattern")[1];
  const word = (i) => "\u201c" + words[i] + "\u201d (" + i + ")";
  same("pointing_tells_what_is_seen", point(svg, 4, 2), word(4) + " sees " + word(2) + " at level 0");
  same("and_what_is_not", point(svg, 2, 4), word(2) + " does not see " + word(4));
  same("the_tip_is_shown", document.getElementById("tip").hidden, false);
  svg.dispatchEvent(new PointerEvent("pointerleave"));
  same("and_goes", document.getElementById("tip").hidden, true);
}

async function every_link_opens_its_variant() {
  const links = [...document.querySelectorAll("a.look")], look = document.getElementById("look");
  same("every_variant_has_a_link", links.length, document.querySelectorAll("section.case").length);
  fact("links_are_shown", links.every((a) => !a.hidden && a.getBoundingClientRect().width > 0), "");
  for (const [i, link] of links.entries()) {
    const called = link.closest("h3").textContent.replace("look around", "").replace(/\s+/g, " ").trim();
    link.click();
    await until(() => look.querySelector("iframe") && look.querySelector("iframe").name === String(i));
    const frame = look.querySelector("iframe"), page = () => frame.contentWindow.hga;
    await until(() => frame && page() && page().ready);
    if (!frame || !page() || !page().ready) { fact("the_viewer_of_" + i + "_is_ready", false, called); continue; }
    fact("the_link_of_" + i + "_opens_its_viewer", !look.hidden && page().data.file === called && page().tokens === words.length, [page().data.file, called]);
    same("tokens_of_" + i + "_are_the_texts_words", [page().called(0), page().called(words.length - 1)], [words[0], words[words.length - 1]]);
    if (i !== 2) continue;
    page().set({ mode: "tokens" });
    page().select(3);
    await until(() => location.hash.includes("token=3"));
    fact("the_address_says_where_one_is", location.hash.startsWith("#view=2&") && location.hash.includes("mode=tokens") && location.hash.includes("token=3"), location.hash);
  }
  document.getElementById("leave").click();
  await until(() => look.hidden);
  same("one_comes_back_to_the_variant", [look.hidden, look.querySelector("iframe"), location.hash], [true, null, "#v" + (links.length - 1)]);
  location.hash = "#view=2&mode=nodes&token=4";
  await until(() => look.querySelector("iframe") && look.querySelector("iframe").contentWindow.hga && look.querySelector("iframe").contentWindow.hga.ready);
  const state = look.querySelector("iframe").contentWindow.hga.state();
  same("an_address_opens_the_viewer_there", [state.mode, state.selected], ["nodes", 4]);
  dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
  await until(() => look.hidden);
  same("escape_leaves", look.hidden, true);
  location.hash = "#view=999";
  await soon(60);
  same("what_is_not_there_opens_nothing", look.hidden, true);
}

try {
  a_click_on_a_heading_sorts();
  pointing_tells_the_words();
  await every_link_opens_its_variant();
} catch (error) {
  fact("the_check_ran_to_its_end", false, String(error.stack));
}
verdict.textContent += "end\n";
document.body.append(verdict);
}());
