// Frames that a store receives: 'i' and an identity, or requests one after the other, each behind its length
// and carried out on what a store holds, which never grows beyond its bound.
#include "comm/store/contents.h"
#include "tests/fuzz/parse.h"

using namespace recollect;
using namespace recollect::store;

namespace {

constexpr std::size_t kMostBytes = 16 << 10;

void carry_out(const Request& request, int rank, Contents& contents) {
  const std::string& key = request.keys.front();
  switch (request.operation) {
    case Operation::kSet:
      contents.set(key, request.value);
      break;
    case Operation::kGet:
      contents.get(key);
      break;
    case Operation::kAdd:
      contents.add(key, request.number);
      break;
    case Operation::kWait:
      contents.missing(request.keys);
      break;
    case Operation::kErase:
      contents.erase(key);
      break;
    case Operation::kBarrier: {
      const auto arrival = contents.arrive(key, request.number, rank, contents.rank_is_here(rank));
      if (arrival.reply.status == Status::kOk) contents.barrier_reply(key, arrival.turn);
      break;
    }
    case Operation::kLeave:
      contents.rank_has_gone(rank);
      break;
  }
}

}  // namespace

RECOLLECT_FUZZ(text) {
  if (text.empty()) return;
  if (text.front() == 'i') {
    if (const auto identity = parse_identity(text.substr(1)))
      fuzz::expect(to_bytes(*identity) == text.substr(1), "an identity with two spellings");
    return;
  }
  Contents contents(kMostBytes);
  for (int turn = 0; text.size() >= kLengthBytes; ++turn) {
    const std::size_t length = std::min(parse_length(text.data()), text.size() - kLengthBytes);
    const std::string_view frame = text.substr(kLengthBytes, length);
    text.remove_prefix(kLengthBytes + length);
    const auto request = parse_request(frame);
    if (!request) continue;
    fuzz::expect(to_bytes(*request) == frame, "a request with two spellings");
    if (!request->keys.empty()) carry_out(*request, turn % 4, contents);
    fuzz::expect(contents.bytes() <= kMostBytes, "a store beyond its bound");
  }
}
