// How the page is laid out, in a real browser: on wide and narrow windows, by day and by night, no word lies on another and
// nothing is wider than the window; what it says in short; and a page of a run that goes on. Skipped where there is no Chromium.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "launch/report/html_page.h"
#include "tests/launch/browser.h"
#include "tests/launch/report_harness.h"

namespace recollect::test::report_layout_test {
namespace {

using nlohmann::json;

class ReportLayout : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!browser_.exists()) GTEST_SKIP() << "there is no Chromium here (Debian package chromium)";
  }
  Browser browser_;
};

// A curve as trainings have it: falling, noisy, an evaluation every tenth step; of batches of many lengths.
TrainingCurves sample_curves(int steps, double offset) {
  TrainingCurves curves;
  for (int step = 1; step <= steps; ++step) {
    const double noise = 0.2 * std::sin(7.1 * step) * std::cos(1.3 * step * step),
                 rate = 1e-3 * (1 - 1.0 * step / steps);
    const int length = 32 + 16 * (step * step % 23), samples = step == steps ? 3 : 8;
    curves.add_line(fmt::format(
        R"({{"step": {}, "loss": {}, "grad_norm": {}, "learning_rate": {}, "tokens_per_second": {}, )"
        R"("samples": {}, "sequence_length": {}, "memory_peak": {}, "memory_peak_phase": "backward"}})",
        step, offset + 3.0 / std::sqrt(step) + noise, 0.8 + std::abs(noise) + 40.0 / step, rate,
        19000 + 2000 * noise, samples, length, 9'000'000 + 25'000 * samples * length + 20 * length * length));
    if (step % 10 == 0)
      curves.add_line(
          fmt::format(R"({{"step": {}, "eval_loss": {}, "eval_tokens": 100, "eval_accuracy": {}}})", step,
                      offset + 3.1 / std::sqrt(step), 1 - 1.0 / step));
  }
  return curves;
}

// A run of so many ranks whose steps took twice what was predicted.
std::vector<RankReport> sample_run(int ranks, const std::string& mode) {
  std::vector<std::string> words = checkpointed(ranks, mode, mode != "none" && ranks > 1, mode != "none");
  for (const char* word :
       {"model.n_layer=12", "model.n_embd=48", "model.n_head=12", "output_dir=/scratch/runs/gpt2-long-name"})
    words.emplace_back(word);
  RankReport one = predicted_report(words);
  one.step.device = kRatesOfMachine;  // a preset's times are not compared
  one.ranks = ranks;
  one.start.began = 1764000000;
  if (mode != "none")
    one.start.uncheckpointed = {
        .peak = 3 * one.predicted.peak(), .step = 0.9 * one.step.predicted, .with_step = one.step.predicted};
  one.max_steps = 400;
  one.measured = one.predicted;
  one.step.steps = 400;
  one.step.measured = one.step.mean = 2 * one.step.predicted;
  one.timeline.step = 3;
  one.timeline.measured = one.timeline.predicted;
  std::vector<RankReport> run(static_cast<std::size_t>(ranks), one);
  for (int rank = 0; rank < ranks; ++rank) run[static_cast<std::size_t>(rank)].rank = rank;
  return run;
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text)
    result += c == '&' ? std::string("&amp;") : c == '"' ? std::string("&quot;") : std::string(1, c);
  return result;
}

// The page in a frame of that width, by day or by night, which notes the place of every word that is drawn on a canvas.
std::string frame_of(std::string page, int width, bool dark) {
  const std::string media = "@media (prefers-color-scheme: dark)";
  const std::size_t at = page.find(media);
  page.replace(at, media.size(), dark ? "@media all" : "@media not all");
  page.insert(page.find("<head>") + 6, R"(<script>
    window.words = new Map();
    const pen = CanvasRenderingContext2D.prototype, {fillText, clearRect} = pen;
    pen.clearRect = function (...box) { window.words.set(this.canvas, []); return clearRect.apply(this, box); };
    pen.fillText = function (words, x, y) {
      const size = this.measureText(words), m = this.getTransform(), ratio = devicePixelRatio;
      const left = x - size.actualBoundingBoxLeft, right = x + size.actualBoundingBoxRight;
      const corners = [[left, y - 4], [right, y - 4], [left, y + 4], [right, y + 4]].map(([a, b]) =>
        [(m.a * a + m.c * b + m.e) / ratio, (m.b * a + m.d * b + m.f) / ratio]);
      const xs = corners.map((c) => c[0]), ys = corners.map((c) => c[1]);
      window.words.get(this.canvas)?.push({words: String(words), left: Math.min(...xs), right: Math.max(...xs),
                                           top: Math.min(...ys), bottom: Math.max(...ys)});
      return fillText.call(this, words, x, y);
    };
    </script>)");
  return fmt::format(R"(<iframe style="width:{}px;height:1600px;border:0" srcdoc="{}"></iframe>)", width,
                     escaped(page));
}

// What is wrong with how a page is laid out, and what it has: in each frame.
const char* const kLooksAtFrames = R"(
  const meets = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
                          Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
  function meetings(boxes) {
    const found = [];
    boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => meets(a, b) && found.push(`${a.words} | ${b.words}`)));
    return found;
  }
  function wordsOf(document) {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
    while (walker.nextNode()) {
      const node = walker.currentNode, parent = node.parentElement;
      if (!node.data.trim() || parent.closest("script, noscript, select, [hidden]")) continue;
      const range = document.createRange(), clip = parent.closest(".wide")?.getBoundingClientRect();
      range.selectNodeContents(node);
      for (const {left, right, top, bottom, width} of range.getClientRects())
        if (width > 0 && !(clip && left > clip.right)) found.push({words: node.data.trim(), left, right, top: top + 2, bottom: bottom - 2});
    }
    return found;
  }
  const frames = [...document.querySelectorAll("iframe")].map((frame) => {
    const {contentDocument: page, contentWindow: window} = frame, root = page.documentElement;
    const drawn = [...window.words].flatMap(([canvas, boxes]) => canvas.isConnected
      ? [...meetings(boxes), ...boxes.filter(({left, right}) => left < -0.5 || right > canvas.clientWidth + 0.5)
                                     .map(({words}) => `${words} leaves its canvas`)] : []);
    const text = (id) => page.getElementById(id).innerText;
    return {width: frame.clientWidth, ready: root.dataset.ready, overflow: root.scrollWidth - root.clientWidth,
            meetings: [...meetings(wordsOf(page)), ...drawn], drawn: [...window.words.values()].flat().length,
            paper: getComputedStyle(page.body).backgroundColor, title: text("title"), when: text("when"), headline: text("headline"),
            advice: text("advice"), figures: page.querySelectorAll(".figure").length,
            off: page.querySelectorAll("#figures .off").length,
            curves: [...page.querySelectorAll("[data-curve]")].map((box) => box.dataset.curve),
            list: page.querySelectorAll("#rank-choice option").length, table: page.querySelectorAll(".of-ranks tbody tr").length,
            strip: [...window.words.get(page.querySelector("#panels canvas"))].map(({words}) => words),
            second: page.querySelectorAll("#panels canvas")[1]?.getBoundingClientRect().bottom - page.getElementById("panels").getBoundingClientRect().top,
            rows: [...page.querySelectorAll("#memory-table tbody th")].map((head) => head.textContent)};
  });
  return JSON.stringify(frames);)";

TEST_F(ReportLayout, IsLaidOutForWideAndNarrowByDayAndByNight) {
  const std::vector<std::vector<RankReport>> run{sample_run(6, "full")},
      two{sample_run(1, "none"), sample_run(1, "full")};
  const std::vector<TrainingCurves> curves{sample_curves(400, 1.0), sample_curves(300, 1.2)};
  const std::string page = html_page(run, {.curves = std::span(curves).first(1)}),
                    both = html_page(two, {.curves = curves});
  std::string frames;
  for (const int width : {1400, 800, 400})
    for (const bool dark : {false, true}) frames += frame_of(page, width, dark);
  frames += frame_of(both, 1400, false) + frame_of(both, 400, true);
  const std::string wrapper = browser_.folder().write(
      "frames.html",
      "<!doctype html><html><head><meta charset='utf-8'><title></title></head><body "
      "style='margin:0;width:7000px'>" +
          frames + "<script>addEventListener('load', () => { document.title = (() => {" + kLooksAtFrames +
          "})(); });</script></body></html>");
  const std::string image = browser_.folder().file("frames.png");
  const std::string dom =
      browser_.dom(wrapper, {"--hide-scrollbars", "--window-size=7000,1600", "--screenshot=" + image});
  EXPECT_GT(TemporaryFolder::read(image).size(), 300'000u) << "empty pages are smaller";
  const json looked = json::parse(title_of(dom));
  ASSERT_EQ(looked.size(), 8u);
  for (const json& frame : looked) {
    const std::string which =
        fmt::format("{} px, {}: ", frame.at("width").get<int>(), frame.at("paper").get<std::string>());
    EXPECT_EQ(frame.at("ready"), "yes") << which;
    EXPECT_EQ(frame.at("overflow"), 0) << which << "wider than the window";
    EXPECT_EQ(frame.at("meetings"), json::array()) << which << "words lie on each other";
    EXPECT_GT(frame.at("drawn"), 60) << which;
    EXPECT_EQ(frame.at("curves"), json({"loss", "grad_norm", "learning_rate", "tokens_per_second",
                                        "eval_accuracy", "memory_peak"}))
        << which;
    EXPECT_GE(frame.at("figures"), 5) << which;
  }
  EXPECT_NE(looked.at(0).at("paper"), looked.at(1).at("paper")) << "night is as bright as day";
  for (int i = 0; i < 6; ++i) {
    const json& frame = looked.at(i);
    EXPECT_EQ(frame.at("title"), "/scratch/runs/gpt2-long-name");
    EXPECT_NE(frame.at("when").get<std::string>().find("Nov 2025, "), std::string::npos) << frame.at("when");
    EXPECT_NE(frame.at("headline").get<std::string>().find("−66.7 % arena against mode none"),
              std::string::npos)
        << frame.at("headline");
    EXPECT_NE(frame.at("advice").get<std::string>().find("recollect calibrate --out device.yaml"),
              std::string::npos);
    EXPECT_EQ(frame.at("off"), 1) << "2.00x what was predicted is marked";
    EXPECT_EQ(frame.at("list"), 6);
    EXPECT_EQ(frame.at("table"), 6);
    const json& strip = frame.at("strip");
    const std::vector<const char*> phases =
        frame.at("width") == 400 ? std::vector<const char*>{"fwd", "bwd", "opt"}
                                 : std::vector<const char*>{"forward", "backward", "optimizer"};
    for (const char* word : phases)
      EXPECT_NE(std::find(strip.begin(), strip.end(), word), strip.end()) << frame.at("width") << " " << word;
    const auto again = [&](const json& word) {
      return std::isdigit(static_cast<unsigned char>(word.get<std::string>().front())) &&
             std::count(strip.begin(), strip.end(), word) > 1;
    };
    EXPECT_TRUE(std::any_of(strip.begin(), strip.end(), again))
        << "layers are numbered in forward and in backward: " << strip;
  }
  for (const int i : {6, 7}) {
    const json& frame = looked.at(i);
    EXPECT_NE(frame.at("headline").get<std::string>().find("B against A: −"), std::string::npos)
        << frame.at("headline");
    EXPECT_LT(frame.at("second"), 760) << "both curves are in view";
    const json& rows = frame.at("rows");
    EXPECT_EQ(std::find(rows.begin(), rows.end(), "parameters"), rows.end()) << "what is alike is left out";
    EXPECT_NE(std::find(rows.begin(), rows.end(), "activations"), rows.end());
  }
}

// The tip follows the cursor over every canvas: where it stands, whether its words fit, and the most bytes that it names.
const char* const kMovesTheCursor = R"(
  const frames = [...document.querySelectorAll("iframe")].map((frame) => {
    const {contentDocument: page, contentWindow: window} = frame, tip = page.getElementById("tip");
    const seen = {tips: 0, outside: [], wide: [], most: 0};
    function look(canvas, box, x, y) {
      canvas.dispatchEvent(new window.PointerEvent("pointermove",
        {clientX: box.left + x, clientY: box.top + y, pointerId: 1, bubbles: true}));
      if (tip.hidden) return;
      const {left, top, right, bottom} = tip.getBoundingClientRect(), words = tip.innerText;
      seen.tips++;
      if (left < 0 || top < 0 || right > window.innerWidth || bottom > window.innerHeight) seen.outside.push(words);
      if (tip.scrollWidth > tip.clientWidth) seen.wide.push(words);
      const whole = words.match(/^device:[^]*with what stays\s*([\d.]+)/);
      if (whole) seen.most = Math.max(seen.most, Number(whole[1]));
    }
    for (const canvas of page.querySelectorAll("#panels canvas")) {
      canvas.scrollIntoView();
      const box = canvas.getBoundingClientRect();
      for (let x = 1; x < box.width; x += box.width / 60)
        for (let y = 4; y < box.height; y += 20) look(canvas, box, x, y);
      for (let x = 0.5; x < box.width; ++x) look(canvas, box, x, 60);
    }
    const peaks = [...page.querySelectorAll("[data-key^='curve/']")];
    const highest = peaks.reduce((a, b) => (Number(a.dataset.bytes) > Number(b.dataset.bytes) ? a : b));
    return {width: frame.clientWidth, ...seen, peak: Number(highest.textContent.match(/([\d.]+) MiB/)[1])};
  });
  return JSON.stringify(frames);)";

TEST_F(ReportLayout, TheTipStaysInTheWindowAndHasTheNumbersOfTheCurve) {
  const std::vector<std::vector<RankReport>> run{sample_run(1, "full")};
  const std::string page = html_page(run, {});
  std::string frames;
  for (const int width : {1400, 800, 400}) frames += frame_of(page, width, false);
  const std::string wrapper = browser_.folder().write(
      "tips.html",
      "<!doctype html><html><head><meta charset='utf-8'><title></title></head><body "
      "style='margin:0;width:3000px'>" +
          frames + "<script>addEventListener('load', () => { document.title = (() => {" + kMovesTheCursor +
          "})(); });</script></body></html>");
  const json looked = json::parse(title_of(browser_.dom(wrapper, {"--window-size=3000,1600"})));
  ASSERT_EQ(looked.size(), 3u);
  for (const json& frame : looked) {
    EXPECT_GT(frame.at("tips"), 500) << frame.at("width");
    EXPECT_EQ(frame.at("outside"), json::array()) << frame.at("width");
    EXPECT_EQ(frame.at("wide"), json::array()) << frame.at("width");
    EXPECT_EQ(frame.at("most"), frame.at("peak")) << "a pixel has the highest of what it spans";
  }
}

TEST_F(ReportLayout, APageOfARunThatGoesOnReadsItselfAnewAndStaysWhereItWas) {
  const std::vector<std::vector<RankReport>> run{sample_run(2, "full")};
  const std::vector<TrainingCurves> curves{sample_curves(40, 1)};
  const std::string page = html_page(run, {.curves = curves, .live = 1764000000});
  std::string hurried = page;  // five seconds are over when the script below says so
  hurried.insert(page.find("<head>") + 6,
                 "<script>window.setTimeout = (what, ms) => ms === 5000 && (window.due = what);</script>");
  const std::string path = browser_.folder().write("live.html", hurried);
  // The first time somebody looks closer, at the second rank; then nobody touches it.
  const std::string left = browser_.after_script(path, R"(
    if (history.state === null) {
      document.querySelectorAll("#rank-choice button")[1].click();
      for (let i = 0; i < 3; ++i) document.getElementById("zoom-in").click();
      window.due();
      return "first";
    }
    const [from, to] = history.state.recollect.window;
    return JSON.stringify({rank: document.getElementById("memory-table").dataset.rank, part: to - from,
      reloads: document.documentElement.dataset.reloads, live: document.getElementById("live").innerText});)");
  const json probe = json::parse(left);
  EXPECT_EQ(probe.at("reloads"), "1");
  EXPECT_EQ(probe.at("rank"), "1");
  EXPECT_NEAR(probe.at("part"), 0.125, 1e-9);
  EXPECT_EQ(probe.at("live").get<std::string>().find("running, step 40 of 400, as of "), 0u) << left;
}

}  // namespace
}  // namespace recollect::test::report_layout_test
