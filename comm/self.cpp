// A world of one: no peers, so every collective is at most a copy.
#include <cstring>

#include "comm/collective_call.h"
#include "comm/communicator.h"

namespace recollect {
namespace {

void copy(const Tensor& in, const Tensor& out) {
  if (in.data != out.data && in.bytes() > 0) std::memmove(out.data, in.data, in.bytes());
}

class SelfCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string name() const override { return "self"; }

  void all_reduce(const Tensor& tensor, ReduceOp op, void*) override { all_reduce_call(tensor, op); }
  void all_gather(const Tensor& in, const Tensor& out, void*) override {
    all_gather_call(in, out, 1);
    copy(in, out);
  }
  void reduce_scatter(const Tensor& in, const Tensor& out, void*) override {
    reduce_scatter_call(in, out, 1);
    copy(in, out);
  }
  void broadcast(const Tensor& tensor, int root, void*) override { broadcast_call(tensor, root, 1); }
  void barrier() override {}
  void pass(const Parcel& out, const Parcel& in, void*) override {
    if (is_copy(out, in, 0, 1)) copy(out.tensor, in.tensor);
  }
  std::unique_ptr<Communicator> split(int) override { return make_self_communicator(); }
  void abort(const std::string&) noexcept override {}
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator() { return std::make_unique<SelfCommunicator>(); }

}  // namespace recollect
