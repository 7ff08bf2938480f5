// Fuzz targets without libFuzzer: each gets its whole corpus, and then so many mutations of it, the same in
// every run. For builds with sanitizers and any compiler; what is found is better searched for with preset
// fuzz.
//
//   replay TARGET CORPUS_FOLDER MUTATIONS
//
// A find leaves TARGET.input where it was started.
#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Target = int (*)(const unsigned char*, std::size_t);

}  // namespace

// Every target's function has a name of its own here (CMakeLists.txt).
#define TARGET(name) extern "C" int fuzz_##name##_one(const unsigned char*, std::size_t);
RECOLLECT_FUZZ_TARGETS
#undef TARGET

namespace {

struct Named {
  std::string_view name;
  Target run;
};
#define TARGET(name) {#name, &fuzz_##name##_one},
constexpr Named kTargets[] = {RECOLLECT_FUZZ_TARGETS};
#undef TARGET

constexpr std::size_t kLongest = 64 << 10;  // bytes of a mutation
constexpr time_t kSecondsEach = 10;         // of the processor, that one input may take

// Numbers and marks at which parsers stumble, as text and as bytes.
constexpr std::string_view kTexts[] = {"0",
                                       "-1",
                                       "1",
                                       "255",
                                       "256",
                                       "65536",
                                       "2147483647",
                                       "2147483648",
                                       "4294967296",
                                       "9223372036854775807",
                                       "-9223372036854775808",
                                       "18446744073709551615",
                                       "18446744073709551616",
                                       "1e308",
                                       "1e-320",
                                       "-0.0",
                                       ".nan",
                                       ".inf",
                                       "null",
                                       "true",
                                       "[]",
                                       "{}",
                                       "\"\"",
                                       "~",
                                       "*a",
                                       "&a",
                                       "!!",
                                       "\\u0000",
                                       "\xff",
                                       "\xc3",
                                       "\x1b[2J",
                                       "../",
                                       "%n",
                                       "\t",
                                       "\r\n",
                                       "\n\n"};
constexpr uint64_t kWords[] = {0,
                               1,
                               0x7f,
                               0x80,
                               0xff,
                               0x7fff,
                               0xffff,
                               0x7fffffff,
                               0x80000000,
                               0xffffffff,
                               0x7fffffffffffffff,
                               0x8000000000000000,
                               0xffffffffffffffff};

class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& corpus) : corpus_(corpus) {}

  std::string next() {
    std::string text = corpus_[below(corpus_.size())];
    for (std::size_t changes = 1 + below(6); changes > 0; --changes) change(text);
    if (text.size() > kLongest) text.resize(kLongest);
    return text;
  }

 private:
  std::size_t below(std::size_t end) { return end == 0 ? 0 : random_() % end; }

  void change(std::string& text) {
    const std::size_t at = below(text.size() + 1), length = std::min(below(64), text.size() - at);
    switch (below(9)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(below(text.size() + 1), text.substr(at, length));
        break;
      case 4:
        text.insert(at, kTexts[below(std::size(kTexts))]);
        break;
      case 5:
        replace_number(text, at);
        break;
      case 6:
        set_word(text, at);
        break;
      case 7:
        text.resize(at);
        break;
      default:
        splice(text, at);
    }
  }

  // The number written at or behind that place.
  void replace_number(std::string& text, std::size_t at) {
    constexpr std::string_view kDigits = "0123456789";
    const std::size_t begin = text.find_first_of(kDigits, at);
    if (begin == std::string::npos) return;
    const std::size_t end = std::min(text.find_first_not_of(kDigits, begin), text.size());
    text.replace(begin, end - begin, kTexts[below(std::size(kTexts))]);
  }

  void set_word(std::string& text, std::size_t at) {
    const uint64_t word = kWords[below(std::size(kWords))];
    const std::size_t bytes = std::min(std::size_t{1} << below(4), text.size() - at);
    std::memcpy(text.data() + at, &word, bytes);
  }

  // Goes on as another one does, from about the same place.
  void splice(std::string& text, std::size_t at) {
    const std::string& other = corpus_[below(corpus_.size())];
    text.resize(at);
    text += other.substr(std::min(below(2) ? at : below(other.size() + 1), other.size()));
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_{20261122};
};

std::vector<std::string> read_corpus(const char* folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> corpus;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

// The input that a target is at, in a file, which is there when it has ended the program.
class LastInput {
 public:
  explicit LastInput(std::string path)
      : path_(std::move(path)), file_(open(path_.c_str(), O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0644)) {}
  ~LastInput() {
    close(file_);
    unlink(path_.c_str());
  }
  LastInput(const LastInput&) = delete;
  LastInput& operator=(const LastInput&) = delete;

  bool write(const std::string& text) const {
    return pwrite(file_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
           ftruncate(file_, static_cast<off_t>(text.size())) == 0;
  }

 private:
  std::string path_;
  int file_;
};

// Ends the program behind so many seconds of its own, which a busy machine does not take away; 0: never.
void end_after(time_t seconds) {
  const itimerval limit{.it_interval = {}, .it_value = {.tv_sec = seconds, .tv_usec = 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);
}

bool run(Target target, const std::string& text, const LastInput& last) {
  if (!last.write(text)) return false;
  // In memory of exactly its size, so that a sanitizer sees who reads beyond it.
  const std::vector<unsigned char> bytes(text.begin(), text.end());
  end_after(kSecondsEach);
  target(bytes.data(), bytes.size());
  end_after(0);
  return true;
}

int fail(const char* what) {
  std::fprintf(stderr, "replay: %s\n", what);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return fail("expected TARGET CORPUS_FOLDER MUTATIONS");
  const auto* target = std::find_if(std::begin(kTargets), std::end(kTargets),
                                    [&](const Named& t) { return t.name == argv[1]; });
  if (target == std::end(kTargets)) return fail("there is no such target");
  const std::vector<std::string> corpus = read_corpus(argv[2]);
  if (corpus.empty()) return fail("the corpus is empty");
  const LastInput last(std::string(target->name) + ".input");
  const auto start = std::chrono::steady_clock::now();
  bool written = true;
  for (const std::string& text : corpus) written = written && run(target->run, text, last);
  Mutator mutator(corpus);
  const long mutations = std::atol(argv[3]);
  for (long i = 0; i < mutations; ++i) written = written && run(target->run, mutator.next(), last);
  if (!written) return fail("cannot write the input that is to be tried");
  std::printf("%s: %zu inputs of the corpus and %ld mutations in %.1f s\n", argv[1], corpus.size(), mutations,
              std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}
