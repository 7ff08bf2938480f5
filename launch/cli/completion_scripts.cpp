// What the shells run. Each gives the words up to the cursor to `recollect completion words` and takes what it prints.
#include <fmt/format.h>

#include "launch/cli/completion.h"

namespace recollect {

namespace {

// Readline replaces only what stands behind the last character that breaks words, and so is what it is given.
constexpr std::string_view kBashScript = R"script(# Completion of recollect's words in bash. For this shell:
#   source <(recollect completion bash)
# for every one:
#   recollect completion bash > ~/.local/share/bash-completion/completions/recollect
_recollect() {
  local line=${COMP_LINE:0:COMP_POINT} word text more value name breaks
  local -a words
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  word=${words[${#words[@]}-1]}
  COMPREPLY=()
  while IFS=$'\t' read -r text more; do
    value=${word#"$more"}
    case $text in
      :*) compopt -o filenames 2>/dev/null ;;
      *[=.]) compopt -o nospace 2>/dev/null ;;
    esac
    case $text in
      :files) while IFS= read -r name; do COMPREPLY+=("$more$name"); done < <(compgen -f -- "$value") ;;
      :folders) while IFS= read -r name; do COMPREPLY+=("$more$name"); done < <(compgen -d -- "$value") ;;
      :yaml) while IFS= read -r name; do COMPREPLY+=("$more$name"); done < <(
        compgen -f -X '!*.y*ml' -- "$value"
        compgen -d -- "$value") ;;
      *) COMPREPLY+=("$text") ;;
    esac
  done < <("${words[0]/#\~\//$HOME/}" completion words -- "${words[@]:1}" 2>/dev/null)
  breaks=${COMP_WORDBREAKS//[^=:]/}
  if [[ $breaks && $word == *["$breaks"]* ]]; then
    value=${word%"${word##*["$breaks"]}"}
    COMPREPLY=("${COMPREPLY[@]#"$value"}")
  fi
}
complete -F _recollect recollect
)script";

constexpr std::string_view kZshScript = R"script(#compdef recollect
# Completion of recollect's words in zsh. For this shell, behind compinit:
#   source <(recollect completion zsh)
# for every one, in a folder of $fpath:
#   recollect completion zsh > FOLDER/_recollect
_recollect() {
  local line text more none=1
  local -a given plain plain_help open open_help
  given=("${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}")
  for line in "${(@f)$(${~words[1]} completion words -- "${given[@]}" 2>/dev/null)}"; do
    text=${line%%$'\t'*}
    more=${line#*$'\t'}
    case $text in
      :*)
        [[ -n $more ]] && compset -P "${(b)more}"
        case $text in
          :files) _files && none=0 ;;
          :folders) _files -/ && none=0 ;;
          :yaml) _files -g '*.(yaml|yml)' && none=0 ;;
        esac ;;
      *[=.]) open+=("$text") open_help+=("$text${more:+  -- $more}") ;;
      ?*) plain+=("$text") plain_help+=("$text${more:+  -- $more}") ;;
    esac
  done
  (( $#plain )) && compadd -l -d plain_help -a plain && none=0
  (( $#open )) && compadd -S '' -l -d open_help -a open && none=0
  return none
}
if [[ $funcstack[1] == _recollect ]]; then _recollect "$@"; else compdef _recollect recollect; fi
)script";

constexpr std::string_view kFishScript = R"script(# Completion of recollect's words in fish, for every shell:
#   recollect completion fish > ~/.config/fish/completions/recollect.fish
function __recollect_words
    set -l given (commandline -opc)
    set -l word (commandline -ct)
    set -l program $given[1]
    set -e given[1]
    for line in ($program completion words -- $given "$word" 2>/dev/null)
        set -l parts (string split -m 1 \t -- $line)
        set -l value (string sub -s (math 1 + (string length -- "$parts[2]")) -- "$word")
        switch $parts[1]
            case ':files'
                string replace -r -- '^' "$parts[2]" (__fish_complete_path "$value")
            case ':folders'
                string replace -r -- '^' "$parts[2]" (__fish_complete_directories "$value")
            case ':yaml'
                string replace -r -- '^' "$parts[2]" (__fish_complete_path "$value" | string match -r -- '.*(?:/|\.ya?ml)(?:\t.*)?$')
            case '*'
                echo $line
        end
    end
end
complete -c recollect -f -a '(__recollect_words)'
)script";

}  // namespace

std::string_view completion_script(std::string_view shell) {
  if (shell == "bash") return kBashScript;
  if (shell == "zsh") return kZshScript;
  if (shell == "fish") return kFishScript;
  throw UsageError(fmt::format("completion: '{}' is none of bash, zsh, fish", shell));
}

}  // namespace recollect
