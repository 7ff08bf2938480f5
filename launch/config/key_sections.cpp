// The sections that keys stand in, in the order in which they are printed, and a sentence on each.
#include "launch/config/key_list.h"
#include "parallel/models/families.h"

namespace recollect {

namespace {

struct SectionHelp {
  std::string_view section, help;
};
constexpr SectionHelp kSectionHelp[] = {
    {"", "Where the run's own files go."},
    {"model", "What is trained. The names are those of Hugging Face's config.json."},
    {"lora", "Adapters of low rank, which are trained in place of the model's weights, in PEFT's form."},
    {"parallelism", "How the work is divided over ranks: tensor_parallel_size x data_parallel_size of them."},
    {"device", "What each rank computes with, and how much memory it may take."},
    {"training",
     "How much, how often and in what precision. Any two of micro_batch_size, global_batch_size and "
     "gradient_accumulation_steps determine the third."},
    {"optimizer", "The update rule."},
    {"scheduler",
     "The learning rate over the steps; optimizer.learning_rate is its peak. A file that says nothing of it "
     "trains with a "
     "constant one, without warm-up."},
    {"activation_checkpointing",
     "What becomes of the activations between forward and backward: recomputed, partitioned, sent away."},
    {"activation_checkpointing.disk_checkpointing", "The disk as the place where saved activations wait."},
    {"data", "What is trained on."},
    {"data.columns", "Where tables hold what is read: names of columns, or of a record's keys."},
    {"evaluation", "A loss and metrics on other data, now and then."},
    {"checkpoint", "What is saved."},
    {"snapshot", "All that the next step depends on, saved now and then, so that nothing is lost."},
    {"numerics", "What is done about numbers that cannot be right."},
    {"logging", "What the run says of itself."},
    {"memory_report", "What each rank says of its memory and its time, when, and in what form."},
    {"profiling", "The one step whose ops are timed."},
    {"debug", "For looking inside."},
};

}  // namespace

std::vector<std::string_view> list_sections(const ModelFamily& family) {
  std::vector<std::string_view> sections;
  for (const SectionHelp& entry : kSectionHelp)
    if (!entry.section.empty()) sections.push_back(entry.section);
  for (const ModelSection& section : family.sections) sections.insert(sections.begin() + 1, section.path);
  return sections;
}

std::string_view help_of_section(std::string_view section) {
  for (const SectionHelp& entry : kSectionHelp)
    if (entry.section == section) return entry.help;
  for (const ModelFamily& family : model_families())
    for (const ModelSection& entry : family.sections)
      if (entry.path == section) return entry.help;
  return "";
}

}  // namespace recollect
