#include "launch/cli/commands.h"

#include <atomic>
#include <cstdlib>

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include "launch/cli/config_command.h"
#include "launch/cli/estimate_command.h"
#include "launch/cli/explain.h"
#include "launch/cli/profile_command.h"
#include "launch/cli/run_command.h"
#include "launch/cli/tokenize.h"
#include "launch/doctor/calibrate.h"
#include "launch/doctor/doctor.h"
#include "launch/generate/generate.h"
#include "launch/predict/predict.h"
#include "launch/ranks/world.h"
#include "launch/report/report_command.h"
#include "launch/snapshot/snapshot_command.h"
#include "launch/train/train.h"

namespace recollect {

namespace {

void train_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi) {
  namespace options = boost::program_options;
  bool overwrite = false;
  options::options_description own;
  own.add_options()("overwrite", options::bool_switch(&overwrite));
  Words rest = parse_options(words, own);
  if (overwrite && !rest.empty()) rest.emplace_back("overwrite=true");
  const Config config = read_config_words("train", rest);
  std::atomic<bool> preempted = false;
  {
    const ReportSignal signal;
    RankWatch ranks;
    Preemption preemption(ranks);
    run_ranks(config, mpi, [&](Communicator& world) {
      if (train_rank(config, world, signal, preemption, ranks) == ExitCode::kPreempted) preempted = true;
    });
  }
  if (!preempted) return;
  mpi.reset();  // an orderly end for all ranks
  std::exit(static_cast<int>(ExitCode::kPreempted));
}

constexpr Command kCommands[] = {
    {"train", "CONFIG.yaml [section.key=value ...] [--overwrite]", "train what CONFIG.yaml describes",
     train_command,
     "  CONFIG.yaml           what to train, on what, and how; `recollect config reference` lists its keys\n"
     "  section.key=value     sets a key and wins over the file; --set section.key=value is the same\n"
     "  --overwrite           replaces the files of another run in output_dir, as overwrite=true does\n"
     "\n"
     "Several ranks: recollect run --nproc-per-node N train ... on one node, or mpirun -np N recollect "
     "train\n"
     "..., with N = data_parallel_size x tensor_parallel_size; or threads of one process:\n"
     "parallelism.ranks_per_process=N.\n"},
    {"predict",
     "CONFIG.yaml [section.key=value ...] [--data FILE] [--output FILE] [--as FORMAT]\n"
     "           [--verbose]",
     "what a trained model says of samples without labels", predict_command,
     "  CONFIG.yaml           a training's; the model is the one that it has saved in output_dir\n"
     "  --data FILE           of evaluation.format; evaluation.path where not given\n"
     "  --output FILE         standard output where not given\n"
     "  --as FORMAT           jsonl, or what GLUE's and SQuAD's evaluations read: glue, squad\n"
     "  --verbose             speed and memory, on standard error\n"},
    {"generate",
     "[CONFIG.yaml] [section.key=value ...] [--model FOLDER] --prompt TEXT | --prompts FILE\n"
     "           [--max-new-tokens N] [--temperature T] [--top-k K] [--top-p P] [--seed S]\n"
     "           [--tokenizer PATH] [--json] [--verbose]",
     "continue a text with a causal model", generate_command,
     "  CONFIG.yaml           a training's: the model that it has saved in output_dir; not needed with "
     "--model\n"
     "  --model FOLDER        a model of Hugging Face's form\n"
     "  --prompt, --prompts   a text, or a file of texts, one a line; - is standard input\n"
     "  --max-new-tokens N    128 where not given, or as many as the model has room for\n"
     "  --temperature T ...   draws, as do --top-k and --top-p, by --seed; else the most probable token is "
     "taken\n"
     "  --tokenizer PATH      the model's own where not given; bytes: as data.format text has it\n"
     "  --json, --verbose     times and memory: an object for each prompt; or on standard error\n"
     "\n"
     "Several ranks divide the model: recollect run --nproc-per-node N generate ..., or mpirun -np N.\n"},
    {"run", "[flags] PROGRAM [arguments]", "start PROGRAM, or train, as the ranks of this node (run --help)",
     run_command},
    {"estimate",
     "CONFIG.yaml [section.key=value ...] [--json]\n"
     "           [--compare | --policies | --pareto | --max-...] [--trace FILE] [--html FILE]",
     "predict memory and step time without training", estimate_command,
     "  --compare             every activation checkpointing mode and switch, as one table\n"
     "  --policies            a memory budget's policies, by the length of sequences\n"
     "  --pareto              time against memory budget, for every mode; with --html drawn, too\n"
     "  --max-micro-batch     the largest training.micro_batch_size that fits device.memory_limit\n"
     "  --max-sequence-length the largest data.sequence_length; --max-layers: the most layers\n"
     "  --trace FILE          the predicted step as a Chrome trace, for Perfetto\n"
     "  --html FILE           the predicted step as a page\n"
     "  --json                the same as JSON\n"},
    {"explain", "CONFIG.yaml [section.key=value ...]", "print the checkpointing plan and every op of a step",
     explain_command},
    {"profile", "CONFIG.yaml [section.key=value ...] [--html FILE] [--json]",
     "train a few steps and tell where the time of one goes, by class of op and by op", profile_command,
     "  section.key=value     training.max_steps=8 profiling.step=8, the step that is told, where neither is "
     "given\n"
     "  --html FILE           the page, with every op as a dot below what the machine can do\n"
     "  --json                the numbers as JSON\n"
     "\n"
     "device.model=FILE of `recollect calibrate` tells what the machine can do. Several ranks: as for "
     "train.\n"},
    {"report", "RUN_FOLDER [RUN_FOLDER] [--html FILE] [--trace FILE] [--json]",
     "show again what a run has left in its output folder, or compare two", report_command,
     "  RUN_FOLDER            output_dir of a run whose memory_report.formats has json\n"
     "  --html FILE           the page of the run, or of both on one scale\n"
     "  --trace FILE          the recorded step of all ranks, measured and predicted, for Perfetto\n"
     "  --json                the numbers as JSON, and the differences of two runs\n"},
    {"snapshot",
     "inspect FOLDER [--json] | verify FOLDER... | convert SOURCE DESTINATION --to hf|snapshot\n"
     "           [--dtype fp32|bf16|fp16] [--tensor-parallel-size N] [--data-parallel-size M]\n"
     "           [--config CONFIG.yaml [section.key=value ...]] [--overwrite]",
     "look at what a training has saved, check every byte of it, or convert it", snapshot_command,
     "  inspect               step, layout, versions, configuration, tensors and files; of a folder of many, "
     "a line "
     "each\n"
     "  --json                the same as JSON\n"
     "  verify                reads everything and compares the check sum of every MiB; exit code 3: "
     "damaged\n"
     "  convert --to hf       model.safetensors and config.json, as checkpoint.save_model writes them\n"
     "  --dtype               of the numbers there; as they were trained where not given\n"
     "  convert --to snapshot the same state, bit for bit, as another layout of ranks would have saved it\n"
     "  --tensor-parallel-size, --data-parallel-size\n"
     "                        of that layout; the source's where not given\n"
     "  --config CONFIG.yaml  the source is a model of Hugging Face's form: a snapshot of step 0 of that "
     "run\n"
     "  --overwrite           replaces what has the destination's name, once the new one is whole\n"
     "\n"
     "FOLDER, SOURCE: one snapshot, or the folder of many, of which convert takes the newest.\n"},
    {"calibrate", "[--out FILE] [--disk FOLDER] [--threads N,N] [--seconds S]",
     "measure this machine for device.model=FILE", calibrate_command,
     "  --out FILE            write them to this file too, which device.model then names\n"
     "  --disk FOLDER         measure the disk of this folder too\n"
     "  --threads N,N         of a rank, a measurement each; 1, half of the cores and all where not given\n"
     "  --seconds S           about what it may take, without the disk; 15 where not given\n"},
    {"tokenize",
     "--tokenizer FILE|FOLDER --output FILE INPUT... [--format llm.c|headerless|megatron]\n"
     "           [--dtype uint16|uint32] [--key text] [--end-of-document TOKEN|none] [--threads N]",
     "make a token file of text (*.txt, *.jsonl, folders)", tokenize_command,
     "  --tokenizer           tokenizer.json, vocab.json with merges.txt, or vocab.txt; or their folder\n"
     "  --output FILE         the token file; of megatron, what its two files have in common\n"
     "  --format              llm.c (default), headerless or megatron\n"
     "  --dtype               of a headerless file; as narrow as the vocabulary allows otherwise\n"
     "  --key                 of the text in *.jsonl; text where not given\n"
     "  --end-of-document     what follows each text; <|endoftext|> or [SEP] where not given\n"
     "  --threads             all cores where not given\n"},
    {"config",
     "show CONFIG.yaml [section.key=value ...] [--ranks N] | import FILE | schema |\n"
     "           reference",
     "print resolved values with their origin, another trainer's file as ours, a JSON Schema, or all keys",
     config_command,
     "  show                  every value of a run as YAML, with a comment that says where it comes from\n"
     "  --ranks N             what N ranks would make of it; as many as it asks for otherwise\n"
     "  import FILE           DeepSpeed's JSON, Transformers' TrainingArguments as JSON, or accelerate's "
     "YAML "
     "as our\n"
     "                        YAML; what has no equivalent is listed on standard error, with the reason\n"
     "  schema                JSON Schema, draft 7; an editor then completes and checks configurations\n"
     "  reference             every key, its values, its default and its meaning, as Markdown\n"},
    {"doctor", "[--json] [--disk FOLDER]",
     "examine this machine: can it train, and what to do where it cannot", doctor_command,
     "  --disk FOLDER         the folder whose disk is examined; this one where not given\n"
     "  --json                the same as JSON\n"
     "\n"
     "Trains a tiny model, alone and on two ranks of mpirun, in a temporary folder.\n"
     "Exit code 0: training on the CPU works; 2: it does not.\n"},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

std::string usage() {
  std::string text;
  for (const Command& command : commands())
    text += fmt::format("{} recollect {} {}\n           {}\n", text.empty() ? "usage:" : "      ",
                        command.name, command.arguments, command.help);
  return text +
         "\n"
         "--help prints this, COMMAND --help more of one command, --version the version.\n"
         "Several ranks: recollect run --nproc-per-node N train ... on one node, or mpirun -np N recollect "
         "train ...,\n"
         "with N = data_parallel_size x tensor_parallel_size.\n";
}

std::string usage_of(const Command& command) {
  const std::string_view details = command.details;
  return fmt::format("usage: recollect {} {}\n\n{}\n{}{}", command.name, command.arguments, command.help,
                     details.empty() ? "" : "\n", details);
}

std::string usage_hint(const Command* command) {
  if (!command) return "recollect --help lists the commands";
  const std::string_view arguments = command->arguments;
  const std::size_t line = arguments.find('\n');
  return fmt::format("usage: recollect {} {}{}\n  recollect {} --help says more", command->name,
                     arguments.substr(0, line), line == std::string_view::npos ? "" : " ...", command->name);
}

}  // namespace recollect
