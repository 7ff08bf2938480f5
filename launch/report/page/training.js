// How the training goes: loss, gradient norm, learning rate, tokens/s and what evaluations say, over the steps. All charts
// have one axis and one cursor; the numbers under it stand in their captions.
const knownCurves = [
  {key: "loss", name: "Loss", large: true, with: "eval_loss"},
  {key: "grad_norm", name: "Gradient norm"},
  {key: "learning_rate", name: "Learning rate", exact: true, zero: true},
  {key: "tokens_per_second", name: "Tokens per second", zero: true},
];
const mostOther = 6;
let charts = [];
const trainingView = {step: null, touch: false, first: 0, last: 1};

// {step, mean, low, high} of a run's curve; undefined where it has none.
const curveOf = (run, key) => run.training?.curves.find((curve) => curve.key === key);
const hasTraining = () => runs.some((run) => run.training?.curves.length > 0);
const runColor = (i) => palette[i === 0 ? "run-a" : "run-b"];

function chartsToShow() {
  const others = [...new Set(runs.flatMap((run) => (run.training?.curves ?? []).filter((c) => c.evaluated).map((c) => c.key)))]
    .filter((key) => key !== "eval_loss").slice(0, mostOther)
    .map((key) => ({key, name: key.replace(/^eval_/, "Evaluation: ").replaceAll("_", " ").replace(/^./, (c) => c.toUpperCase())}));
  return [...knownCurves, ...others].map((chart) => ({...chart, series: seriesOf(chart)})).filter(({series}) => series.length);
}

function seriesOf({key, with: beside}) {
  const found = (wanted, name) => runs.map((run, i) => ({curve: curveOf(run, wanted), run: i, name})).filter(({curve}) => curve);
  return [...found(key, ""), ...(beside ? found(beside, "evaluation") : [])];
}

// What shows through the noise: a mean over the neighbours, to both sides alike.
function smoothed(values) {
  const keep = Math.exp(-1 / Math.max(1, values.length / 80));
  const sums = (list) => {
    let sum = 0, weight = 0;
    return list.map((value) => [(sum = keep * sum + value), (weight = keep * weight + 1)]);
  };
  const before = sums(values), after = sums([...values].reverse()).reverse();
  return values.map((value, i) => (before[i][0] + after[i][0] - value) / (before[i][1] + after[i][1] - 1));
}

function makeChart(chart) {
  const canvas = element("canvas", {role: "img", "aria-label": `${chart.name} by step`});
  const caption = element("figcaption", {});
  const box = element("figure", {class: chart.large ? "curve large" : "curve", "data-curve": chart.key}, caption, canvas);
  const values = chart.series.flatMap(({curve}) => [...(curve.low ?? curve.mean), ...(curve.high ?? curve.mean)]);
  const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
  const middle = medianOf(values), log = !chart.exact && !chart.zero && low > 0 && high > 30 * middle;
  for (const series of chart.series)
    series.line = chart.exact || series.curve.evaluated || series.curve.mean.length < 60 ? null : smoothed(series.curve.mean);
  const made = {...chart, box, canvas, caption, low: chart.zero ? Math.min(0, low) : low, high, log};
  const move = (event) => {
    const at = event.clientX - canvas.getBoundingClientRect().left, {left, right} = made.room;
    const part = Math.min(1, Math.max(0, (at - left) / (right - left)));
    trainingView.step = Math.round(trainingView.first + part * (trainingView.last - trainingView.first));
    trainingView.touch = event.pointerType === "touch";
    drawTraining();
  };
  canvas.addEventListener("pointermove", move);
  canvas.addEventListener("pointerdown", move);
  canvas.addEventListener("pointerleave", (event) => {
    if (event.pointerType === "touch") return;
    trainingView.step = null;
    drawTraining();
  });
  return made;
}

function showTraining() {
  byId("training-heading").closest("section").hidden = !hasTraining();
  if (!hasTraining()) return;
  charts = chartsToShow().map(makeChart);
  const steps = charts.flatMap(({series}) => series.flatMap(({curve}) => [curve.step[0], curve.step[curve.step.length - 1]]));
  trainingView.first = steps.reduce((a, b) => Math.min(a, b));
  trainingView.last = Math.max(trainingView.first + 1, steps.reduce((a, b) => Math.max(a, b)));
  const key = (color, name) => element("span", {class: "key"}, element("i", {style: `background:${color}`}), name);
  const dashes = `repeating-linear-gradient(90deg, ${runColor(1)} 0 4px, transparent 4px 6px)`;
  replace(byId("training-legend"), ...(compared
    ? names.map((name, i) => key(i ? dashes : runColor(i), `${name}: ${runs[i].ranks[0].run.name}${i ? " (dashed)" : ""}`)) : []));
  replace(byId("curves"), ...charts.map(({box}) => box), makeLengthsChart());
  drawTraining();
}
new ResizeObserver(() => drawTraining()).observe(byId("curves"));

function drawTraining() {
  for (const chart of charts) {
    drawChart(chart);
    showCaption(chart);
  }
  drawLengths();
}

// The numbers at the cursor, or the latest.
function showCaption({name, series, caption}) {
  const at = ({curve}) => {
    const i = trainingView.step === null ? curve.step.length - 1 : lastNotAbove(curve.step, trainingView.step);
    return i < 0 ? undefined : {step: curve.step[i], value: curve.mean[i]};
  };
  const shown = series.map((one) => ({...one, point: at(one)})).filter(({point}) => point);
  const words = ({run, name: of, point}) => `${compared ? `${names[run]} ` : ""}${of ? `${of} ` : ""}${numberText(point.value)}`;
  const dot = ({run, curve}) => element("i", {style: `background:${seriesColor(run, curve)}`});
  const marked = compared || series.length > 1;
  const step = trainingView.step ?? Math.max(...shown.map(({point}) => point.step));
  replace(caption, element("b", {}, name), element("span", {}, `step ${step}`),
          ...shown.map((one) => element("span", {class: "value"}, marked ? dot(one) : null, words(one))));
}

// Evaluations stand beside the training's own curve in the chart of the loss alone.
function seriesColor(run, curve) {
  const evaluated = curve.evaluated && curve.key === "eval_loss";
  if (!compared) return evaluated ? palette["run-b"] : palette["run-a"];
  return evaluated ? palette[run === 0 ? "evaluated-a" : "evaluated-b"] : runColor(run);
}

function drawChart(chart) {
  const {canvas, series, log} = chart, height = 190, width = canvas.parentElement.clientWidth;
  if (width === 0) return;
  const pen = prepare(canvas, width, height);
  const scale = log ? Math.log10 : (value) => value;
  const [low, high] = [scale(chart.low), scale(chart.high)], pad = (high - low || Math.abs(high) || 1) * 0.06;
  const top = 8, bottom = height - 26, most = high + pad, least = chart.zero && chart.low === 0 ? 0 : low - pad;
  const ticks = chartTicks(least, most, log), labels = ticks.map((tick) => tickText(log ? 10 ** tick : tick, ticks, log));
  const left = 14 + labels.reduce((widest, label) => Math.max(widest, pen.measureText(label).width), 0) + 6, right = width - 14;
  chart.room = {left, right};
  const x = (step) => left + ((step - trainingView.first) / (trainingView.last - trainingView.first)) * (right - left);
  const y = (value) => bottom - ((scale(value) - least) / (most - least)) * (bottom - top);
  ticks.forEach((tick, i) => {
    const at = Math.round(bottom - ((tick - least) / (most - least)) * (bottom - top)) + 0.5;
    pen.strokeStyle = palette.line;
    pen.beginPath();
    pen.moveTo(left, at);
    pen.lineTo(right, at);
    pen.stroke();
    text(pen, labels[i], left - 6, at, palette.soft, "right");
  });
  drawSteps(pen, x, left, right, height);
  text(pen, "step", right, height - 12, palette.soft, "right");
  for (const one of series) drawSeries(pen, one, x, y);
  if (trainingView.step === null) return;
  pen.fillStyle = palette.ink;
  pen.globalAlpha = 0.6;
  pen.fillRect(Math.round(x(trainingView.step)), top, 1, bottom - top);
  pen.globalAlpha = 1;
}

function drawSteps(pen, x, left, right, height) {
  const end = right - pen.measureText("step").width - 8;  // where the axis has its name
  const {first, last} = trainingView, step = Math.max(1, roundStep(last - first, (right - left) / 64));
  for (let at = Math.ceil(first / step) * step; at <= last; at += step) {
    const label = grouped(Math.round(at)), half = pen.measureText(label).width / 2;
    if (x(at) - half >= left - 4 && x(at) + half <= end) text(pen, label, x(at), height - 12, palette.soft, "center");
  }
}

function chartTicks(least, most, log) {
  const step = log ? Math.max(1, roundStep(most - least, 4)) : roundStep(most - least, 4), ticks = [];
  for (let i = Math.ceil(least / step - 1e-9); i * step <= most; ++i) ticks.push(i * step);
  return ticks;
}

function tickText(value, ticks, log) {
  const step = ticks.length > 1 && !log ? ticks[1] - ticks[0] : Math.abs(value);
  if (Math.abs(value) < 1e-12) return "0";
  if (step < 1e-3 || Math.abs(value) >= 1e6) return Number(value.toPrecision(3)).toExponential().replace("e+", "e");
  return Math.abs(value) >= 1e3 ? grouped(Math.round(value)) : value.toFixed(log && value >= 1 ? 0 : digitsFor(step));
}

function drawSeries(pen, {curve, run, line}, x, y) {
  const {step, mean, low, high} = curve, color = seriesColor(run, curve);
  pen.strokeStyle = pen.fillStyle = color;
  if (low) {  // how far the steps that a point stands for lie apart
    pen.globalAlpha = 0.16;
    pen.beginPath();
    step.forEach((at, i) => pen.lineTo(x(at), y(high[i])));
    for (let i = step.length - 1; i >= 0; --i) pen.lineTo(x(step[i]), y(low[i]));
    pen.fill();
  }
  const stroke = (values, width, alpha) => {
    pen.lineWidth = width;
    pen.globalAlpha = alpha;
    pen.beginPath();
    values.forEach((value, i) => pen.lineTo(x(step[i]), y(value)));
    pen.stroke();
  };
  pen.lineJoin = "round";
  if (run > 0) pen.setLineDash([6, 5]);  // what lies under it shows, also where both are equal
  stroke(mean, line ? 1 : 1.6, line ? 0.34 : 1);
  if (line) stroke(line, 1.8, 1);
  pen.setLineDash([]);
  pen.globalAlpha = 1;
  if (curve.evaluated && step.length <= 60 || step.length === 1)
    step.forEach((at, i) => {
      pen.beginPath();
      pen.arc(x(at), y(mean[i]), run > 0 ? 4 : 2.6, 0, 2 * Math.PI);  // one around the other where they are equal
      run > 0 ? pen.stroke() : pen.fill();
    });
  pen.lineWidth = 1;
}
