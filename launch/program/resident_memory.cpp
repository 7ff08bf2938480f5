#include "launch/program/resident_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>
#include <string>

#include "engine/data/loader.h"
#include "engine/io/node.h"
#include "engine/io/system_files.h"
#include "engine/runtime/program_size.h"
#include "launch/program/limits.h"
#include "launch/program/task.h"

namespace recollect {

namespace {

// The prefetched batches and the one in use. Batches of evaluations are one micro-batch.
uint64_t loader_bytes(const Config& config) {
  const TaskData task = task_data(config);
  int64_t words = 0;  // per sample
  for (const Collator::BatchField& field : task.collator->fields())
    words += task.collator->words(field, config.data.sequence_length);
  const auto bytes = [&](int64_t micro_batches, int64_t prefetch) {
    return static_cast<uint64_t>((prefetch + 1) * micro_batches * config.training.micro_batch_size * words) *
           sizeof(int32_t);
  };
  const uint64_t training = bytes(config.training.gradient_accumulation_steps, config.data.prefetch);
  return training + (config.evaluation.runs() ? bytes(1, LoaderOptions{}.prefetch) : 0);
}

}  // namespace

uint64_t resident_bytes() {
  const std::string text = SystemFiles().read("/proc/self/smaps_rollup").value_or("");
  return meminfo(text, "Rss").value_or(0);
}

void forget_peak_resident() {
  std::ofstream("/proc/self/clear_refs") << '5';  // see proc(5)
}

uint64_t peak_resident_bytes() {
  const std::string text = SystemFiles().read("/proc/self/status").value_or("");
  return meminfo(text, "VmHWM").value_or(0);
}

uint64_t unread_code_bytes() {
  const auto own = reinterpret_cast<uintptr_t>(&unread_code_bytes);
  std::istringstream mappings(SystemFiles().read("/proc/self/smaps").value_or(""));
  bool of_own = false;
  std::string about;
  for (std::string line; std::getline(mappings, line);) {
    char* end = nullptr;
    const uintptr_t from = std::strtoull(line.c_str(), &end, 16);
    const bool begins = end != line.c_str() && *end == '-';  // "from-to permissions ... file"
    if (begins && of_own) break;
    if (begins) of_own = from <= own && own < std::strtoull(end + 1, nullptr, 16);
    if (of_own && !begins) about += line + '\n';
  }
  const uint64_t size = meminfo(about, "Size").value_or(0);
  return size - std::min(size, meminfo(about, "Rss").value_or(size));
}

uint64_t resident_needs(const Config& config, const MemoryLedger& memory) {
  return memory.arena_bytes() + memory.host_bytes + save_buffer_bytes(config) + loader_bytes(config);
}

uint64_t program_needs(const Config& config, const Program& longest, std::size_t lengths) {
  const Config::Training& training = config.training;
  const uint64_t others = lengths - 1;
  const auto met_in = [&](int64_t steps) {
    return config.evaluation.runs()
               ? others
               : std::min(others, static_cast<uint64_t>(steps) *
                                      static_cast<uint64_t>(training.gradient_accumulation_steps));
  };
  const bool lazy = training.compile == CompileTime::kLazy;
  const int64_t replan = std::min(config.activation_checkpointing.replan_after, training.max_steps);
  const uint64_t first = lazy ? met_in(replan > 0 ? replan : training.max_steps) : others;
  // Programs that planning again replaces are kept for the reports.
  const uint64_t again = replan > 0 ? 1 + met_in(training.max_steps - replan) : 0;
  return ((lazy ? first : 0) + again) * host_bytes_of(longest) +
         (1 + first + again) * executor_host_bytes(longest);
}

ResidentMemory predict_resident(uint64_t needed, Communicator& world) {
  const std::string process = host_name() + ":" + std::to_string(getpid());
  const MemoryGroup group{std::hash<std::string>()(process), std::numeric_limits<uint64_t>::max()};
  const std::optional<DeviceShare> share = share_of_group(group, needed, world);  // all have planned
  const uint64_t at_start = resident_bytes(), code = unread_code_bytes();
  world.barrier();  // no rank reserves before all have measured
  if (at_start == 0) return {};
  return {.at_start = at_start, .predicted = at_start + code + share->needed};
}

}  // namespace recollect
