#include "tests/gpu/fake_cuda/capture.h"

#include <algorithm>
#include <utility>

namespace recollect::fake_cuda {

void Capture::add(cudaStream_t stream, std::shared_ptr<Job> job, std::shared_ptr<EventState> records,
                  uint64_t cost) {
  std::vector<int>& ends = latest[stream];
  nodes.push_back({streams.at(stream), std::move(ends), std::move(job), std::move(records), cost});
  ends = {static_cast<int>(nodes.size()) - 1};
}

void Capture::join(cudaStream_t stream, const std::vector<int>& more) {
  streams.try_emplace(stream, static_cast<int>(streams.size()));
  std::vector<int>& ends = latest[stream];
  for (const int node : more)
    if (std::find(ends.begin(), ends.end(), node) == ends.end()) ends.push_back(node);
}

bool Capture::is_joined() const {
  std::vector<bool> reached(nodes.size(), false);
  std::vector<int> next = latest.at(origin);
  while (!next.empty()) {
    const auto node = static_cast<std::size_t>(next.back());
    next.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    next.insert(next.end(), nodes[node].after.begin(), nodes[node].after.end());
  }
  return std::find(reached.begin(), reached.end(), false) == reached.end();
}

}  // namespace recollect::fake_cuda

using recollect::fake_cuda::Node;
using recollect::fake_cuda::QueuePointer;
using recollect::fake_cuda::Schedule;
using recollect::fake_cuda::WorkPointer;

// Two launches of one graph never overlap.
WorkPointer CUgraphExec_st::launch(Schedule& schedule, const QueuePointer& queue,
                                   std::vector<WorkPointer> after) {
  if (last) after.push_back(last);
  const WorkPointer begin = schedule.add(queue, std::move(after), nullptr);
  std::vector<WorkPointer> all;
  for (const Node& node : nodes) {
    std::vector<WorkPointer> before;
    for (const int one : node.after) before.push_back(all[static_cast<std::size_t>(one)]);
    if (before.empty()) before.push_back(begin);
    all.push_back(schedule.add(queues[static_cast<std::size_t>(node.stream)], std::move(before),
                               node.job.get(), false, node.cost));
    if (node.records) node.records->recorded = all.back(), node.records->capture = nullptr;
  }
  last = schedule.add(queue, std::move(all), nullptr);
  return last;
}
