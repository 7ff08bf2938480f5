// What the collectives of a rank's steps took, apart for each axis and stream: standing for peers, and moving
// bytes. Counts nothing of what lies between steps. Allocates nothing while it counts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "parallel/mesh.h"

namespace recollect {

struct CollectiveTimes {
  std::string axis, stream;          // "tensor", "compute"; stream "host": ordinary memory beside a device
  bool measured = true;              // false: the communicator works on a device, behind the caller's back
  double transfer = 0, waiting = 0;  // seconds
  std::vector<std::pair<int, double>> for_ranks = {};  // of `waiting`: for which rank of the world
  bool operator==(const CollectiveTimes&) const = default;
};

class CollectiveMeter {
 public:
  explicit CollectiveMeter(const Mesh& mesh);

  void begin_step();
  void end_step();

  // Summed over steps: communicators of several ranks that were used, or of which that is not known.
  std::vector<CollectiveTimes> times() const;
  // Seconds of all steps so far in which peers were waited for: where kernels, or the host between them, stood; and on
  // streams beside them.
  struct Waiting {
    double in_place = 0, aside = 0;
  };
  Waiting waiting() const;

 private:
  struct Line {
    Mesh::Link link;
    double transfer = 0, waiting = 0;
    std::vector<double> for_rank = {};  // of the group
  };
  // The numbers so far, less or more.
  void count(double sign);

  std::vector<Line> lines_;
};

}  // namespace recollect
