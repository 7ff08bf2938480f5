// What lies under the cursor: the op, and the bytes that every category holds at that moment.
function heldAt(step, t) {
  const {curve} = step;
  return curve.rows[Math.max(0, lastNotAbove(curve.t, t))];
}

// The bar at that time in a lane, or the one whose wait it is.
function barAt(lane, t) {
  const i = lastNotAbove(lane.t0, t);
  if (i >= 0 && t <= lane.t1[i]) return {i, waiting: false};
  if (i + 1 < lane.op.length && t >= lane.t0[i + 1] - lane.wait[i + 1]) return {i: i + 1, waiting: true};
  return null;
}

function hover(panel, event) {
  const t = view.cursor, y = event.clientY - panel.canvas.getBoundingClientRect().top;
  const row = panel.rows.find((candidate) => y >= candidate.y - 2 && y <= candidate.y + candidate.height + 3);
  showLegend(heldAt(panel.step, t), row?.kind === "area" ? row.space : 0);
  const tip = byId("tip");
  if (t < view.t0 || t > view.t1 || t > panel.step.length) {
    tip.hidden = true;
    return;
  }
  const lines = row?.kind === "lane" ? laneLines(panel.step, row.stream, t) : areaLines(panel.step, row?.space ?? 0, t);
  tip.hidden = !lines;
  if (!lines) return;
  const [title, ...rest] = lines;
  replace(tip, element("strong", {}, title),
          element("table", {}, ...rest.map(([name, value]) =>
            element("tr", {}, element("td", {}, name), element("td", {}, value)))));
  const box = tip.getBoundingClientRect(), right = event.clientX + 16 + box.width > window.innerWidth;
  tip.style.left = `${right ? event.clientX - box.width - 14 : event.clientX + 16}px`;
  tip.style.top = `${Math.min(event.clientY + 14, window.innerHeight - box.height - 8)}px`;
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

function areaLines(step, space, t) {
  const row = heldAt(step, t), lane = step.lanes[computeStream], i = Math.max(0, lastNotAbove(lane.t0, t));
  const lines = [`${spaces[space]}: ${bytesText(rowSum(row, space))}`, ["at", msText(t)]];
  if (i < lane.op.length) lines.push(["op", step.program.ops.name[lane.op[i]]], ...opLines(step, lane.op[i]));
  return lines;
}

// The key to the colours, with the bytes of a moment; where none is given, of the first panel's highest.
function showLegend(row, space = 0) {
  const when = row ? `${spaces[space]}, at ${msText(view.cursor)}` : `${spaces[0]}, at its highest`;
  row ??= highestOf(panels[0].step);
  const key = (color, name, value) =>
    element("span", {class: "key"}, element("i", {style: `background:${color}`}), name,
            value === undefined ? null : element("b", {}, value));
  const keys = view.categories.map((c) =>
    key(palette[categories[c]], categories[c], bytesText(row[space * categories.length + c])));
  const again = panels.some((panel) => panel.step.program.again.includes(true));
  if (again) keys.push(key(palette.again, "recomputing"));
  keys.push(key(`repeating-linear-gradient(135deg, ${palette.wait} 0 2px, transparent 2px 5px)`, "compute waits"));
  replace(byId("legend"), element("span", {class: "key when"}, when), ...keys);
}
