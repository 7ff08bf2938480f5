#include "launch/train/open_together.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "comm/agree.h"
#include "engine/io/node.h"
#include "engine/io/system_files.h"
#include "engine/io/write_thread.h"

namespace recollect {

namespace {

// The process of a rank, and the index that it offers to ranks on its node.
struct IndexOffer {
  uint64_t node = 0;
  int64_t process = 0;
  int64_t descriptor = -1;
  uint64_t bytes = 0;    // 0: nothing
  uint64_t address = 0;  // of the shared_ptr, for ranks in the same process
};

std::vector<IndexOffer> gather_offers(IndexOffer mine, Communicator& world) {
  std::vector<IndexOffer> all(static_cast<std::size_t>(world.size()));
  constexpr auto kBytes = static_cast<int64_t>(sizeof mine);
  world.all_gather({&mine, {kBytes}, DType::kU8}, {all.data(), {kBytes * world.size()}, DType::kU8});
  return all;
}

// Ranks are on the same node if their processes have the same kernel since its boot and the same PID
// namespace. A rank that cannot tell counts as a separate node.
IndexOffer place_of_rank(int rank) {
  const std::optional<std::string> boot = SystemFiles().read("/proc/sys/kernel/random/boot_id");
  struct stat numbers {};
  const bool known = boot && ::stat("/proc/self/ns/pid", &numbers) == 0;
  const std::string node = known ? fmt::format("{}:{}:{}", host_name(), *boot, numbers.st_ino)
                                 : fmt::format("{}:rank {}", host_name(), rank);
  return {.node = std::hash<std::string>{}(node), .process = ::getpid()};
}

void write_all(const OpenedData& opened, IndexWriter& to) {
  to.number(opened.remarks.size());
  for (const std::string& remark : opened.remarks) to.text(remark);
  to.text(opened.packing);
  to.text(opened.mixture);
  opened.dataset->write_index(to);
}

struct Sentences {
  std::vector<std::string> remarks;
  std::string packing, mixture;
};

Sentences read_sentences(IndexReader& from) {
  Sentences read;
  for (uint64_t left = from.number(); left > 0; --left) read.remarks.push_back(from.text());
  read.packing = from.text();
  read.mixture = from.text();
  return read;
}

// Moves the index to shared memory; the data of this process then uses it there too. Null if the system has
// no such memory.
std::shared_ptr<SharedMemory> share(OpenedData& opened) {
  IndexWriter counted;
  write_all(opened, counted);
  std::shared_ptr<SharedMemory> memory = SharedMemory::make(counted.bytes());
  if (!memory) return nullptr;
  IndexWriter writer(memory->bytes());
  write_all(opened, writer);
  IndexReader reader(memory);
  read_sentences(reader);
  opened.dataset->read_index(reader);
  return memory;
}

OpenedData open_by(const std::shared_ptr<const SharedMemory>& memory, const OpenIds& open) {
  try {
    IndexReader reader(memory);
    Sentences read = read_sentences(reader);
    OpenedData opened = open(&reader);
    opened.remarks = std::move(read.remarks);
    opened.packing = std::move(read.packing);
    opened.mixture = std::move(read.mixture);
    opened.index = {.bytes = memory->bytes().size()};
    return opened;
  } catch (const OtherIndex&) {
    return open(nullptr);
  }
}

// Collective. Ranks that work tell the others, so that these keep waiting.
void work_while_others_wait(const std::function<void()>* work, Communicator& world) {
  constexpr std::chrono::milliseconds kNews{100};
  WriteThread thread;
  if (work) thread.give(*work);
  for (int64_t works = 1; works > 0;) {
    works = work && !thread.idle_within(kNews) ? 1 : 0;
    world.all_reduce({&works, {1}, DType::kI64}, ReduceOp::kMax);
  }
  fail_together(world, [&] {
    if (thread.failure()) std::rethrow_exception(thread.failure());
  });
}

}  // namespace

OpenedData open_together(Communicator& world, const OpenIds& open) {
  IndexOffer mine = place_of_rank(world.rank());
  std::vector<IndexOffer> all = gather_offers(mine, world);
  const auto first_that = [&](const auto& is) {
    return static_cast<int>(std::find_if(all.begin(), all.end(), is) - all.begin());
  };
  const auto first_of_node = [&](uint64_t node) {
    return first_that([node](const IndexOffer& one) { return one.node == node; });
  };
  bool any_shares = false;
  for (int rank = 0; rank < world.size(); ++rank)
    any_shares |= first_of_node(all[static_cast<std::size_t>(rank)].node) != rank;
  if (!any_shares) return open(nullptr);

  const int of_node = first_of_node(mine.node), of_process = first_that([&](const IndexOffer&one) {
                                                  return one.node == mine.node && one.process == mine.process;
                                                });
  const bool leads = of_node == world.rank();
  OpenedData opened;
  std::shared_ptr<SharedMemory> made;
  const std::function<void()> work = [&] {
    opened = open(nullptr);
    made = share(opened);
  };
  work_while_others_wait(leads ? &work : nullptr, world);
  if (made) {
    mine.descriptor = made->descriptor();
    mine.bytes = made->bytes().size();
    opened.index = {.bytes = mine.bytes, .counts = true};
  }
  all = gather_offers(mine, world);
  const IndexOffer offer = all[static_cast<std::size_t>(of_node)];
  std::shared_ptr<const SharedMemory> memory = made;  // mapped once per process
  if (!leads && of_process == world.rank() && offer.bytes > 0)
    memory = SharedMemory::open(offer.process, static_cast<int>(offer.descriptor), offer.bytes);
  mine.address = memory ? reinterpret_cast<uint64_t>(&memory) : 0;
  all = gather_offers(mine, world);
  if (made) made->close_descriptor();
  fail_together(world, [&] {  // `memory` lives until all have copied it
    if (leads) return;
    const uint64_t address = all[static_cast<std::size_t>(of_process)].address;
    if (address != 0 && address != mine.address)
      memory = *reinterpret_cast<std::shared_ptr<const SharedMemory>*>(address);
    opened = memory ? open_by(memory, open) : open(nullptr);
    opened.index.counts = of_process == of_node;
  });
  return opened;
}

}  // namespace recollect
