// What a run says where people see it: a few lines and a bar that fits, on terminals of any width; plain lines everywhere
// else; and what went wrong, once.
#include <gtest/gtest.h>

#include <signal.h>

#include <algorithm>
#include <regex>
#include <sstream>

#include "launch/train/progress_bar.h"
#include "launch/train/train_results.h"
#include "tests/launch/run_support.h"
#include "tests/launch/terminal.h"

namespace recollect::test::terminal_test {
namespace {

using namespace std::chrono_literals;

const Words kEndless = {"training.max_steps=2000000", "logging.steps=1000000", "logging.progress=auto",
                        "memory_report.at=[]", "profiling.step=0"};

Words training(const Words& words) { return Words{recollect_binary(), "train", "c.yaml"} + words; }

bool is_bar(const std::string& line) { return line.find("% ") < 4; }

// What has to stand on the screen while a run goes on: its opening, one line of the first step, and one bar at the foot.
void expect_one_bar(const Screen& screen, const std::string& seen) {
  const std::vector<std::string> lines = screen.lines();
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(), is_bar), 1) << seen;
  EXPECT_TRUE(is_bar(lines.back())) << seen;
  const auto is_step = [](const std::string& line) { return line.starts_with("step 1/2000000  loss "); };
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(), is_step), 1) << seen;
  EXPECT_EQ(lines.size(), 4u) << "model, memory, step, bar: " << seen;
}

TEST(Bar, HasAllItsPartsWhereThereIsRoom) {
  const Workplace place;
  TerminalRun run(training(kEndless), place.folder().path(), {}, 120);
  ASSERT_TRUE(run.watch_until_drawn(4)) << run.bytes();
  expect_one_bar(run.screen(), run.bytes());
  EXPECT_EQ(run.screen().too_long(), 0) << run.bytes();
  const std::string number = "[0-9.e+-]+", time = number + " (ms|s|min|h|d)";
  const std::regex bar("  0% (\\[=*>? *\\] )?[0-9]+/2000000  loss " + number + "  lr " + number +
                       "  grad norm " + number + "  [0-9]+ tokens/s  " + time + " gone  " + time +
                       " left  [0-9.]+ [KMG]iB");
  EXPECT_TRUE(std::regex_match(run.screen().current(), bar)) << run.screen().current();
  EXPECT_LE(run.screen().current().size(), 119u);
}

TEST(Bar, DropsTheLeastWhereItIsNarrow) {
  const Workplace place;
  TerminalRun run(training(kEndless), place.folder().path(), {}, 60);
  ASSERT_TRUE(run.watch_until_drawn(3)) << run.bytes();
  expect_one_bar(run.screen(), run.bytes());
  const std::string bar = run.screen().current();
  EXPECT_LE(bar.size(), 59u) << bar;
  for (const char* part : {"/2000000", "loss ", " left"})
    EXPECT_NE(bar.find(part), std::string::npos) << part << " in " << bar;
  for (const char* part : {" gone", "iB", "grad"})
    EXPECT_EQ(bar.find(part), std::string::npos) << part << " in " << bar;
  for (const std::string& line : run.screen().lines())
    EXPECT_TRUE(line.size() <= 60 || !line.starts_with("step ")) << line;
}

TEST(Bar, FollowsTheTerminalAsItIsResized) {
  for (const auto narrowed : {Screen::Narrowed::kBreaksLines, Screen::Narrowed::kCutsLines}) {
    bool on_its_way = true;  // a bar of the former width, which no program could take back: then once more
    for (int i = 0; i < 5 && on_its_way; ++i) {
      const Workplace place;
      TerminalRun run(training(kEndless), place.folder().path(), {}, 120, narrowed);
      ASSERT_TRUE(run.watch_until_drawn(2)) << run.bytes();
      EXPECT_GT(run.screen().current().size(), 80u) << run.bytes();
      const int before = run.screen().too_long();
      run.resize(60);
      ASSERT_TRUE(run.watch_until_drawn(1)) << run.bytes();
      on_its_way = run.screen().too_long() != before;
      if (on_its_way) continue;
      ASSERT_TRUE(run.watch_until_drawn(1)) << run.bytes();
      expect_one_bar(run.screen(), run.bytes());
      EXPECT_LE(run.screen().current().size(), 59u) << run.screen().current();
      EXPECT_EQ(run.screen().too_long(), before) << run.bytes();
      run.resize(200);
      ASSERT_TRUE(run.watch_until_drawn(2)) << run.bytes();
      expect_one_bar(run.screen(), run.bytes());
      EXPECT_GT(run.screen().current().size(), 100u) << run.screen().current();
    }
    EXPECT_FALSE(on_its_way) << "no bar is drawn in the new width";
  }
}

TEST(Bar, IsDrawnTenTimesASecondAtMost) {
  const Workplace place;
  const auto begun = std::chrono::steady_clock::now();
  TerminalRun run(training(kEndless), place.folder().path(), {}, 100);
  ASSERT_TRUE(run.watch_until_drawn(20)) << run.bytes();
  const auto bars = run.bars();  // when each was read: on a busy machine some come at once, and late
  EXPECT_GE(bars.back() - begun, 100ms * (bars.size() - 1)) << bars.size() << " were drawn";
}

TEST(Bar, GivesItsPlaceToLinesAndLeavesNothing) {
  const Workplace place;
  TerminalRun run(training({"training.max_steps=600", "logging.steps=200", "logging.progress=auto",
                            "evaluation.every_steps=300", "evaluation.batches=1", "profiling.step=0"}),
                  place.folder().path(), {}, 100);
  const Finished finished = run.finish();
  ASSERT_EQ(finished.status, 0) << finished.out;
  EXPECT_GT(run.bars().size(), 0u);
  std::vector<std::string> steps;
  for (const std::string& line : run.screen().lines()) {
    EXPECT_FALSE(is_bar(line)) << line;
    EXPECT_EQ(line.find('%'), std::string::npos) << line;
    if (line.starts_with("step ") && line.find('/') < 12)
      steps.push_back(line.substr(0, line.find("  ") + 6));
  }
  EXPECT_EQ(steps,
            (std::vector<std::string>{"step 1/600  loss", "step 200/600  loss", "step 300/600  eval",
                                      "step 400/600  loss", "step 600/600  loss", "step 600/600  eval"}));
}

// A report that somebody asks for has the place of the bar, and a warning too.
TEST(Bar, MakesRoomForReports) {
  const Workplace place;
  TerminalRun run(training(kEndless), place.folder().path(), {}, 100);
  ASSERT_TRUE(run.watch_until_drawn(2)) << run.bytes();
  run.signal(SIGUSR2);
  ASSERT_TRUE(run.watch_until_drawn(4)) << run.bytes();
  const std::vector<std::string> lines = run.screen().lines();
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(), is_bar), 1) << run.bytes();
  EXPECT_TRUE(is_bar(lines.back())) << run.bytes();
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const std::string& line) { return line.starts_with("rank 0 after step "); }),
            1)
      << run.bytes();
}

TEST(Bar, OfARankStandsBehindItsName) {
  const Workplace place;
  TerminalRun run(Words{recollect_binary(), "run", "--nproc-per-node", "2", "train", "c.yaml",
                        "parallelism.tensor_parallel_size=2"} +
                      kEndless,
                  place.folder().path(), {}, 100);
  ASSERT_TRUE(run.watch_until_drawn(4)) << run.bytes();
  std::vector<std::string> lines = run.screen().lines();
  for (std::string& line : lines) {
    EXPECT_TRUE(line.starts_with("[rank0]: ")) << run.bytes();
    EXPECT_LE(line.size(), 99u) << line;
    line.erase(0, std::min<std::size_t>(line.size(), 9));
  }
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(), is_bar), 1) << run.bytes();
  EXPECT_TRUE(is_bar(lines.back())) << run.bytes();
  EXPECT_EQ(run.screen().too_long(), 0) << run.bytes();
}

TEST(Bar, IsNotDrawnWherePlainLinesAreWanted) {
  for (const Environment& plain :
       {Environment{{"NO_COLOR", "1"}}, Environment{{"TERM", "dumb"}}, Environment{{"CI", "true"}}}) {
    const Workplace place;
    TerminalRun run(training({"logging.progress=auto"}), place.folder().path(), plain, 100);
    const Finished finished = run.finish();
    EXPECT_EQ(finished.status, 0) << finished.out;
    EXPECT_EQ(finished.out.find('\x1b'), std::string::npos) << finished.out;
    EXPECT_EQ(times_in(finished.out, "\r"), times_in(finished.out, "\r\n")) << finished.out;
    EXPECT_NE(finished.out.find("step 2/2  loss "), std::string::npos) << finished.out;
  }
}

TEST(Bar, FitsAnyWidth) {
  const BarState state{.step = 123456,
                       .steps = 1000000,
                       .loss = 1e30,
                       .learning_rate = 1.25e-5,
                       .grad_norm = 12345678,
                       .tokens_per_second = 1234567,
                       .elapsed = 123456,
                       .left = 9876543,
                       .memory = uint64_t{79} << 30};
  std::size_t parts = 0;
  for (int columns = 1; columns <= 250; ++columns) {
    fmt::memory_buffer text;
    write_bar(state, columns, text);
    const std::string bar = fmt::to_string(text);
    EXPECT_LE(bar.size(), static_cast<std::size_t>(columns)) << bar;
    std::size_t now = 0;
    for (const char* part : {"loss", "lr", "grad", "tokens/s", "gone", "left", "iB"})
      now += bar.find(part) != std::string::npos ? 1 : 0;
    EXPECT_GE(now, parts) << "a wider terminal shows less: " << bar;
    parts = now;
  }
  fmt::memory_buffer text;
  write_bar(state, 250, text);
  const std::string bar = fmt::to_string(text);
  for (const char* part : {" 12% [====>",
                           "] 123456/1000000  loss 1e+30  lr 1.25e-05  grad norm 1.23e+07  1234567 "
                           "tokens/s  34 h gone  114 d left  79.00 GiB"})
    EXPECT_NE(bar.find(part), std::string::npos) << bar;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Two lines before the first step, about twenty of steps, and eight at most behind the last.
TEST(DefaultOutput, IsShort) {
  const Workplace place;
  const Finished finished = place.train({"training.max_steps=200", "snapshot.every_steps=100",
                                         "evaluation.every_steps=200", "evaluation.batches=1",
                                         "checkpoint.save_model=true", "activation_checkpointing.mode=full"});
  ASSERT_EQ(finished.status, 0) << finished.err;
  const std::vector<std::string> lines = lines_of(finished.out);
  ASSERT_GT(lines.size(), 3u);
  EXPECT_TRUE(std::regex_match(
      lines[0], std::regex("gpt2: [0-9]+ parameters, fp64, backend reference; 1 data x 1 tensor "
                           "ranks \\(self\\)")))
      << lines[0];
  EXPECT_TRUE(std::regex_match(
      lines[1],
      std::regex("memory: predicted resident [0-9.]+ [MG]iB of [0-9.]+ [MG]iB; arena [0-9.]+ [KMG]iB")))
      << lines[1];
  EXPECT_TRUE(lines[2].starts_with("step 1/200  loss ")) << lines[2];
  const auto is_step = [](const std::string& line) { return line.find("/200  ") < 12; };
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(), is_step), 22) << finished.out;  // with the evaluation
  const auto last = std::find_if(lines.rbegin(), lines.rend(), is_step).base();
  EXPECT_LE(lines.end() - last, 8) << finished.out;
  EXPECT_LE(lines.size(), 32u) << finished.out;
  for (const char* name : {"saved out/model.safetensors", "trained 200 steps in ", "evaluation: loss ",
                           "memory: arena peak ", "step: ", "report: "})
    EXPECT_EQ(
        std::count_if(last, lines.end(), [&](const std::string& line) { return line.starts_with(name); }), 1)
        << name << finished.out;
  EXPECT_TRUE(
      std::regex_search(finished.out, std::regex("\ntrained .* steps/s; waited .* for 2 snapshots\n")))
      << finished.out;
  EXPECT_EQ(finished.err, "");
}

// With adapters, snapshots, evaluations, a best model and an early end; and of a run whose ranks are not equally fast.
TEST(DefaultOutput, ClosesWithNineLinesWhateverIsOn) {
  const Workplace place;
  const Finished base =
      place.train({"output_dir=base", "checkpoint.save_model=true", "training.max_steps=1"});
  ASSERT_EQ(base.status, 0) << base.err;
  place.folder().write("tuned.yaml", R"(
model: {pretrained: base}
lora: {rank: 2, merge: true}
device: {backend: reference}
training: {precision: fp64, micro_batch_size: 1, max_steps: 4}
data: {format: random, sequence_length: 8}
evaluation: {every_steps: 1, batches: 1, early_stopping_patience: 1, early_stopping_threshold: 100}
checkpoint: {save_model: true, save_best_model: true}
snapshot: {every_steps: 1}
output_dir: out
)");
  const Finished finished = place.recollect({"train", "tuned.yaml"});
  ASSERT_EQ(finished.status, 0) << finished.err;
  const std::vector<std::string> lines = lines_of(finished.out);
  const auto stop = std::find_if(lines.begin(), lines.end(),
                                 [](const std::string& line) { return line.starts_with("stopped after"); });
  ASSERT_NE(stop, lines.end()) << finished.out;
  EXPECT_TRUE((stop - 1)->starts_with("step 2/4")) << finished.out;
  EXPECT_NE(stop->find(": an evaluation was not better by more than 100 than the best, loss "),
            std::string::npos)
      << *stop;
  EXPECT_EQ(lines.end() - stop, 8) << finished.out;
  EXPECT_TRUE(std::regex_match(
      *(stop + 3),
      std::regex("evaluation: loss .*; the best model, of step [12] with loss .*, is in out/best_model")))
      << finished.out;
  EXPECT_EQ(
      lines.back(),
      "saved out/adapter_model.safetensors and out/adapter_config.json, and merged them into out/merged");

  TrainResults results{.steps = 1, .evaluated = EvaluationResult{}, .snapshots = SnapshotTotals{}};
  results.best_folder = results.report = "a";
  results.slow = {.median = 1, .ranks = {{1, 2}, {3, 2}}};
  EXPECT_EQ(times_in(results_text(results), "\n"), 7) << results_text(results);
}

TEST(DefaultOutput, HasTheTablesWhereTheyAreAskedFor) {
  const Workplace place;
  for (const char* word : {"logging.verbose=true", "memory_report.formats=[table]"}) {
    const Finished finished = place.train({word});
    ASSERT_EQ(finished.status, 0) << finished.err;
    EXPECT_EQ(times_in(finished.out, "\nactivations "), 3) << finished.out;
    EXPECT_EQ(times_in(finished.out, "\ndifference, bytes              0\n"), 1) << finished.out;
  }
  EXPECT_NE(place.train({"logging.verbose=true"}).out.find("\nbatch: 4 sequences of 8 = "),
            std::string::npos);
}

TEST(DefaultOutput, RemarksOnSwitchesStay) {
  const Workplace place;
  const Finished finished = place.train({"numerics.verify_every=100"});
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(times_in(finished.out, "\nnumerics.verify_every: no effect with training.max_steps 2: "), 1)
      << finished.out;
}

TEST(DefaultOutput, WarnsOfWhatGivesWayToTheCommandLine) {
  const Workplace place;
  place.folder().write("d.yaml", TemporaryFolder::read(place.file("c.yaml")) + "profiling: {step: 2}\n");
  const Finished finished =
      place.recollect({"train", "d.yaml", "training.max_steps=1", "parallelism.tensor_parallel_size=2",
                       "parallelism.ranks_per_process=2"});
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(times_in(finished.err, "profiling.step 2 is after the last step, training.max_steps 1; "), 1)
      << finished.err;
  const std::string resolved = TemporaryFolder::read(place.file("out/config.resolved.yaml"));
  EXPECT_NE(resolved.find("\nprofiling:\n  step: 1\n"), std::string::npos) << resolved;
}

TEST(Failure, OfAllRanksIsToldOnce) {
  const Words two = {"--nproc-per-node", "2", "train", "c.yaml", "parallelism.tensor_parallel_size=2"};
  Launch memory(two + Words{"device.memory_limit=1KiB"});
  const Finished small = memory.finish();
  EXPECT_EQ(small.status, 4) << small.err;
  EXPECT_EQ(times_in(small.err, "device.memory_limit is 1024"), 1) << small.err;
  EXPECT_EQ(times_in(small.err, "arena peak"), 1) << small.err;
  EXPECT_EQ(times_in(small.err, "what it wrote to stderr stands above, after [rank0]:"), 1) << small.err;

  Launch mistake(two + Words{"optimizer.name=adamx"});
  const Finished wrong = mistake.finish();
  EXPECT_EQ(wrong.status, 2) << wrong.err;
  EXPECT_EQ(times_in(wrong.err, "adamx"), 2) << "the word, and what is wrong with it: " << wrong.err;
  EXPECT_EQ(wrong.err.find("FAILED"), std::string::npos) << wrong.err;

  Launch absent(two + Words{"data.format=text", "data.path=none.txt", "model.vocab_size=256"});
  const Finished no_file = absent.finish();
  EXPECT_EQ(no_file.status, 3) << no_file.err;
  EXPECT_EQ(times_in(no_file.err, "data.path: there is no file or folder none.txt"), 1) << no_file.err;
  EXPECT_EQ(no_file.err.find("FAILED"), std::string::npos) << no_file.err;

  Launch nothing(Words{"--nproc-per-node", "2", "train", "none.yaml"});
  const Finished no_configuration = nothing.finish();
  EXPECT_EQ(no_configuration.status, 2) << no_configuration.err;
  EXPECT_EQ(times_in(no_configuration.err, "none.yaml: cannot be read"), 1) << no_configuration.err;
  EXPECT_EQ(no_configuration.err.find("FAILED"), std::string::npos) << no_configuration.err;

  Launch world(Words{"--nproc-per-node", "2", "train", "c.yaml", "parallelism.tensor_parallel_size=1",
                     "training.micro_batch_size=1", "training.global_batch_size=3"});
  const Finished batch = world.finish();
  EXPECT_EQ(batch.status, 2) << batch.err;
  EXPECT_EQ(times_in(batch.err, "global_batch_size 3"), 1) << batch.err;
}

TEST(Failure, OfRanksThatDisagreeIsToldOnce) {
  Launch launch(Words{"--nproc-per-node", "2"} +
                shell("exec " + recollect_binary() +
                      " train c.yaml parallelism.data_parallel_size=2 training.seed=$RANK"));
  const Finished finished = launch.finish();
  EXPECT_EQ(finished.status, 8) << finished.err;
  EXPECT_EQ(times_in(finished.err, "the ranks have different configurations"), 1) << finished.err;
  EXPECT_EQ(times_in(finished.err, "training.seed: 0 on rank 0; 1 on rank 1"), 1) << finished.err;
}

#ifndef __SANITIZE_THREAD__  // it knows nothing of the MPI library's locks
TEST(Failure, OfAllRanksIsToldOnceUnderMpirun) {
  const Workplace place;
  const Finished finished =
      place.train_under_mpirun(2, {"parallelism.tensor_parallel_size=2", "device.memory_limit=1KiB"});
  EXPECT_EQ(finished.status, 4) << finished.err;
  EXPECT_EQ(times_in(finished.err, "device.memory_limit is 1024"), 1) << finished.err;
  EXPECT_EQ(times_in(finished.err, "arena peak"), 1) << finished.err;
  const Finished mistake =
      place.train_under_mpirun(2, {"parallelism.tensor_parallel_size=2", "optimizer.name=adamx"});
  EXPECT_EQ(mistake.status, 2) << mistake.err;
  EXPECT_EQ(times_in(mistake.err, "found 'adamx'"), 1) << mistake.err;
}
#endif

}  // namespace
}  // namespace recollect::test::terminal_test
