"use strict";
// What a report says it says without this: here a click on a heading sorts its table.
function valueOf(cell) {
  const number = parseFloat(cell.textContent);
  return Number.isNaN(number) ? cell.textContent : number;
}

function before(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b));
}

// First click: ascending; the next: descending. Equal rows keep their order.
function sortBy(heading) {
  const table = heading.closest("table"), body = table.tBodies[0], column = heading.cellIndex;
  const down = heading.getAttribute("aria-sort") === "ascending";
  const rows = [...body.rows].sort((x, y) => (down ? -1 : 1) * before(valueOf(x.cells[column]), valueOf(y.cells[column])));
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  body.append(...rows);
}

for (const heading of document.querySelectorAll("thead th")) {
  heading.tabIndex = 0;
  heading.addEventListener("click", () => sortBy(heading));
  heading.addEventListener("keydown", (e) => {
    if (e.key === "Enter" || e.key === " ") { e.preventDefault(); sortBy(heading); }
  });
}

// What is wider than the screen says that it scrolls.
const sideways = document.querySelectorAll(".wide, .charts figure");
const markScrolling = () => { for (const e of sideways) e.classList.toggle("scrolls", e.scrollWidth > e.clientWidth + 1); };
for (const event of ["resize", "change"]) addEventListener(event, markScrolling);
markScrolling();
