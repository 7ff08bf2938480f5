// Tensors between two ranks of one communicator, and around rings of them, against what each rank can compute
// alone. To be called by all ranks of the group; ranks that a tensor does not concern go on.
#pragma once

#include <string>
#include <vector>

#include "tests/comm/check_collectives.h"

namespace recollect::test {

class PassingChecker {
 public:
  explicit PassingChecker(Communicator& communicator)
      : comm_(communicator), rank_(communicator.rank()), size_(communicator.size()) {}

  // What went wrong on this rank; empty when nothing did.
  std::vector<std::string> run(const std::vector<int64_t>& counts) {
    for (const int64_t n : counts) {
      for (int step = 0; step < size_; ++step) {
        shift<float>(step, n);
        shift<uint8_t>(-step, n);
      }
      sum(n);
    }
    for (int from = 0; from < size_; ++from)
      for (int to = 0; to < size_; ++to)
        for (const int64_t n : {3, 61, 0, 1021})  // in order
          if (from != to) one<double>(from, to, n);
    from_one_to_all();
    sum(7);
    return failures_;
  }

 private:
  template <typename T>
  static Tensor view(std::vector<T>& values) {
    return {values.data(), {static_cast<int64_t>(values.size())}, kDTypeOf<T>};
  }
  // Of this length, between these two.
  template <typename T>
  std::vector<T> content(int from, int to, int64_t n) const {
    return inputs<T>(Data::kRandom, 100 + from * size_ + to, n, n);
  }
  template <typename T>
  void expect(const std::vector<T>& got, const std::vector<T>& wanted, int from) {
    if (got.size() == wanted.size() &&
        (got.empty() || std::memcmp(got.data(), wanted.data(), got.size() * sizeof(T)) == 0))
      return;
    failures_.push_back("rank " + std::to_string(rank_) + " of " + std::to_string(size_) + ": " +
                        std::to_string(wanted.size()) + " x " + std::string(name_of(kDTypeOf<T>)) +
                        " from rank " + std::to_string(from) + " are wrong");
  }
  // A ring of its own for every step: longer tensors to ranks with higher numbers.
  template <typename T>
  void shift(int step, int64_t n) {
    const int to = (rank_ + step + size_) % size_, from = (rank_ - step + size_) % size_;
    auto out = content<T>(rank_, to, n + to);
    const auto wanted = content<T>(from, rank_, n + rank_);
    std::vector<T> in(wanted.size());
    comm_.exchange(view(out), to, view(in), from);
    expect(in, wanted, from);
  }
  template <typename T>
  void one(int from, int to, int64_t n) {
    auto values = content<T>(from, to, n);
    if (rank_ == from) comm_.send(view(values), to);
    if (rank_ != to) return;
    std::vector<T> in(values.size());
    comm_.receive(view(in), from);
    expect(in, values, from);
  }
  // Each receives when the first rank comes to it; then each sends, and is received in another order.
  void from_one_to_all() {
    for (int to = size_ - 1; to > 0; --to) one<float>(0, to, 10 + to);
    for (int from = size_ - 1; from > 0; --from) one<float>(from, 0, 10 + from);
  }
  void sum(int64_t n) {
    auto values = inputs<float>(Data::kSmallIntegers, rank_, 0, n);
    comm_.all_reduce(view(values), ReduceOp::kSum);
    std::vector<float> wanted(values.size());
    for (int64_t i = 0; i < n; ++i)
      wanted[static_cast<std::size_t>(i)] = reduced<float>(Data::kSmallIntegers, ReduceOp::kSum, size_, i);
    expect(values, wanted, -1);
  }

  Communicator& comm_;
  const int rank_, size_;
  std::vector<std::string> failures_;
};

// Throws kIntegrity where something is wrong.
inline void check_passing(Communicator& communicator, const std::vector<int64_t>& counts) {
  std::string text;
  for (const std::string& failure : PassingChecker(communicator).run(counts)) text += failure + "\n";
  if (!text.empty()) throw Error(ExitCode::kIntegrity, text);
}

}  // namespace recollect::test
