// Where NVIDIA's libraries are looked for, with a library of our own in their place.
#include "engine/nvidia/library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"

namespace recollect::cuda {
namespace {

namespace fs = std::filesystem;
using recollect::test::expect_error;
using recollect::test::TemporaryFolder;

constexpr const char* kSoname = "libfake_of_recollect.so.13";

LibraryName versioned(std::size_t oldest) {
  return {"Fake",
          kSoname,
          "install Fake",
          oldest,
          [](void* handle) {
            return static_cast<std::size_t>(
                reinterpret_cast<unsigned long (*)()>(dlsym(handle, "fake_version"))());
          },
          "libfake_of_recollect_part"};
}

// What it loads stays there.
template <typename Body>
void in_a_process(Body body) {
  std::cout.flush();
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    std::cout.flush();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

class LibraryTest : public ::testing::Test {
 protected:
  LibraryTest() { environment_.root = folder_.path() + "/root"; }

  std::string place(const std::string& folder) {
    const std::string path = folder_.path() + "/" + folder;
    fs::create_directories(path);
    return path;
  }

  std::string place_library(const std::string& folder) {
    const std::string file = place(folder) + "/" + kSoname;
    fs::copy_file(RECOLLECT_FAKE_LIBRARY, file);
    return file;
  }

  std::string place_python(const std::string& folder) {
    std::ofstream(place(folder) + "/python3") << "#!/bin/sh\n";
    return folder_.path() + "/" + folder;
  }

  // A whole library of a version: itself and its part.
  std::string place_version(const std::string& folder, std::size_t version) {
    const std::string file = place_library(folder);
    fs::copy_file(RECOLLECT_FAKE_LIBRARY_PART,
                  folder_.path() + "/" + folder + "/libfake_of_recollect_part.so.13");
    std::ofstream(folder_.path() + "/" + folder + "/version") << version;
    return file;
  }

  Library open_from(std::size_t oldest) const {
    return Library(versioned(oldest), search_places(environment_));
  }

  Library open() const { return Library({"Fake", kSoname, "install Fake"}, search_places(environment_)); }

  TemporaryFolder folder_;
  SearchEnvironment environment_;
};

TEST_F(LibraryTest, IsOpenedAndAnswers) {
  const std::string file = place_library("here");
  environment_.libraries = folder_.path() + "/here";
  const Library library = open();
  EXPECT_EQ(library.path(), file);
  EXPECT_EQ(library.title(), "Fake");
  EXPECT_EQ(library.function<int()>("fake_answer")(), 42);
}

TEST_F(LibraryTest, ThatIsNowhereNamesEveryPlace) {
  environment_.libraries = "/no/such/folder:" + place("empty");
  environment_.cuda_home = folder_.path() + "/toolkit";
  place("toolkit/lib64");
  expect_error(ExitCode::kConfiguration,
               {"Fake", kSoname, "\n  /no/such/folder: not there", folder_.path() + "/empty: not there",
                "the loader's path: ", folder_.path() + "/toolkit/lib64: not there", "install Fake",
                "RECOLLECT_NVIDIA_LIBRARIES="},
               [&] { open(); });
}

TEST_F(LibraryTest, WithoutAFunctionSaysWhichAndWhere) {
  const std::string file = place_library("here");
  environment_.libraries = folder_.path() + "/here";
  const Library library = open();
  expect_error(ExitCode::kConfiguration, {"fake_question", file},
               [&] { library.function<int()>("fake_question"); });
}

TEST_F(LibraryTest, NamedByTheUserMustLoad) {
  std::ofstream(place("named") + "/" + kSoname) << "no library";
  environment_.libraries = folder_.path() + "/named";
  environment_.cuda_home = folder_.path() + "/toolkit";
  place_library("toolkit/lib64");
  expect_error(ExitCode::kConfiguration, {folder_.path() + "/named"}, [&] { open(); });
}

TEST_F(LibraryTest, ThatCannotBeLoadedIsPassedOverElsewhere) {
  environment_.virtual_env = folder_.path() + "/venv";
  std::ofstream(place("venv/lib/python3.11/site-packages/nvidia/fake/lib") + "/" + kSoname) << "no library";
  environment_.cuda_home = folder_.path() + "/toolkit";
  const std::string file = place_library("toolkit/lib64");
  EXPECT_EQ(open().path(), file);
}

// Every place holds the library; taking the best one away reveals the next.
TEST_F(LibraryTest, PlacesAreTriedInOrder) {
  environment_.libraries = folder_.path() + "/named:" + folder_.path() + "/also";
  environment_.virtual_env = folder_.path() + "/venv";
  environment_.conda = folder_.path() + "/conda";
  environment_.path = place("nothing") + ":" + place_python("python/bin");
  environment_.home = folder_.path() + "/home";
  environment_.cuda_home = folder_.path() + "/toolkit";
  environment_.program = folder_.path() + "/wheel/site-packages/recollect/bin/recollect";
  std::vector<std::string> files;
  for (const char* folder :
       {"named", "also", "wheel/site-packages/nvidia/cudnn/lib",
        "venv/lib/python3.12/site-packages/nvidia/cu13/lib",
        "venv/lib/python3.9/site-packages/nvidia/cu13/lib",
        "conda/lib/python3.11/site-packages/nvidia/cublas/lib",
        "python/lib/python3.11/site-packages/nvidia/cublas/lib",
        "home/.pyenv/versions/3.12.1/lib/python3.12/site-packages/nvidia/cublas/lib",
        "home/.pyenv/versions/3.9.18/lib/python3.9/site-packages/nvidia/cublas/lib",
        "home/.local/lib/python3.11/site-packages/nvidia/cublas/lib",
        "root/usr/local/lib/python3.11/dist-packages/nvidia/cublas/lib",
        "root/usr/lib/python3/dist-packages/nvidia/cublas/lib", "toolkit/lib64", "root/usr/local/cuda/lib64",
        "root/usr/local/cuda-13.10/lib64", "root/usr/local/cuda-13.2/lib64"})
    files.push_back(place_library(folder));
  for (const std::string& file : files) {
    EXPECT_EQ(open().path(), file);
    fs::remove(file);
  }
  expect_error(ExitCode::kConfiguration, {kSoname}, [&] { open(); });
}

// A virtual environment's python3 is a link; its own packages come first, those it was made from next.
TEST_F(LibraryTest, ALinkedPythonHasTwoHomes) {
  place_python("original/bin");
  fs::create_symlink(folder_.path() + "/original/bin/python3", place("venv/bin") + "/python3");
  environment_.path = folder_.path() + "/venv/bin";
  const std::string own = place_library("venv/lib/python3.11/site-packages/nvidia/cu13/lib");
  const std::string original = place_library("original/lib/python3.11/site-packages/nvidia/cu13/lib");
  EXPECT_EQ(open().path(), own);
  fs::remove(own);
  EXPECT_EQ(open().path(), original);
}

TEST_F(LibraryTest, AFolderIsLookedThroughOnce) {
  environment_.virtual_env = folder_.path() + "/venv";
  environment_.path = place_python("venv/bin");
  place("venv/lib/python3.11/site-packages/nvidia/cudnn/lib");
  EXPECT_EQ(search_places(environment_).then.size(), 1u);
}

// As a cuDNN 9.14 of the system's hid PyTorch's 9.19: in folders that the user names, and in those after them.
TEST_F(LibraryTest, TheFirstThatIsNewEnoughIsTaken) {
  const std::string old = place_version("old", 91400), older = place_version("toolkit/lib64", 91200);
  const std::string fits = place_version("new/lib/python3.11/site-packages/nvidia/fake/lib", 91600);
  place_version("root/usr/local/cuda/lib64", 92600);
  environment_.libraries = folder_.path() + "/old";
  environment_.virtual_env = folder_.path() + "/new";
  environment_.cuda_home = folder_.path() + "/toolkit";
  in_a_process([&] {
    const Library library = open_from(91600);
    EXPECT_EQ(library.path(), fits);
    EXPECT_EQ(library.version(), 91600u);
    EXPECT_EQ(library.passed_over(), std::vector{"9.14.0 at " + old + " is too old"});
  });
  in_a_process([&] { EXPECT_EQ(open_from(91300).path(), old); });
  in_a_process(
      [&] { EXPECT_EQ(open_from(92000).path(), folder_.path() + "/root/usr/local/cuda/lib64/" + kSoname); });
  in_a_process([&] {
    expect_error(ExitCode::kConfiguration,
                 {"Fake 9.27.0 or newer", "9.14.0 at " + old, "9.12.0 at " + older, "9.16.0 at " + fits,
                  "9.26.0 at ", "install Fake", "RECOLLECT_NVIDIA_LIBRARIES="},
                 [&] { open_from(92700); });
  });
}

// Ranks may be threads of a process: the second one's search would find what the first one has loaded.
TEST_F(LibraryTest, ThatIsInTheProcessAlreadyIsTakenAgain) {
  LibraryName name = versioned(91600);
  name.soname = "libfake_named_of_recollect.so.13";
  const std::string old = folder_.path() + "/old/" + name.soname;
  const std::string fits = folder_.path() + "/toolkit/lib64/" + name.soname;
  place_version("old", 91400);
  place_version("toolkit/lib64", 91900);
  for (const std::string& file : {old, fits}) fs::copy_file(RECOLLECT_FAKE_LIBRARY_NAMED, file);
  environment_.libraries = folder_.path() + "/old";
  environment_.cuda_home = folder_.path() + "/toolkit";
  in_a_process([&] {
    for (int rank = 0; rank < 2; ++rank) {
      const Library library(name, search_places(environment_));
      EXPECT_EQ(library.path(), fits) << rank;
      EXPECT_EQ(library.version(), 91900u) << rank;
    }
  });
}

// What ends a process that opens it, or never answers, is passed over like what cannot be opened.
TEST_F(LibraryTest, ThatAnswersNothingIsPassedOver) {
  LibraryName name = versioned(91600);
  name.version = [](void* handle) -> std::size_t {
    const auto version = reinterpret_cast<unsigned long (*)()>(dlsym(handle, "fake_version"))();
    if (version == 1) std::abort();
    return version;
  };
  environment_.virtual_env = folder_.path() + "/venv";
  environment_.cuda_home = folder_.path() + "/toolkit";
  place_version("venv/lib/python3.11/site-packages/nvidia/fake/lib", 1);
  const std::string file = place_version("toolkit/lib64", 91600);
  in_a_process([&] { EXPECT_EQ(Library(name, search_places(environment_)).path(), file); });
}

// The loader looks through LD_LIBRARY_PATH before the folder of the library that asks: a process of its own, since the
// loader reads that variable once.
TEST_F(LibraryTest, ItsPartsComeFromItsOwnFolder) {
  place_version("system", 91400);
  const std::string file = place_version("toolkit/lib64", 91900);
  const std::string command =
      "LD_LIBRARY_PATH=" + folder_.path() + "/system CUDA_HOME=" + folder_.path() +
      "/toolkit RECOLLECT_NVIDIA_LIBRARIES= GTEST_TOTAL_SHARDS=1 GTEST_SHARD_INDEX=0 " +
      fs::read_symlink("/proc/self/exe").string() +
      " --gtest_also_run_disabled_tests --gtest_filter=LibraryInAProcess.*";
  FILE* process = popen(command.c_str(), "r");
  ASSERT_NE(process, nullptr);
  std::string said;
  for (char line[512]; std::fgets(line, sizeof line, process);) said += line;
  EXPECT_EQ(pclose(process), 0) << said;
  EXPECT_NE(said.find("took 91900 at " + file + " after 9.14.0 at " + folder_.path() + "/system"),
            std::string::npos)
      << said;
}

TEST(LibraryInAProcess, DISABLED_OfItsOwn) {
  SearchEnvironment environment;
  environment.cuda_home = SearchEnvironment::of_process().cuda_home;
  const Library library(versioned(91600), search_places(environment));
  ASSERT_EQ(library.passed_over().size(), 1u);
  std::cout << "took " << library.function<unsigned long()>("fake_version")() << " at " << library.path()
            << " after " << library.passed_over()[0] << std::endl;
}

}  // namespace
}  // namespace recollect::cuda
