// What the page was given, made ready to draw. A step is a few runs laid end to end on one axis in
// milliseconds; micro-batches that were not kept are a break in it.
const data = JSON.parse(byId("data").textContent);
const {streams, phases, categories, spaces} = data;
// Whose rates a predicted step goes by.
const isPreset = ({device_model}) => data.presets.includes(device_model);
const ratesOf = (step) => (isPreset(step) ? `the preset ${step.device_model}` : step.device_model);
// The preset cpu is of no machine in particular: its times are not held against those of a run.
const tellsTimes = ({device_model}) => device_model !== "cpu";
const computeStream = 0, optimizerRun = -1, spaceNames = spaces;

// Rows held from each tick on at which something changes: [space * categories + category].
function expandMemory(memory) {
  const width = spaces.length * categories.length;
  const held = new Float64Array(width);
  memory.persistent.forEach((row, s) => row.forEach((bytes, c) => (held[s * categories.length + c] = bytes)));
  const ticks = [0], rows = [held.slice()];
  let tick = 0;
  for (let i = 0; i < memory.bytes.length; ++i) {
    tick += memory.ticks_later[i];
    held[memory.space[i] * categories.length + memory.category[i]] += memory.bytes[i];
    if (tick !== ticks[ticks.length - 1]) {
      ticks.push(tick);
      rows.push(held.slice());
    } else {
      rows[rows.length - 1] = held.slice();
    }
  }
  return {ticks, rows};
}

const programs = data.programs.map((program) => {
  const {ops} = program;
  const again = ops.recomputes.map((is) => is === 1);
  return {ops, again, count: ops.name.length, memory: expandMemory(program.memory),
          persistent: program.memory.persistent.flat()};
});

// The last index whose entry is not above `value`; -1 where there is none.
function lastNotAbove(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// Adds a run's bars and its stretch of the memory curve; `shift` takes its nanoseconds to the axis.
function addRun(step, program, run, shift) {
  const {ops, memory} = program;
  const ms = (nanoseconds) => (nanoseconds - shift) / 1e6;
  const now = streams.map(() => run.begin);
  const tickTimes = new Float64Array(2 * run.gap.length);
  let compute = run.begin;
  for (let i = 0; i < run.gap.length; ++i) {
    const op = run.first + i, stream = ops.stream[op], ran = run.duration[i] >= 0;
    const begin = now[stream] + run.gap[i], end = begin + run.duration[i];
    const counts = ran && stream === computeStream;
    tickTimes[2 * i] = ms(counts ? begin : compute);
    if (counts) compute = end;
    tickTimes[2 * i + 1] = ms(compute);
    if (!ran) continue;
    now[stream] = end;
    const lane = step.lanes[stream];
    lane.op.push(op);
    lane.t0.push(ms(begin));
    lane.t1.push(ms(end));
    lane.wait.push(Math.min(run.waited[i], run.gap[i]) / 1e6);
    lane.stood.push((run.stood?.[i] ?? 0) / 1e6);
    lane.whom.push(run.whom?.[i] ?? -1);
  }
  if (run.end > compute) step.joins.push({t0: ms(compute), t1: ms(run.end)});
  const first = 2 * run.first, last = first + tickTimes.length;
  const from = Math.max(0, lastNotAbove(memory.ticks, first));
  for (let k = from; k < memory.ticks.length && memory.ticks[k] < last; ++k) {
    step.curve.t.push(k === from ? ms(run.begin) : tickTimes[memory.ticks[k] - first]);
    step.curve.rows.push(memory.rows[k]);
  }
  step.curve.t.push(ms(run.end));
  step.curve.rows.push(step.curve.rows[step.curve.rows.length - 1]);
}

function decodeStep(program, times) {
  const step = {program, breaks: [], joins: [], curve: {t: [], rows: []}, length: 0, runs: []};
  step.lanes = streams.map(() => ({op: [], t0: [], t1: [], wait: [], stood: [], whom: []}));
  let shift = 0, previous;
  for (const run of times.runs) {
    const skipped = previous && run.micro_batch !== optimizerRun ? run.micro_batch - previous.micro_batch - 1 : 0;
    if (skipped > 0) {
      const width = 0.04 * (run.end - run.begin);
      step.breaks.push({t0: (previous.end - shift) / 1e6, t1: (previous.end - shift + width) / 1e6, skipped});
      shift += run.begin - previous.end - width;
    }
    addRun(step, program, run, shift);
    step.runs.push({t0: (run.begin - shift) / 1e6, t1: (run.end - shift) / 1e6, micro: run.micro_batch});
    step.length = (run.end - shift) / 1e6;
    previous = run;
  }
  step.microBatches = times.micro_batches;
  step.used = streams.map((_, s) => program.ops.stream.includes(s));
  return step;
}

// Steps are decoded when they are first looked at, and once.
const decoded = new Map();
function stepOf(timeline, source) {
  const times = timeline?.[source];
  if (times === undefined) return undefined;
  const key = `${timeline.program}/${times}`;
  if (!decoded.has(key)) decoded.set(key, decodeStep(programs[timeline.program], data.times[times]));
  return decoded.get(key);
}

const rowSum = (row, space) => {
  let sum = 0;
  for (let c = 0; c < categories.length; ++c) sum += row[space * categories.length + c];
  return sum;
};
const mostOf = (step, space) => step.curve.rows.reduce((most, row) => Math.max(most, rowSum(row, space)), 0);

function highestOf(step) {
  step.highest ??= step.curve.rows.reduce((best, row) => (rowSum(row, 0) > rowSum(best, 0) ? row : best));
  return step.highest;
}

// Of each phase, the most that the device holds, and when: from the curve that is drawn.
function curvePeaks(program) {
  const {ticks, rows} = program.memory;
  const peaks = phases.map(() => ({bytes: 0, op: -1}));
  let k = 0;
  for (let tick = 0; tick < 2 * program.count; ++tick) {
    while (k + 1 < ticks.length && ticks[k + 1] <= tick) ++k;
    const op = tick >> 1, peak = peaks[program.ops.phase[op]], bytes = rowSum(rows[k], 0);
    if (bytes > peak.bytes) Object.assign(peak, {bytes, op});
  }
  return peaks;
}
