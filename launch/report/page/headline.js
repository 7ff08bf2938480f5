// In short: what the run has saved and what that cost, in a sentence and a few numbers.
const share = (part, whole) => (whole > 0 ? `${((100 * part) / whole).toFixed(1)} %` : "");
// "−67.8 %" and "+9 %"; undefined where neither is a change that one would speak of.
function percent(from, to, digits) {
  if (!(from > 0)) return undefined;
  const by = (100 * (to - from)) / from, size = Math.abs(by).toFixed(digits);
  return Number(size) === 0 ? undefined : `${by > 0 ? "+" : "−"}${size} %`;
}
function change(a, b) {
  if (a === b) return "no change";
  return a > 0 ? percent(a, b, 1) ?? "no change" : "new in B";
}
function savings(from, to, time = "") {
  const words = (key) => percent(from[key], to[key], to[key] > 10 * from[key] ? 0 : 1) ?? "the same";
  return `${words("peak")} arena, ${time}${words("step")} time`;
}

const measuredIn = (list) => list.every((rank) => rank.step.steps > 0);
const stepSeconds = (rank, measured) => rank.step[measured ? "measured" : "predicted"].step;
// The first rank has planned what mode none would take.
const noneOf = (run) => run.ranks.find((rank) => rank.mode_none)?.mode_none;

function showHeadline() {
  const ranks = runs.map(rankOf), measured = measuredIn(ranks), none = noneOf(runs[0]);
  const both = (a, b) => {
    const unit = unitFor(Math.max(a, b));
    return `${inUnit(a, unit)} → ${inUnit(b, unit)} ${unit.name}`;
  };
  const say = (words, note) => replace(byId("headline"), words, note ? element("small", {}, note) : null);
  if (compared) {
    const [a, b] = ranks.map((rank) => ({peak: known(rank).peak, step: stepSeconds(rank, measured)}));
    return say(`B against A: ${savings(a, b)}`, `${both(a.peak, b.peak)} of the arena at its peak; ` +
      `a step ${msText(1e3 * a.step)} → ${msText(1e3 * b.step)}, ${measured ? "measured" : "predicted"}`);
  }
  const [rank] = ranks, {peak} = known(rank), seconds = stepSeconds(rank, measured);
  const ratio = measured ? ratioOf(seconds, rank.step.predicted.step) : null;
  const told = tellsTimes(rank.step);
  if (none && none.peak > 0 && none.step > 0 && (!told || isFarOff(ratio)))  // what is predicted of its time says nothing
    return say(`${percent(none.peak, peak, 1) ?? "the same"} arena against mode none`,
               `${both(none.peak, peak)} of the arena at its peak. Times are not compared: ` +
               (told ? `a step took ${msText(1e3 * seconds)}, ${ratioText(ratio)} what ${ratesOf(rank.step)} predicts`
                     : "the rates of this machine are not known"));
  if (none && none.peak > 0 && none.step > 0)
    return say(`${savings(none, {peak, step: none.with_step}, "predicted ")} against mode none`,
               `${both(none.peak, peak)} of the arena at its peak; a step ${msText(1e3 * none.step)} → ` +
               `${msText(1e3 * none.with_step)}, both as predicted by ${ratesOf(rank.step)}` +
               (measured ? `; measured, with checkpointing: ${msText(1e3 * seconds)}` : ""));
  say(`An arena of ${bytesText(peak)}${seconds > 0 ? `, ${msText(1e3 * seconds)} a step` : ""}${measured ? "" : ", predicted"}`);
}

function figure(name, number, unit, ...note) {
  return element("dl", {class: compared ? "figure two" : "figure"}, element("dt", {}, name),
                 element("dd", {}, number, unit ? element("small", {}, unit) : null), element("p", {}, ...note));
}

function bytesFigure(name, of, note) {
  const bytes = runs.map((run) => of(rankOf(run))), unit = unitFor(Math.max(...bytes));
  if (Math.max(...bytes) === 0) return null;
  return figure(name, bytes.map((b) => inUnit(b, unit)).join(" → "), unit.name,
                compared ? change(...bytes) : note(rankOf(runs[0])));
}

function timeFigure(name, of, note) {
  const ms = runs.map((run) => 1e3 * of(rankOf(run))), words = ms.map(msText);
  const difference = words[0] === words.at(-1) ? "no change" : change(...ms);
  return figure(name, words.join(" → "), "", ...(compared ? [difference] : note(rankOf(runs[0]))));
}

// "1.52× what was predicted", marked where that is far from it.
function ratioMark(measured, predicted) {
  const ratio = ratioOf(measured, predicted);
  return ratio === null ? null : element("span", {class: isFarOff(ratio) ? "off" : undefined, "data-ratio": ratio}, ratioText(ratio));
}

function exactness(rank) {
  if (!rank.measured) return "predicted; nothing is allocated yet";
  const off = rank.measured.arena - rank.predicted.arena, unused = rank.measured.unused_at_peak;
  const words = off === 0 ? "predicted to the byte" : `${grouped(off)} bytes from what was predicted`;
  const process = rank.resident?.measured ? `; all that the process took: ${bytesText(rank.resident.measured)}` : "";
  return words + (unused ? `; ${bytesText(unused)} of the arena not in use then` : "") + process;
}

// Of the steps in which the run had found its speed, the middle one.
function tokensFigure() {
  const speeds = runs.map((run) => curveOf(run, "tokens_per_second")?.mean);
  if (!speeds.every((list) => list?.length)) return null;
  const middle = speeds.map((list) => medianOf(list.slice(Math.min(2, list.length - 1))));
  return figure("Tokens per second", middle.map((n) => grouped(Math.round(n))).join(" → "), "",
                compared ? change(...middle) : "median of the steps");
}

function lossFigure() {
  const last = (run, key) => curveOf(run, key)?.mean.at(-1), losses = runs.map((run) => last(run, "loss"));
  if (losses.some((loss) => loss === undefined)) return null;
  const {max_steps: all} = runs[0].ranks[0], evaluated = last(runs[0], "eval_loss");
  const steps = all ? `step ${grouped(runs[0].training.step)} of ${grouped(all)}` : `step ${grouped(runs[0].training.step)}`;
  return figure("Loss", losses.map(numberText).join(" → "), "",
                compared ? `of step ${runs.map((run) => grouped(run.training.step)).join(" and ")}`
                         : steps + (evaluated === undefined ? "" : `; evaluation ${numberText(evaluated)}`));
}

function showFigures() {
  const measured = measuredIn(runs.map(rankOf)), times = measured ? "measured" : "predicted";
  const predicted = (r, key) => (measured && tellsTimes(r.step) ? [`predicted ${msText(1e3 * r.step.predicted[key])}`] : []);
  replace(byId("figures"), ...[
    lossFigure(),
    tokensFigure(),
    timeFigure(measured ? "A step" : "A step, predicted", (r) => r.step[times].step, (r) => measured
      ? [`median of ${r.step.steps}`, ...(tellsTimes(r.step) ? ["; ", ...predicted(r, "step"), ` by ${ratesOf(r.step)}, `,
         ratioMark(r.step.measured.step, r.step.predicted.step)] : [])]
      : [`by ${ratesOf(r.step)}`]),
    bytesFigure("Arena, at its peak", (r) => known(r).peak, exactness),
    bytesFigure("Host memory", (r) => known(r).host_arena, () => "where saved activations wait"),
    bytesFigure("Disk", (r) => known(r).disk, () => "where saved activations wait"),
    timeFigure("Exposed waits", (r) => r.step[times].exposed, (r) =>
      [`${share(r.step[times].exposed, r.step[times].step)} of a step, for other streams${r.ranks > 1 ? "; collectives of the compute stream are not among them" : ""}`, ...predicted(r, "exposed").map((words) => `; ${words}`)]),
  ].filter(Boolean));
  showAdvice(measured);
}

function showAdvice(measured) {
  const {step} = rankOf(runs[0]);
  const far = !compared && measured && tellsTimes(step) && isFarOff(ratioOf(step.measured.step, step.predicted.step));
  byId("advice").hidden = !far;
  if (!far) return;
  replace(byId("advice"), element("b", {class: "off"}, "Predicted times are far off. "),
    isPreset(step) ? `${step.device_model} is a preset: an order of magnitude, not this machine. `
                   : step.device_model === "rates of this machine"
                     ? "Other programs were running, in this run or when the machine was measured. "
                     : `${step.device_model} does not know this machine, or other programs were running. `,
    "Measure it, and plan with what was measured: recollect calibrate --out device.yaml, then device.model=device.yaml.");
}
