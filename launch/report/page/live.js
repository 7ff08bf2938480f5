// While the run goes on the page is written again and again: it reads itself anew every few seconds, and what was looked at
// stays in view.
const secondsToReload = 5;
const keptView = () => (data.live ? history.state?.recollect : undefined);

function keepView() {
  const {rank, source, whole, chosen} = state, {full, t0, t1} = view;
  const kept = {rank, source: chosen ? source : undefined, whole, chosen, window: full > 0 ? [t0 / full, t1 / full] : [0, 1],
                y: scrollY, times: (keptView()?.times ?? 0) + 1};
  history.replaceState({recollect: kept}, "");
}

// What was chosen, as far as there still is such a rank.
function keptState() {
  const {rank, source, whole, chosen} = keptView() ?? {};
  return drawnRanks.includes(rank) ? {rank, source, whole, chosen} : {};
}

function restoreView() {
  const kept = keptView();
  if (!kept) return;
  document.documentElement.dataset.reloads = kept.times;
  if (kept.window[0] > 0 || kept.window[1] < 1) setWindow(kept.window[0] * view.full, kept.window[1] * view.full);
  addEventListener("load", () => scrollTo(0, kept.y));
}

// Not under somebody's cursor; where a finger has pointed, it is no longer.
function reloadLater() {
  setTimeout(() => {
    const looks = (view.pointer && !view.pointer.touch) || (trainingView.step !== null && !trainingView.touch);
    if (view.drag || looks) return reloadLater();
    keepView();
    location.reload();
  }, 1000 * secondsToReload);
}

function showLive() {
  byId("live").hidden = !data.live;
  if (!data.live) return;
  const {max_steps: all} = runs[0].ranks[0], step = runs[0].training?.step ?? 0;
  const steps = `step ${grouped(step)}${all ? ` of ${grouped(all)}` : ""}`;
  byId("live").textContent = `running, ${steps}, as of ${clockText(new Date(1e3 * data.live), true)}`;
  reloadLater();
}
