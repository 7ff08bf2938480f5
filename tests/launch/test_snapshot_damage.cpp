// `recollect snapshot` and what is wrong with a snapshot: it is named, all of it, and nothing is made of such a one.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

#include "engine/io/crc32c.h"
#include "engine/io/descriptor.h"
#include "tests/engine/flip_bit.h"
#include "tests/launch/snapshot_command.h"

namespace recollect::test::snapshot_command_test {
namespace {

namespace fs = std::filesystem;

// Whether anything has been written.
std::map<std::string, std::pair<uint64_t, fs::file_time_type>> stamps(const std::string& folder) {
  std::map<std::string, std::pair<uint64_t, fs::file_time_type>> all;
  for (const auto& entry : fs::directory_iterator(folder))
    all[entry.path().filename()] = {entry.file_size(), entry.last_write_time()};
  return all;
}

// With a good check sum, so that what it says is what is looked at.
void edit_manifest(const std::string& snapshot, const std::string& from, const std::string& to) {
  const std::string path = snapshot + "/manifest.json", mark = ",\n\"crc32c\": \"";
  std::string text = TemporaryFolder::read(path);
  ASSERT_NE(text.find(from), std::string::npos);
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  text.resize(text.rfind(mark));
  char sum[9];
  std::snprintf(sum, sizeof(sum), "%08x", crc32c(text));
  std::ofstream(path) << text << mark << sum << "\"}\n";
}

// Numbers that no run could have, where the check sum is good: samples, and a layout that the model has not.
TEST(SnapshotDamage, IsSeenInNumbersThatDoNotFit) {
  const SnapshotCommand command;
  command.train(ranks(2, 1) + Words{"training.max_steps=2"});
  const std::string snapshot = command.step(2);
  edit_manifest(snapshot, "\"samples\":8", "\"samples\":9");
  EXPECT_NE(command.run({"verify", snapshot}, 3).find("9 samples, which its batches of 4 do not come to"),
            std::string::npos);
  edit_manifest(snapshot, "\"samples\":9", "\"samples\":8");
  command.run({"verify", snapshot});
  edit_manifest(snapshot, "tensor_parallel_size: 2", "tensor_parallel_size: 1");
  edit_manifest(snapshot, "n_head: 4", "n_head: 3");
  const std::string said = command.convert(snapshot, "new", {"--to", "snapshot"}, 3);
  EXPECT_NE(said.find("is of a layout that its model cannot have"), std::string::npos) << said;
  command.convert(snapshot, "new", to_layout(2, 1), 2);
}

// Who wants to read a file that another process has a lease of does not get it now.
TEST(SnapshotVerify, ReadsOnBehindWhatTheSystemRefuses) {
  const SnapshotCommand command;
  command.train(ranks(2, 1) + Words{"training.max_steps=2"});
  const std::string snapshot = command.step(2), shard = snapshot + "/rank-00000.safetensors";
  const Descriptor leased{::open(shard.c_str(), O_RDWR | O_CLOEXEC)};
  const auto before = std::signal(SIGIO, SIG_IGN);
  if (::fcntl(leased.get(), F_SETLEASE, F_WRLCK) != 0) GTEST_SKIP() << "this file system has no leases";
  const std::string unread = command.run({"verify", snapshot}, 6);
  EXPECT_EQ(times_in(unread, "cannot open " + shard), 1) << unread;
  EXPECT_NE(unread.find("1 of 1 snapshots could not be read"), std::string::npos) << unread;
  flip_bit(snapshot + "/rank-00001.safetensors", 5);
  const std::string damaged = command.run({"verify", snapshot}, 3);
  for (const char* said : {"cannot open ", "rank-00001.safetensors is damaged between bytes 0 and "})
    EXPECT_EQ(times_in(damaged, said), 1) << damaged;
  ::fcntl(leased.get(), F_SETLEASE, F_UNLCK);
  std::signal(SIGIO, before);
}

// Each with what must be said; and then every word of the command refuses it, and leaves nothing.
TEST(SnapshotDamage, IsNamedAndNothingIsMadeOfIt) {
  const SnapshotCommand command;
  command.train(ranks(2, 1) + Words{"model.vocab_size=20011", "training.max_steps=2"});
  const std::string shard = "/rank-00001.safetensors", good = command.step(2), bad = command.step(2, "bad");
  struct Damage {
    std::function<void()> make;
    std::vector<std::string> said;
  };
  const std::vector<Damage> all = {
      {[&] {
         flip_bit(bad + shard, 5);
         flip_bit(bad + shard, (1 << 20) + 7);
       },
       {"rank-00001.safetensors is damaged between bytes 0 and 1048576",
        "rank-00001.safetensors is damaged between bytes 1048576 and 2097152"}},
      {[&] { fs::resize_file(bad + shard, fs::file_size(bad + shard) - 1); }, {"bytes, and should have "}},
      {[&] { fs::remove(bad + shard); }, {"cannot open", "rank-00001.safetensors: No such file"}},
      {[&] { fs::remove(bad + "/manifest.json"); }, {"cannot open", "manifest.json: No such file"}},
      {[&] { flip_bit(bad + "/manifest.json", 40); }, {"manifest.json: its check sum is"}},
      {[&] {
         fs::remove(bad + shard);
         fs::create_symlink(good + shard, bad + shard);
       },
       {"rank-00001.safetensors is a symbolic link"}},
      {[&] { edit_manifest(bad, "rank-00001.safetensors", "../rank-00001.safetensors"); },
       {"is no name for a file of a snapshot"}},
      {[&] { edit_manifest(bad, "\"dtype\":\"F32\"", "\"dtype\":\"Q4\""); }, {"has the type \"Q4\""}},
      {[&] { edit_manifest(bad, "\"tensor\":\"wpe.weight\"", "\"tensor\":\"wqe.weight\""); },
       {"has not the tensor \"wqe.weight\""}}};
  for (const Damage& damage : all) {
    SCOPED_TRACE(damage.said.front());
    fs::remove_all(bad);
    fs::create_directories(bad);
    fs::copy(good, bad);
    damage.make();
    const std::string said = command.run({"verify", "bad", "out/snapshots"}, 3);
    for (const std::string& part : damage.said) EXPECT_NE(said.find(part), std::string::npos) << said;
    EXPECT_NE(said.find("1 of 2 snapshots is damaged: bad/step-00000002"), std::string::npos) << said;
    const auto before = stamps(bad);
    command.convert("bad", "model", {"--to", "hf"}, 3);
    command.convert("bad", "new", to_layout(1, 1), 3);
    command.convert("bad", "bad", to_layout(1, 1) + Words{"--overwrite"}, 3);
    EXPECT_EQ(stamps(bad), before);
    for (const char* name : {"model", "model.converting", "new/step-00000002", "new/step-00000002.saving",
                             "bad/step-00000002.saving"})
      EXPECT_FALSE(fs::exists(command.file(name))) << name;
  }
}

}  // namespace
}  // namespace recollect::test::snapshot_command_test
