// OSLO's JSON: how the model is divided, and its three switches of activation checkpointing.
#include <algorithm>

#include <fmt/format.h>

#include "launch/config/import_rules.h"

namespace recollect {

namespace {

bool is_on(const ForeignFile& file, std::string_view section) {
  return file.value(fmt::format("{}.enable", section), "true") != "false";
}

void arrange_ranks(ForeignFile& file) {
  const std::string section = "model_parallelism";
  if (!is_on(file, section)) return file.settle_inside(section);
  file.settle(section + ".enable");
  const std::string mode = lower_case(file.value(section + ".tensor_parallel_mode", "1d"));
  if (mode != "1d")
    file.leave_out(section + ".tensor_parallel_mode",
                   "not supported: each layer is divided in one dimension, as by 1D");
  file.settle(section + ".tensor_parallel_mode");
  for (const char* one : {"pipeline_parallel_size", "expert_parallel_size", "tensor_parallel_depth"}) {
    const std::string path = fmt::format("{}.{}", section, one);
    if (file.number(path, 1) > 1)
      file.leave_out(path, "not supported: ranks divide by tensor, data and sequence");
    file.settle(path);
  }
}

void arrange_replicas(ForeignFile& file) {
  const std::string section = "data_parallelism";
  if (!is_on(file, section)) return file.settle_inside(section);
  for (const char* one : {"zero_stage", "stage"}) {
    const std::string path = fmt::format("{}.{}", section, one);
    if (file.has(path) && number_of(file.value(path)))
      file.write(path, "parallelism.zero_stage", file.value(path));
  }
  const std::string size = section + ".data_parallel_size", sequence = section + ".sequence_parallel_size";
  if (file.has(size)) file.write(size, "parallelism.data_parallel_size", file.value(size));
  if (file.number(sequence, 1) > 1)
    file.leave_out(sequence,
                   "not supported: parallelism.sequence_parallel divides tokens over the tensor ranks, "
                   "outside attention");
  file.settle(sequence);
  file.settle(section + ".enable");
}

// With the section layers are checkpointed; partitioned and contiguous ones need tensor ranks there, too.
void arrange_checkpointing(ForeignFile& file) {
  const std::string section = "activation_checkpointing", ours = section + ".";
  const bool is_there = !file.inside(section).empty();
  if (!is_there || !is_on(file, section)) return file.settle_inside(section);
  file.write(section + ".enable", ours + "mode", "full");
  const std::pair<const char*, const char*> switches[] = {
      {"partitioned_checkpointing", "partition_activations"},
      {"cpu_checkpointing", "cpu_checkpointing"},
      {"contiguous_checkpointing", "contiguous_checkpointing"}};
  for (const auto& [theirs, name] : switches) {
    const std::string path = fmt::format("{}.{}", section, theirs);
    if (file.has(path)) file.write(path, ours + name, file.value(path));
  }
}

}  // namespace

void arrange_oslo(ForeignFile& file) {
  arrange_ranks(file);
  arrange_replicas(file);
  arrange_checkpointing(file);
  for (const char* section : {"kernel_fusion", "lazy_initialization", "commons", "backend"}) {
    file.settle(section);
    file.settle_inside(section);
  }
}

}  // namespace recollect
