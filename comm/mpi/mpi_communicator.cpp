#include "comm/mpi/mpi_communicator.h"

#include <sched.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <thread>

namespace recollect::mpi {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTag = 1;
constexpr int kEagerPolls = 4000;
constexpr auto kEagerTime =
    std::chrono::milliseconds(20);  // if other processes want the core, each yield takes long
constexpr int kPollsBetweenListening = 64;

int rank_in(MPI_Comm handle) {
  int rank = 0;
  MPI_Comm_rank(handle, &rank);
  return rank;
}

std::vector<int> world_ranks(MPI_Comm handle) {
  int size = 1;
  MPI_Comm_size(handle, &size);
  std::vector<int> mine(size), world(size);
  std::iota(mine.begin(), mine.end(), 0);
  MPI_Group group, everybody;
  MPI_Comm_group(handle, &group);
  MPI_Comm_group(MPI_COMM_WORLD, &everybody);
  MPI_Group_translate_ranks(group, size, mine.data(), everybody, world.data());
  MPI_Group_free(&group);
  MPI_Group_free(&everybody);
  return world;
}

}  // namespace

MpiCommunicator::MpiCommunicator(MPI_Comm handle, Settings settings)
    : MessageCommunicator(rank_in(handle), world_ranks(handle), settings.control->posts()),
      handle_(handle),
      settings_(std::move(settings)) {
  MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN);
  const std::size_t most_requests = 2 * static_cast<std::size_t>(size());
  requests_.reserve(most_requests);
  peers_.reserve(most_requests);
  receives_.reserve(most_requests);
  finished_.resize(most_requests);
}

// Freeing is collective, so a rank that has failed, or is ending with an Error, does not do it.
MpiCommunicator::~MpiCommunicator() {
  if (std::uncaught_exceptions() > 0) settings_.failed->store(true);
  if (!settings_.failed->load()) MPI_Comm_free(&handle_);
}

void MpiCommunicator::fail(const std::string& what) {
  settings_.failed->store(true);
  throw Error(ExitCode::kPeerLost, call_text() + ": " + what,
              "look for the first error among the other ranks' messages");
}

void MpiCommunicator::check(int status) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  fail(std::string("MPI says: ") + text);
}

void MpiCommunicator::begin_send(const void* data, std::size_t bytes, int to) {
  peers_.push_back(to);
  receives_.push_back(0);
  check(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, kTag, handle_, &requests_.emplace_back()));
}

void MpiCommunicator::begin_receive(void* data, std::size_t bytes, int from) {
  peers_.push_back(from);
  receives_.push_back(1);
  check(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, kTag, handle_, &requests_.emplace_back()));
}

// Lets MPI make progress. Returns true if nothing is pending; sets `last` to the rank whose message came
// last.
bool MpiCommunicator::progress(int& last) {
  int count = 0;
  check(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, finished_.data(),
                     MPI_STATUSES_IGNORE));
  for (int i = 0; i < count; ++i)
    if (receives_[finished_[i]]) last = peers_[finished_[i]];
  return std::all_of(requests_.begin(), requests_.end(), [](MPI_Request r) { return r == MPI_REQUEST_NULL; });
}

// More ranks than cores is normal, so waiting yields and, after a while, sleeps between polls. MPI does not
// show whether a pending message moves, so silences are not detected here.
MessageCommunicator::Ended MpiCommunicator::wait_for_all() {
  int last = -1;
  const auto start = Clock::now(), eager_end = start + kEagerTime, deadline = start + settings_.timeout;
  auto next_post = start + posts().interval();
  for (int polls = 0; !progress(last); ++polls) {
    if (polls < kEagerPolls && Clock::now() < eager_end) {
      ::sched_yield();
      continue;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (settings_.failed->load()) fail("this process has given up");
    const auto now = Clock::now();
    if (polls % kPollsBetweenListening == 0 || now >= deadline) settings_.control->listen();
    if (now >= deadline) fail(who_is_late(late(), settings_.timeout));
    if (now < next_post) continue;
    tell_of_wait(late());
    next_post += posts().interval();
  }
  requests_.clear();
  peers_.clear();
  receives_.clear();
  return {.last = last};
}

std::vector<int> MpiCommunicator::late() const {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < requests_.size(); ++i)
    if (requests_[i] != MPI_REQUEST_NULL) ranks.push_back(peers_[i]);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

void MpiCommunicator::tell(const WaitPost& post) noexcept {
  try {
    settings_.control->tell(post);
  } catch (...) {  // without memory the post is lost
  }
}

// MPI makes the group. The calls before it make sure that all ranks have come, so that it cannot wait for
// long.
std::unique_ptr<Communicator> MpiCommunicator::split(int color) {
  start({.kind = CollectiveKind::kSplit});
  std::vector<int> colors(size());
  swap_with_all(&color, colors.data(), sizeof color);
  // MPI's colours must not be negative, so the first rank of a colour stands for it.
  const auto first = std::find(colors.begin(), colors.end(), color) - colors.begin();
  MPI_Comm made = MPI_COMM_NULL;
  check(MPI_Comm_split(handle_, static_cast<int>(first), rank(), &made));
  if (std::count(colors.begin(), colors.end(), color) == 1) {
    MPI_Comm_free(&made);
    return make_self_communicator();
  }
  auto group = std::make_unique<MpiCommunicator>(made, settings_);
  group->note_calls_in(times()->log());
  return group;
}

void MpiCommunicator::abort(const std::string&) noexcept { settings_.failed->store(true); }

}  // namespace recollect::mpi
