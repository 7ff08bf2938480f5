// One line of JSONL, already tokenized, as the fields of a sample. The grammar is tiny (known keys, numbers
// and lists of them), so the parser is ours: it allocates nothing and knows the column of every error.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/data/field_spec.h"
#include "engine/data/fields.h"

namespace recollect {

class LineParser {
 public:
  // What is passed must outlive the parser. The first of `specs` is that of the ids, with which all lists of
  // tokens agree in their lengths; none has more than `length`.
  LineParser(std::string_view text, const std::string& path, int64_t line_number,
             std::span<const FieldSpec> specs, int64_t length)
      : text_(text), path_(path), line_number_(line_number), specs_(specs), length_(length) {}

  // Fills an empty sample. Allocates nothing in one that has been filled by these specs. Error kInput with
  // path:line:column; a BlankRecord of a line without anything, or without tokens.
  void parse(Fields& sample);

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& hint = {}) const {
    fail_at(at_, what, hint);
  }
  [[noreturn]] void fail_at(std::size_t at, const std::string& what, const std::string& hint = {}) const;
  [[noreturn]] void fail_outside(std::size_t at, const FieldSpec& spec, const std::string& value) const;

  void take_empty(std::size_t at, const FieldSpec& spec);
  void skip_space();
  bool accept(char c);
  bool accept_null();
  void expect(char c, const char* what);

  std::size_t parse_key();  // its place among the specs
  void reserve(const FieldSpec& spec, Field& field) const;
  void parse_field(const FieldSpec& spec, Field& field);
  void parse_numbers(const FieldSpec& spec, Field& field);
  void parse_lists(const FieldSpec& spec, Field& field);
  void parse_tokens(const FieldSpec& spec, Field& field);
  int32_t parse_number(const FieldSpec& spec);         // as it lies in a field
  int64_t parse_integer(bool may_have_zeros = false);  // 1.0 for 1
  std::optional<bool> parse_flag();                    // nothing where there is none
  double parse_real();

  void check_presence(uint64_t seen) const;
  void check_lengths(Fields& sample) const;
  void check_padding(const FieldSpec& spec, Fields& sample) const;

  std::string_view text_;
  const std::string& path_;
  int64_t line_number_;
  std::span<const FieldSpec> specs_;
  int64_t length_;
  std::size_t at_ = 0;
  std::optional<std::size_t> empty_at_;  // place of an empty list that is not the tokens
  std::string empty_what_;
};

}  // namespace recollect
