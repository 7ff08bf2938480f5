// Where the time of a step went: a table by class of op, and every op of the compute stream as a dot below the roof.
const classColors = {contraction: "--parameters", attention: "--activations", normalisation: "--workspace",
  "element-wise": "--communication", optimizer: "--optimizer", collective: "--wait", copy: "--gradients"};
const classColor = (name) => getComputedStyle(document.documentElement).getPropertyValue(classColors[name]).trim();

// Seconds of a step that each class takes of the compute stream, as predicted; the first micro-batch stands for those that
// are not kept.
function predictedByClass(timeline) {
  const times = data.times[timeline?.predicted], {ops} = programs[timeline?.program] ?? {};
  const seconds = data.classes.map(() => 0);
  if (!times || !ops?.class) return seconds;
  const kept = times.runs.filter((run) => run.micro_batch !== optimizerRun).length;
  for (const run of times.runs) {
    const alike = run.micro_batch === 0 ? times.micro_batches - kept + 1 : 1;
    run.duration.forEach((ns, i) => {
      const op = run.first + i;
      if (ns > 0 && ops.stream[op] === computeStream) seconds[ops.class[op]] += 1e-9 * ns * alike;
    });
  }
  return seconds;
}

function profileTable(runs) {
  const shown = runs.filter(({rank}) => rank.profile), flag = shown.length > 1;
  const heads = ["runs", "ms a step", "predicted", "ratio", "of the step", "GFLOP/s", "GB/s", "of the roofline"];
  const rate = (amount, seconds) => (seconds > 0 ? (1e-9 * amount / seconds).toFixed(1) : "–");
  const line = (label, name, seconds, step, cells, color) =>
    element("tr", {"data-key": `profile/${label}${name}`}, nameCell(name, color), ...(flag ? [element("td", {}, label)] : []),
            cells.runs, element("td", {"data-seconds": seconds}, (1e3 * seconds).toFixed(3)),
            ...cells.predicted, element("td", {}, share(seconds, step)), ...cells.rates);
  const blank = () => element("td", {class: "zero"}, "–");
  const nothing = () => ({runs: blank(), predicted: [blank(), blank()], rates: [blank(), blank(), blank()]});
  // What was and was to be next to nothing is never marked.
  const predictedCells = (seconds, predicted, step) => {
    const ratio = ratioOf(seconds, predicted);
    return ratio === null ? [blank(), blank()] : [element("td", {}, (1e3 * predicted).toFixed(3)),
      element("td", {class: isFarOff(ratio) && Math.max(seconds, predicted) > 0.01 * step ? "off" : undefined}, ratioText(ratio))];
  };
  const rows = shown.flatMap(({label, rank: {profile, timeline}}) => [
    ...profile.classes.map((row) => line(label, row.class, row.seconds, profile.step, {
      runs: element("td", {}, row.runs),
      predicted: predictedCells(row.seconds, predictedByClass(timeline)[data.classes.indexOf(row.class)], profile.step),
      rates: [element("td", {}, rate(row.flops, row.seconds)), element("td", {}, rate(row.touched, row.seconds)),
              element("td", {}, row.at_the_roof > 0 ? share(row.at_the_roof, row.seconds) : "–")],
    }, classColor(row.class))),
    line(label, "waits for other streams", profile.waiting_for_streams, profile.step, nothing()),
    line(label, "between ops", profile.between_ops, profile.step, nothing()),
    ...(profile.step_not_timed > 0 ? [
      line(label, "step, ops not timed", profile.step_not_timed, profile.step, nothing()),
      line(label, "launching and timing", profile.launching_and_timing, profile.step, nothing())] : []),
  ]);
  replace(byId("profile-table"),
    element("thead", {}, element("tr", {}, element("th", {}, "class"), ...(flag ? [element("th", {}, "run")] : []),
                                 ...heads.map((head) => element("th", {}, head)))),
    element("tbody", {}, ...rows));
}

// {op, intensity, rate, is} of each op of the compute stream that counts FLOPs.
function dotsOf(step) {
  const lane = step.lanes[computeStream], {ops} = step.program, dots = [];
  lane.op.forEach((op, i) => {
    const seconds = 1e-3 * (lane.t1[i] - lane.t0[i]);
    if (!(ops.flops?.[op] > 0) || !(ops.touched[op] > 0) || !(seconds > 0)) return;
    dots.push({op, is: data.classes[ops.class[op]], intensity: ops.flops[op] / ops.touched[op], rate: ops.flops[op] / seconds});
  });
  return dots;
}

function drawRoofline(canvas, dots, roof) {
  const width = canvas.parentElement.clientWidth - 2, height = 320, left = width < 600 ? 88 : 104, bottom = 40;
  canvas.style.width = `${width}px`;
  const pen = prepare(canvas, width, height), logs = (of) => dots.map((dot) => Math.log10(of(dot)));
  const xs = logs((dot) => dot.intensity), ys = logs((dot) => dot.rate);
  if (roof.flops > 0) xs.push(Math.log10(roof.flops / roof.bandwidth)), ys.push(Math.log10(roof.flops));
  const least = (list) => Math.floor(list.reduce((a, b) => Math.min(a, b))), most = (list) => list.reduce((a, b) => Math.max(a, b)) + 0.15;
  // What does next to nothing stands at the edge: from 1/100 FLOP a byte on, and from 1/100 GFLOP/s on.
  const [x0, x1, y0, y1] = [Math.max(-2, least(xs)), most(xs), Math.max(7, least(ys)), most(ys)];
  const x = (value) => left + ((Math.max(value, x0) - x0) / (x1 - x0)) * (width - left - 20);
  const y = (value) => height - bottom - ((Math.max(value, y0) - y0) / (y1 - y0)) * (height - bottom - 12);
  pen.strokeStyle = palette.line;
  const rule = (fromX, fromY, toX, toY) => { pen.beginPath(); pen.moveTo(fromX, fromY); pen.lineTo(toX, toY); pen.stroke(); };
  for (let at = y0; at <= y1; ++at) {
    rule(left, y(at), width - 20, y(at));
    text(pen, `${at >= 9 ? 10 ** (at - 9) : (10 ** (at - 9)).toFixed(9 - at)} GFLOP/s`, left - 6, y(at), palette.soft, "right");
  }
  for (let at = x0; at <= x1; ++at) {
    rule(x(at), 12, x(at), height - bottom);
    text(pen, `${at >= 0 ? 10 ** at : (10 ** at).toFixed(-at)}`, x(at), height - bottom + 15, palette.soft, "center");
  }
  text(pen, "FLOPs per byte", width - 24, height - 8, palette.soft, "right");
  if (roof.flops > 0) {
    pen.strokeStyle = palette.ink;
    pen.lineWidth = 1.5;
    const knee = Math.log10(roof.flops / roof.bandwidth), low = Math.max(x0, y0 - Math.log10(roof.bandwidth));
    rule(x(low), y(Math.log10(roof.bandwidth) + low), x(knee), y(Math.log10(roof.flops)));
    rule(x(knee), y(Math.log10(roof.flops)), x(x1), y(Math.log10(roof.flops)));
    pen.lineWidth = 1;
  }
  for (const dot of dots) {
    pen.fillStyle = classColor(dot.is);
    pen.globalAlpha = 0.75;
    pen.beginPath();
    pen.arc(x(Math.log10(dot.intensity)), y(Math.log10(dot.rate)), 3.2, 0, 2 * Math.PI);
    pen.fill();
  }
  pen.globalAlpha = 1;
}

function showProfile(runs) {
  const [{rank}] = runs, {timeline} = rank, known = runs.some((run) => run.rank.profile);
  byId("profile-heading").closest("section").hidden = !known;
  if (!known) return;
  profileTable(runs);
  const step = runs.length === 1 ? stepOf(timeline, "measured") : undefined, dots = step ? dotsOf(step) : [];
  const roof = timeline?.roof ?? {flops: 0, bandwidth: 0};
  byId("profile-note").textContent = (rank.profile?.recorded_steps > 1
    ? `Of the compute stream, as measured: medians of ${rank.profile.recorded_steps} steps. ` : "Of the compute stream, as measured. ") + (roof.flops > 0
    ? `Roofline: ${(1e-9 * roof.flops).toFixed(1)} GFLOP/s of matrix products and ${(1e-9 * roof.bandwidth).toFixed(1)} GB/s of memory, as measured on this machine; what caches hold goes above it.`
    : "The roofline was not measured on this machine: device.model is a preset.");
  byId("roofline-box").hidden = dots.length === 0;
  byId("roofline").dataset.dots = dots.length;
  const named = [...new Set(dots.map((dot) => dot.is))];
  replace(byId("roofline-legend"), ...named.map((name) => element("span", {class: "key"},
    element("i", {style: `background:${classColor(name)}`}), name)));
  if (dots.length) drawRoofline(byId("roofline"), dots, roof);
}
