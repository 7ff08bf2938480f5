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

function choice(box, options, chosen, choose) {
  replace(box, ...(options.length < 2 ? [] : options.map(([value, name]) => {
    const made = element("button", {role: "radio", "aria-checked": String(value === chosen)}, name);
    made.addEventListener("click", () => choose(value));
    return made;
  })));
}

function showHead() {
  const [first] = runs[0].ranks;
  const title = (run) => run.ranks[0].run.checkpointing;
  document.title = `Recollect report · ${runs.map((run) => run.ranks[0].run.name).join(" and ")}`;
  byId("title").textContent = compared
    ? `A: ${title(runs[0])}  ·  B: ${title(runs[1])}` : first.run.model.replace(/\d{5,}/, grouped);
  replace(byId("subtitle"), ...runs.map((run, i) => {
    const {run: about, step, measured} = run.ranks[0];
    const steps = step.steps ? `${step.steps} steps measured`
                : measured ? "no training step" : "nothing measured: an estimate";
    const head = compared ? `${names[i]} is ${about.name}, ${about.model}` : about.checkpointing;
    return element("span", {}, `${head}; ${about.layout}; ${about.batch}; ${steps}`);
  }));
}

function figure(name, number, unit, note) {
  return element("dl", {class: compared ? "figure two" : "figure"}, element("dt", {}, name),
                 element("dd", {}, number, unit ? element("small", {}, unit) : null), element("p", {}, note));
}

const share = (part, whole) => (whole > 0 ? `${((100 * part) / whole).toFixed(1)} %` : "");
function change(a, b) {
  if (a === b) return "no change";
  return a > 0 ? `${b > a ? "+" : "−"}${Math.abs((100 * (b - a)) / a).toFixed(1)} %` : "new in B";
}

function bytesFigure(name, of, note) {
  const bytes = runs.map((run) => of(rankOf(run))), unit = unitFor(Math.max(...bytes));
  if (Math.max(...bytes) === 0) return null;
  return figure(name, bytes.map((b) => inUnit(b, unit)).join(" → "), unit.name,
                compared ? change(...bytes) : note(rankOf(runs[0])));
}

function timeFigure(name, of, note) {
  const ms = runs.map((run) => 1e3 * of(rankOf(run)));
  return figure(name, ms.map((t) => msText(t)).join(" → "), "", compared ? change(...ms) : note(rankOf(runs[0])));
}

function showFigures() {
  const measured = runs.every((run) => rankOf(run).step.steps > 0), times = measured ? "measured" : "predicted";
  const exact = (r) => {
    if (!r.measured) return "predicted; nothing is allocated yet";
    const off = r.measured.arena - r.predicted.arena;
    return off === 0 ? "predicted to the byte" : `${grouped(off)} bytes from what was predicted`;
  };
  const unused = (r) => known(r).unused_at_peak
    ? `${bytesText(known(r).unused_at_peak)} of it not in use at the peak` : "all of it in use at the peak";
  replace(byId("figures"), ...[
    bytesFigure("Device memory at its peak", (r) => known(r).peak, exact),
    bytesFigure("Device arena", (r) => known(r).arena, unused),
    bytesFigure("Host memory", (r) => known(r).host_arena, () => "where saved activations wait"),
    bytesFigure("Disk", (r) => known(r).disk, () => "where saved activations wait"),
    timeFigure(measured ? "A step" : "A step, predicted", (r) => r.step[times].step, (r) =>
      measured ? `median of ${r.step.steps}; predicted ${msText(1e3 * r.step.predicted.step)} on ${r.step.device_model}`
               : `on ${r.step.device_model}`),
    timeFigure("Exposed waits", (r) => r.step[times].exposed, (r) =>
      `${share(r.step[times].exposed, r.step[times].step)} of a step` +
      (measured ? `; predicted ${msText(1e3 * r.step.predicted.exposed)}` : "")),
  ].filter(Boolean));
}

function shownSteps() {
  const panel = (run, i, source) => {
    const rank = rankOf(run), step = stepOf(rank.timeline, source);
    if (!step) return null;
    const what = source === "measured" ? `step ${rank.timeline.step} as measured`
                                       : `a step as predicted on ${rank.step.device_model}`;
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
  memoryTable(columns, !compared);
  byId("memory-table").dataset.rank = rank.rank;
  const all = rank.ranks > runs[0].ranks.length ? `, as each of ${rank.ranks}` : "";
  byId("memory-note").textContent = (compared ? "" : `Rank ${rank.rank}${all}. `) +
    "Categories as they stand at the highest moment of each phase; every column sums to the arena.";
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
  choice(byId("sources"), sources.map((s) => [s, sourceNames[s]]), state.source, (source) => choose({source}));
  const ranks = drawnRanks.map((rank) => [rank, `rank ${rank}`]);
  choice(byId("rank-choice"), ranks, state.rank, (rank) => choose({rank}));
  showFigures();
  showTables();
  showPeaks();
  byId("step-heading").closest("section").hidden = sources.length === 0;
  if (sources.length) {
    const steps = shownSteps();
    state.whole ??= !steps.every(({step, arenas}) => rowSum(step.program.persistent, 0) > 0.6 * arenas[0]);
    const extents = [[true, "all bytes"], [false, "what comes and goes"]];
    choice(byId("extents"), extents, state.whole, (whole) => choose({whole}));
    showPanels(steps, state.whole);
    showLegend();
    showMultiples();
  }
}

readPalette();
state.rank = drawnRanks[0] ?? runs[0].ranks[0].rank;
showHead();
listenOnce();
choose({});
document.documentElement.dataset.ready = "yes";
