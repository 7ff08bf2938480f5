// The chat templates of a tokenizer's folder, as Transformers 5 finds them, and the text that they make of a conversation.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "engine/data/jinja/template.h"
#include "engine/data/tokenizer/tokenizer.h"

namespace recollect {

class ChatTemplates {
 public:
  // `folder`: of the tokenizer, or one of its files: chat_template.jinja, additional_chat_templates/*.jinja, or else
  // "chat_template" of tokenizer_config.json, a text or a list of named ones. `chosen`: a file in their place, or the name
  // of one of them; "": none. Errors: kInput for a template that is damaged or not supported; kConfiguration where nothing is
  // called so.
  ChatTemplates(const Tokenizer& tokenizer, const std::string& folder, const std::string& chosen);

  bool empty() const { return templates_.empty(); }
  // What apply_chat_template gives, without tokenizing. `tools`: a list, or none. Error kInput where there is no template,
  // and for what the template refuses.
  jinja::Rendered render(const jinja::Value& messages, const jinja::Value& tools,
                         bool generation_prompt) const;
  // The one that is used: "tool_use", where there is one, for conversations with tools.
  const jinja::Template& of(const jinja::Value& tools) const;
  bool wrote_date() const { return wrote_date_; }  // a text that depends on the day

 private:
  void read_folder(const std::string& folder);
  void choose(const std::string& chosen, const std::string& folder);

  std::map<std::string, std::shared_ptr<const jinja::Template>>
      templates_;  // by their names; the usual one: "default"
  std::string where_;
  jinja::Dict special_;  // bos_token and the other six
  int64_t now_;          // one moment for the whole run
  mutable std::atomic<bool> wrote_date_ = false;
};

}  // namespace recollect
