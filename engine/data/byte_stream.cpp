#include "engine/data/byte_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "engine/core/error.h"

namespace recollect {

ByteStream::ByteStream(const std::string& path) : file_(path) { read_piece(); }

void ByteStream::read_piece() {
  constexpr uint64_t kPiece = 1 << 16;
  piece_.resize(std::min(kPiece, file_.size() - offset_));
  at_ = 0;
  if (piece_.empty()) return;
  file_.read_at(offset_, std::as_writable_bytes(std::span(piece_)));
  if (const auto zero = std::find(piece_.begin(), piece_.end(), '\0'); zero != piece_.end())
    throw Error(ExitCode::kInput, fmt::format("{}: a zero byte at offset {}", file_.path(),
                                              offset_ + static_cast<uint64_t>(zero - piece_.begin())));
  offset_ += piece_.size();
}

}  // namespace recollect
