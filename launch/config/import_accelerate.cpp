// accelerate's YAML: what FSDP and a mesh of ranks are called there, of both versions.
#include "launch/config/import_rules.h"

namespace recollect {

namespace {

constexpr const char* kDecided = "leave it out: it is decided here";

bool is_in_the_tables(std::string_view path) {
  return path == "fsdp_config.fsdp_sharding_strategy" || path == "fsdp_config.fsdp_offload_params" ||
         path == "fsdp_config.fsdp_activation_checkpointing";
}

void arrange_fsdp(ForeignFile& file) {
  const std::string reshards = "fsdp_config.fsdp_reshard_after_forward", version = "fsdp_config.fsdp_version";
  const std::string said = lower_case(file.value(reshards));
  const bool is_second = file.value(version) == "2";
  if (!file.has("fsdp_config.fsdp_sharding_strategy") && (is_second || !said.empty()) && said != "no_shard") {
    const bool keeps_whole = said == "false" || said == "shard_grad_op";
    file.write(said.empty() ? version : reshards, "parallelism.zero_stage", keeps_whole ? "2" : "3");
  }
  for (const ForeignLeaf& leaf : file.inside("fsdp_config"))
    if (!is_in_the_tables(leaf.path)) file.leave_out(leaf.path, kDecided);
}

void arrange_mesh(ForeignFile& file) {
  const std::string begin = "parallelism_config.parallelism_config_", shards = begin + "dp_shard_size";
  if (file.number(shards, 1) > 1 && file.inside("fsdp_config").empty())
    file.write(shards, "parallelism.zero_stage", "3");
  file.settle(shards);
  for (const ForeignLeaf& leaf : file.inside("parallelism_config")) {
    if (leaf.path == begin + "tp_size" || leaf.path == begin + "dp_replicate_size") continue;
    const bool is_size = leaf.path.ends_with("_size") && file.number(leaf.path, 1) > 1;
    file.leave_out(leaf.path, is_size ? "not supported: parallelism.sequence_parallel divides tokens outside "
                                        "attention"
                                      : kDecided);
  }
}

}  // namespace

void arrange_accelerate(ForeignFile& file) {
  arrange_mesh(file);
  arrange_fsdp(file);
}

}  // namespace recollect
