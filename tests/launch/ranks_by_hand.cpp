#include "tests/launch/ranks_by_hand.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "comm/tcp/socket.h"

namespace recollect::test {

Environment torchrun_variables(int rank, int size, int per_node, const std::string& address, uint16_t port) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(size)},
          {"LOCAL_RANK", std::to_string(rank % per_node)},
          {"LOCAL_WORLD_SIZE", std::to_string(per_node)},
          {"MASTER_ADDR", address},
          {"MASTER_PORT", std::to_string(port)}};
}

void RanksByHand::start(const Environment& environment, const Words& words, const Words& prefix) {
  const std::string folder = place_.file("process" + std::to_string(processes_.size()));
  std::filesystem::create_directory(folder);
  const bool has_output = std::any_of(
      words.begin(), words.end(), [](const std::string& word) { return word.starts_with("output_dir="); });
  const Words output = has_output ? Words{} : Words{"output_dir=" + place_.file("out")};
  const Words command = prefix + Words{recollect_binary(), "train", place_.file("c.yaml")} + output + words;
  Environment all = environment;
  all.merge(traces_.environment());
  processes_.push_back(std::make_unique<Process>(command, folder, all));
}

bool RanksByHand::wait_for_steps(std::chrono::seconds bound) const {
  const std::string metrics = place_.file("out/metrics.jsonl");
  const auto deadline = tcp::Clock::now() + bound;
  while (tcp::Clock::now() < deadline) {
    std::error_code none;
    const auto size = std::filesystem::file_size(metrics, none);
    if (!none && size > 500) return true;
    for (const auto& process : processes_)
      if (!is_running(process->pid())) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

std::vector<Finished> RanksByHand::wait(std::chrono::seconds bound) {
  std::vector<Finished> finished;
  for (const auto& process : processes_) finished.push_back(process->wait(bound));
  traces_.expect_none();
  return finished;
}

std::vector<nlohmann::json> numbers(const std::vector<nlohmann::json>& metrics) {
  std::vector<nlohmann::json> result;
  for (const nlohmann::json& step : metrics)
    result.push_back({step.at("step"), step.at("loss"), step.at("grad_norm")});
  return result;
}

Words two_by_two(int64_t steps) {
  return {"parallelism.tensor_parallel_size=2", "training.max_steps=" + std::to_string(steps)};
}

std::vector<nlohmann::json> two_by_two_in_one_process(const Workplace& place) {
  const Finished finished =
      place.train(two_by_two() + Words{"parallelism.ranks_per_process=4", "output_dir=one_process"});
  EXPECT_EQ(finished.status, 0) << finished.err;
  const auto result = numbers(place.metrics("one_process"));
  EXPECT_EQ(result.size(), 3u);
  return result;
}

}  // namespace recollect::test
