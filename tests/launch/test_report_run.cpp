// What a run reports and leaves behind, and what `recollect report` makes of that.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/launch/process.h"

namespace recollect::test::report_run_test {
namespace {

using nlohmann::json;

const Words kTwoRanks = {"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2"};
const Words kFull = {"activation_checkpointing.mode=full", "activation_checkpointing.cpu_checkpointing=true",
                     "activation_checkpointing.partition_activations=true"};

std::string read(const Workplace& place, const std::string& name) {
  return test::TemporaryFolder::read(place.file(name));
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

json rank_json(const Workplace& place, const std::string& name) {
  json report = json::parse(read(place, name));
  report.erase("timeline");
  return report;
}

TEST(ReportOfARun, IsTheSameWhenRenderedAgain) {
  const Workplace place;
  const Finished run = place.train(kTwoRanks + kFull + Words{"logging.verbose=true"});
  ASSERT_EQ(run.status, 0) << run.err;
  const Finished again = place.recollect({"report", "out", "--html", "again.html"});
  ASSERT_EQ(again.status, 0) << again.err;
  // The tables that the run has ended with, but for its closing summary, and the page that it has left.
  const std::size_t begin = run.out.rfind("memory, MiB "), end = run.out.find("trained 2 steps in ", begin);
  const std::string tables = run.out.substr(begin, end - begin);
  EXPECT_EQ(again.out.substr(again.out.find("memory, MiB ")), tables + "wrote again.html\n");
  EXPECT_EQ(read(place, "again.html"), read(place, "out/report.html"));

  const Finished numbers = place.recollect({"report", "out", "--json"});
  ASSERT_EQ(numbers.status, 0) << numbers.err;
  const json document = json::parse(numbers.out);
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_EQ(document.at("runs").at(0).at("ranks").at(rank),
              rank_json(place, "out/memory.rank" + std::to_string(rank) + ".json"));
  EXPECT_FALSE(document.contains("difference"));
}

#ifndef __SANITIZE_THREAD__  // it knows nothing of the MPI library's locks
TEST(ReportOfARun, IsGatheredFromProcesses) {
  const Workplace place;
  const Finished run =
      place.train_under_mpirun(3, Words{"parallelism.data_parallel_size=3", "training.global_batch_size=3"});
  ASSERT_EQ(run.status, 0) << run.err;
  const Finished again = place.recollect({"report", "out", "--html", "again.html"});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(read(place, "again.html"), read(place, "out/report.html"));
  const std::string header = again.out.substr(again.out.find("memory, MiB "));
  EXPECT_EQ(times_in(header.substr(0, header.find('\n')), "rank 2"), 1);
}
#endif

TEST(ReportOfARun, ComparesTwo) {
  const Workplace place;
  ASSERT_EQ(place.train(kTwoRanks + Words{"output_dir=none"}).status, 0);
  ASSERT_EQ(place.train(kTwoRanks + kFull + Words{"output_dir=full"}).status, 0);
  const Finished numbers = place.recollect({"report", "none", "full", "--json", "--html", "both.html"});
  ASSERT_EQ(numbers.status, 0) << numbers.err;
  const json document = json::parse(numbers.out), &difference = document.at("difference");
  const json a = rank_json(place, "none/memory.rank0.json"), b = rank_json(place, "full/memory.rank0.json");
  for (const char* phase : {"forward", "backward", "optimizer"})
    for (const auto& [category, bytes] : difference.at(phase).items())
      EXPECT_EQ(bytes, b.at("measured").at(phase).at(category).get<int64_t>() -
                           a.at("measured").at(phase).at(category).get<int64_t>())
          << phase << " " << category;
  EXPECT_LT(difference.at("forward").at("activations"), 0) << "checkpointing saves nothing";
  EXPECT_GT(difference.at("host_arena"), 0);
  const auto seconds = [](const json& report, const char* key) {
    return report.at("step").at("measured").at(key).get<double>();
  };
  EXPECT_DOUBLE_EQ(difference.at("step"), seconds(b, "step") - seconds(a, "step"));
  EXPECT_DOUBLE_EQ(difference.at("exposed"), seconds(b, "exposed") - seconds(a, "exposed"));
  EXPECT_EQ(document.at("runs").size(), 2u);
  EXPECT_GT(read(place, "both.html").size(), read(place, "none/report.html").size());

  const Finished text = place.recollect({"report", "none", "full"});
  ASSERT_EQ(text.status, 0) << text.err;
  for (const char* part :
       {"A: none, rank 0 of 2\n", "B: full, rank 0 of 2\n", "mode none\n",
        "mode full, partition_activations, cpu_checkpointing\n", "B - A", "step, ms", "exposed waits, ms"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part << text.out;
}

struct Damage {
  const char* what;
  void (*change)(const Workplace&);
  const char* said;
};

void replace(const Workplace& place, const char* file, const std::string& from, const std::string& to) {
  std::string text = read(place, file);
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  place.folder().write(file, text.replace(at, from.size(), to));
}

TEST(ReportOfARun, DamageIsNamed) {
  const Workplace whole;
  ASSERT_EQ(whole.train(kTwoRanks).status, 0);
  const Damage damages[] = {
      {"a rank is missing",
       [](const Workplace& p) { std::filesystem::remove(p.file("out/memory.rank1.json")); },
       "there is no out/memory.rank1.json"},
      {"all are", [](const Workplace& p) { std::filesystem::remove_all(p.file("out")); },
       "there is no out/memory.rank0.json"},
      {"cut short",
       [](const Workplace& p) {
         p.folder().write("out/memory.rank1.json", read(p, "out/memory.rank1.json").substr(0, 3000));
       },
       "out/memory.rank1.json: not valid JSON at line "},
      {"a category changed",
       [](const Workplace& p) { replace(p, "out/memory.rank0.json", "\"workspace\": ", "\"workspace\": 1"); },
       "predicted.forward.total should be"},
      {"an arena changed",
       [](const Workplace& p) { replace(p, "out/memory.rank0.json", "\"arena\": ", "\"arena\": 1"); },
       "predicted.unused_at_peak should be"},
      {"a rank's file under another's name",
       [](const Workplace& p) {
         std::filesystem::copy_file(p.file("out/memory.rank0.json"), p.file("out/memory.rank1.json"),
                                    std::filesystem::copy_options::overwrite_existing);
       },
       "out/memory.rank1.json is of rank 0"},
      {"another run's file",
       [](const Workplace& p) { replace(p, "out/memory.rank1.json", "gpt2: ", "gpt2: 1"); },
       "is of another run than rank 0's"},
      {"an op that is none",
       [](const Workplace& p) { replace(p, "out/memory.rank0.json", "\"stream\":[0", "\"stream\":[99"); },
       "timeline.program.ops.stream[0] should be an integer from 0 to 6"},
      {"a time that is none",
       [](const Workplace& p) { replace(p, "out/memory.rank0.json", "\"gap\":[0", "\"gap\":[-5"); },
       "gap[0] should be an integer from 0 to"},
      {"bytes below zero",
       [](const Workplace& p) { replace(p, "out/memory.rank0.json", "\"bytes\":[", "\"bytes\":[-"); },
       "timeline.program.ops.bytes[0] should be"},
      {"another program's file", [](const Workplace& p) { p.folder().write("out/memory.rank0.json", "{}"); },
       "the key 'recollect_report'"},
      {"a version to come",
       [](const Workplace& p) {
         replace(p, "out/memory.rank0.json", "\"recollect_report\": 1", "\"recollect_report\": 2");
       },
       "recollect_report should be an integer from 1 to 1"},
  };
  for (const Damage& damage : damages) {
    const Workplace place;
    std::filesystem::copy(whole.file("out"), place.file("out"), std::filesystem::copy_options::recursive);
    damage.change(place);
    const Finished report = place.recollect({"report", "out", "--html", "out.html"});
    EXPECT_EQ(report.status, 3) << damage.what << report.out;
    EXPECT_NE(report.err.find(damage.said), std::string::npos) << damage.what << ": " << report.err;
    EXPECT_FALSE(std::filesystem::exists(place.file("out.html"))) << damage.what;
  }
}

TEST(ReportOfARun, CommandsThatMakeNoSense) {
  const Workplace place;
  for (const Words& words : {Words{"report"}, Words{"report", "a", "b", "c"},
                             Words{"report", "a", "b", "--trace", "t.json"}, Words{"report", "a", "--xml"}})
    EXPECT_EQ(place.recollect(words).status, 2);
}

TEST(ReportOfARun, ComesWhenAndHowItWasAskedFor) {
  const Workplace place;
  const auto train = [&](const char* at, const char* formats) {
    std::filesystem::remove_all(place.file("out"));
    const Finished run = place.train({"training.max_steps=3", std::string("memory_report.at=") + at,
                                      std::string("memory_report.formats=") + formats});
    EXPECT_EQ(run.status, 0) << run.err;
    return run;
  };
  const std::vector<std::string> none = {"config.resolved.yaml", "metrics.jsonl", "plan.yaml",
                                         "train_results.json"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), none.begin(), none.end());
    std::sort(more.begin(), more.end());
    return more;
  };
  Finished run = train("[start, step:1, step:2, end]", "[table]");
  EXPECT_EQ(times_in(run.out, "rank 0, MiB "), 4) << run.out;
  EXPECT_EQ(times_in(run.out, "\nmemory, MiB "), 3) << "at the start nothing is measured";
  EXPECT_LT(run.out.find("rank 0, MiB"), run.out.find("step 1/3"));
  EXPECT_LT(run.out.find("memory, MiB"), run.out.find("step 2/3"));
  EXPECT_EQ(files_in(place.file("out")), none);

  run = train("start", "json");
  EXPECT_EQ(run.out.find("rank 0, MiB "), std::string::npos) << run.out;
  EXPECT_EQ(files_in(place.file("out")), with({"memory.rank0.json"}));
  const json predicted = json::parse(read(place, "out/memory.rank0.json"));
  EXPECT_FALSE(predicted.contains("measured"));
  EXPECT_FALSE(predicted.at("timeline").contains("measured"));
  EXPECT_EQ(place.recollect({"report", "out", "--html", "predicted.html"}).status, 0);

  train("step:3", "[html, trace]");
  EXPECT_EQ(files_in(place.file("out")), with({"report.html", "trace.rank0.json"}));
  train("[]", "[json, html, trace]");
  EXPECT_EQ(files_in(place.file("out")), none);
}

TEST(ReportOfARun, SettingsThatCannotBeAreRefused) {
  const Workplace place;
  for (const auto& [words, said] : std::vector<std::pair<Words, std::string>>{
           {{"memory_report.at=[begin]"}, "'begin' is none of start, end, step:N"},
           {{"memory_report.at=[step:0]"}, "'step:0' is none of"},
           {{"memory_report.at=[step:x]"}, "'step:x' is none of"},
           {{"memory_report.at=[step:3]"}, "step:3 is after the last step, training.max_steps 2"},
           {{"memory_report.at=[end, end]"}, "'end' stands there twice"},
           {{"memory_report.formats=[xml]"}, "'xml' is none of table, json, html, trace"},
           {{"memory_report.at=[]", "memory_report.formats=[html]"}, "memory is never reported"},
           {{"memory_report.at=[end]", "memory_report.formats=[]"}, "there is nothing to report in"},
           {{"profiling.step=0", "memory_report.formats=[trace]"},
            "a trace is of a step whose ops are timed"},
           {{"profiling.step=1", "memory_report.formats=[table]"}, "no report shows that step"},
           {{"profiling.step=1", "memory_report.at=[start]"}, "no report shows that step"},
           {{"profiling.step=3"}, "profiling.step 3 is after the last step"}}) {
    const Finished run = place.train(words);
    EXPECT_EQ(run.status, 2) << words.front();
    EXPECT_NE(run.err.find(said), std::string::npos) << run.err;
  }
  // What a resolved dump states is accepted, whatever was asked for.
  ASSERT_EQ(place.train({"profiling.step=0"}).status, 0);
  EXPECT_FALSE(std::filesystem::exists(place.file("out/trace.rank0.json")));
  EXPECT_TRUE(std::filesystem::exists(place.file("out/report.html")));
  EXPECT_EQ(place.recollect({"train", "out/config.resolved.yaml"}).status, 0);
}

TEST(ReportOfARun, OfAnEvaluationHasMemoryAndNoSteps) {
  const Workplace place;
  const Finished run =
      place.train({"training.max_steps=0", "evaluation.every_steps=1", "evaluation.batches=1"});
  ASSERT_EQ(run.status, 0) << run.err;
  const Finished again = place.recollect({"report", "out", "--html", "again.html"});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(read(place, "again.html"), read(place, "out/report.html"));
}

TEST(ReportPage, NeedsNothingFromElsewhere) {
  const Workplace place;
  const std::string output = "a<script>b & \"c\"";
  const Finished run = place.train({"output_dir=" + output, "training.max_steps=1"});
  ASSERT_EQ(run.status, 0) << run.err;
  const std::string page = read(place, output + "/report.html");
  for (const char* part : {"http:", "https:", "src=", "href=", "@import", "url(", "fetch(", "XMLHttp"})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
  // Whatever a name holds, the page has the elements that it was written with.
  EXPECT_EQ(times_in(page, "<script"), 2);
  EXPECT_EQ(times_in(page, "</script>"), 2);
  EXPECT_NE(page.find("a\\u003cscript>b & \\\"c\\\""), std::string::npos);
}

TEST(EstimateFiles, HaveTheFormOfARuns) {
  const Workplace place;
  const Finished estimate = place.recollect(
      Words{"estimate", "c.yaml", "--trace", "t.json", "--html", "e.html"} + kTwoRanks + kFull);
  ASSERT_EQ(estimate.status, 0) << estimate.err;
  ASSERT_EQ(place.train(kTwoRanks + kFull).status, 0);
  ASSERT_EQ(place.recollect({"report", "out", "--trace", "both.json"}).status, 0);
  const auto slices = [&](const char* file, auto wanted) {
    std::vector<std::string> names;
    const json document = json::parse(read(place, file));
    for (const json& event : document.at("traceEvents"))
      if (event.at("ph") == "X" && event.at("cat") != "wait" && event.at("cat") != "peers" &&
          wanted(event.at("pid").get<int>()))
        names.push_back(event.at("name"));
    return names;
  };
  const auto any = [](int) { return true; };
  EXPECT_EQ(slices("t.json", any), slices("both.json", [](int pid) { return pid == 1 << 20; }));
  EXPECT_EQ(slices("t.json", any), slices("out/trace.rank0.json", any));
  EXPECT_GT(slices("t.json", any).size(), 100u);
}

}  // namespace
}  // namespace recollect::test::report_run_test
