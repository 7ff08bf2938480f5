// What other trainers call things: Transformers' TrainingArguments, accelerate, DeepSpeed, Megatron, axolotl,
// torchtitan and some more. Here is all that is known of them: the aliases of our keys, the answers to keys and
// values that are none of ours, the page of keys and `config import` are made of these three tables.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace recollect {

// A name that means exactly one of our keys. In that key's section it is read as the key.
struct ForeignName {
  std::string_view name;
  std::string_view of;
  std::string_view ours;  // the path of the key
};

// A name that is no key here. "fp16.enabled" is the key of a section; a name without a dot is known wherever it
// stands.
struct ForeignKey {
  std::string_view name;
  std::string_view of;
  std::string_view ours;    // the path of our key that is meant, or ""
  std::string_view advice;  // what to do, with {} for the value; "" where our key takes the value
  std::string (*convert)(const std::string&) = nullptr;  // of a value whose unit differs
};

// What to write for a value, of a name in the tables above or of one of our keys, by its path.
struct ForeignValue {
  std::string_view key;
  std::string_view value;  // in lower case; of a number behind a colon 0; kAnyPart
  std::string_view
      writes;  // a value, or "section.key=value;...", with {} for the one given; "" where there is none
  std::string_view advice = "";
};

// Stands for every number between 0 and 1.
inline constexpr std::string_view kAnyPart = "0.5";

// The advice for what asks for how it is here anyway.
inline constexpr std::string_view kLeaveItOut = "leave it out";

std::span<const ForeignName> foreign_names();
std::span<const ForeignKey> foreign_keys();
// The last of them, by what they are about.
std::span<const ForeignKey> foreign_model_keys();
std::span<const ForeignKey> foreign_activation_keys();
std::span<const ForeignKey> foreign_schedule_keys();
std::span<const ForeignKey> foreign_adapter_keys();
std::span<const ForeignKey> foreign_file_keys();
std::span<const ForeignValue> foreign_values();

// What is to be written for a key of theirs.
struct Translation {
  std::string_view name, of;
  std::string_view ours;
  std::vector<std::pair<std::string, std::string>> writes;  // paths of our keys, and their values
  std::string advice;
};

// `path`: "section.name", or a name; `value` as YAML, where it is known and is no mapping.
std::optional<Translation> translate_foreign(std::string_view path, const std::optional<std::string>& value);
// Whether the tables know keys inside that mapping of theirs.
bool is_foreign_section(std::string_view path);

// The row of a value of our key `path`, which was given by `name`; null where the value is none of theirs.
const ForeignValue* find_foreign_value(std::string_view path, std::string_view name,
                                       const std::string& value);
// What it says to write for our key `path`, of which `given` is the value.
std::vector<std::pair<std::string, std::string>> writes_of(const ForeignValue& row, std::string_view path,
                                                           const std::string& given);

}  // namespace recollect
