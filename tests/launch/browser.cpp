#include "tests/launch/browser.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

namespace recollect::test {

Browser::Browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"})
    if (binary_.empty() && std::system((std::string("command -v ") + name + " >/dev/null 2>&1").c_str()) == 0)
      binary_ = name;
}

std::string Browser::dom(const std::string& path, const Words& more) const {
  return run(path, more + Words{"--dump-dom"}).out;
}

Finished Browser::run(const std::string& path, const Words& more) const {
  // As root it has no sandbox; the page is our own.
  const Words words = Words{binary_,
                            "--headless",
                            "--no-sandbox",
                            "--disable-gpu",
                            "--disable-dev-shm-usage",
                            "--disable-breakpad",
                            "--no-first-run",
                            "--user-data-dir=" + folder_.file("profile"),
                            "--window-size=1300,2000"} +
                      more + Words{"file://" + path};
  const Finished finished =
      Process(words, folder_.path(), {{"HOME", folder_.path()}}).wait(std::chrono::seconds(120));
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_TRUE(all_gone()) << "a process of the browser has outlived it";
  return finished;
}

// Its helpers end a moment after it; until then they may write to the profile.
bool Browser::all_gone() const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < deadline) {
    bool found = false;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream file(entry.path() / "cmdline");
      std::string words;
      std::getline(file, words);  // nothing, of a process that goes away meanwhile
      found |= words.find(folder_.file("profile")) != std::string::npos;
    }
    if (!found) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

std::string title_of(const std::string& dom) {
  const std::size_t begin = dom.find("<title>") + 7;
  std::string left = dom.substr(begin, dom.find("</title>") - begin);
  for (std::size_t at = left.find("&gt;"); at != std::string::npos; at = left.find("&gt;", at))
    left.replace(at, 4, ">");
  for (std::size_t at = left.find("&amp;"); at != std::string::npos; at = left.find("&amp;", at + 1))
    left.replace(at, 5, "&");
  return left;
}

std::string Browser::after_script(const std::string& page, const std::string& script,
                                  const Words& more) const {
  std::string text = TemporaryFolder::read(page);
  const std::size_t end = text.rfind("</body>");
  text.insert(end, "<script>document.title = (() => {" + script + "})();</script>");
  return title_of(dom(folder_.write("probe.html", text), more));
}

}  // namespace recollect::test
