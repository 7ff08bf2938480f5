// Above the bytes: which phase and which layer the compute stream is in.
function drawStrip(pen, panel, view, x) {
  const edge = view.width - gutter.right, seen = [];
  panel.groups.forEach((group, index) => {
    const x0 = Math.max(x(group.t0), gutter.left), x1 = Math.min(x(group.t1), edge);
    if (x1 <= gutter.left || x0 >= edge) return;
    pen.fillStyle = index % 2 ? palette.faint : palette.line;
    pen.fillRect(x0, 16, Math.max(0.5, x1 - x0), 11);
    seen.push({...group, x0, x1});
  });
  drawLayers(pen, seen, edge);
  drawPhases(pen, seen, edge);
  text(pen, "layer", gutter.edge, 22, palette.soft);
}

// As many numbers as have room, each at the middle of its layer.
function drawLayers(pen, seen, edge) {
  pen.font = pen.font.replace("12px", "10px");
  let free = gutter.left;
  for (const {layer, x0, x1} of seen) {
    const half = pen.measureText(layer).width / 2, middle = (x0 + x1) / 2;
    if (layer < 0 || middle - half < free || middle + half > edge) continue;
    text(pen, layer, middle, 22, palette.soft, "center");
    free = middle + half + 5;
  }
  pen.font = pen.font.replace("10px", "12px");
}

// A line where a phase begins, and its name behind it. The optimizer's, at the end, is short: its name may stand before it, in
// place of a longer phase's, which stands elsewhere too.
const shortPhases = {forward: "fwd", backward: "bwd", optimizer: "opt"};
function drawPhases(pen, seen, edge) {
  const begins = seen.filter(({phase}, i) => i === 0 || seen[i - 1].phase !== phase);
  const labels = begins.map(({phase, x0}, i) => {
    const name = gutter.narrow ? shortPhases[phases[phase]] : phases[phase], width = pen.measureText(name).width;
    const end = begins[i + 1]?.x0 ?? edge + gutter.right, fits = x0 + 4 + width < end;
    return {name, x0, width, at: fits ? x0 + 4 : i === begins.length - 1 ? x0 - 4 - width : null};
  });
  const last = labels[labels.length - 1];
  let free = gutter.left - 2;
  for (const {name, x0, width, at} of labels) {
    pen.fillStyle = palette.soft;
    pen.fillRect(x0, 1, 1, 26);
    const isLast = at === last.at && x0 === last.x0;
    if (at === null || at < free || (!isLast && last.at !== null && at + width + 6 > last.at)) continue;
    text(pen, name, at, 8, palette.soft);
    free = at + width + 6;
  }
}
