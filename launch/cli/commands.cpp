#include "launch/cli/commands.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "launch/cli/completion.h"
#include "launch/cli/config_command.h"
#include "launch/cli/estimate_command.h"
#include "launch/cli/explain.h"
#include "launch/cli/man_page.h"
#include "launch/cli/profile_command.h"
#include "launch/cli/run_command.h"
#include "launch/cli/tokenize.h"
#include "launch/cli/train_command.h"
#include "launch/doctor/calibrate.h"
#include "launch/doctor/doctor.h"
#include "launch/generate/generate.h"
#include "launch/generate/options.h"
#include "launch/predict/predict.h"
#include "launch/report/report_command.h"
#include "launch/run/options.h"
#include "launch/snapshot/snapshot_command.h"
#include "launch/top/top_command.h"

namespace recollect {

namespace {

constexpr Argument kKeys = {"section.key=value", "sets a key and wins over the file"};
constexpr Argument kOfARun[] = {{"CONFIG.yaml", "what to train, on what, and how"}, kKeys};
constexpr Argument kOfATraining[] = {{"CONFIG.yaml", "the configuration of a run that saved its model"},
                                     kKeys};
constexpr Argument kPrograms[] = {{"PROGRAM", "train or another command, a program, FILE.py"}};
constexpr Argument kRuns[] = {{"RUN_FOLDER", "output_dir of a run whose memory_report.formats has json"}};
constexpr Argument kWatched[] = {{"RUN_FOLDER", "output_dir of a run that trains, or has trained"}};
constexpr Argument kSnapshots[] = {{"FOLDER", "a snapshot, or the folder of many"}};
constexpr Argument kConversion[] = {{"SOURCE", "a snapshot, or the folder of many: their newest; or a model"},
                                    {"DESTINATION", "a folder that is made"},
                                    {"section.key=value", "with --config: sets a key of it"}};
constexpr Argument kTexts[] = {{"INPUT", "*.txt, *.jsonl, or folders of them"}};
constexpr Argument kForeignFiles[] = {
    {"FILE", "a file of Transformers, DeepSpeed, accelerate, axolotl, torchtitan or OSLO"}};
constexpr Argument kShells[] = {{"bash|zsh|fish", "the shell that the script is for"}};
constexpr Argument kBegun[] = {{"WORD", "a word after recollect; the last is not yet whole"}};

constexpr std::span<const Argument> kNoArguments;

constexpr std::string_view kConfig = "CONFIG.yaml [section.key=value ...] [options]";

constexpr Command kCommands[] = {
    {"train", kConfig, "train what CONFIG.yaml describes", train_command, train_options, kOfARun,
     "`recollect config reference` lists the keys. Several ranks: recollect run --nproc-per-node N train ... "
     "on one node, or mpirun -np N recollect train ..., with N = data_parallel_size x tensor_parallel_size; "
     "or threads of one process: parallelism.ranks_per_process=N.",
     "recollect train config.yaml training.max_steps=50 output_dir=runs/a"},
    {"predict", kConfig, "what a trained model says of samples without labels", predict_command,
     predict_options, kOfATraining, "",
     "recollect predict config.yaml --data unseen.csv --output answers.jsonl"},
    {"generate", "[CONFIG.yaml] [section.key=value ...] [options]", "continue a text with a causal model",
     generate_command, generate_options, kOfATraining, "",
     "recollect generate --model FOLDER --prompt \"Call me\" --temperature 0.8"},
    {"run", "[flags] PROGRAM [arguments]", "start PROGRAM, or train, as the ranks of this node", run_command,
     launcher::run_options, kPrograms, "", "recollect run --nproc-per-node 2 train config.yaml"},
    {"estimate", kConfig, "predict memory and step time without training", estimate_command, estimate_options,
     kOfARun, "", "recollect estimate config.yaml --compare"},
    {"explain", kConfig, "print the checkpointing plan and every op of a step", explain_command, key_options,
     kOfARun, "", "recollect explain config.yaml activation_checkpointing.mode=full"},
    {"profile", kConfig, "train a few steps and tell where the time of one goes", profile_command,
     profile_options, kOfARun,
     "training.max_steps=8 profiling.step=8 where neither is given, on a GPU 24: the last of five steps "
     "whose medians are "
     "shown. "
     "device.model=FILE of `recollect calibrate` tells what the machine can do. Several ranks: as for train.",
     "recollect profile config.yaml --html profile.html"},
    {"report", "RUN_FOLDER [RUN_FOLDER] [options]", "show again what a run has left, or compare two",
     report_command, report_options, kRuns, "", "recollect report runs/a runs/b --html both.html"},
    {"top", "RUN_FOLDER", "watch a run on the terminal: its ranks side by side", top_command, nullptr,
     kWatched,
     "Memory, tokens/s, waits and the last loss, once a second, from the files that the run writes. "
     "q ends it, arrow keys show more ranks. On what is no terminal it prints what is known now.",
     "recollect top runs/a"},
    {"snapshot", "", "look at what a training has saved, check it, convert it"},
    {"snapshot inspect", "FOLDER [options]",
     "print a snapshot's step, layout, versions, configuration, tensors, files", snapshot_inspect_command,
     snapshot_inspect_options, kSnapshots, "Of a folder of many, a line each.",
     "recollect snapshot inspect runs/a/snapshots"},
    {"snapshot verify", "FOLDER...", "read everything and compare the check sum of every MiB",
     snapshot_verify_command, nullptr, kSnapshots, "Exit code 3: one is damaged.",
     "recollect snapshot verify runs/a/snapshots"},
    {"snapshot convert", "SOURCE DESTINATION --to hf|snapshot ...",
     "make a model of a snapshot, a snapshot of a model, or one of another layout", snapshot_convert_command,
     snapshot_convert_options, kConversion, "", "recollect snapshot convert runs/a/snapshots model --to hf"},
    {"calibrate", "[options]", "measure this machine, for device.model=FILE", calibrate_command,
     calibrate_options, kNoArguments, "", "recollect calibrate --out device.yaml --disk /scratch"},
    {"tokenize", "--tokenizer PATH --output FILE INPUT... [options]", "make a token file of text",
     tokenize_command, tokenize_options, kTexts, "",
     "recollect tokenize --tokenizer tokenizer.json --output a.bin texts/"},
    {"config", "", "print a run's values, another trainer's file as ours, all keys"},
    {"config show", kConfig, "print every value of a run as YAML, and where it comes from",
     config_show_command, config_show_options, kOfARun, "",
     "recollect config show config.yaml training.precision=bf16 --ranks 4"},
    {"config import", "FILE", "print another trainer's file as a configuration of ours",
     config_import_command, nullptr, kForeignFiles,
     "Files of Transformers (TrainingArguments as JSON), DeepSpeed, accelerate, axolotl, torchtitan and "
     "OSLO. What has "
     "no equivalent is listed on standard error, with the reason.",
     "recollect config import ds_config.json > config.yaml"},
    {"config schema", "", "print the JSON Schema with which editors complete and check",
     config_schema_command, nullptr, kNoArguments, "", "recollect config schema > recollect.schema.json"},
    {"config reference", "", "print every key, its values, default and meaning, as Markdown",
     config_reference_command, nullptr, kNoArguments, "", "recollect config reference | less"},
    {"doctor", "[options]", "examine this machine: can it train, and if not, what to do", doctor_command,
     doctor_options, kNoArguments,
     "Trains a tiny model, alone and on two ranks of mpirun, in a temporary folder. Exit code 0: training on "
     "the CPU works; 2: it does not.",
     "recollect doctor --disk /scratch"},
    {"completion", "bash|zsh|fish", "print the script that completes words in a shell", completion_command,
     nullptr, kShells,
     "Commands, options, files, configuration keys and their values. The script asks the recollect that is "
     "being typed, so that it never is of another version.",
     "source <(recollect completion bash)"},
    {"completion words", "-- [WORD ...]", "print what the last word may be, a line each: the scripts ask it",
     completion_words_command, nullptr, kBegun,
     "After a tab stands what it means. :files, :folders and :yaml are files of that kind, in whose names "
     "what stands after the tab comes first.",
     "recollect completion words -- train config.yaml training.pre"},
    {"man", "", "print this program's manual page", man_command, nullptr, kNoArguments, "",
     "recollect man > recollect.1"},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

void refuse_configuration_option(const Command& command, const Words& words) {
  constexpr std::string_view kElsewhere[] = {"--config", "--config_file", "--config-file", "--cfg", "-c"};
  if (command.usage.find("CONFIG.yaml") == std::string_view::npos) return;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t end = words[i].find('=');
    const std::string option = words[i].substr(0, end);
    if (std::find(std::begin(kElsewhere), std::end(kElsewhere), option) == std::end(kElsewhere)) continue;
    const bool next = end == std::string::npos && i + 1 < words.size() && !words[i + 1].starts_with('-');
    const std::string file = end != std::string::npos ? words[i].substr(end + 1)
                             : next                   ? words[i + 1]
                                                      : "CONFIG.yaml";
    throw UsageError(fmt::format("unrecognised option '{}'; the file stands alone: write recollect {} {}",
                                 option, command.name, file));
  }
}

std::vector<std::string_view> second_words(const Command& first) {
  std::vector<std::string_view> words;
  for (const Command& command : commands())
    if (command.of_two_words() && command.name.substr(0, command.name.find(' ')) == first.name)
      words.push_back(command.name.substr(first.name.size() + 1));
  return words;
}

NamedCommand find_command(const Words& words) {
  NamedCommand found;
  for (const Command& command : commands()) {
    if (!words.empty() && command.name == words[0]) found = {&command, 1};
    if (words.size() > 1 && command.name == words[0] + " " + words[1]) return {&command, 2};
  }
  return found;
}

}  // namespace recollect
