#include "comm/gather_texts.h"

#include <algorithm>

namespace recollect {

std::vector<std::string> gather_texts(const std::string& mine, Communicator& communicator) {
  auto size = static_cast<int64_t>(mine.size());
  std::vector<int64_t> sizes(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather({&size, {1}, DType::kI64},
                          {sizes.data(), {static_cast<int64_t>(sizes.size())}, DType::kI64});
  return gather_texts(mine, sizes, communicator);
}

std::vector<std::string> gather_texts(const std::string& mine, const std::vector<int64_t>& sizes,
                                      Communicator& communicator) {
  const int64_t longest = *std::max_element(sizes.begin(), sizes.end());
  const auto ranks = static_cast<int64_t>(sizes.size());
  if (longest == 0) return std::vector<std::string>(sizes.size());
  std::string padded = mine;
  padded.resize(static_cast<std::size_t>(longest));
  std::string all(static_cast<std::size_t>(longest * ranks), '\0');
  communicator.all_gather({padded.data(), {longest}, DType::kU8},
                          {all.data(), {ranks * longest}, DType::kU8});
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < sizes.size(); ++r)
    texts.push_back(all.substr(r * static_cast<std::size_t>(longest), static_cast<std::size_t>(sizes[r])));
  return texts;
}

}  // namespace recollect
