// What steps held at most, by the length of their batch, where lengths change: a dot for each shape, a ring where a batch had
// fewer samples than others.
let lengthsChart = null;

const shapesOf = (run) => run.training?.lengths ?? [];
const shapeSeries = () => runs.map((run, i) => {
  const shapes = shapesOf(run), most = shapes.reduce((samples, shape) => Math.max(samples, shape.samples), 0);
  return shapes.map((shape) => ({...shape, run: i, ring: shape.samples < most}));
}).flat();

function makeLengthsChart() {
  lengthsChart = null;
  const shapes = shapeSeries();
  if (new Set(shapes.map(({length}) => length)).size < 2) return null;
  const canvas = element("canvas", {role: "img", "aria-label": "Memory of a step by the length of its batch"});
  const caption = element("figcaption", {});
  const box = element("figure", {class: "curve", "data-curve": "memory_peak"}, caption, canvas);
  lengthsChart = {box, canvas, caption, shapes, at: null, places: []};
  const move = (event) => {
    const {left, top} = canvas.getBoundingClientRect(), x = event.clientX - left, y = event.clientY - top;
    const away = ([dotX, dotY]) => Math.abs(dotX - x) + 0.2 * Math.abs(dotY - y);
    lengthsChart.at = lengthsChart.places.reduce(
      (best, place, i) => (best === null || away(place) < away(lengthsChart.places[best]) ? i : best), null);
    drawLengths();
  };
  canvas.addEventListener("pointermove", move);
  canvas.addEventListener("pointerdown", move);
  canvas.addEventListener("pointerleave", (event) => {
    if (event.pointerType === "touch") return;
    lengthsChart.at = null;
    drawLengths();
  });
  return box;
}

// Of the shape at the cursor, or of the longest.
function showLengthsCaption() {
  const {caption, shapes, at} = lengthsChart;
  const shape = shapes[at ?? shapes.reduce((best, one, i) => (one.length > shapes[best].length ? i : best), 0)];
  const {run, length, samples, steps, memory_peak: bytes, phase} = shape;
  caption.title = `the most of ${steps} step${steps === 1 ? "" : "s"} with ${samples} samples of ${length} tokens, in ${phase}`;
  replace(caption, element("b", {}, "Memory by length"), element("span", {}, `${length} × ${samples}`),
          element("span", {class: "value", "data-bytes": bytes},
                  compared ? element("i", {style: `background:${runColor(run)}`}) : null,
                  `${compared ? `${names[run]} ` : ""}${bytesText(bytes)}`));
}

function drawLengths() {
  if (!lengthsChart) return;
  showLengthsCaption();
  const {canvas, shapes, at} = lengthsChart, height = 190, width = canvas.parentElement.clientWidth;
  if (width === 0) return;
  const pen = prepare(canvas, width, height);
  const highest = shapes.reduce((most, shape) => Math.max(most, shape.memory_peak), 0), unit = unitFor(highest);
  const lengths = shapes.map(({length}) => length), longest = Math.max(...lengths);
  const top = 8, bottom = height - 26, most = (1.06 * highest) / unit.bytes;
  const ticks = chartTicks(0, most, false), labels = ticks.map((tick) => tickText(tick, ticks, false));
  const left = 14 + labels.reduce((widest, label) => Math.max(widest, pen.measureText(label).width), 0) + 6, right = width - 14;
  const x = (length) => left + (length / (1.03 * longest)) * (right - left);
  const y = (bytes) => bottom - (bytes / unit.bytes / most) * (bottom - top);
  ticks.forEach((tick, i) => {
    const line = Math.round(y(tick * unit.bytes)) + 0.5;
    pen.strokeStyle = palette.line;
    pen.beginPath();
    pen.moveTo(left, line);
    pen.lineTo(right, line);
    pen.stroke();
    text(pen, labels[i], left - 6, line, palette.soft, "right");
  });
  text(pen, unit.name, left + 4, top + 4, palette.soft, "left");
  text(pen, "tokens", right, height - 12, palette.soft, "right");
  const end = right - pen.measureText("tokens").width - 8, step = Math.max(1, roundStep(1.03 * longest, (right - left) / 64));
  for (let length = 0; length <= longest; length += step) {
    const label = grouped(Math.round(length));
    if (x(length) + pen.measureText(label).width / 2 <= end) text(pen, label, x(length), height - 12, palette.soft, "center");
  }
  lengthsChart.places = shapes.map((shape) => [x(shape.length), y(shape.memory_peak)]);
  shapes.forEach(({run, ring}, i) => {
    const [dotX, dotY] = lengthsChart.places[i];
    pen.strokeStyle = pen.fillStyle = runColor(run);
    pen.globalAlpha = at === null || at === i ? 1 : 0.45;
    pen.lineWidth = 1.4;
    pen.beginPath();
    pen.arc(dotX, dotY, (run > 0 ? 4 : 3) + (at === i ? 1.5 : 0), 0, 2 * Math.PI);
    ring || run > 0 ? pen.stroke() : pen.fill();
  });
  pen.globalAlpha = 1;
  pen.lineWidth = 1;
}
