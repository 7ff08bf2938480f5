#include "launch/train/read_logits.h"

#include <cstring>

#include "engine/core/error.h"

namespace recollect {

namespace {

template <typename T>
void widen(const std::vector<std::byte>& bytes, std::vector<double>& numbers) {
  numbers.resize(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    T number;
    std::memcpy(&number, bytes.data() + i * sizeof(T), sizeof(T));
    numbers[i] = static_cast<double>(number);
  }
}

void widen(DType dtype, const std::vector<std::byte>& bytes, std::vector<double>& numbers) {
  switch (dtype) {
    case DType::kF64:
      return widen<double>(bytes, numbers);
    case DType::kF32:
      return widen<float>(bytes, numbers);
    case DType::kBF16:
      return widen<bf16>(bytes, numbers);
    case DType::kF16:
      return widen<f16>(bytes, numbers);
    default:
      throw Error(ExitCode::kInternal, "logits that are no numbers");
  }
}

}  // namespace

void read_logits(const Executor& executor, ValueId logits, std::vector<std::byte>& bytes,
                 std::vector<double>& numbers) {
  require(logits != kNone && executor.outlives_forward(logits), "logits are gone after forward");
  const Tensor tensor = executor.tensor(logits);
  bytes.resize(tensor.bytes());
  executor.read(bytes.data(), logits);
  widen(tensor.dtype, bytes, numbers);
}

}  // namespace recollect
