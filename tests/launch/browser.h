// Headless Chromium, for what only a browser can say of a page.
#pragma once

#include <string>

#include "tests/launch/process.h"

namespace recollect::test {

class Browser {
 public:
  Browser();
  bool exists() const { return !binary_.empty(); }

  // The document of a file after its scripts have run.
  std::string dom(const std::string& path, const Words& more = {}) const;
  Finished run(const std::string& path, const Words& more) const;
  // The document's title after a script that is put behind the page's own has left there what it returns.
  std::string after_script(const std::string& page, const std::string& script, const Words& more = {}) const;
  const TemporaryFolder& folder() const { return folder_; }

 private:
  bool all_gone() const;

  std::string binary_;
  TemporaryFolder folder_;
};

// Of a document.
std::string title_of(const std::string& dom);

}  // namespace recollect::test
