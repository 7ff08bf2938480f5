// A Tensor is a non-owning view of dense row-major memory: pointer, shape, dtype. It never allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "engine/core/dtype.h"
#include "engine/core/error.h"

namespace recollect {

class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) {
    require(dims.size() <= kMaxRank, "a shape has at most four dims");
    for (int64_t d : dims) dims_[rank_++] = d;
  }

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[i < 0 ? i + rank_ : i]; }
  int64_t& operator[](int i) { return dims_[i < 0 ? i + rank_ : i]; }
  int64_t elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[i];
    return n;
  }
  bool operator==(const Shape&) const = default;
  std::string to_string() const {  // "[2, 3]"
    std::string s = "[";
    for (int i = 0; i < rank_; ++i) s += (i ? ", " : "") + std::to_string(dims_[i]);
    return s + "]";
  }

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

struct Tensor {
  void* data = nullptr;
  Shape shape;
  DType dtype = DType::kF32;

  int64_t elements() const { return shape.elements(); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype); }
  bool defined() const { return data != nullptr; }

  template <typename T>
  T* as() const {
    if (kDTypeOf<T> != dtype) throw Error(ExitCode::kInternal, "tensor read as the wrong dtype");
    return static_cast<T*>(data);
  }
};

}  // namespace recollect
