#include "launch/snapshot/verify.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/io/crc32c.h"
#include "launch/snapshot/saved_run.h"
#include "parallel/snapshot/snapshot_reader.h"

namespace recollect {

namespace {

// Checks one file from its beginning to its end.
void verify_file(const SnapshotFile& expected, const InputFile& file, Verified& result) {
  const auto damaged = [&](std::string what) {
    result.wrong.push_back(std::move(what));
    result.damaged = true;
  };
  if (file.size() != expected.bytes)
    damaged(fmt::format("{} has {} bytes, and should have {}", file.path(), file.size(), expected.bytes));
  std::vector<std::byte> block;
  for (uint64_t i = 0, first = 0; first < std::min(file.size(), expected.bytes); ++i, first += kSummedBytes) {
    const uint64_t bytes = std::min(kSummedBytes, expected.bytes - first);
    if (file.size() - first < bytes) break;  // the last block is cut short
    block.resize(static_cast<std::size_t>(bytes));
    file.read_at(first, block);
    result.bytes += bytes;
    const uint32_t sum = crc32c({reinterpret_cast<const char*>(block.data()), block.size()});
    if (sum != expected.sums[i])
      damaged(
          fmt::format("{} is damaged between bytes {} and {}: its check sum is {:08x}, and should be {:08x}",
                      file.path(), first, first + bytes, sum, expected.sums[i]));
  }
}

// Runs `look` and records its error: damage (kInput), or a refusal by the system (kStorage).
template <typename Look>
void note_error(Verified& result, const Look& look) {
  try {
    look();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kInput && error.code() != ExitCode::kStorage) throw;
    result.wrong.emplace_back(error.what());
    result.damaged |= error.code() == ExitCode::kInput;
  }
}

// Checks the number of samples, if this version can read the configuration.
void check_samples(const Manifest& manifest, const std::string& folder) {
  int64_t batch = 1;
  try {
    batch = std::max<int64_t>(1, saved_run(manifest, folder).config.training.global_batch_size);
  } catch (const Error&) {
  }
  if (manifest.progress.samples % batch != 0)
    throw Error(ExitCode::kInput,
                fmt::format("{} was saved after {} samples, which its batches of {} do not come to", folder,
                            manifest.progress.samples, batch));
}

}  // namespace

Verified verify_snapshot(const std::string& folder) {
  const auto start = std::chrono::steady_clock::now();
  Verified result;
  note_error(result, [&] {
    SnapshotReader reader(folder);
    const Manifest& manifest = reader.manifest();
    result.files = manifest.files.size();
    result.tensors = manifest.tensors.size();
    for (std::size_t i = 0; i < manifest.files.size(); ++i)
      note_error(result, [&] { verify_file(manifest.files[i], reader.open(i), result); });
    if (result.wrong.empty()) reader.check_tensors();
    if (result.wrong.empty()) check_samples(manifest, folder);
  });
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

std::string missing_files(const std::string& folder) {
  try {
    const SnapshotReader reader(folder);
    const std::vector<SnapshotFile>& files = reader.manifest().files;
    for (std::size_t i = 0; i < files.size(); ++i)
      if (const InputFile file = reader.open(i); file.size() != files[i].bytes)
        throw Error(ExitCode::kInput, fmt::format("{} has {} bytes, and should have {}", file.path(),
                                                  file.size(), files[i].bytes));
  } catch (const Error& error) {
    if (error.code() != ExitCode::kInput) throw;
    return error.what();
  }
  return "";
}

}  // namespace recollect
