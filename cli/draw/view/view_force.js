/* Places of nodes without levels whose edges are listed: edges pull their ends together, all nodes push each other apart (Fruchterman and Reingold 1991). */

const isForced = nLevels === 1 && relations.some((r) => r.nExplicit > 0) && total((r) => r.nEdges) <= MOST_LINKS && nNodes <= 2 * MOST_LINKS;

/* [x, y] of every node, between 0 and 1. */
function pullTogether() {
  const n = nNodes, near = 1 / Math.sqrt(n), rounds = Math.max(40, Math.min(300, Math.floor(6e7 / (n * n))));
  const at = Array.from({ length: n }, (_, v) => [.5 * Math.sqrt((v + .5) / n) * Math.cos(2.399963 * v), .5 * Math.sqrt((v + .5) / n) * Math.sin(2.399963 * v)]);
  const links = relations.flatMap((r) => allEdges(r)).filter((e) => e.source !== e.destination);
  for (let round = 0; round < rounds; round++) {
    const push = at.map(([x, y]) => [-.4 * near * x, -.4 * near * y]); /* parts without edges stay near */
    for (let v = 1; v < n; v++) for (let u = 0; u < v; u++) {
      const dx = at[v][0] - at[u][0], dy = at[v][1] - at[u][1], f = near * near / (dx * dx + dy * dy + 1e-9);
      push[v][0] += f * dx, push[v][1] += f * dy, push[u][0] -= f * dx, push[u][1] -= f * dy;
    }
    for (const { source, destination } of links) {
      const dx = at[source][0] - at[destination][0], dy = at[source][1] - at[destination][1], f = Math.hypot(dx, dy) / near;
      push[source][0] -= f * dx, push[source][1] -= f * dy, push[destination][0] += f * dx, push[destination][1] += f * dy;
    }
    const step = .1 * (1 - round / rounds);
    push.forEach(([x, y], v) => {
      const f = Math.min(1, step / (Math.hypot(x, y) || 1));
      at[v][0] += f * x, at[v][1] += f * y;
    });
  }
  const side = (i) => { const all = at.map((p) => p[i]), least = Math.min(...all); return [least, Math.max(...all) - least || 1]; };
  const [x, wide] = side(0), [y, high] = side(1);
  return at.map((p) => [(p[0] - x) / wide, (p[1] - y) / high]);
}

/* Of thousands of nodes they take seconds: they are found when links are first drawn. null: levels are drawn. */
let pulled = null;
const forced = () => isForced ? pulled ||= pullTogether() : null;
