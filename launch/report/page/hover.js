// What lies under the cursor: the op, and the bytes that every category holds at that moment.
// A pixel of the curve shows the highest of what it spans, and of that the numbers are.
function shownAt(panel, space, x) {
  const {t, rows} = panel.step.curve, [t0, t1] = [timeAt(Math.floor(x)), timeAt(Math.floor(x) + 1)];
  let k = Math.max(0, lastNotAbove(t, t0)), best = k;
  while (k + 1 < t.length && t[k + 1] < t1) if (rowSum(rows[++k], space) > rowSum(rows[best], space)) best = k;
  return {row: rows[best], t: Math.max(t[best], t0)};
}

// The bar at that time in a lane, or the one whose wait it is.
function barAt(lane, t) {
  const i = lastNotAbove(lane.t0, t);
  if (i >= 0 && t <= lane.t1[i]) return {i, waiting: false};
  if (i + 1 < lane.op.length && t >= lane.t0[i + 1] - lane.wait[i + 1]) return {i: i + 1, waiting: true};
  return null;
}

// `x`, `y`: on the panel's canvas.
function hover(panel, x, y) {
  const t = view.cursor;
  const row = panel.rows.find((candidate) => y >= candidate.y - 2 && y <= candidate.y + candidate.height + 3);
  const space = row?.kind === "area" ? row.space : 0, shown = shownAt(panel, space, x);
  showLegend({panel, space, ...shown});
  const tip = byId("tip");
  if (t < view.t0 || t > view.t1 || t > panel.step.length) {
    tip.hidden = true;
    return;
  }
  const lines = row?.kind === "lane" ? laneLines(panel.step, row.stream, t) : areaLines(panel, space, shown);
  tip.hidden = !lines;
  if (!lines) return;
  const [title, ...rest] = lines;
  replace(tip, element("strong", {}, title),
          element("table", {}, ...rest.map(([name, value]) =>
            element("tr", {}, element("td", {}, name), element("td", {}, value)))));
  placeTip(tip);
}

// Beside the pointer, and never outside the window. It is measured where nothing narrows it: near the right edge it would wrap.
function placeTip(tip) {
  tip.style.left = tip.style.top = "0";
  const {x, y} = view.pointer, {width, height} = tip.getBoundingClientRect();
  const left = x + 16 + width > window.innerWidth ? x - width - 14 : x + 16;
  tip.style.left = `${Math.max(8, Math.min(left, window.innerWidth - width - 8))}px`;
  tip.style.top = `${Math.max(8, Math.min(y + 14, window.innerHeight - height - 8))}px`;
}

function opLines(step, op) {
  const {ops} = step.program;
  return [
    ["kind", ops.kinds[ops.kind[op]]],
    ["phase", phases[ops.phase[op]] + (step.program.again[op] ? ", recomputed" : "")],
    ["layer", ops.layer[op] < 0 ? "–" : ops.layer[op]],
  ];
}

function laneLines(step, stream, t) {
  const lane = step.lanes[stream], found = barAt(lane, t), {ops} = step.program;
  const join = stream === computeStream && step.joins.find(({t0, t1}) => t >= t0 && t <= t1);
  if (join && !found) return ["waits for other streams to finish", ["for", msText(join.t1 - join.t0)]];
  if (!found) return null;
  const op = lane.op[found.i], waits = ops.waits[op].map((before) => ops.name[before]).join(", ");
  if (found.waiting)
    return [`${stream === computeStream ? "waits" : "idle"} before ${ops.name[op]}`,
            ["for", waits], ["time", msText(lane.wait[found.i])]];
  const lines = [ops.name[op], ...opLines(step, op), ["ran", msText(lane.t1[found.i] - lane.t0[found.i])],
                 ["from", msText(lane.t0[found.i])], ["writes", bytesText(ops.bytes[op])]];
  if (waits) lines.push(["comes after", waits]);
  if (lane.wait[found.i] > 0) lines.push(["waited", msText(lane.wait[found.i])]);
  if (lane.stood[found.i] > 0) lines.push([`of it for rank ${lane.whom[found.i]}`, msText(lane.stood[found.i])]);
  return lines;
}

function areaLines({step, base}, space, {row, t}) {
  const lane = step.lanes[computeStream], i = Math.max(0, lastNotAbove(lane.t0, t)), stays = rowSum(base, space);
  const lines = [`${spaces[space]}: ${bytesText(rowSum(row, space) - stays)}`, ["at", msText(t)]];
  if (stays > 0) lines.push(["with what stays", bytesText(rowSum(row, space))]);
  if (i < lane.op.length) lines.push(["op", step.program.ops.name[lane.op[i]]], ...opLines(step, lane.op[i]));
  return lines;
}

// The key to the colours, with the bytes of a moment as they are drawn; where none is given, of the first panel's highest.
function showLegend(moment) {
  if (!panels.length) return;
  const {panel, space, row, t} = moment ?? {panel: panels[0], space: 0, row: highestOf(panels[0].step)};
  const when = `${spaces[space]}, at ${moment ? msText(t) : "its highest"}`;
  const key = (color, words, value) =>
    element("span", {class: "key"}, element("i", {style: `background:${color}`}), words,
            value === undefined ? null : element("b", {}, value));
  const keys = view.categories.map((c) => {
    const index = space * categories.length + c;
    return key(palette[categories[c]], categories[c], bytesText(row[index] - panel.base[index]));
  });
  const again = panels.some(({step}) => step.program.again.includes(true));
  if (again) keys.push(key(palette.again, "recomputing"));
  keys.push(key(`repeating-linear-gradient(135deg, ${palette.wait} 0 2px, transparent 2px 5px)`, "compute waits"));
  const line = `linear-gradient(${palette.ink}, ${palette.ink}) 0 5px / 11px 1px no-repeat`;
  if (panels.some(({others}) => others)) keys.push(key(line, "the other run"));
  replace(byId("legend"), element("span", {class: "key when"}, when), ...keys);
}
