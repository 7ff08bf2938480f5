// Puts the page together, and again when another rank or other times are chosen.
const runs = data.runs, compared = runs.length > 1;
const state = {rank: 0, source: undefined, whole: undefined};
const names = compared ? ["A", "B"] : [""];
const withTimeline = runs[0].ranks.filter((rank) => rank.timeline);
// Of two runs, one may have more ranks than the other, whose first then stands for those that it lacks.
const drawnRanks = [...new Set(runs.flatMap((run) => run.ranks.filter((r) => r.timeline).map((r) => r.rank)))];
const rankOf = (run) => run.ranks.find((r) => r.rank === state.rank) ?? run.ranks[0];
const arenasOf = (rank) => [known(rank).arena, known(rank).host_arena, known(rank).disk];
const sourceNames = {measured: "measured", predicted: "predicted", both: "both"};

// Buttons; of many, a list.
const mostButtons = 4;
function choice(box, options, chosen, choose) {
  const isList = options.length > mostButtons;
  box.classList.toggle("choice", !isList);
  if (isList) {
    const list = element("select", {"aria-label": box.getAttribute("aria-label")}, ...options.map(([value, name]) =>
      element("option", {value, selected: value === chosen}, name)));
    list.addEventListener("change", () => choose(options[list.selectedIndex][0]));
    return replace(box, list);
  }
  replace(box, ...(options.length < 2 ? [] : options.map(([value, name]) => {
    const made = element("button", {role: "radio", "aria-checked": String(value === chosen)}, name);
    made.addEventListener("click", () => choose(value));
    return made;
  })));
}

const aboutOf = (run) => {
  const {run: about, step, measured} = run.ranks[0];
  const steps = step.steps ? `${grouped(step.steps)} steps measured`
              : measured ? "no training step" : data.live ? "" : "nothing measured: an estimate";
  return [about.model.replace(/\d{5,}/, grouped), about.checkpointing, about.layout, about.batch, steps].filter(Boolean);
};

// Of two runs: what they have in common once, and of each the rest.
function showHead() {
  const described = runs.map((run) => run.ranks[0].run.name), abouts = runs.map(aboutOf);
  const common = (part) => compared && abouts[1].includes(part);
  document.title = `Recollect report · ${described.join(" and ")}`;
  byId("title").textContent = compared ? described.map((name, i) => `${names[i]}: ${name}`).join("  ·  ") : described[0];
  const began = runs.map((run) => run.ranks[0].began).filter((seconds) => seconds > 0);
  byId("when").textContent = began.map(dateText).join(" and ");
  const line = (parts, name) =>
    parts.length ? element("p", {}, name ? element("b", {}, `${name}: `) : null, parts.join("; ")) : null;
  replace(byId("subtitle"), ...(compared
    ? [line(abouts[0].filter(common)), ...abouts.map((parts, i) => line(parts.filter((part) => !abouts[1 - i].includes(part)), names[i]))]
    : [line(abouts[0].slice(0, 2)), line(abouts[0].slice(2))]));
}

function shownSteps() {
  const panel = (run, i, source) => {
    const rank = rankOf(run), step = stepOf(rank.timeline, source);
    if (!step) return null;
    const many = rank.profile?.recorded_steps > 1 ? `, medians of ${rank.profile.recorded_steps} steps` : "";
    const what = source === "measured" ? `step ${rank.timeline.step} as measured${many}`
                                       : `a step as predicted by ${ratesOf(rank.step)}`;
    return {title: compared ? `${names[i]}: ${rank.run.checkpointing}` : what, step, arenas: arenasOf(rank),
            note: compared ? `rank ${rank.rank}, ${what}` : state.source === "both" ? `rank ${rank.rank}` : undefined};
  };
  const sources = state.source === "both" ? ["measured", "predicted"] : [state.source];
  return runs.flatMap((run, i) => sources.map((source) => panel(run, i, source))).filter(Boolean);
}

function showPeaks() {
  const {timeline} = rankOf(runs[0]);
  if (!timeline || compared) return replace(byId("peaks"));
  const program = programs[timeline.program];
  const peaks = curvePeaks(program).map((peak, p) => ({...peak, phase: phases[p]})).filter(({op}) => op >= 0);
  replace(byId("peaks"), "Peaks of the curve: ", ...peaks.flatMap(({bytes, op, phase}, i) => [
    i ? " · " : "", element("span", {"data-key": `curve/${phase}`, "data-bytes": bytes},
                            `${phase} ${bytesText(bytes)} in ${program.ops.name[op]}`)]));
}

function showMultiples() {
  const ranks = withTimeline, source = ranks[0]?.timeline.measured === undefined ? "predicted" : "measured";
  const most = Math.max(...ranks.map((r) => known(r).arena)), steps = ranks.map((r) => stepOf(r.timeline, source));
  const longest = Math.max(...steps.map((step) => step.length));
  replace(byId("multiples"), ...(compared || ranks.length < 2 ? [] : ranks.map((r, i) => {
    const canvas = element("canvas", {"aria-hidden": "true"});
    const words = `${bytesText(known(r).peak)} · waits ${msText(1e3 * waitsOf(r))}`;
    const chosen = {class: "multiple", role: "radio", "aria-checked": String(r.rank === state.rank)};
    const made = element("button", chosen, canvas, element("span", {}, element("b", {}, `rank ${r.rank}`), words));
    made.addEventListener("click", () => choose({rank: r.rank}));
    requestAnimationFrame(() => drawMultiple(canvas, steps[i], longest, most));
    return made;
  })));
}

// A rank in small: its memory, and beneath it the moments in which the compute stream waits.
function drawMultiple(canvas, step, longest, most) {
  const width = canvas.clientWidth, pen = prepare(canvas, width, 62), x = (t) => (t / longest) * width;
  const base = state.whole ? step.program.persistent.map(() => 0) : step.program.persistent;
  drawSilhouette(pen, step, {x, y: 0, height: 50, most: most - rowSum(base, 0), base});
  const lane = step.lanes[computeStream];
  pen.fillStyle = palette.faint;
  pen.fillRect(0, 54, width, 6);
  pen.fillStyle = palette.wait;
  lane.t0.forEach((t, i) => lane.wait[i] > 0 && pen.fillRect(x(t - lane.wait[i]), 54, Math.max(0.4, x(lane.wait[i])), 6));
  for (const {t0, t1} of step.joins) pen.fillRect(x(t0), 54, x(t1 - t0), 6);
}

function showTables() {
  const [rank] = runs.map(rankOf);
  const columns = compared
    ? runs.map((run, i) => ({name: names[i], path: names[i], ledger: known(rankOf(run))}))
    : [{name: "predicted", path: "predicted", ledger: rank.predicted},
       ...(rank.measured ? [{name: "measured", path: "measured", ledger: rank.measured}] : [])];
  const alike = memoryTable(columns, !compared);
  byId("memory-table").dataset.rank = rank.rank;
  const all = rank.ranks > runs[0].ranks.length ? `, as each of ${rank.ranks}` : "";
  byId("memory-note").textContent = (compared ? "" : `Rank ${rank.rank}${all}. `) +
    "Categories as they stand at the highest moment of each phase; every column sums to the arena." +
    (alike.length ? ` Alike in both, and left out: ${alike.join(", ")}.` : "");
  showProfile(runs.map((run, i) => ({label: names[i], rank: rankOf(run)})));
  switchesTable(runs.map((run, i) => ({label: names[i], rank: rankOf(run)})));
  ranksTables(runs.map((run, i) => (
    {name: names[i], path: compared ? `ranks-${names[i]}` : "ranks", ranks: run.ranks})));
}

function choose(change) {
  Object.assign(state, change);
  const sources = ["measured", "predicted"].filter((s) => runs.every((run) => rankOf(run).timeline?.[s] !== undefined));
  if (sources.length > 1 && !compared) sources.push("both");
  if (!sources.includes(state.source)) [state.source] = sources;
  choice(byId("sources"), sources.map((s) => [s, sourceNames[s]]), state.source, (source) => choose({source, chosen: true}));
  const ranks = drawnRanks.map((rank) => [rank, `rank ${rank}`]);
  choice(byId("rank-choice"), ranks, state.rank, (rank) => choose({rank}));
  showHeadline();
  showFigures();
  showTables();
  showPeaks();
  byId("step-heading").closest("section").hidden = sources.length === 0;
  byId("step-heading").textContent = !sources.length || sources.includes("measured") ? "One step" : "One step, predicted";
  byId("step-heading").title = sources.includes("measured") ? "" : "no step of this run was timed op by op: profiling.step, or recollect profile";
  if (sources.length) {
    const steps = shownSteps();
    state.whole ??= !steps.every(({step, arenas}) => rowSum(step.program.persistent, 0) > 0.6 * arenas[0]);
    const extents = [[true, "all bytes"], [false, "what comes and goes"]];
    choice(byId("extents"), extents, state.whole, (whole) => choose({whole}));
    showPanels(steps, state.whole, compared);
    showLegend();
    showMultiples();
  }
  markCut();
}

// Whether a table goes on beyond its box, and whether there is more of it to the right.
function markCut() {
  for (const box of document.querySelectorAll(".wide")) {
    const beyond = box.scrollWidth - box.clientWidth;
    box.classList.toggle("scrolls", beyond > 2);
    box.classList.toggle("cut", beyond - box.scrollLeft > 2);
  }
}
addEventListener("scroll", markCut, {capture: true, passive: true});
addEventListener("resize", markCut);

readPalette();
state.rank = drawnRanks[0] ?? runs[0].ranks[0].rank;
showHead();
listenOnce();
showTraining();
Object.assign(state, keptState());
choose({});
restoreView();
showLive();
document.documentElement.dataset.ready = "yes";
