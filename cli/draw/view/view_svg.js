/* What is seen, as SVG: the same drawing with a pen that writes in place of the canvas's. */

const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const MOST_RECTANGLES = 50000;

/* Knows what the drawing uses of a canvas's context, no more. */
class SvgPen {
  constructor() {
    this.out = [], this.way = "", this.shift = "", this.dash = [];
    this.fillStyle = this.strokeStyle = "#000", this.lineWidth = 1, this.globalAlpha = 1, this.font = "11px sans-serif", this.textAlign = "start", this.textBaseline = "alphabetic";
  }
  save() {}
  restore() { this.shift = ""; }
  scale() {}
  translate(x, y) { this.shift = ` transform="translate(${round(x)} ${round(y)})`; }
  rotate(a) { this.shift = this.shift ? this.shift.replace(/\)$/, `) rotate(${round(a * 180 / Math.PI)})"`) : ""; }
  setLineDash(dash) { this.dash = dash; }
  beginPath() { this.way = ""; }
  moveTo(x, y) { this.way += `M${round(x)} ${round(y)}`; }
  lineTo(x, y) { this.way += `L${round(x)} ${round(y)}`; }
  quadraticCurveTo(a, b, x, y) { this.way += `Q${round(a)} ${round(b)} ${round(x)} ${round(y)}`; }
  arc(x, y, r) { this.way += `M${round(x - r)} ${round(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`; }
  stroke() {
    if (this.way) this.out.push(`<path d="${this.way}" fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}" opacity="${this.globalAlpha}"${this.dash.length ? ` stroke-dasharray="${this.dash}"` : ""}/>`);
  }
  fill() { this.out.push(`<path d="${this.way}" fill="${this.fillStyle}" opacity="${this.globalAlpha}"/>`); }
  strokeRect(x, y, w, h) { this.out.push(`<rect x="${round(x)}" y="${round(y)}" width="${round(w)}" height="${round(h)}" fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}"/>`); }
  fillRect(x, y, w, h) { this.out.push(`<rect x="${round(x)}" y="${round(y)}" width="${round(w)}" height="${round(h)}" fill="${this.fillStyle}" opacity="${round(this.globalAlpha)}"/>`); }
  measureText(text) { return real.measureText(text); }
  strokeText(text, x, y) { this.fillText(text, x, y, ` stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}"`); }
  fillText(text, x, y, more = "") {
    const anchor = { center: "middle", right: "end" }[this.textAlign] || "start", down = this.textBaseline === "middle" ? 4 : 0;
    this.out.push(`<text x="${round(x)}" y="${round(y + down)}" text-anchor="${anchor}" font-size="11" fill="${this.fillStyle}"${this.shift}${more}>${escaped(text)}</text>`);
  }
}

/* The matrix's rectangles, unless they are too many: then its pixels. */
function putRectangles(pen, list) {
  if (list.length > MOST_RECTANGLES) {
    pen.out.push(`<image x="0" y="0" width="${canvas.clientWidth}" height="${canvas.clientHeight}" href="${canvas.toDataURL("image/png")}"/>`);
    return;
  }
  pen.out.push('<g shape-rendering="crispEdges">');
  for (const [x, y, w, h, level, share] of list) {
    pen.fillStyle = colourOf(level);
    pen.globalAlpha = Math.max(faintest(), Math.min(1, share));
    pen.fillRect(LEFT + x / ratio, TOP + y / ratio, w / ratio, h / ratio);
  }
  pen.globalAlpha = 1;
  pen.out.push("</g>");
}

function asSvg() {
  const pen = new SvgPen(), w = canvas.clientWidth, h = canvas.clientHeight;
  pen.out.push(`<rect width="${w}" height="${h}" fill="${styleColour("--paper")}"/>`);
  recorded = [];
  ink = pen;
  try { draw(); } finally { ink = real; recorded = null; }
  draw();
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${w} ${h}" width="${w}" height="${h}" font-family="system-ui, DejaVu Sans, sans-serif">\n<title>${escaped(document.title)}</title>\n${pen.out.join("\n")}\n</svg>\n`;
}
function saveSvg() {
  const link = element("a"), url = URL.createObjectURL(new Blob([asSvg()], { type: "image/svg+xml" }));
  link.href = url;
  link.download = document.title.replace(/ - hga view$/, "").replace(/[^\w.-]+/g, "_") + ".svg";
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
