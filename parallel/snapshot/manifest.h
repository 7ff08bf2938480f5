// What a snapshot says of itself, in one JSON file that is written when all others are on the disk: how far the
// training was, which files belong to it with a check sum for every MiB of them, and where in them each part of each
// tensor lies. A manifest that was read is whole: its text has its check sum, names are plain names, and the parts of
// a tensor cover it exactly. docs/snapshots.md has the format.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/snapshot/state_layout.h"

namespace recollect {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr uint64_t kSummedBytes = uint64_t{1} << 20;  // that one check sum is of

// Of the evaluations so far, where something depends on which was the best.
struct BestEvaluation {
  std::string metric = {};  // by what they are compared; "" before the first one
  int64_t step = 0;         // behind which the best one was; 0: none yet
  double value = 0;         // of it, which is finite
  int64_t not_better = 0;   // those in a row that have used up patience
  bool operator==(const BestEvaluation&) const = default;
};

// Where the next step goes on. Everything else that it depends on follows from the configuration and these numbers.
struct TrainingProgress {
  int64_t step = 0;     // steps done
  int64_t updates = 0;  // of them, those that changed the model
  int64_t samples = 0;  // of the run's order, used by all data ranks together
  double loss_scale = 1;
  int64_t updates_at_scale = 0;  // in a row, without overflow
  int64_t not_finite = 0;        // what numerics.max_non_finite bounds: steps left out in a row, or rollbacks
  BestEvaluation best = {};
  bool operator==(const TrainingProgress&) const = default;
};

struct SnapshotFile {
  std::string name;
  uint64_t bytes = 0;
  std::vector<uint32_t> sums = {};  // CRC-32C of every kSummedBytes bytes, the last of which may be fewer
};

struct SnapshotShard {
  std::size_t file = 0;
  std::string tensor;  // its name in the file
  Rectangle place = {};
};

struct SnapshotTensor {
  StateTensor whole;
  std::vector<SnapshotShard> shards = {};
};

struct Manifest {
  TrainingProgress progress;
  std::map<std::string, int64_t> ranks;            // by axis
  std::map<std::string, std::string> versions;     // of what wrote it
  std::string launch = {};                         // whose ranks did, where it may start them again
  std::string configuration;                       // resolved, as YAML
  std::map<std::string, std::string> inputs = {};  // by key, what its files hold, in a word
  std::vector<SnapshotFile> files;
  std::vector<SnapshotTensor> tensors;
};

// A rank's part of a manifest, to be put together by one of them.
struct SnapshotPart {
  SnapshotFile file;
  std::vector<std::pair<std::size_t, SnapshotShard>> shards =
      {};  // with the number of its tensor; `file` is not set
};
std::string to_text(const SnapshotPart& part);
SnapshotPart read_part(const std::string& text);
// Parts come in the order of their ranks; the manifest has the tensors already.
void add_part(SnapshotPart part, Manifest& manifest);

// The name in a file of a part of a tensor; a whole tensor has its own.
std::string shard_name(const StateTensor& whole, const Rectangle& place);

std::string to_json(const Manifest& manifest);
// `source` names the file in errors, which are kInput.
Manifest parse_manifest(std::string_view text, const std::string& source);

}  // namespace recollect
