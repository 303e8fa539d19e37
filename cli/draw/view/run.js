// Patterns tell what the pointer is at, and the viewer opens in the page.
const words = JSON.parse(document.getElementById("words").textContent);
const tip = document.getElementById("tip");

// Words first .. last of a cell, by name where the page has them.
function wordsOf(cell, cells, n) {
  const first = Math.floor((cell * n) / cells), last = Math.floor(((cell + 1) * n) / cells) - 1;
  const name = (i) => (i < words.length ? `\u201c${words[i]}\u201d` : `word ${i}`);
  return last > first ? `words ${first}\u2013${last}` : `${name(first)} (${first})`;
}

function tell(event) {
  const svg = event.currentTarget, box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal, n = +svg.dataset.words;
  const column = Math.min(view.width - 1, Math.floor(((event.clientX - box.left) / box.width) * view.width));
  const row = Math.min(view.height - 1, Math.floor(((event.clientY - box.top) / box.height) * view.height));
  if (column < 0 || row < 0) return;
  const at = document.elementsFromPoint(event.clientX, event.clientY).map((e) => /^level(\d+)$/.exec(e.getAttribute("class"))).find((e) => e);
  const seen = at ? `sees ${wordsOf(column, view.width, n)} at level ${at[1]}` : `does not see ${wordsOf(column, view.width, n)}`;
  tip.textContent = `${wordsOf(row, view.height, n)} ${seen}`;
  tip.hidden = false;
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : event.clientY + 18}px`;
}

for (const svg of document.querySelectorAll("svg.pattern")) {
  svg.addEventListener("pointermove", tell);
  svg.addEventListener("pointerdown", tell);
  svg.addEventListener("pointerleave", () => { tip.hidden = true; });
}

// The viewer, in this page so that the report stays one file. The address is #view=N, and after it where one is in the viewer.
const look = document.getElementById("look");
const inLook = () => /^#view=(\d+)(?:&(.*))?$/.exec(location.hash);
const escaped = (text) => text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);

// A place in the viewer's template, spelled so that it is none in the report's.
const place = (name) => "{".repeat(2) + name + "}".repeat(2);

function viewerOf(n) {
  const graph = JSON.parse(document.getElementById(`view${n}`).textContent), page = JSON.parse(document.getElementById("viewer").textContent);
  if (words.length) graph.names = { nodes: words.length > 1 ? [0, [1, words.length - 1]] : [0], text: words };
  const data = JSON.stringify(graph).replace(/</g, "\\u003c");
  return page.replaceAll(place("title"), () => escaped(graph.file)).replace(place("graph"), () => data);
}

function showLook() {
  const wanted = inLook(), n = wanted && wanted[1], old = look.querySelector("iframe");
  if (old && old.name === n) return;
  if (old) old.remove();
  const there = n !== null && document.getElementById(`view${n}`) !== null;
  look.hidden = !there;
  document.body.style.overflow = there ? "hidden" : "";
  if (!there) return;
  const frame = document.createElement("iframe");
  frame.name = n;
  frame.title = "The viewer";
  frame.srcdoc = viewerOf(n);
  look.append(frame);
  document.getElementById("leave").focus();
}
window.hgaAddressOf = () => { const at = inLook(); return (at && at[2]) || ""; };
window.hgaAddress = (name, now) => { if (inLook() && inLook()[1] === name) history.replaceState(null, "", `#view=${name}&${now}`); };
window.hgaChosen = () => {};

function leaveLook() {
  const at = inLook();
  if (at) location.hash = `#v${at[1]}`;
}
for (const hidden of document.querySelectorAll(".look")) hidden.hidden = false;
document.getElementById("leave").addEventListener("click", leaveLook);
addEventListener("keydown", (e) => { if (e.key === "Escape") leaveLook(); });
addEventListener("hashchange", showLook);
showLook();
