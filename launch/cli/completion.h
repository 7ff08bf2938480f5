// `recollect completion`: a shell's script, which asks this program what may stand where the cursor is. So commands,
// options and keys are those of the tables that the parsers read, and what all shells do is said once.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/mpi.h"
#include "launch/config/words.h"

namespace recollect {

struct Proposal {
  std::string text;  // a whole word; or kAnyFiles and the like, which the shell itself looks for
  std::string help;  // of a word: what it means; of files: what their names stand behind in the word
};

inline constexpr std::string_view kAnyFiles = ":files", kAnyFolders = ":folders", kAnyYaml = ":yaml";

// What the last of the words behind the program's name may become. It may be empty.
std::vector<Proposal> complete(const Words& words);

// Error UsageError for a shell that is none of bash, zsh and fish.
std::string_view completion_script(std::string_view shell);

void completion_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);
void completion_words_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
