// Collects what is written of a foreign file and what is left out, and makes the text that the strict reader takes: what
// it refuses becomes a comment and is listed.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launch/config/import.h"
#include "launch/config/import_file.h"
#include "launch/config/keys.h"

namespace recollect {

class Importer {
 public:
  // `what` the file called `name` is: "DeepSpeed's configuration".
  Importer(const std::string& name, std::string_view what) : name_(name), what_(what) {}

  // What the trainer's own rules have settled, then the rest by the tables. `within`: the key that holds the file, where
  // another one does; what it leaves to that one is not told of.
  void take(const ForeignFile& file, std::string_view within = "");
  Imported finish();

 private:
  struct Value {
    std::string printed, remark;
    std::string from;          // what it was there
    bool silent = false;       // nobody gave it: it goes without a word where the reader does not take it
    std::string why = {};      // to be said in place of what the reader says
    std::string refused = {};  // why the reader does not take it
  };
  // Where a value comes from.
  struct Origin {
    std::string from;
    bool silent = false;
    std::string remark = {}, why = {};
  };

  void take(const ForeignLeaf& leaf);
  void take_own(const ForeignLeaf& leaf, const Origin& origin);
  void leave_out(const Origin& origin, const std::string& why);
  void write(const std::string& path, std::string value, const Origin& origin);
  std::string text();
  void open_section(const std::string& section, std::string& open, std::string& yaml);
  std::vector<std::string> what_is_added() const;
  std::string refused();
  bool drop(const std::string& refusal);

  const std::string& name_;
  std::string_view what_;
  std::string within_;
  const KeyTable& table_ = KeyTable::of(model_families().front());
  std::map<std::string, Value> values_;
  std::vector<std::string> lines_;  // what key each line of the text holds
  std::vector<std::string> left_out_;
};

}  // namespace recollect
