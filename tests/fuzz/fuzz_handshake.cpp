// What a caller answers to the greeting at the door, as its bytes come.
#include "comm/tcp/handshake.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

RECOLLECT_FUZZ(text) {
  for (std::size_t i = 0; i <= std::min<std::size_t>(text.size(), tcp::Hello::kHeadBytes); ++i)
    if (!tcp::may_be_hello(text.substr(0, i))) return;
  if (text.size() < tcp::Hello::kHeadBytes) return;
  const std::size_t bytes = tcp::identity_bytes(text.substr(0, tcp::Hello::kHeadBytes));
  if (bytes > tcp::kLongestIdentity || text.size() < tcp::Hello::kHeadBytes + bytes) return;
  const tcp::Hello hello = tcp::parse_hello(text.substr(0, tcp::Hello::kHeadBytes + bytes));
  fuzz::expect(hello.to_bytes() == text.substr(0, tcp::Hello::kHeadBytes + bytes),
               "a hello with two spellings");
  const tcp::Nonce nonce{};
  fuzz::expect(!tcp::knows_secret("secret", nonce, hello), "a stranger who knows the secret");
  tcp::answer_bytes("secret", nonce, hello, tcp::Verdict::kRefused, hello.identity);
}
