// How the ranks of a run connect over TCP. Each rank opens a door (a listening socket) and publishes its
// address in the store. When all have done so, rank 0 collects the addresses, with a random number from which
// all derive a common secret. Then every rank connects to the ranks before it.
#include <sys/resource.h>

#include <algorithm>
#include <sstream>

#include "comm/store/server.h"
#include "comm/tcp.h"
#include "comm/tcp/peers.h"
#include "comm/tcp/tcp_communicator.h"
#include "engine/core/error.h"

namespace recollect {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kWorldGroup = 1;
constexpr auto kPortPatience = 2s;

// Sockets to every rank: one for control, one for the world, and those of up to six groups of the mesh.
void allow_sockets(int ranks) {
  const auto needed = rlim_t{8} * static_cast<rlim_t>(ranks) + 128;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < needed)
    throw Error(ExitCode::kHostMemory,
                std::to_string(ranks) + " ranks over TCP need up to " + std::to_string(needed) +
                    " open files each; this process may have " + std::to_string(limit.rlim_max),
                "raise 'ulimit -n'");
  limit.rlim_cur = needed;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::string hex(const tcp::Nonce& nonce) {
  std::ostringstream text;
  for (const unsigned char byte : nonce) text << std::hex << (byte >> 4) << (byte & 15);
  return text.str();
}

struct Table {
  std::string number;
  std::vector<tcp::Address> places;
};

Table parse_table(const std::string& text, int size) {
  std::istringstream lines(text);
  Table table;
  lines >> table.number;
  std::string host, problem;
  for (int port = 0; lines >> host >> port;) {
    const auto found = tcp::resolve(host, static_cast<uint16_t>(port), problem);
    if (!found.empty()) table.places.push_back(found.front());
  }
  require(static_cast<int>(table.places.size()) == size, "the table of addresses is not whole");
  return table;
}

class Meeting {
 public:
  explicit Meeting(const TcpWorld& world)
      : world_(world),
        prefix_("world/" + world.store.attempt + (world.store.attempt.empty() ? "" : "/")),
        place_(world.store.place) {
    if (world.rank == 0 && !world.store.hosted_by_launcher) open_store();
    store_ = std::make_unique<StoreClient>(place_, world.store.token, world.run_id, world.rank,
                                           world.join_timeout);
  }

  std::unique_ptr<Communicator> meet();

 private:
  void open_store();
  tcp::Socket open_door();
  std::string agree_on_table(const tcp::Address& door);
  std::string key(const std::string& name) const { return prefix_ + name; }

  const TcpWorld& world_;
  const std::string prefix_;
  StorePlace place_;
  std::unique_ptr<StoreServer> server_;
  std::unique_ptr<StoreClient> store_;
};

void Meeting::open_store() {
  server_ = std::make_unique<StoreServer>(StoreOptions{.host = place_.host,
                                                       .ports = place_.ports,
                                                       .run_id = world_.run_id,
                                                       .token = world_.store.token,
                                                       .patience = kPortPatience});
  place_.ports = {server_->port()};
}

tcp::Socket Meeting::open_door() {
  std::string problem;
  int error = 0;
  for (const tcp::Address& address : tcp::resolve(store_->own_host(), 0, problem))
    if (tcp::Socket listener = tcp::listen_on(address, error)) return listener;
  throw Error(ExitCode::kHostMemory, "rank " + std::to_string(world_.rank) + " cannot listen on " +
                                         store_->own_host() + ": " +
                                         (problem.empty() ? tcp::error_text(error) : problem));
}

std::string Meeting::agree_on_table(const tcp::Address& door) {
  const std::string rank = std::to_string(world_.rank);
  if (store_->add(key("claim/" + rank), 1) != 1)
    throw Error(ExitCode::kConfiguration,
                "two processes are rank " + rank + " of run '" + world_.run_id + "'",
                "give every run its own RECOLLECT_RUN_ID and every process its own rank");
  store_->set(key("door/" + rank), door.host() + " " + std::to_string(door.port()));
  store_->barrier(key("start"), world_.size, world_.join_timeout);
  if (world_.rank == 0) {
    std::string all = hex(tcp::make_nonce()) + "\n";
    for (int r = 0; r < world_.size; ++r)
      all += store_->get(key("door/" + std::to_string(r)), world_.join_timeout) + "\n";
    store_->set(key("table"), all);
  }
  std::string table = store_->get(key("table"), world_.join_timeout);
  store_->barrier(key("done"), world_.size, world_.join_timeout);  // no rank needs the store any more
  return table;
}

std::unique_ptr<Communicator> Meeting::meet() {
  tcp::Socket listener = open_door();
  const Table table = parse_table(agree_on_table(tcp::Address::of_this_end(listener)), world_.size);
  const tcp::Code code = tcp::code_of(world_.store.token, "peers" + table.number);
  const std::string secret(reinterpret_cast<const char*>(code.data()), code.size());
  auto peers =
      std::make_shared<tcp::Peers>(world_.rank, table.places, std::move(listener), secret, world_.timeout);
  peers->watch_each_other(world_.join_timeout);
  std::vector<int> everybody(world_.size);
  for (int r = 0; r < world_.size; ++r) everybody[r] = r;
  std::vector<tcp::Socket> sockets = peers->connect(kWorldGroup, everybody, world_.join_timeout);
  return std::make_unique<tcp::TcpCommunicator>(std::move(peers), everybody, std::move(sockets));
}

}  // namespace

std::unique_ptr<Communicator> join_tcp_world(const TcpWorld& world) {
  require(
      world.size >= 1 && world.rank >= 0 && world.rank < world.size,
      "rank " + std::to_string(world.rank) + " joins a world of " + std::to_string(world.size) + " ranks");
  if (world.size == 1) return make_self_communicator();
  allow_sockets(world.size);
  return Meeting(world).meet();
}

}  // namespace recollect
