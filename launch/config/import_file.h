// Another trainer's file while it is imported. First that trainer's own rules take the keys that depend on each other
// (`arrange`): which arguments an optimizer really gets, what a strategy makes of its steps. The tables of
// foreign_keys.h translate what they leave, key by key.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/yaml_document.h"

namespace recollect {

// A value of the file that is not a mapping, or a mapping that the tables know as a whole.
struct ForeignLeaf {
  std::string path;
  std::optional<std::string> value;  // as YAML; nothing where it is a mapping
  bool unset = false;     // the trainer writes this of a key that nobody gave: nothing is told of it
  std::string name = {};  // what the file calls it, where that is not its path

  std::string shown() const {
    const std::string& called = name.empty() ? path : name;
    return value ? called + " " + *value : called;
  }
};

class ForeignFile {
 public:
  // What is to be written of ours, whatever the tables say.
  struct Write {
    std::string path, value;
    std::string from;    // what it is there; "" where the file does not say it
    std::string remark;  // a comment in the file that is made
    bool unset = false;
    std::string refused = {};  // what is said where the reader does not take it, in place of its own words
  };
  struct LeftOut {
    std::string from, why;
  };

  ForeignFile(const YamlNode& root, std::vector<ForeignLeaf> leaves);

  const YamlNode& root() const { return *root_; }
  const std::vector<ForeignLeaf>& leaves() const { return leaves_; }
  const std::vector<Write>& writes() const { return writes_; }
  const std::vector<LeftOut>& left_out() const { return left_out_; }

  const ForeignLeaf* find(std::string_view path) const;
  bool has(std::string_view path) const { return find(path) != nullptr; }
  // The value of a key, or what it is where the file does not say it.
  std::string value(std::string_view path, std::string_view otherwise = "") const;
  double number(std::string_view path, double otherwise) const;
  // Whether somebody gave it.
  bool is_given(std::string_view path) const {
    const ForeignLeaf* leaf = find(path);
    return leaf && !leaf->unset;
  }
  bool is_true(std::string_view path) const { return value(path) == "true"; }
  // Those that begin with "SECTION.".
  std::vector<ForeignLeaf> inside(std::string_view section) const;

  // The key is settled: the tables do not see it.
  void settle(std::string_view path);
  void settle_inside(std::string_view section);
  // The same value by another name, where the file has it.
  void rename(std::string_view path, std::string_view name);
  // As if the file had said it.
  void add(std::string path, std::string value);

  // Of a key of theirs, which is settled by that; of one that the file does not have, as a default.
  void write(std::string_view path, std::string ours, std::string value, std::string remark = "");
  // One that the reader may refuse, for a reason that the file does not know of.
  void write_if_taken(std::string_view path, std::string ours, std::string value, std::string refused);
  void write_default(std::string ours, std::string value, std::string remark = " # not given there");
  // Listed, unless nobody gave the key or it is settled already; which is settled by that.
  void leave_out(std::string_view path, std::string why);
  void note(std::string from, std::string why) { left_out_.push_back({std::move(from), std::move(why)}); }

 private:
  const YamlNode* root_;
  std::vector<ForeignLeaf> leaves_;
  std::vector<ForeignLeaf> settled_;  // as they were
  std::vector<Write> writes_;
  std::vector<LeftOut> left_out_;
};

// The decimal number that a person would write for it.
std::string decimal_text(double value);
// As JSON and YAML read them.
std::optional<double> number_of(const std::string& text);
// The entries of "[a, b]", or the one that a text is.
std::vector<std::string> entries_of_list(std::string_view list);

// A value that a trainer writes itself of a key that nobody gave, in any of its versions.
bool is_default_there(std::string_view trainer, std::string_view path, const std::string& value);
// Whether TrainingArguments have it, whosever name it is besides.
bool is_training_argument(std::string_view name);

void arrange_transformers(ForeignFile& file);
void arrange_deepspeed(ForeignFile& file);
void arrange_accelerate(ForeignFile& file);
void arrange_axolotl(ForeignFile& file);
void arrange_torchtitan(ForeignFile& file);
void arrange_oslo(ForeignFile& file);

}  // namespace recollect
