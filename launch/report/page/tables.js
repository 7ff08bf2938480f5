// The tables. Each cell of bytes carries them whole in data-bytes, under a path in data-key that is that of
// the number in the JSON.
const known = (rank) => rank.measured ?? rank.predicted;
const waitsOf = (rank) => rank.step.measured?.exposed ?? 0;
const peersOf = (rank) => rank.step.measured?.waiting_for_peers ?? 0;

function bytesCell(bytes, unit, key, group) {
  return element("td", {"data-key": key, "data-bytes": bytes, title: `${grouped(bytes)} bytes`,
                        class: [group && "group", bytes === 0 && "zero"].filter(Boolean).join(" ") || undefined},
                 inUnit(bytes, unit));
}

function differenceCell(bytes, unit, exact, key) {
  const words = bytes === 0 ? "0" : exact ? grouped(bytes) : (bytes > 0 ? "+" : "−") + inUnit(Math.abs(bytes), unit);
  return element("td", {"data-key": key, "data-bytes": bytes, title: `${grouped(bytes)} bytes`,
                        class: bytes === 0 ? "zero" : exact ? "off" : undefined}, words);
}

const nameCell = (name, color) =>
  element("th", {scope: "row"}, color ? element("i", {class: "swatch", style: `background:${color}`}) : null, name);

// `columns`: [{name, path, ledger}], one or two of them; where there are two, their difference follows. Every
// column of a phase sums to the arena. Of two runs only rows that differ are shown; returns the names of the others.
function memoryTable(columns, exact) {
  const unit = unitFor(Math.max(...columns.map(({ledger}) => ledger.arena)));
  const pair = columns.length > 1, span = columns.length + (pair ? 1 : 0);
  const cells = (phase, key, of) => {
    const numbers = columns.map(({ledger}) => of(ledger));
    const made = columns.map(({path}, i) => bytesCell(numbers[i], unit, `${path}/${phase}/${key}`, i === 0));
    const path = columns.map((column) => column.path).join("-");
    if (pair) made.push(differenceCell(numbers[1] - numbers[0], unit, exact, `${path}/${phase}/${key}`));
    return made;
  };
  const line = (name, key, of, attributes, color) =>
    element("tr", attributes, nameCell(name, color), ...phases.flatMap((phase) => cells(phase, key, (l) => of(l, phase))));
  const differs = (category) => !pair || exact ||
    phases.some((phase) => columns[0].ledger[phase][category] !== columns[1].ledger[phase][category]);
  const byCategory = categories.filter(differs).map((category) =>
    line(category, category, (l, phase) => l[phase][category], {}, palette[category]));
  replace(byId("memory-table"),
    element("thead", {},
      element("tr", {}, element("th", {}, unit.name),
              ...phases.map((phase) => element("th", {colspan: span, class: "group"}, phase))),
      element("tr", {}, element("th"), ...phases.flatMap(() => [
        ...columns.map(({name}, i) => element("th", {class: i === 0 ? "group" : undefined}, name)),
        ...(pair ? [element("th", {}, exact ? "difference, bytes" : "difference")] : [])]))),
    element("tbody", {}, ...byCategory,
      line("arena peak", "total", (l, phase) => l[phase].total, {class: "sum"}),
      line("not in use then", "unused", (l, phase) => l.arena - l[phase].total, {class: "quiet"}),
      line("arena", "arena", (l) => l.arena, {class: "sum"}),
      // Reports of former versions do not know it.
      columns.every(({ledger}) => ledger.loaded) ? line("before the first step", "loaded", (l) => l.loaded.total, {
        class: "quiet",
        title: `held when the model is loaded: ${columns.map(({name, ledger}) => `${name} ` + categories
          .filter((category) => ledger.loaded[category]).map((category) => `${category} ${inUnit(ledger.loaded[category], unit)}`)
          .join(", ")).join("; ")} ${unit.name}`}) : ""));
  return categories.filter((category) => !differs(category));
}

function switchesTable(runs) {
  const rows = runs.flatMap(({label, rank}) => rank.switches.map((s) => ({label, rank, s})));
  byId("switches-table").closest("section").hidden = rows.length === 0;
  const flag = runs.length > 1, measured = rows.some(({rank}) => rank.step.steps > 0);
  const heads = measured ? ["predicted", "measured"] : ["predicted"];
  // Next to nothing is never far off.
  const far = (rank, cost) => cost.measured !== null && isFarOff(ratioOf(cost.measured, cost.predicted)) &&
    Math.max(cost.measured, cost.predicted) > 0.01 * rank.step.predicted.step;
  const time = (rank, cost) => heads.map((head, i) => cost[head] === null
    ? element("td", {class: "zero", title: "no step of this run was timed op by op"}, "–")
    : element("td", {"data-seconds": cost[head], class: i === 0 ? "group" : far(rank, cost) ? "off" : undefined,
                   title: i && ratioOf(cost.measured, cost.predicted)
                     ? `${ratioText(cost.measured / cost.predicted)} what was predicted` : undefined},
            msText(1e3 * cost[head])));
  const none = () => heads.map((_, i) => element("td", {class: i ? "zero" : "group zero"}, "–"));
  const group = () => heads.map((head, i) => element("th", {class: i ? undefined : "group"}, head));
  replace(byId("switches-table"),
    element("thead", {},
      element("tr", {}, element("th", {colspan: flag ? 5 : 4}),
              element("th", {class: "group", colspan: heads.length}, "exposed, a step"),
              element("th", {class: "group", colspan: heads.length}, "running again, a step")),
      element("tr", {}, element("th", {}, "switch"), ...(flag ? [element("th", {}, "run")] : []),
              ...["values", "saved", "moved"].map((head) => element("th", {}, head)), ...group(), ...group())),
    element("tbody", {}, ...rows.map(({label, rank, s}) =>
      element("tr", {"data-key": `switch/${s.name}`}, nameCell(s.name), ...(flag ? [element("td", {}, label)] : []),
              element("td", {}, s.values), element("td", {"data-bytes": s.saved}, bytesText(s.saved)),
              element("td", {"data-bytes": s.moved, class: s.moved ? undefined : "zero"},
                      s.moved ? bytesText(s.moved) : "–"),
              ...(s.moved ? time(rank, s.exposed) : none()), ...(s.flops ? time(rank, s.running) : none())))));
  replace(byId("sentences"), ...runs.flatMap(({rank}) =>
    rank.activation_checkpointing.map(({name, sentence}) => element("li", {}, `${name}: ${sentence}`))));
}

const medianOf = (numbers) => {
  const sorted = [...numbers].sort((a, b) => a - b), half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
};

// The one furthest from the median; -1 where all are alike.
function outlierOf(numbers) {
  if (numbers.every((n) => n === numbers[0])) return -1;
  const middle = medianOf(numbers), far = numbers.map((n) => Math.abs(n - middle));
  return far.indexOf(Math.max(...far));
}

// `runs`: [{name, path, ranks}]; of each, what its ranks hold and a sentence on them.
function ranksTables(runs) {
  const several = runs.filter(({ranks}) => ranks.length > 1);
  byId("ranks-tables").closest("section").hidden = several.length === 0;
  replace(byId("ranks-tables"), ...several.flatMap(ranksTable));
}

function ranksTable({name, path, ranks}) {
  const ledgers = ranks.map(known), unit = unitFor(Math.max(...ledgers.map((l) => l.arena)));
  const far = outlierOf(ledgers.map((l) => l.peak)), waits = ranks.map(waitsOf), late = waits.indexOf(Math.max(...waits));
  const peakPhase = ledgers.map((l) => phases.reduce((best, phase) => (l[phase].total > l[best].total ? phase : best)));
  const cell = (i, bytes, key) => {
    const made = bytesCell(bytes, unit, `${path}/${ranks[i].rank}/${key}`);
    if (i === far) made.classList.add("outlier");
    return made;
  };
  const line = (name, of, attributes = {}, color) =>
    element("tr", attributes, nameCell(name, color), ...ranks.map((_, i) => of(i)));
  const bytes = (name, key, of, attributes, color) => line(name, (i) => cell(i, of(ledgers[i], i), key), attributes, color);
  const lines = [
    ...categories.map((c) => bytes(c, c, (l, i) => l[peakPhase[i]][c], {}, palette[c])),
    bytes("arena peak", "peak", (l) => l.peak, {class: "sum"}),
    line("peak in", (i) => element("td", {}, peakPhase[i]), {class: "quiet"}),
    bytes("not in use then", "unused_at_peak", (l) => l.unused_at_peak, {class: "quiet"}),
    bytes("arena", "arena", (l) => l.arena, {class: "sum"}),
    bytes("arena, predicted", "predicted_arena", (_, i) => ranks[i].predicted.arena),
    line("difference, bytes", (i) => differenceCell(ledgers[i].arena - ranks[i].predicted.arena, unit, true)),
    bytes("host arena", "host_arena", (l) => l.host_arena), bytes("disk", "disk", (l) => l.disk),
    bytes("communicators", "communication_buffers", (_, i) => ranks[i].communication_buffers),
    ranks.some((r) => r.beside_arena)
      ? bytes("beside the arena", "beside_arena", (_, i) => ranks[i].beside_arena ?? 0) : undefined,
    ranks.some((r) => r.device_communicators)
      ? bytes("of it, communicators", "device_communicators", (_, i) => ranks[i].device_communicators ?? 0) : undefined,
    ...(ranks.some((r) => r.resident)
      ? [bytes("resident, predicted", "resident/predicted", (_, i) => ranks[i].resident?.predicted ?? 0),
         bytes("resident, measured", "resident/measured", (_, i) => ranks[i].resident?.measured ?? 0)] : []),
    line("exposed waits", (i) => element("td", {
      "data-seconds": waits[i], class: waits[late] > 0 && i === late ? "outlier" : undefined,
    }, msText(1e3 * waits[i]))),
    ranks.some(peersOf)
      ? line("waiting for peers", (i) => element("td", {"data-seconds": peersOf(ranks[i])}, msText(1e3 * peersOf(ranks[i]))))
      : undefined].filter(Boolean);
  const table = ranks.length > mostButtons ? turned(lines, ranks, unit) : element("table", {},
    element("thead", {}, element("tr", {}, element("th", {}, `at the peak, ${unit.name}`),
                                 ...ranks.map((r) => element("th", {}, `rank ${r.rank}`)))),
    element("tbody", {}, ...lines));
  const alike = `All ${ranks.length} ranks hold the same.`;
  const unlike = far < 0 ? alike : `Rank ${ranks[far].rank} stands out with an arena peak of ${bytesText(ledgers[far].peak)}; ` +
    `the median is ${bytesText(medianOf(ledgers.map((l) => l.peak)))}.`;
  const longest = () => ` Rank ${ranks[late].rank} waits longest: ${msText(1e3 * waits[late])} a step; ` +
    `the median is ${msText(1e3 * medianOf(waits))}.`;
  const note = (name && `${name}: `) + unlike + (waits[late] > 0 ? longest() : "");
  return [element("p", {class: "soft"}, note), element("div", {class: "wide"}, table)];
}

// Of many ranks a line each, without what is the same nothing for all.
function turned(lines, ranks, unit) {
  const columns = lines.map((line) => [...line.children])
    .filter(([, ...cells]) => cells.some((cell) => !cell.classList.contains("zero")));
  return element("table", {class: "of-ranks"},
    element("thead", {}, element("tr", {}, element("th", {}, `at the peak, ${unit.name}`),
                                 ...columns.map(([head]) => element("th", {}, head.textContent)))),
    element("tbody", {}, ...ranks.map((r, i) =>
      element("tr", {}, nameCell(`rank ${r.rank}`), ...columns.map(([, ...cells]) => cells[i])))));
}
