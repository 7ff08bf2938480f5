// What a user says of activation checkpointing: the mode, and the switches beside it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/core/spelled.h"

namespace recollect {

enum class CheckpointingMode {
  kNone,
  kFull,
  kEveryK,
  kSqrt,
  kSelective,
  kRecursive,
  kConstantMemory,
  kAuto,
  kDtr
};
template <>
inline constexpr std::array<std::string_view, 9> kSpellings<CheckpointingMode> = {
    "none", "full", "every_k", "sqrt", "selective", "recursive", "constant_memory", "auto", "dtr"};

// Those that say themselves what is saved; auto and dtr decide by a budget.
inline constexpr std::span<const std::string_view> kNamedModes =
    std::span(kSpellings<CheckpointingMode>).first(7);

enum class StorageDType { kSame, kBF16, kE4M3, kE5M2 };
template <>
inline constexpr std::array<std::string_view, 4> kSpellings<StorageDType> = {"same", "bf16", "e4m3", "e5m2"};

// auto: whose plans there are. dynamic: one for each length of sequences; static: the longest's for all lengths;
// fixed: the layers that the user names; full, none: those of the modes.
enum class BudgetPolicy { kDynamic, kStatic, kFixed, kFull, kNone };
template <>
inline constexpr std::array<std::string_view, 5> kSpellings<BudgetPolicy> = {"dynamic", "static", "fixed",
                                                                             "full", "none"};

template <>
inline constexpr std::array<std::pair<std::string_view, CheckpointingMode>, 1>
    kOldSpellings<CheckpointingMode> = {{{"poor", CheckpointingMode::kConstantMemory}}};

// What the section activation_checkpointing says, as it was given.
struct CheckpointingSettings {
  CheckpointingMode mode = CheckpointingMode::kNone;
  int64_t k = 0;                            // every_k: layers a segment
  std::vector<std::string> recompute = {};  // selective: groups of ops; empty: those that cost little
  int64_t memory_budget =
      0;  // auto, dtr: bytes of the device that a rank takes in all; 0: device.memory_limit
  int64_t host_memory_budget = 0;  // auto: bytes of saved activations in host memory; 0: not given
  BudgetPolicy budget_policy = BudgetPolicy::kDynamic;
  int64_t replan_after = 0;  // auto: steps after which the plan is made again by what was measured; 0: never
  std::vector<std::string> recompute_layers = {};  // fixed: their numbers, the first is 0
  bool partition_activations = false;
  bool cpu_checkpointing = false;
  struct Disk {
    std::string path = {};  // folder where saved activations wait, or ""
    int64_t limit = 0;      // bytes per rank; 0: none
  } disk_checkpointing = {};
  bool contiguous_checkpointing = true;              // false: saved activations in a best-fit pool
  StorageDType storage_dtype = StorageDType::kSame;  // of saved activations; all but the same are lossy
  int64_t keep_last = -1;                            // -1: chosen by the simulator
  int64_t prefetch = -1;                             // layers ahead; -1: chosen by the simulator
  int64_t number_checkpoints = 0;  // layer inputs that the mode must save; 0: however many it saves
  std::string plan = {};           // file that decides for every value, instead of mode and switches, or ""
  bool verify = false;             // compare what comes again with what was there
  bool is_compared = false;        // not a run, but a column beside it: a switch may be without effect in it
};

}  // namespace recollect
