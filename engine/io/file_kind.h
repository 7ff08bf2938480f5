// Recognises the kind of a file by its first bytes, for a file that cannot be read as what it was given for.
#pragma once

#include <optional>
#include <string_view>

namespace recollect {

struct FileKind {
  std::string_view what;     // "is compressed with gzip"
  std::string_view hint;     // what to do with it
  bool may_be_text = false;  // a user may want to read it as text
};

// Returns nothing for text, and for numbers without a header. `sure`: only by four bytes or more, which
// numbers do not contain by chance.
std::optional<FileKind> kind_of_file(std::string_view begin, bool sure = false);

inline constexpr std::size_t kFileKindBytes = 64;  // enough bytes to recognise any kind

// Returns true if a small file is the pointer that Git stores in place of a large file kept by Git LFS.
bool is_lfs_pointer(std::string_view begin);
inline constexpr std::string_view kLfsHint =
    "`git lfs pull` in its repository downloads the file itself (git lfs install comes first)";

}  // namespace recollect
