#include "comm/planned.h"

namespace recollect {
namespace {

class PlannedCommunicator final : public Communicator {
 public:
  PlannedCommunicator(int rank, int size, std::size_t staging_bytes)
      : rank_(rank), size_(size), staging_bytes_(staging_bytes) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name() const override { return "planned"; }
  std::size_t staging_bytes() const override { return staging_bytes_; }

  void all_reduce(const Tensor&, ReduceOp, void*) override { refuse("all_reduce"); }
  void all_gather(const Tensor&, const Tensor&, void*) override { refuse("all_gather"); }
  void reduce_scatter(const Tensor&, const Tensor&, void*) override { refuse("reduce_scatter"); }
  void broadcast(const Tensor&, int, void*) override { refuse("broadcast"); }
  void barrier() override { refuse("barrier"); }
  void pass(const Parcel& out, const Parcel&, void*) override { refuse(out ? "send" : "receive"); }
  std::unique_ptr<Communicator> split(int) override { refuse("split"); }
  void abort(const std::string&) noexcept override {}

 private:
  [[noreturn]] void refuse(const std::string& collective) const {
    throw Error(ExitCode::kInternal,
                collective + " on rank " + std::to_string(rank_) + " of " + std::to_string(size_) +
                    ", which are only planned",
                "this is a bug in recollect");
  }

  int rank_, size_;
  std::size_t staging_bytes_;
};

}  // namespace

std::unique_ptr<Communicator> make_planned_communicator(int rank, int size, std::size_t staging_bytes) {
  require(size > 0 && rank >= 0 && rank < size, "a planned rank lies in its world");
  return std::make_unique<PlannedCommunicator>(rank, size, staging_bytes);
}

}  // namespace recollect
