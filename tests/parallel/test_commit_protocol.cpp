// The protocol of a save as a model: three ranks, generations behind each other of which one is kept, processes that are
// killed and power that is cut at any moment, any number of times. All states that can be reached are gone through. In
// each that a power cut leaves: a manifest that is there has all its shards, and a generation loads that is not older
// than the newest one whose name was flushed. Protocols in which one thing is in the wrong place or left out are refuted.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace recollect::test::commit_protocol_test {
namespace {

constexpr int kRanks = 3, kGenerations = 3, kFiles = kRanks + 1,
              kManifest = kRanks;  // shards, and the manifest

// What is done next by a rank that writes its shard, and then by rank 0.
enum class Do : uint8_t {
  kWrite,        // a shard, into a temporary file
  kFlush,        // its bytes
  kRename,       // to its name
  kFlushFolder,  // all names in the snapshot's folder
  kReport,       // that it is done
  kGather,       // all reports
  kWriteManifest,
  kFlushManifest,
  kRenameManifest,
  kTakeName,
  kFlushAll,  // names of all snapshots' folders
  kHideOld,   // rename to what is no snapshot's name
  kRemoveOld
};

struct Protocol {
  std::string name;
  std::vector<Do> rank, commit;
};

Protocol protocol() {
  return {"Ours",
          {Do::kWrite, Do::kFlush, Do::kRename, Do::kFlushFolder, Do::kReport},
          {Do::kGather, Do::kWriteManifest, Do::kFlushManifest, Do::kRenameManifest, Do::kFlushFolder,
           Do::kTakeName, Do::kFlushAll, Do::kHideOld, Do::kRemoveOld}};
}

// With the first of `what` in front of `before`, in one of the lists.
Protocol moved(std::string name, Do what, Do before) {
  Protocol p = protocol();
  p.name = std::move(name);
  for (std::vector<Do>* list : {&p.rank, &p.commit}) {
    const auto at = std::find(list->begin(), list->end(), what);
    if (at == list->end() || std::find(list->begin(), list->end(), before) == list->end()) continue;
    list->erase(at);
    list->insert(std::find(list->begin(), list->end(), before), what);
  }
  return p;
}

Protocol without(std::string name, Do what) {
  Protocol p = protocol();
  p.name = std::move(name);
  std::erase(p.rank, what);
  std::erase(p.commit, what);
  return p;
}

enum Data : uint8_t { kNothing, kCached, kDurable, kBad };
enum Link : uint8_t { kUnnamed, kNaming, kNamed, kUnlinking };  // kNaming, kUnlinking: not flushed
// Names of a snapshot's folder, as bits of what the disk may have.
enum Name : uint8_t { kNone = 1, kSaving = 2, kSnapshot = 4, kRemoved = 8 };

struct File {
  uint8_t data = kNothing, link = kUnnamed;
  bool is_there() const { return link == kNaming || link == kNamed; }
};

struct Generation {
  std::array<File, kFiles> files;
  uint8_t name = kNone, on_disk = kNone;
  uint8_t goes = 0;  // somebody has begun to remove it
  bool loads() const {
    return name == kSnapshot && std::all_of(files.begin(), files.end(), [](const File& file) {
             return file.is_there() && (file.data == kCached || file.data == kDurable);
           });
  }
};

// All bytes, so that states are compared as text.
struct State {
  std::array<Generation, kGenerations> generations;
  std::array<uint8_t, kRanks> rank_at{};  // in Protocol::rank
  uint8_t commit_at = 0;
  uint8_t saves = 0;     // the generation that is saved; kGenerations: all are
  uint8_t began = 0;     // its folder is there
  uint8_t promised = 0;  // generations up to this one, from 1 on
  std::string key() const { return {reinterpret_cast<const char*>(this), sizeof(*this)}; }
  int newest() const {
    for (int g = kGenerations - 1; g >= 0; --g)
      if (generations[g].loads()) return g;
    return -1;
  }
};

void name_it(Generation& generation, Name name) {
  generation.name = name;
  generation.on_disk |= name;
}

void flush_folder(Generation& generation) {
  for (File& file : generation.files) {
    if (file.link == kNaming) file.link = kNamed;
    if (file.link == kUnlinking) file = {};
  }
}

// A new attempt: what is no snapshot is cleared away, and the newest one that loads is gone on from.
State restarted(State s) {
  for (Generation& g : s.generations)
    if (g.name == kSaving || g.name == kRemoved) {
      for (File& file : g.files)
        if (file.is_there()) file.link = kUnlinking;
      name_it(g, kNone);
      // Whatever is in a folder that cannot have a snapshot's name, nobody looks at it again.
      if ((g.on_disk & kSnapshot) == 0) g = {};
    }
  s.rank_at = {};
  s.commit_at = s.began = 0;
  s.saves = static_cast<uint8_t>(s.newest() + 1);
  return s;
}

class Checker {
 public:
  explicit Checker(Protocol protocol) : protocol_(std::move(protocol)) {
    visit({}, "");
    while (!left_.empty() && !wrong_) {
      const State state = left_.front();
      left_.pop_front();
      path_ = state.key();
      ++states_;
      ranks_go_on(state);
      rank_zero_goes_on(state);
      visit(restarted(state), "kill");
      cut_power(state, 0);
    }
  }

  std::size_t states() const { return states_; }
  std::size_t cuts() const { return cuts_; }
  const std::optional<std::string>& wrong() const { return wrong_; }

 private:
  // Ranks are alike: one order of them stands for all.
  static State in_order(const State& state) {
    std::array<std::array<uint8_t, 1 + 2 * kGenerations>, kRanks> ranks{};
    for (int r = 0; r < kRanks; ++r) {
      ranks[r][0] = state.rank_at[r];
      for (int g = 0; g < kGenerations; ++g) {
        ranks[r][1 + 2 * g] = state.generations[g].files[r].data;
        ranks[r][2 + 2 * g] = state.generations[g].files[r].link;
      }
    }
    std::sort(ranks.begin(), ranks.end());
    State s = state;
    for (int r = 0; r < kRanks; ++r) {
      s.rank_at[r] = ranks[r][0];
      for (int g = 0; g < kGenerations; ++g)
        s.generations[g].files[r] = {ranks[r][1 + 2 * g], ranks[r][2 + 2 * g]};
    }
    return s;
  }

  void visit(const State& any_order, const std::string& how) {
    const State state = in_order(any_order);
    if (seen_.emplace(state.key(), std::pair(path_, how)).second) left_.push_back(state);
  }
  std::string story() const {
    std::string text;
    for (std::string at = path_; !at.empty();) {
      const auto& [before, how] = seen_.at(at);
      text = how + "; " + text;
      at = before;
    }
    return text;
  }

  void ranks_go_on(const State& state) {
    if (state.began == 0) return;
    for (int rank = 0; rank < kRanks; ++rank) {
      State s = state;
      if (s.rank_at[rank] == protocol_.rank.size()) continue;
      Generation& g = s.generations[s.saves];
      File& file = g.files[rank];
      switch (protocol_.rank[s.rank_at[rank]++]) {
        case Do::kWrite:
          file = {kCached, kUnnamed};
          break;
        case Do::kFlush:
          file.data = kDurable;
          break;
        case Do::kRename:
          file.link = kNaming;
          break;
        case Do::kFlushFolder:
          flush_folder(g);
          break;
        default:
          break;
      }
      visit(s, "rank " + std::to_string(rank) + " goes on");
    }
  }

  bool all_have_reported(const State& s) const {
    const auto report = std::find(protocol_.rank.begin(), protocol_.rank.end(), Do::kReport);
    return std::all_of(s.rank_at.begin(), s.rank_at.end(),
                       [&](uint8_t at) { return at > report - protocol_.rank.begin(); });
  }

  void rank_zero_goes_on(State s) {
    if (s.saves == kGenerations) return;
    Generation& g = s.generations[s.saves];
    if (s.began == 0) {
      g.files = {};
      name_it(g, kSaving);
      s.began = 1;
      return visit(s, "rank 0 begins " + std::to_string(s.saves));
    }
    if (s.commit_at == protocol_.commit.size()) {
      if (!all_have_reported(s)) return;
      s.rank_at = {};
      s.commit_at = s.began = 0;
      ++s.saves;
      return visit(s, "saved");
    }
    Generation* const old = s.saves > 0 ? &s.generations[s.saves - 1] : nullptr;
    const Do action = protocol_.commit[s.commit_at++];
    const std::string how = "rank 0 does " + std::to_string(static_cast<int>(action));
    switch (action) {
      case Do::kGather:
        if (!all_have_reported(s)) return;
        break;
      case Do::kWriteManifest:
        g.files[kManifest] = {kCached, kUnnamed};
        break;
      case Do::kFlushManifest:
        g.files[kManifest].data = kDurable;
        break;
      case Do::kRenameManifest:
        g.files[kManifest].link = kNaming;
        break;
      case Do::kFlushFolder:
        flush_folder(g);
        break;
      case Do::kTakeName:
        name_it(g, kSnapshot);
        break;
      case Do::kFlushAll:
        for (Generation& any : s.generations) any.on_disk = any.name;
        s.promised = static_cast<uint8_t>(s.saves + 1);
        break;
      case Do::kHideOld:
        if (!old) break;
        old->goes = 1;
        name_it(*old, kRemoved);
        break;
      case Do::kRemoveOld:
        return remove_old(s, old, how);
      default:
        break;
    }
    visit(s, how);
  }

  // File after file, in any order.
  void remove_old(const State& s, const Generation* old, const std::string& how) {
    bool any = false;
    for (int f = 0; old && f < kFiles; ++f) {
      if (!old->files[f].is_there()) continue;
      State next = s;
      --next.commit_at;
      next.generations[s.saves - 1].files[f].link = kUnlinking;
      visit(next, how);
      any = true;
    }
    if (any) return;
    State next = s;
    if (old) name_it(next.generations[s.saves - 1], kNone);
    visit(next, how);
  }

  // All that the disk may have, generation by generation and file by file.
  void cut_power(const State& state, int generation) {
    if (generation == kGenerations) return look(state);
    for (const Name name : {kNone, kSaving, kSnapshot, kRemoved}) {
      if ((state.generations[generation].on_disk & name) == 0) continue;
      State s = state;
      Generation& g = s.generations[generation];
      if (name == kSnapshot) {
        g.name = g.on_disk = name;
        lose(s, generation, 0);
      } else {  // which is cleared away
        g = {};
        cut_power(s, generation + 1);
      }
    }
  }
  void lose(const State& state, int generation, int f) {
    if (f == kFiles) return cut_power(state, generation + 1);
    const auto with = [&](File file) {
      State s = state;
      s.generations[generation].files[f] = file;
      lose(s, generation, f + 1);
    };
    const File file = state.generations[generation].files[f];
    if (file.link != kNamed) with({});
    if (file.link == kUnnamed) return;
    if (file.data == kCached) with({kBad, kNamed});
    with({file.data == kCached ? static_cast<uint8_t>(kDurable) : file.data, kNamed});
  }

  void look(const State& s) {
    ++cuts_;
    for (const Generation& g : s.generations) {
      if (g.goes || g.name != kSnapshot || !g.files[kManifest].is_there()) continue;
      if (g.files[kManifest].data == kDurable && !g.loads()) complain("a manifest without its shards");
    }
    if (s.newest() + 1 < s.promised) complain("what was saved does not load");
    visit(restarted(s), "power cut");
  }
  void complain(const std::string& what) {
    if (!wrong_) wrong_ = what + " after: " + story() + "power cut";
  }

  const Protocol protocol_;
  std::unordered_map<std::string, std::pair<std::string, std::string>> seen_;  // from where, and how
  std::deque<State> left_;
  std::string path_;  // the state that is gone on from
  std::size_t states_ = 0, cuts_ = 0;
  std::optional<std::string> wrong_;
};

TEST(CommitProtocol, LosesNothing) {
  const Checker checker(protocol());
  EXPECT_FALSE(checker.wrong()) << *checker.wrong();
  EXPECT_GT(checker.states(), 1000u);
  std::printf("%zu states, %zu power cuts\n", checker.states(), checker.cuts());
}

TEST(CommitProtocol, IsRefutedWithOneThingInTheWrongPlace) {
  for (const Protocol& wrong : {
           moved("reports before the flush", Do::kReport, Do::kFlush),
           moved("removes the old one before the new one has its name", Do::kRemoveOld, Do::kTakeName),
           moved("hides the old one before the new one has its name", Do::kHideOld, Do::kTakeName),
           moved("removes the old one before the new name is flushed", Do::kRemoveOld, Do::kFlushAll),
           without("waits for nobody", Do::kGather),
           without("flushes no shard", Do::kFlush),
           without("flushes no manifest", Do::kFlushManifest),
           without("flushes no folder of a snapshot", Do::kFlushFolder),
       }) {
    const Checker checker(wrong);
    EXPECT_TRUE(checker.wrong()) << wrong.name;
  }
}

}  // namespace
}  // namespace recollect::test::commit_protocol_test
