// What a file is that cannot be read as what it was given for: its first bytes tell.
#pragma once

#include <optional>
#include <string_view>

namespace recollect {

struct FileKind {
  std::string_view what;     // "is compressed with gzip"
  std::string_view hint;     // what to do with it
  bool may_be_text = false;  // somebody may want to read it as such
};

// Nothing for text, and for numbers without a header. `sure`: by four bytes or more, which numbers are not by chance.
std::optional<FileKind> kind_of_file(std::string_view begin, bool sure = false);

inline constexpr std::size_t kFileKindBytes = 64;  // that are enough to tell

// Whether a small file is what Git has in place of a large one that Git LFS keeps.
bool is_lfs_pointer(std::string_view begin);
inline constexpr std::string_view kLfsHint =
    "`git lfs pull` in its repository downloads the file itself (git lfs install comes first)";

}  // namespace recollect
