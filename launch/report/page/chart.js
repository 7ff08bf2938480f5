// Draws one step on a canvas: what device, host and disk hold, above the streams that made it so, on one
// axis.
const gutter = {left: 128, right: 18, edge: 16, narrow: false};
const roomy = {strip: 38, device: 236, host: 64, disk: 52, gap: 18, lane: 19, laneGap: 5, axis: 26};
// Where there are two panels, so that both are in view.
const compact = {strip: 38, device: 132, host: 44, disk: 40, gap: 14, lane: 13, laneGap: 4, axis: 26};
const areaOrder = ["parameters", "gradients", "optimizer", "input", "activations", "workspace", "communication"]
  .map((name) => categories.indexOf(name));

// Names stand left of the drawing; on a phone there is little room.
function fitGutter(width) {
  const narrow = width < 600;
  Object.assign(gutter, narrow ? {left: 74, right: 10, edge: 8, narrow} : {left: 128, right: 18, edge: 16, narrow});
}

// `arenas`: what is reserved, by space. `base`: the bytes, by space and category, that are left out of the
// drawing. `heights`: of its parts.
function makePanel(step, arenas, base, heights) {
  const rows = [], out = (space) => rowSum(base, space);
  let y = heights.strip;
  for (let space = 0; space < spaces.length; ++space) {
    const arena = arenas[space] - out(space), most = Math.max(mostOf(step, space) - out(space), arena);
    if (space > 0 && most === 0) continue;
    rows.push({kind: "area", space, most, arena, whole: arenas[space], y, height: heights[spaces[space]]});
    y += rows[rows.length - 1].height + heights.gap;
  }
  streams.forEach((_, stream) => {
    if (!step.used[stream]) return;
    rows.push({kind: "lane", stream, y, height: heights.lane});
    y += heights.lane + heights.laneGap;
  });
  const canvas = element("canvas", {role: "img"});
  return {step, rows, base, bottom: y, height: y + heights.axis, canvas, groups: groupOps(step)};
}

// Stretches of the compute stream that belong to one layer and phase.
function groupOps(step) {
  const lane = step.lanes[computeStream], {ops} = step.program, groups = [];
  for (let i = 0; i < lane.op.length; ++i) {
    const layer = ops.layer[lane.op[i]], phase = ops.phase[lane.op[i]], last = groups[groups.length - 1];
    if (last && last.layer === layer && last.phase === phase) last.t1 = lane.t1[i];
    else groups.push({layer, phase, t0: lane.t0[i] - lane.wait[i], t1: lane.t1[i]});
  }
  return groups;
}

function prepare(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
  if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  pen.textBaseline = "middle";
  return pen;
}

// Ticks of an axis at round numbers, about one every `room` pixels.
function roundStep(span, count) {
  const rough = span / Math.max(1, count), power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => power * factor >= rough);
}

// Decimals that tell numbers apart which are `step` away from each other.
const digitsFor = (step) => Math.min(6, Math.max(0, -Math.floor(Math.log10(step)))) || 0;

function text(pen, words, x, y, color, align = "left") {
  pen.fillStyle = color;
  pen.textAlign = align;
  pen.fillText(words, x, y);
}

function hatch(pen, x, y, width, height) {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, width, height);
  pen.clip();
  pen.fillStyle = palette.wait;
  pen.globalAlpha = 0.22;
  pen.fillRect(x, y, width, height);
  pen.globalAlpha = 1;
  pen.strokeStyle = palette.wait;
  pen.lineWidth = 1.2;
  pen.beginPath();
  const shift = height + 5;
  for (let at = x - shift - (x % 5); at < x + width; at += 5) {
    pen.moveTo(at, y + height);
    pen.lineTo(at + height, y);
  }
  pen.stroke();
  pen.restore();
}

// The steps of a curve between two of its points as they fall on pixels: of several changes in one pixel the
// highest shows, so that no peak is too short to be seen.
function stepsOnScreen(curve, from, to, space, x) {
  const found = [], total = (k) => rowSum(curve.rows[k], space);
  for (let k = from; k <= to; ++k) {
    const first = k, column = Math.floor(x(curve.t[k]));
    let best = k;
    while (k < to && Math.floor(x(curve.t[k + 1])) === column) if (total(++k) > total(best)) best = k;
    found.push({x: first === k ? x(curve.t[k]) : column, row: curve.rows[best]});
    if (best !== k) found.push({x: column + 1, row: curve.rows[k]});
  }
  return found;
}

// Bytes stacked by category, as steps: from one change to the next nothing moves.
function drawArea(pen, panel, row, view, x) {
  const {t} = panel.step.curve, base = row.y + row.height, most = view.most[row.space] * 1.09;
  const scale = row.height / (most || 1), y = (bytes) => base - bytes * scale;
  drawScale(pen, row, view, most, y);
  const from = Math.max(0, lastNotAbove(t, view.t0)), to = Math.min(t.length - 1, lastNotAbove(t, view.t1) + 1);
  const steps = stepsOnScreen(panel.step.curve, from, to, row.space, x);
  for (const step of steps) step.x = Math.min(Math.max(step.x, gutter.left - 1), view.width - gutter.right + 1);
  let lower = steps.map(() => 0);
  for (const category of areaOrder) {
    const index = row.space * categories.length + category;
    const upper = steps.map((step, i) => lower[i] + step.row[index] - panel.base[index]);
    if (upper.some((bytes, i) => bytes > lower[i]))
      fillBetween(pen, steps, lower, upper, y, palette[categories[category]]);
    lower = upper;
  }
  for (const other of panel.others ?? []) drawOutline(pen, other, row, view, x, y);
  drawArena(pen, row, view, Math.round(y(row.arena)) + 0.5);
}

// What another run holds, as a line.
function drawOutline(pen, other, row, view, x, y) {
  const {t} = other.step.curve, from = Math.max(0, lastNotAbove(t, view.t0));
  const to = Math.min(t.length - 1, lastNotAbove(t, view.t1) + 1), out = rowSum(other.base, row.space);
  const steps = stepsOnScreen(other.step.curve, from, to, row.space, x);
  const clamp = (at) => Math.min(Math.max(at, gutter.left), view.width - gutter.right);
  if (mostOf(other.step, row.space) === 0) return;
  pen.strokeStyle = palette.ink;
  pen.globalAlpha = 0.55;
  pen.beginPath();
  steps.forEach((step, i) => {
    const top = y(rowSum(step.row, row.space) - out);
    pen.lineTo(clamp(step.x), top);
    pen.lineTo(clamp(steps[i + 1]?.x ?? step.x), top);
  });
  pen.stroke();
  pen.globalAlpha = 1;
}

function drawScale(pen, row, view, most, y) {
  const unit = unitFor(most), step = roundStep(most / unit.bytes, row.height / 46);
  for (let value = 0; value * unit.bytes <= most; value += step) {
    const at = Math.round(y(value * unit.bytes)) + 0.5;
    pen.strokeStyle = palette.line;
    pen.beginPath();
    pen.moveTo(gutter.left, at);
    pen.lineTo(view.width - gutter.right, at);
    pen.stroke();
    const onName = gutter.narrow && at < row.y + 34;  // where names and numbers share the little room
    if (!onName && (row.height > 100 || value > 0))
      text(pen, value.toFixed(digitsFor(step)), gutter.left - 8, at, palette.soft, "right");
  }
  text(pen, spaces[row.space], gutter.edge, row.y + 8, palette.ink);
  text(pen, unit.name, gutter.edge, row.y + 24, palette.soft);
}

// The line up to which memory is reserved.
function drawArena(pen, row, view, y) {
  pen.strokeStyle = palette.soft;
  pen.setLineDash([4, 4]);
  pen.beginPath();
  pen.moveTo(gutter.left, y);
  pen.lineTo(view.width - gutter.right, y);
  pen.stroke();
  pen.setLineDash([]);
  const hidden = row.whole > row.arena && !gutter.narrow ? `, ${bytesText(row.whole - row.arena)} of it not drawn` : "";
  if (row.height > 100)
    text(pen, `arena ${bytesText(row.whole)}${hidden}`, view.width - gutter.right - 2, y - 8, palette.soft, "right");
}

function fillBetween(pen, steps, lower, upper, y, color) {
  const last = steps.length - 1;
  pen.fillStyle = color;
  pen.beginPath();
  pen.moveTo(steps[0].x, y(upper[0]));
  for (let i = 1; i <= last; ++i) {
    pen.lineTo(steps[i].x, y(upper[i - 1]));
    pen.lineTo(steps[i].x, y(upper[i]));
  }
  pen.lineTo(steps[last].x, y(lower[last]));
  for (let i = last; i > 0; --i) {
    pen.lineTo(steps[i].x, y(lower[i]));
    pen.lineTo(steps[i].x, y(lower[i - 1]));
  }
  pen.lineTo(steps[0].x, y(lower[0]));
  pen.closePath();
  pen.fill();
}

function barColor(step, stream, op) {
  if (stream !== computeStream) return palette[`s-${streams[stream]}`];
  if (step.program.again[op]) return palette.again;
  return palette[["forward", "backward", "update"][step.program.ops.phase[op]]];
}

function drawLane(pen, panel, row, view, x) {
  const {step} = panel, lane = step.lanes[row.stream], compute = row.stream === computeStream;
  const name = streams[row.stream];
  text(pen, (gutter.narrow && shortLabels[name]) || streamLabel(name), gutter.edge, row.y + row.height / 2, palette.ink);
  pen.fillStyle = palette.faint;
  pen.fillRect(gutter.left, row.y, view.width - gutter.left - gutter.right, row.height);
  const edge = view.width - gutter.right;
  for (let i = Math.max(0, lastNotAbove(lane.t0, view.t0)); i < lane.op.length; ++i) {
    if (lane.t0[i] - lane.wait[i] > view.t1) break;
    const x0 = Math.max(x(lane.t0[i]), gutter.left), x1 = Math.min(x(lane.t1[i]), edge);
    if (x1 > gutter.left && x0 < edge) {
      pen.fillStyle = barColor(step, row.stream, lane.op[i]);
      const width = Math.max(x1 - x0, compute ? 0.6 : 1.3), slit = width > 3 ? 0.8 : 0;
      pen.fillRect(x0, row.y, width - slit, row.height);
      if (width > 64) barLabel(pen, step, lane.op[i], x0, row, width);
    }
    if (!compute || lane.wait[i] === 0) continue;
    const w0 = Math.max(x(lane.t0[i] - lane.wait[i]), gutter.left), w1 = Math.min(x(lane.t0[i]), edge);
    if (w1 - w0 > 0.7) hatch(pen, w0, row.y, w1 - w0, row.height);
  }
  if (!compute) return;
  for (const join of step.joins) {
    const w0 = Math.max(x(join.t0), gutter.left), w1 = Math.min(x(join.t1), edge);
    if (w1 - w0 > 0.7) hatch(pen, w0, row.y, w1 - w0, row.height);
  }
}

function barLabel(pen, step, op, x0, row, width) {
  const name = step.program.ops.name[op].split("/").slice(-2).join("/");
  pen.font = pen.font.replace("12px", "11px");
  let shown = name;
  while (shown && pen.measureText(shown).width > width - 12) shown = shown.slice(0, -1);
  if (shown.length < name.length) shown = shown.length > 4 ? `${shown.slice(0, -1)}…` : "";
  const ink = inkOn(barColor(step, row.stream, op));
  if (shown) text(pen, shown, x0 + 5, row.y + row.height / 2 + 0.5, ink);
  pen.font = pen.font.replace("11px", "12px");
}
