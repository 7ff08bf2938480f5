// bf16 matrix products on Intel AMX, about twice as fast as oneDNN 2.6 at the shapes of transformers. Exists
// where the compiler targets AMX and the system grants it; elsewhere suits() is false.
#pragma once

#include "engine/ops/cpu/gemm.h"

namespace recollect::cpu {

class AmxGemm {
 public:
  static bool suits(const GemmSpec& spec);
  explicit AmxGemm(const GemmSpec& spec);

  std::size_t workspace_bytes() const;
  void run(const void* a, const void* b, void* c, const float* bias, bool accumulate,
           std::byte* workspace) const;

 private:
  struct Call;
  struct Group;
  struct Block;
  std::size_t resident_bytes() const;
  std::size_t sums_bytes() const;
  std::size_t own_bytes() const;
  void work(const Call& call) const;
  void pack_resident(const Call& call, const Group& group, int64_t first, int64_t last) const;
  void strip(const Call& call, const Group& group, int64_t line, int64_t blocks, std::byte* own) const;
  void pack(const Call& call, bool left, int64_t line, int64_t begin, int64_t end, bf16* to) const;
  void block(const Call& call, const Block& b, const bf16* left, const bf16* right) const;
  void fetch_next(const Call& call, const Block& b) const;
  void finish(const Call& call, int64_t row, int64_t column, const float* sums) const;

  GemmSpec spec_;
  int threads_ = 1;
  bool left_resides_ = false;
  int64_t depth_ = 0;           // of one pass
  int64_t group_ = 0;           // lines resident at a time
  bool keeps_sums_ = false;     // several passes whose sums cannot stay in C
  bool fetches_ahead_ = false;  // C is too large for the caches
};

}  // namespace recollect::cpu
