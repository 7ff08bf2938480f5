#include "parallel/snapshot/snapshot_saver.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <thread>

#include <fmt/format.h>

#include "comm/gather_texts.h"
#include "engine/io/crc32c.h"

namespace recollect {

namespace {

constexpr std::chrono::milliseconds kLookEvery{10};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Of a processor, that the calling thread has had.
double thread_seconds() {
  timespec had{};
  return ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &had) == 0
             ? static_cast<double>(had.tv_sec) + 1e-9 * static_cast<double>(had.tv_nsec)
             : 0;
}

bool is_folder(const std::string& path) {
  struct stat there {};
  return ::stat(path.c_str(), &there) == 0 && S_ISDIR(there.st_mode);
}

// The manifest of what the ranks have written.
Manifest put_together(const std::vector<std::string>& texts, const std::vector<StateTensor>& tensors) {
  Manifest manifest;
  for (const StateTensor& tensor : tensors) manifest.tensors.push_back({.whole = tensor});
  for (const std::string& text : texts) add_part(read_part(text), manifest);
  return manifest;
}

}  // namespace

uint64_t SnapshotSaver::buffer_bytes(const StateLayout& layout, int world_rank, bool asynchronous) {
  if (!asynchronous) return kStagedBytes + kSummedBytes;
  return aligned(form_of_shard(layout.tensors(), layout.saved_by(world_rank)).bytes);
}

SnapshotSaver::SnapshotSaver(SnapshotOptions options, const TrainingState& state, const Mesh& mesh)
    : options_(std::move(options)),
      state_(state),
      mesh_(mesh),
      folder_(options_.path),
      parts_(state.saved_by(state.world_rank())),
      form_(form_of_shard(state.tensors(), parts_)),
      buffer_(buffer_bytes(state.layout(), state.world_rank(), options_.asynchronous)),
      write_([this] { write(); }),
      commit_([this] { commit(); }) {
  if (options_.asynchronous) sums_.resize((form_.bytes + kSummedBytes - 1) / kSummedBytes);
  check_folder();
}

SnapshotSaver::~SnapshotSaver() = default;

void SnapshotSaver::check_folder() const {
  std::string wrong;
  if (state_.world_rank() == 0) {
    try {
      folder_.make();
      folder_.remove_rubbish();
    } catch (const Error& error) {
      wrong = error.what();
    }
  }
  mesh_.world().barrier();
  if (wrong.empty() && !is_folder(options_.path)) wrong = options_.path + " is no folder that this rank sees";
  const std::vector<std::string> all = gather_texts(wrong, mesh_.world());
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty())
      throw Error(
          ExitCode::kStorage, fmt::format("snapshot.path, rank {}: {}", rank, all[rank]),
          "name a folder that all ranks can write, such as one of a file system that the nodes share");
}

void SnapshotSaver::begin(const TrainingProgress& progress) {
  require(!busy(), "a snapshot is begun while another one is written");
  began_ = std::chrono::steady_clock::now();
  progress_ = progress;
  thread_seconds_ = 0;
  failed_.reset();
  left_.reset();
  phase_ = Phase::kWriting;
  if (state_.world_rank() == 0) try {
      if (options_.before_begin) options_.before_begin();
      folder_.begin(progress.step);
    } catch (const Error& error) {
      failed_ = error;
    }
  int64_t failed = failed_ ? 1 : 0;
  mesh_.world().all_reduce({&failed, {1}, DType::kI64}, ReduceOp::kMax);
  refused_ = failed > 0;
  if (refused_) return;
  if (options_.asynchronous) copy();
  copied_seconds_ = seconds_since(began_);
  thread_.give(write_);
}

void SnapshotSaver::copy() {
  std::memcpy(buffer_.at(0), form_.head.data(), form_.head.size());
  const auto blocks = static_cast<int64_t>(sums_.size());
  if (state_.is_in_host_memory()) {
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < blocks; ++block) copy_block(block);
  } else {
    for (int64_t block = 0; block < blocks; ++block) copy_block(block);
  }
}

// And its sum, while a cache holds it.
void SnapshotSaver::copy_block(int64_t block) {
  const uint64_t first = static_cast<uint64_t>(block) * kSummedBytes,
                 end = std::min(form_.bytes, first + kSummedBytes);
  auto piece = std::partition_point(form_.pieces.begin(), form_.pieces.end(),
                                    [&](const ShardForm::Piece& p) { return p.offset + p.bytes <= first; });
  for (; piece != form_.pieces.end() && piece->offset < end; ++piece) {
    const uint64_t from = std::max(first, piece->offset), to = std::min(end, piece->offset + piece->bytes);
    state_.read(parts_[piece->part], from - piece->offset, static_cast<std::size_t>(to - from),
                buffer_.at(from));
  }
  sums_[static_cast<std::size_t>(block)] =
      crc32c({reinterpret_cast<const char*>(buffer_.at(first)), static_cast<std::size_t>(end - first)});
}

void SnapshotSaver::write() {
  const double before = thread_seconds();
  write_part();
  thread_seconds_ = thread_seconds() - before;
}

void SnapshotSaver::write_part() {
  const std::string folder = folder_.being_saved(progress_.step),
                    name = fmt::format("rank-{:05}.safetensors", state_.world_rank());
  if (options_.asynchronous) {
    written_ = write_shard_image(folder, name, form_, buffer_.at(0), sums_);
    return;
  }
  const ReadState read = [&](std::size_t part, uint64_t first, std::size_t bytes) -> const std::byte* {
    state_.read(parts_[part], first, bytes, buffer_.at(kStagedBytes));
    return buffer_.at(kStagedBytes);
  };
  written_ = write_shard_file(folder, name, form_, read, buffer_.at(0));
}

void SnapshotSaver::commit() {
  if (options_.before_commit) options_.before_commit();
  folder_.commit(progress_.step, manifest_);
  try {
    folder_.remove_old(progress_.step, options_.keep);
  } catch (const Error& error) {  // what is saved is saved
    left_ = error;
  }
}

std::optional<SnapshotOutcome> SnapshotSaver::look() {
  require(busy(), "nobody saves a snapshot");
  const bool running = !thread_.idle_within(std::chrono::milliseconds(0));
  std::array<int64_t, 2> news{running, !running && (refused_ || thread_.failure())};
  mesh_.world().all_reduce({news.data(), {2}, DType::kI64}, ReduceOp::kMax);
  if (news[0] > 0) return {};
  if (news[1] > 0) return end(why_failed());
  if (phase_ == Phase::kCommitting) return end({});
  const std::vector<std::string> parts = gather_texts(to_text(written_), mesh_.world());
  phase_ = Phase::kCommitting;
  if (state_.world_rank() != 0) return {};
  Manifest manifest = put_together(parts, state_.tensors());
  manifest.progress = progress_;
  for (const MeshAxis& axis : mesh_.axes()) manifest.ranks[axis.name] = axis.size;
  manifest.versions = options_.versions;
  manifest.launch = options_.launch;
  manifest.configuration = options_.configuration;
  manifest.inputs = options_.inputs;
  manifest_ = to_json(manifest);
  thread_.give(commit_);
  return {};
}

// Only a disk that fails is an answer; what is our own fault goes on as it is.
Error SnapshotSaver::why_failed() {
  std::string mine;
  if (failed_) mine = failed_->what();
  if (!refused_ && thread_.failure()) try {
      std::rethrow_exception(thread_.failure());
    } catch (const Error& error) {
      if (error.code() != ExitCode::kStorage) throw;
      mine = error.what();
    }
  const std::vector<std::string> all = gather_texts(mine, mesh_.world());
  const auto first =
      std::find_if(all.begin(), all.end(), [](const std::string& why) { return !why.empty(); });
  return Error(ExitCode::kStorage,
               fmt::format("rank {}: {}", first - all.begin(), first == all.end() ? "" : *first),
               "see to the disk that snapshot.path is on");
}

SnapshotOutcome SnapshotSaver::end(std::optional<Error> failed) {
  if (failed && phase_ == Phase::kWriting && !refused_ && state_.world_rank() == 0)
    folder_.discard(progress_.step);
  phase_ = Phase::kIdle;
  return {.step = progress_.step,
          .failed = std::move(failed),
          .left = left_,
          .copied_seconds = copied_seconds_,
          .thread_seconds = thread_seconds_,
          .seconds = seconds_since(began_),
          .bytes = written_.file.bytes};
}

SnapshotOutcome SnapshotSaver::finish() {
  while (true) {
    if (std::optional<SnapshotOutcome> outcome = look()) return *outcome;
    std::this_thread::sleep_for(kLookEvery);
  }
}

}  // namespace recollect
