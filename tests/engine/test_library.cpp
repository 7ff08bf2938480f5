// Where NVIDIA's libraries are looked for, with a library of our own in their place.
#include "engine/nvidia/library.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"

namespace recollect::cuda {
namespace {

namespace fs = std::filesystem;
using recollect::test::expect_error;
using recollect::test::TemporaryFolder;

constexpr const char* kSoname = "libfake_of_recollect.so.13";

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
  std::vector<std::string> files;
  for (const char* folder :
       {"named", "also", "venv/lib/python3.12/site-packages/nvidia/cu13/lib",
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

}  // namespace
}  // namespace recollect::cuda
