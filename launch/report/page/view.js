// The panels of the timeline: one window of time, one cursor and one scale of bytes for all of them.
const view = {t0: 0, t1: 1, full: 1, width: 0, most: [], categories: [], cursor: null, pointer: null, drag: null};
let panels = [];

const scaleX = (t) =>
  gutter.left + ((t - view.t0) / (view.t1 - view.t0)) * (view.width - gutter.left - gutter.right);
const timeAt = (x) =>
  view.t0 + ((x - gutter.left) / (view.width - gutter.left - gutter.right)) * (view.t1 - view.t0);

// `shown`: [{title, note, step, arenas}]. `whole`: with what stays from step to step. `outlined`: each with the others' lines.
function showPanels(shown, whole, outlined) {
  panels = shown.map(({title, note, step, arenas}) => {
    const base = whole ? step.program.persistent.map(() => 0) : step.program.persistent;
    return {...makePanel(step, arenas, base, shown.length > 1 ? compact : roomy), title, note};
  });
  if (outlined) for (const panel of panels) panel.others = panels.filter((other) => other !== panel);
  forgetPointer();
  const box = byId("panels");
  replace(box);
  for (const panel of panels) {
    if (panels.length > 1 || panel.note)
      box.append(element("p", {class: "panel-title"}, panel.title, " ", element("span", {}, panel.note ?? "")));
    panel.canvas.setAttribute("aria-label", `${panel.title}: memory by category, and the streams beneath it`);
    listen(panel);
    box.append(panel.canvas);
  }
  const full = Math.max(...panels.map((panel) => panel.step.length));
  view.most = spaces.map((_, space) =>
    Math.max(...panels.flatMap((panel) => panel.rows).map((row) => (row.space === space ? row.most : 0))));
  view.categories = areaOrder.filter((c) => panels.some(({step, base}) =>
    step.curve.rows.some((row) => spaces.some((_, space) => {
      const index = space * categories.length + c;
      return row[index] > base[index];
    }))));
  if (full !== view.full) Object.assign(view, {full, t0: 0, t1: full});
  draw();
}

function setWindow(t0, t1) {
  const span = Math.min(Math.max(t1 - t0, view.full / 5000), view.full);
  view.t0 = Math.min(Math.max(0, t0), view.full - span);
  view.t1 = view.t0 + span;
  point();
  draw();
}
function zoom(factor, at = (view.t0 + view.t1) / 2) {
  setWindow(at - (at - view.t0) * factor, at + (view.t1 - at) * factor);
}
const pan = (part) => setWindow(view.t0 + part * (view.t1 - view.t0), view.t1 + part * (view.t1 - view.t0));

function draw() {
  if (!panels.length) return;
  view.width = byId("panels").clientWidth;
  fitGutter(view.width);
  for (const panel of panels) drawPanel(panel);
  drawOverview();
}

function drawPanel(panel) {
  const pen = prepare(panel.canvas, view.width, panel.height), {step} = panel;
  drawStrip(pen, panel, view, scaleX);
  for (const row of panel.rows)
    (row.kind === "area" ? drawArea : drawLane)(pen, panel, row, view, scaleX);
  for (const gap of step.breaks) drawBreak(pen, panel, gap);
  drawAxis(pen, panel);
  if (view.drag?.panel === panel) {
    pen.fillStyle = palette.shade;
    const [a, b] = [view.drag.x, view.drag.to ?? view.drag.x];
    pen.fillRect(Math.min(a, b), 0, Math.abs(b - a), panel.bottom);
  }
  if (view.cursor === null || view.cursor < view.t0 || view.cursor > view.t1) return;
  pen.fillStyle = palette.ink;
  pen.fillRect(Math.round(scaleX(view.cursor)), 0, 1, panel.bottom + 6);
}

function drawBreak(pen, panel, {t0, t1, skipped}) {
  const x0 = Math.max(scaleX(t0), gutter.left), x1 = Math.min(scaleX(t1), view.width - gutter.right);
  if (x1 <= x0) return;
  pen.fillStyle = palette.card;
  pen.fillRect(x0, 0, x1 - x0, panel.bottom);
  pen.save();
  pen.translate((x0 + x1) / 2, panel.bottom / 2);
  pen.rotate(-Math.PI / 2);
  if (x1 - x0 > 12) text(pen, `${skipped} micro-batches alike`, 0, 0, palette.soft, "center");
  pen.restore();
}

function drawAxis(pen, panel) {
  const y = panel.bottom + 4, room = view.width - gutter.left - gutter.right;
  const step = roundStep(view.t1 - view.t0, room / (gutter.narrow ? 64 : 110)), digits = digitsFor(step);
  for (let t = Math.ceil(view.t0 / step) * step; t <= view.t1; t += step) {
    pen.fillStyle = palette.soft;
    pen.fillRect(Math.round(scaleX(t)), y - 2, 1, 5);
    text(pen, t.toFixed(digits), scaleX(t), y + 11, palette.soft, "center");
  }
  text(pen, "ms", gutter.edge, y + 11, palette.soft);
}

// The whole step, small, with the window that the panels show.
function drawOverview() {
  const canvas = byId("overview"), height = 34, pen = prepare(canvas, view.width, height);
  const room = view.width - gutter.left - gutter.right, x = (t) => gutter.left + (t / view.full) * room;
  drawSilhouette(pen, panels[0].step, {x, y: 2, height: height - 4, most: view.most[0], base: panels[0].base});
  pen.fillStyle = palette.paper;
  pen.globalAlpha = 0.72;
  pen.fillRect(gutter.left, 0, x(view.t0) - gutter.left, height);
  pen.fillRect(x(view.t1), 0, gutter.left + room - x(view.t1), height);
  pen.globalAlpha = 1;
  pen.strokeStyle = palette.accent;
  pen.strokeRect(x(view.t0) + 0.5, 0.5, x(view.t1) - x(view.t0) - 1, height - 1);
}

// What the device holds: activations above all the rest.
function drawSilhouette(pen, step, {x, y, height, most, base}) {
  const {t} = step.curve, activations = categories.indexOf("activations"), out = rowSum(base, 0);
  const steps = stepsOnScreen(step.curve, 0, t.length - 1, 0, x);
  const layer = (color, bytesOf) => {
    pen.fillStyle = color;
    pen.beginPath();
    pen.moveTo(x(t[0]), y + height);
    steps.forEach((at, i) => {
      const top = y + height * (1 - bytesOf(at.row) / most);
      pen.lineTo(at.x, top);
      pen.lineTo(steps[i + 1]?.x ?? at.x, top);
    });
    pen.lineTo(x(t[t.length - 1]), y + height);
    pen.fill();
  };
  layer(palette.activations, (row) => rowSum(row, 0) - out);
  layer(palette.optimizer, (row) => rowSum(row, 0) - row[activations] - out + base[activations]);
}

// The pointer may stand still while what lies under it moves: by a zoom, or as the page is scrolled.
function point() {
  if (!view.pointer) return;
  const {panel, x, y} = view.pointer, box = panel.canvas.getBoundingClientRect();
  if (x < box.left || x > box.right || y < box.top || y > box.bottom) return forgetPointer();
  view.cursor = timeAt(x - box.left);
  hover(panel, x - box.left, y - box.top);
}
function forgetPointer() {
  Object.assign(view, {cursor: null, pointer: null});
  byId("tip").hidden = true;
  showLegend();
}

function listen(panel) {
  const {canvas} = panel, xOf = (event) => event.clientX - canvas.getBoundingClientRect().left;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    view.drag = {panel, x: xOf(event)};
  });
  canvas.addEventListener("pointermove", (event) => {
    if (view.drag && event.pointerType !== "touch") view.drag.to = xOf(event);
    view.pointer = {panel, x: event.clientX, y: event.clientY, touch: event.pointerType === "touch"};
    point();
    draw();
  });
  canvas.addEventListener("pointerup", () => {
    const {x, to = x} = view.drag ?? {x: 0};
    view.drag = null;
    if (Math.abs(to - x) > 5) setWindow(timeAt(Math.min(x, to)), timeAt(Math.max(x, to)));
    else draw();
  });
  canvas.addEventListener("pointercancel", () => (view.drag = null));
  canvas.addEventListener("pointerleave", (event) => {
    if (event.pointerType === "touch") return;  // what a finger has pointed at stays to be read
    forgetPointer();
    draw();
  });
  canvas.addEventListener("dblclick", () => setWindow(0, view.full));
  canvas.addEventListener("wheel", (event) => {
    const sideways = event.shiftKey ? event.deltaY : event.deltaX;
    if (!event.ctrlKey && !event.metaKey && !sideways) return;
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY * 0.004), timeAt(xOf(event)));
    else pan(sideways / view.width);
  }, {passive: false});
}

function listenOnce() {
  const overview = byId("overview");
  const move = (event) => {
    const room = view.width - gutter.left - gutter.right, span = view.t1 - view.t0;
    const at = ((event.clientX - overview.getBoundingClientRect().left - gutter.left) / room) * view.full;
    setWindow(at - span / 2, at + span / 2);
  };
  overview.addEventListener("pointerdown", (event) => {
    overview.setPointerCapture(event.pointerId);
    move(event);
  });
  overview.addEventListener("pointermove", (event) => event.buttons && move(event));
  byId("zoom-in").addEventListener("click", () => zoom(0.5));
  byId("zoom-out").addEventListener("click", () => zoom(2));
  byId("zoom-all").addEventListener("click", () => setWindow(0, view.full));
  const keys = {
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => setWindow(0, view.full),
    ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2),
  };
  byId("panels").addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  addEventListener("scroll", () => {
    if (!view.pointer) return;
    point();
    draw();
  }, {passive: true});
  addEventListener("pointerdown", (event) => {
    if (!view.pointer || byId("panels").contains(event.target) || event.target.closest("button")) return;
    forgetPointer();
    draw();
  });
  new ResizeObserver(draw).observe(byId("panels"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readPalette();
    showTraining();
    choose({});
  });
}
