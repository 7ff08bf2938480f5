#include "engine/io/standard_output.h"

#include <iterator>

namespace recollect {

void put_text(std::FILE* stream, std::string_view text) noexcept {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

void say_formatted(fmt::string_view format, fmt::format_args args) {
  fmt::memory_buffer text;
  fmt::vformat_to(std::back_inserter(text), format, args);
  put_text(stdout, {text.data(), text.size()});
}

}  // namespace recollect
