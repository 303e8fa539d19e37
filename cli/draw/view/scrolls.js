// What is wider than the screen says that it scrolls.
const sideways = document.querySelectorAll(".wide, .charts figure");
const markScrolling = () => { for (const e of sideways) e.classList.toggle("scrolls", e.scrollWidth > e.clientWidth + 1); };
addEventListener("resize", markScrolling);
markScrolling();
