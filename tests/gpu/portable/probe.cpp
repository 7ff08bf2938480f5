// A small program of what a large one needs of its C library, made portable as the bundle is: constructors, exceptions in
// several threads, files' facts, random numbers, OpenMP, libraries opened by name, mathematics, shared memory and
// semaphores, commands. It prints what it found, and ends with 0 where all of it is right.
#include <dlfcn.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

int failures = 0;

void expect(bool good, const char* what) {
  std::printf("%-40s %s\n", what, good ? "yes" : "NO");
  failures += !good;
}

// Before main, and in this order.
std::string built_before_main = "built";
const std::string built_after_it = built_before_main + " twice";

[[gnu::noinline]] int throw_and_catch(int depth) {
  try {
    if (depth == 0) throw std::runtime_error("thrown");
    return throw_and_catch(depth - 1) + 1;
  } catch (const std::invalid_argument&) {
    return -1000;
  }
}

bool exceptions_in_threads() {
  std::vector<std::future<bool>> threads;
  for (int t = 0; t < 8; ++t)
    threads.push_back(std::async(std::launch::async, [] {
      int caught = 0;
      for (int i = 0; i < 200; ++i) try {
          throw_and_catch(i % 20);
        } catch (const std::exception& error) {
          caught += std::string(error.what()) == "thrown";
        }
      return caught == 200;
    }));
  bool good = true;
  for (auto& thread : threads) good &= thread.get();
  return good;
}

bool waiting() {
  std::mutex mutex;
  std::condition_variable wake;
  bool ready = false;
  const auto shared = std::make_shared<int>(7);
  std::thread other([&, shared] {
    const std::lock_guard lock(mutex);
    ready = *shared == 7;
    wake.notify_all();
  });
  std::unique_lock lock(mutex);
  const bool woken = wake.wait_for(lock, std::chrono::seconds(20), [&] { return ready; });
  lock.unlock();
  other.join();
  return woken;
}

bool files() {
  const auto folder =
      std::filesystem::temp_directory_path() / ("recollect-probe-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "within");
  std::ofstream(folder / "file") << "twelve bytes";
  std::filesystem::create_symlink(folder / "file", folder / "link");
  const bool good =
      std::filesystem::file_size(folder / "link") == 12 && std::filesystem::is_symlink(folder / "link") &&
      std::filesystem::is_directory(folder / "within") && !std::filesystem::exists(folder / "other");
  return std::filesystem::remove_all(folder) == 4 && good;
}

bool random_numbers() {
  std::random_device device;
  return device() != device() || device() != device();
}

bool shared_memory() {
  const std::string name = "/recollect-probe-" + std::to_string(::getpid());
  const int file = ::shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  if (file < 0) return false;
  ::shm_unlink(name.c_str());
  sem_t semaphore;
  const bool good = ::sem_init(&semaphore, 0, 1) == 0 && ::sem_wait(&semaphore) == 0;
  ::sem_destroy(&semaphore);
  return ::close(file) == 0 && good;
}

// Of two files the command inherits the one below the first that is to be closed.
bool inherited_files() {
  const int kept = ::dup(1), closed = ::fcntl(1, F_DUPFD, kept + 1);
  const std::string command = "[ -e /proc/self/fd/" + std::to_string(kept) + " ] && ! [ -e /proc/self/fd/" +
                              std::to_string(closed) + " ]";
  std::string shell = "sh", option = "-c", text = command;
  char* words[] = {shell.data(), option.data(), text.data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  int status = 1;
  pid_t child = 0;
  const bool good = ::posix_spawn_file_actions_addclosefrom_np(&actions, closed) == 0 &&
                    ::posix_spawnp(&child, "sh", &actions, nullptr, words, environ) == 0 &&
                    ::waitpid(child, &status, 0) == child && status == 0;
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(kept);
  ::close(closed);
  return good;
}

}  // namespace

int main(int count, char** words) {
  expect(built_after_it == "built twice", "constructors ran once, in order");
  expect(count == 2 && std::string(words[1]) == "word", "words of the command line");
  expect(std::getenv("PATH") != nullptr && environ && *environ, "the environment");
  expect(exceptions_in_threads(), "exceptions in eight threads");
  expect(waiting(), "a condition with a time limit");
  expect(files(), "facts of files");
  expect(random_numbers(), "random numbers");
  expect(shared_memory(), "shared memory and a semaphore");
  int sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int i = 0; i < 1000; ++i) sum += i;
  expect(sum == 499500, "OpenMP");
  volatile double two = 2;
  expect(std::pow(two, 10) == 1024 && std::hypot(3.0, two + 2) == 5, "mathematics");
  expect(::dlopen("libm.so.6", RTLD_NOW) != nullptr && ::dlsym(RTLD_DEFAULT, "cos") != nullptr,
         "libraries by name");
  const char* name = ::sigabbrev_np(SIGWINCH);
  expect(name && std::string(name) == "WINCH" && !::sigabbrev_np(0) && !::sigabbrev_np(99),
         "names of signals");
  expect(inherited_files(), "files that a command inherits");
  const int copy = ::dup(1);
  expect(::close_range(copy, ~0u, 0) == 0 && ::close(copy) != 0, "files closed at once");
  std::fflush(stdout);
  return failures == 0 ? 0 : 1;
}
