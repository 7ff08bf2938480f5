// The page in a real browser, headless Chromium: its numbers are those of the JSON, what it draws is there,
// the cursor finds its op, and a large run stays light. Skipped where there is no Chromium.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "launch/report/budgets_chart.h"
#include "launch/report/html_page.h"
#include "launch/report/rank_report_json.h"
#include "tests/launch/browser.h"
#include "tests/launch/process.h"
#include "tests/launch/report_harness.h"

namespace recollect::test::report_browser_test {
namespace {

using nlohmann::json;

// Every number of the document: data-key -> data-bytes.
std::map<std::string, int64_t> numbers_of(const std::string& dom) {
  const std::string key = "data-key=\"", bytes = "\" data-bytes=\"";
  std::map<std::string, int64_t> numbers;
  for (std::size_t at = dom.find(key); at != std::string::npos; at = dom.find(key, at + 1)) {
    const std::size_t begin = at + key.size(), end = dom.find('"', begin);
    if (dom.compare(end, bytes.size(), bytes) == 0)
      numbers[dom.substr(begin, end - begin)] = std::stoll(dom.substr(end + bytes.size(), 20));
  }
  return numbers;
}

class ReportInBrowser : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!browser_.exists()) GTEST_SKIP() << "there is no Chromium here (Debian package chromium)";
  }
  static Words run_words() {
    return {"parallelism.tensor_parallel_size=2",
            "parallelism.ranks_per_process=2",
            "model.n_layer=4",
            "activation_checkpointing.mode=full",
            "activation_checkpointing.partition_activations=true",
            "activation_checkpointing.cpu_checkpointing=true"};
  }
  Browser browser_;
};

TEST_F(ReportInBrowser, ItsNumbersAreThoseOfTheJson) {
  const Workplace place;
  ASSERT_EQ(place.train(run_words()).status, 0);
  const json rank0 = json::parse(test::TemporaryFolder::read(place.file("out/memory.rank0.json"))),
             rank1 = json::parse(test::TemporaryFolder::read(place.file("out/memory.rank1.json")));
  const std::string dom = browser_.dom(place.file("out/report.html"));
  EXPECT_NE(dom.find("data-ready=\"yes\""), std::string::npos) << "a script has failed";
  const auto numbers = numbers_of(dom);
  for (const char* phase : {"forward", "backward", "optimizer"}) {
    for (const char* kind : {"predicted", "measured"}) {
      const json& ledger = rank0.at(kind);
      const std::string prefix = std::string(kind) + "/" + phase + "/";
      int64_t sum = 0;
      for (const auto& [key, bytes] : ledger.at(phase).items()) {
        if (key == "peak_op") continue;
        EXPECT_EQ(numbers.at(prefix + key), bytes) << prefix << key;
        if (key != "total") sum += bytes.get<int64_t>();
      }
      EXPECT_EQ(sum + numbers.at(prefix + "unused"), numbers.at(prefix + "arena")) << prefix;
      EXPECT_EQ(numbers.at(prefix + "arena"), ledger.at("arena"));
      EXPECT_EQ(numbers.at(prefix + "loaded"), ledger.at("loaded").at("total"));
    }
    EXPECT_EQ(numbers.at(std::string("predicted-measured/") + phase + "/total"), 0);
    // The curve that is drawn has the peak that the ledger has.
    EXPECT_EQ(numbers.at(std::string("curve/") + phase), rank0.at("measured").at(phase).at("total"));
  }
  for (const auto& [rank, report] : {std::pair{"0", rank0}, std::pair{"1", rank1}})
    for (const char* key : {"peak", "unused_at_peak", "arena", "host_arena", "disk"})
      EXPECT_EQ(numbers.at(std::string("ranks/") + rank + "/" + key), report.at("measured").at(key)) << key;
  for (const json& row : rank0.at("profile").at("classes"))
    EXPECT_NE(dom.find("data-key=\"profile/" + row.at("class").get<std::string>() + "\""), std::string::npos);
  const std::size_t dots = dom.find("data-dots=\"");
  ASSERT_NE(dots, std::string::npos);
  EXPECT_GT(std::stoi(dom.substr(dots + 11, 9)), 20) << "ops are missing in the roofline";
  for (const json& effect : rank0.at("switches"))
    EXPECT_NE(dom.find("data-key=\"switch/" + effect.at("name").get<std::string>() + "\""),
              std::string::npos);
}

TEST_F(ReportInBrowser, TheCursorFindsTheOpAndItsBytes) {
  const Workplace place;
  ASSERT_EQ(place.train(run_words()).status, 0);
  const std::string found = browser_.after_script(place.file("out/report.html"), R"(
    const canvas = document.querySelector("#panels canvas"), box = canvas.getBoundingClientRect();
    const move = (x, y) => canvas.dispatchEvent(new PointerEvent("pointermove",
      {clientX: box.left + x, clientY: box.top + y, pointerId: 1, bubbles: true}));
    move(700, 120);
    const over_memory = document.getElementById("tip").innerText;
    const legend = document.getElementById("legend").innerText;
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const colours = new Set();
    for (let i = 0; i < pixels.length; i += 4) colours.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
    document.getElementById("zoom-in").click();
    const zoomed = canvas.toDataURL(), after_zoom = document.getElementById("tip").innerText;
    document.getElementById("zoom-all").click();
    const whole = canvas.toDataURL();
    document.querySelectorAll("#rank-choice button")[1].click();
    const second = document.getElementById("memory-table").dataset.rank;
    const classes = [...document.querySelectorAll("#profile-table tbody tr")].map((row) => [...row.cells])
      .filter((cells) => cells[4].innerText.endsWith("×"))
      .map((cells) => ({measured: +cells[2].innerText, predicted: +cells[3].innerText, off: cells[4].className === "off"}));
    const step = [...document.querySelectorAll("#profile-table tbody tr")].reduce((sum, row) => sum + +row.cells[2].innerText, 0);
    return JSON.stringify({classes, step, over_memory, legend, colours: colours.size, zooms: zoomed !== whole, second, after_zoom});)");
  const json probe = json::parse(found);
  const std::string tip = probe.at("over_memory"), legend = probe.at("legend");
  EXPECT_NE(tip.find("device: "), std::string::npos) << tip;
  for (const char* part : {"op", "kind", "phase", "layer", "MiB"})
    EXPECT_NE(tip.find(part), std::string::npos) << part << " in " << tip;
  // Far from what was predicted, on either side, and more than next to nothing of one of the steps.
  const double step = probe.at("step");  // of both ranks, waits included
  EXPECT_GT(probe.at("classes").size(), 3u);
  for (const json& row : probe.at("classes")) {
    const double measured = row.at("measured"), predicted = row.at("predicted");
    const bool is_far = measured > 1.6 * predicted || measured < predicted / 1.6;
    if (is_far && std::max(measured, predicted) > 0.03 * step) {
      EXPECT_TRUE(row.at("off").get<bool>()) << row;
    }
    if (measured < 1.4 * predicted && measured > predicted / 1.4) {
      EXPECT_FALSE(row.at("off").get<bool>()) << row;
    }
  }
  EXPECT_NE(legend.find("activations"), std::string::npos) << legend;
  EXPECT_NE(legend.find("MiB"), std::string::npos) << "the legend has the bytes under the cursor: " << legend;
  EXPECT_GT(probe.at("colours"), 12) << "hardly anything is drawn";
  EXPECT_TRUE(probe.at("zooms"));
  // The pointer stands still: another moment lies under it now, and the tip is of that one.
  const std::string after_zoom = probe.at("after_zoom");
  EXPECT_NE(after_zoom.find("device: "), std::string::npos) << after_zoom;
  EXPECT_NE(after_zoom, tip);
  EXPECT_EQ(probe.at("second"), "1");
}

TEST_F(ReportInBrowser, TwoRunsAreDrawnOnOneAxis) {
  const Workplace place;
  Words four_ranks = run_words() + Words{"output_dir=full", "parallelism.data_parallel_size=2"};
  four_ranks[1] = "parallelism.ranks_per_process=4";
  ASSERT_EQ(place.train(four_ranks).status, 0);
  ASSERT_EQ(place
                .train({"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2",
                        "model.n_layer=4", "output_dir=none"})
                .status,
            0);
  ASSERT_EQ(place.recollect({"report", "none", "full", "--html", "both.html", "--json"}).status, 0);
  const std::string dom = browser_.dom(place.file("both.html"));
  EXPECT_NE(dom.find("data-ready=\"yes\""), std::string::npos) << "a script has failed";
  const auto load = [&](const char* name) {
    return json::parse(test::TemporaryFolder::read(place.file(name))).at("measured");
  };
  const json a = load("none/memory.rank0.json"), b = load("full/memory.rank0.json");
  const auto numbers = numbers_of(dom);
  for (const char* phase : {"forward", "backward", "optimizer"}) {
    const int64_t in_a = a.at(phase).at("activations"), in_b = b.at(phase).at("activations");
    EXPECT_EQ(numbers.at(std::string("A/") + phase + "/activations"), in_a);
    EXPECT_EQ(numbers.at(std::string("B/") + phase + "/activations"), in_b);
    EXPECT_EQ(numbers.at(std::string("A-B/") + phase + "/activations"), in_b - in_a);
  }
  // Both worlds, whatever their sizes.
  for (const char* rank : {"0", "1", "2", "3"}) {
    const json of_rank = load((std::string("full/memory.rank") + rank + ".json").c_str());
    EXPECT_EQ(numbers.at(std::string("ranks-B/") + rank + "/peak"), of_rank.at("peak"));
    EXPECT_EQ(numbers.contains(std::string("ranks-A/") + rank + "/peak"), *rank < '2');
    EXPECT_NE(dom.find(std::string(">rank ") + rank + "</button>"), std::string::npos);
  }
  EXPECT_NE(dom.find("<p class=\"panel-title\">A: mode none"), std::string::npos);
  EXPECT_NE(dom.find("<p class=\"panel-title\">B: mode full"), std::string::npos);
}

// Of a run that checkpoints nothing: its headline has no second line.
TEST_F(ReportInBrowser, ForScreenshots) {
  const Workplace place;
  Words plain = run_words();
  plain.resize(3);
  ASSERT_EQ(place.train(plain).status, 0);
  const std::string image = browser_.folder().file("page.png");
  const std::string dom =
      browser_.dom(place.file("out/report.html"), {"--hide-scrollbars", "--screenshot=" + image});
  const std::string opens = "<p id=\"headline\" class=\"headline\">";
  const std::size_t begin = dom.find(opens);
  ASSERT_NE(begin, std::string::npos);
  const std::string headline =
      dom.substr(begin + opens.size(), dom.find('<', begin + 1) - begin - opens.size());
  EXPECT_TRUE(headline.starts_with("An arena of ")) << headline;
  EXPECT_EQ(headline.find("null"), std::string::npos) << headline;
  const std::string png = test::TemporaryFolder::read(image);
  EXPECT_EQ(png.substr(1, 3), "PNG");
  EXPECT_GT(png.size(), 50'000u) << "an empty page is smaller";
}

// Words are as large as elsewhere on the page, and a table that goes on beyond the screen says so.
TEST_F(ReportInBrowser, IsReadOnAnyScreen) {
  const BudgetComparison budgets{
      .curves = {{.mode = "auto", .points = {{4 << 20, 4 << 20, 0.5}, {5 << 20, 5 << 20, 0.25}}}},
      .named = {{"none", 5 << 20, 0.25}, {"full", 4 << 20, 0.5}}};
  const std::vector<std::vector<RankReport>> runs{{predicted_report(checkpointed(2, "full", true, true))}};
  const std::string page =
      browser_.folder().write("small.html", html_page(runs, {.chart = budgets_chart(budgets)}));
  for (const char* width : {"500", "800"}) {
    const json probe = json::parse(browser_.after_script(page, R"(
      const seen = [...document.querySelectorAll(".budgets svg")].filter((svg) => svg.getBoundingClientRect().width > 0);
      const boxes = [...document.querySelectorAll(".wide")];
      const beyond = boxes.filter((box) => box.scrollWidth > box.clientWidth + 2);
      return JSON.stringify({width: innerWidth, pictures: seen.length, beyond: beyond.length,
        pixels: 12.5 * seen[0].getBoundingClientRect().width / seen[0].viewBox.baseVal.width,
        said: beyond.filter((box) => getComputedStyle(box, "::after").content.includes("scroll")).length,
        marked: boxes.filter((box) => box.classList.contains("cut")).length});)",
                                                         {std::string("--window-size=") + width + ",2000"}));
    EXPECT_EQ(probe.at("width").dump(), width);
    EXPECT_EQ(probe.at("pictures"), 1);
    EXPECT_GT(probe.at("pixels"), 10);
    EXPECT_LT(probe.at("pixels"), 16);
    EXPECT_EQ(probe.at("said"), probe.at("beyond")) << probe;
    EXPECT_EQ(probe.at("marked"), probe.at("beyond")) << probe;
    if (std::string_view(width) == "500") {
      EXPECT_GT(probe.at("beyond"), 0);
    }
  }
}

// A run of 48 layers on 8 ranks, each with times of its own: as large as a page must bear.
std::vector<RankReport> large_run() {
  std::vector<std::string> words = checkpointed(8, "full", true, true);
  for (const char* word : {"model.n_layer=48", "model.n_embd=64", "model.n_head=8", "training.max_steps=3"})
    words.emplace_back(word);
  const RankReport one = predicted_report(words);
  std::vector<RankReport> run;
  for (int rank = 0; rank < 8; ++rank) {
    RankReport report = one;
    report.rank = rank;
    report.ranks = 8;
    report.measured = report.predicted;
    report.step.steps = 3;
    report.step.measured = report.step.predicted;
    report.timeline.step = 3;
    report.timeline.measured = report.timeline.predicted;
    uint64_t noise = 0x9E3779B97F4A7C15u + static_cast<uint64_t>(rank);
    for (StepTimeline::Run& part : report.timeline.measured->runs)
      for (OpTime& time : part.ops) {
        noise = noise * 6364136223846793005u + 1442695040888963407u;
        if (time.ran()) time.end -= static_cast<int64_t>((noise >> 40) % 1000);  // of some 5000 ns
      }
    run.push_back(std::move(report));
  }
  return run;
}

TEST_F(ReportInBrowser, StaysLightFor48LayersAndEightRanks) {
  const std::vector<std::vector<RankReport>> runs{large_run()};
  const std::string page = html_page(runs);
  EXPECT_LT(page.size(), 3u << 20) << "of a page that people mail to each other";
  const std::string path = browser_.folder().write("large.html", page);
  const std::string found = browser_.after_script(path, R"(
    const begin = performance.now();
    for (let i = 0; i < 10; ++i) document.getElementById("zoom-in").click();
    for (let i = 0; i < 10; ++i) document.getElementById("zoom-out").click();
    const redraw = (performance.now() - begin) / 20;
    const {domContentLoadedEventStart} = performance.getEntriesByType("navigation")[0];
    return JSON.stringify({ready: document.documentElement.dataset.ready, redraw, loaded: performance.now(),
      ranks: document.querySelectorAll(".multiple").length});)");
  const json probe = json::parse(found);
  EXPECT_EQ(probe.at("ready"), "yes");
  EXPECT_EQ(probe.at("ranks"), 8);
  // Some 0.1 s and 15 ms on an idle core; the bounds leave room for a machine that does other things.
  EXPECT_LT(probe.at("loaded"), 10'000) << found;
  EXPECT_LT(probe.at("redraw"), 1'000) << found;
  RecordProperty("bytes", static_cast<int>(page.size()));
  RecordProperty("probe", found);
  std::printf("%zu bytes, %s\n", page.size(), found.c_str());
}

}  // namespace
}  // namespace recollect::test::report_browser_test
