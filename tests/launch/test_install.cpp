// What `cmake --install` makes of this build is a program that trains, with its manual page, completions and documents.
#include <gtest/gtest.h>

#include <filesystem>

#include "launch/cli/completion.h"
#include "launch/cli/man_page.h"
#include "tests/launch/process.h"

namespace recollect::test::install_test {
namespace {

namespace fs = std::filesystem;

TEST(Install, TrainsFromThere) {
  const Workplace place;
  const std::string build = fs::path(recollect_binary()).parent_path();
  const std::string prefix = place.file("there");
  const Finished installed =
      Process({"cmake", "--install", build, "--prefix", prefix, "--strip"}, place.folder().path())
          .wait(Workplace::kBound);
  ASSERT_EQ(installed.status, 0) << installed.out << installed.err;
  const auto run = [&](const Words& words) {
    const Finished done =
        Process(Words{prefix + "/bin/recollect"} + words, place.folder().path()).wait(Workplace::kBound);
    EXPECT_EQ(done.status, 0) << done.err;
    return done.out;
  };
  EXPECT_EQ(run({"--version"}), place.recollect({"--version"}).out);
  run({"train", "c.yaml", "checkpoint.save_model=true"});
  EXPECT_TRUE(fs::exists(place.file("out/model.safetensors")));
  const auto read = [&](const std::string& file) { return TemporaryFolder::read(prefix + "/share/" + file); };
  EXPECT_EQ(read("man/man1/recollect.1"), man_page());
  EXPECT_EQ(read("bash-completion/completions/recollect"), completion_script("bash"));
  EXPECT_EQ(read("zsh/site-functions/_recollect"), completion_script("zsh"));
  EXPECT_EQ(read("fish/vendor_completions.d/recollect.fish"), completion_script("fish"));
  for (const char* file :
       {"recollect/configs/gpt2-tiny.yaml", "doc/recollect/README.md", "doc/recollect/LICENSE",
        "doc/recollect/docs/launching.md", "doc/recollect/examples/tour/tour.yaml"})
    EXPECT_EQ(read(file).empty(), false) << file;
}

}  // namespace
}  // namespace recollect::test::install_test
