/* Play: the stages of the program one after the other, trees level by level. */

let playing = -1, ticking = 0, travel = 1, onlyLevel = -1;

/* [{stage, relation (an index of drawable), level or -1}] */
const steps = data.program ? data.program.stages.flatMap((s, i) => stepsOf(s, i)) : [];
function stepsOf(s, i) {
  const named = s.relation === TREE_UP ? "tree up" : "tree down", at = s.relation >= 0 ? s.relation : drawable.findIndex((r) => r.tree === named);
  if (at < 0) return [];
  if (s.relation >= 0) return [{ stage: i, relation: at, level: -1 }];
  const levels = data.levels.map((n, l) => l).filter((l) => s.relation === TREE_UP ? l > 0 : l < nLevels - 1);
  if (s.relation === TREE_DOWN) levels.reverse();
  return levels.map((l) => ({ stage: i, relation: at, level: l }));
}

const fieldName = (f) => f >= 0 && data.program.fields[f] ? data.program.fields[f].name : "values";
function sayStep(step) {
  const s = data.program.stages[step.stage], r = drawable[step.relation], what = fieldName(s.value), out = fieldName(s.out);
  const where = step.level < 0 ? "along " + r.name : s.relation === TREE_UP ? "level " + (step.level - 1) + " to level " + step.level : "level " + (step.level + 1) + " to level " + step.level;
  switch (s.message) {
  case MESSAGE.SCORE: return where + ": each destination scores the sources it sees and takes the softmax of their values" + (s.update === MERGES ? ", merged with what it has" : "") + ".";
  case MESSAGE.STATE: return where + ": softmax states go down and merge, largest score and all.";
  case MESSAGE.ENERGY: return where + ": energies of children are added up.";
  case MESSAGE.GATE: return where + ": each node hands its gated sum down.";
  case MESSAGE.USER: return where + ": a function of the user's own.";
  }
  return where + ": " + (s.reduce === MEANS ? "the mean" : "the sum") + (s.by_mass ? ", by mass," : "") + " of " + what + " becomes " + out + ".";
}
const MEANS = 0;

function takeStep(i) {
  playing = Math.max(-1, Math.min(i, steps.length - 1));
  const step = steps[playing];
  onlyLevel = step ? step.level : -1;
  byId("steps").hidden = !step;
  if (!step) { set({ relation: mainRelation() }); return; }
  byId("step").textContent = (playing + 1) + " of " + steps.length + ". " + data.program.stages[step.stage].name;
  byId("told").textContent = sayStep(step);
  set({ relation: step.relation, mode: canLink(drawable[step.relation]) ? "links" : "nodes", step: true });
  moveAlong();
}
/* dots travel along the links, from where the values come to where they go */
function moveAlong() {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches || mode !== "links") { travel = 1; redraw(); return; }
  const start = performance.now(), mine = playing;
  const frame = (now) => {
    if (mine !== playing) return;
    travel = Math.max(0, Math.min(1, (now - start) / 1100));
    draw();
    if (travel < 1) requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}
function play() {
  if (ticking) { stop(); return; }
  if (!steps.length) return;
  takeStep(playing + 1 < steps.length ? playing + 1 : 0);
  ticking = setInterval(() => { if (playing + 1 < steps.length) takeStep(playing + 1); else stop(); }, 1900);
  showPlay();
}
function stop() {
  clearInterval(ticking);
  ticking = 0;
  showPlay();
}
function showPlay() {
  byId("play").textContent = ticking ? "Pause" : "Play";
  byId("play").setAttribute("aria-pressed", String(ticking !== 0));
}
function listenToPlay() {
  byId("play").disabled = !steps.length;
  byId("play").title = steps.length ? "The program's stages, one after the other" : "The graph has no program to play";
  byId("play").addEventListener("click", play);
  byId("back").addEventListener("click", () => { stop(); takeStep(Math.max(0, playing - 1)); });
  byId("next").addEventListener("click", () => { stop(); takeStep(Math.min(steps.length - 1, playing + 1)); });
  byId("leave").addEventListener("click", () => { stop(); takeStep(-1); });
}
