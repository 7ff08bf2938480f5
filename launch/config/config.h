// The whole configuration of a run as plain typed data, one struct per section. A Config that `read_config`
// returned is complete and consistent: every key has its value, defaults derived from other keys included.
// What depends on the number of ranks (data_parallel_size, the batch sizes) is complete after
// `resolve_world`.
//
// The names, ranges and help of the keys live in one table, key_list.cpp, their aliases in foreign_names.cpp;
// those of a model family in its own (parallel/models).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "checkpointing/settings.h"
#include "comm/communicator_kind.h"
#include "engine/core/precision.h"
#include "engine/core/spelled.h"
#include "engine/data/bad_records.h"
#include "engine/data/chat/learn.h"
#include "engine/data/data_format.h"
#include "engine/data/packing.h"
#include "engine/data/tokenizer/post_processor.h"
#include "engine/io/problems.h"
#include "engine/ops/backend_kind.h"
#include "engine/ops/cpu_isa.h"
#include "engine/optim/learning_rate.h"
#include "parallel/models/families.h"
#include "parallel/optimizers/rules.h"
#include "parallel/tasks/task.h"

namespace recollect {

struct DeviceModel;

enum class CudaGraph { kAuto, kOff };
template <>
inline constexpr std::array<std::string_view, 2> kSpellings<CudaGraph> = {"auto", "off"};

enum class PinnedMemory { kPreferred, kRequired };
template <>
inline constexpr std::array<std::string_view, 2> kSpellings<PinnedMemory> = {"preferred", "required"};

enum class ProgressStyle { kAuto, kOn, kOff };
template <>
inline constexpr std::array<std::string_view, 3> kSpellings<ProgressStyle> = {"auto", "on", "off"};

// To what length the sequences of a micro-batch are padded: always the same; that of the longest; that of the
// longest, rounded up to one of a few.
enum class Padding { kMax, kLongest, kBucket };
template <>
inline constexpr std::array<std::string_view, 3> kSpellings<Padding> = {"max", "longest", "bucket"};

// When the programs of further lengths are made.
enum class CompileTime { kLazy, kAhead };
template <>
inline constexpr std::array<std::string_view, 2> kSpellings<CompileTime> = {"lazy", "ahead"};

// What becomes of a step whose loss or gradients are not finite where no smaller loss scale helps.
enum class OnNonFinite { kStop, kSkip, kRollback };
template <>
inline constexpr std::array<std::string_view, 3> kSpellings<OnNonFinite> = {"stop", "skip", "rollback"};

enum class ReportFormat { kTable, kJson, kHtml, kTrace };
template <>
inline constexpr std::array<std::string_view, 4> kSpellings<ReportFormat> = {"table", "json", "html",
                                                                             "trace"};

struct Config {
  struct Model {
    Model() : Model(model_families().front()) {}
    explicit Model(const ModelFamily& family) : type(family.type), values(family.keys) {}

    std::string type;
    std::string config;      // path of a Hugging Face config.json, or ""
    std::string pretrained;  // directory with config.json and model.safetensors, or ""
    ModelValues values;      // of the family's keys; open ones only before `read_config` has completed them

    const ModelFamily& family() const { return model_family(type); }
    ModelFacts facts() const { return family().facts(values); }
  };

  // Adapters in place of all weights (parallel/lora.h).
  struct Lora {
    int64_t rank = 0;  // 0: there are none
    double alpha = 8;
    double dropout = 0;
    std::vector<std::string> targets = {};  // empty only before `read_config` has made them the family's
    bool rslora = false;
    std::vector<std::string> modules_to_save = {};  // where not given the task's head
    std::vector<std::string> exclude_modules = {};
    std::vector<std::string> layers_to_transform = {};  // numbers; empty: all layers
    std::vector<std::string> layers_pattern = {};
    NumbersByPattern rank_pattern = {}, alpha_pattern = {};
    std::string path;                          // folder of adapters to start from, or ""
    bool merge = false;                        // what is saved is merged, too
    WeightFormat base = WeightFormat::kWhole;  // how frozen weights of linear modules are stored
    bool double_quant = false;
    std::vector<std::string> base_skip_modules = {};
    bool save_base = false;  // what they are is saved, too
  };

  struct Parallelism {
    int64_t tensor_parallel_size = 1;
    int64_t data_parallel_size = 0;  // 0: world / tensor_parallel_size
    bool sequence_parallel = false;
    CommunicatorKind communicator = CommunicatorKind::kAuto;
    int64_t ranks_per_process = 1;
    int64_t timeout_seconds = 120;
    int64_t gradient_bucket_mb = 25;  // MiB of gradients per all-reduce over the data axis
    // In which tensor ranks' collectives run beside products; 0: they do not; -1: chosen by the simulator
    // where every rank has a spare core.
    int64_t collective_pieces = -1;
    // The two halves of a micro-batch take turns, one's collectives beside the other's ops.
    bool overlap_halves = false;
    int64_t halves() const { return overlap_halves ? 2 : 1; }  // of a micro-batch
    // DeepSpeed's: the data axis divides optimizer states (1), gradients too (2), parameters too (3).
    int64_t zero_stage = 0;
  };

  struct Device {
    BackendKind backend = BackendKind::kCpu;
    CpuIsa isa = CpuIsa::kAuto;  // of backend cpu
    int64_t threads = 0;         // per rank; 0: its share of the cores
    int64_t memory_limit = 0;    // bytes per rank; 0: none
    CudaGraph cuda_graph = CudaGraph::kAuto;
    PinnedMemory pinned = PinnedMemory::kPreferred;
    bool tf32 = false;              // products of fp32 training in TF32
    bool gelu_in_products = false;  // the tanh form is part of the MLP's products
    std::string model;  // preset or file of rates; "" only before `read_config` has made it the backend's
    // Of no key: what the run has measured, in place of the model.
    std::shared_ptr<const DeviceModel> measured = {};
    // Of no key: a rank's rates on this machine, by which times are shown and nothing is decided. Null: not known.
    std::shared_ptr<const DeviceModel> of_machine = {};
    // Of no key either, and the same on all ranks: every rank has a core beside those that its threads take.
    bool spare_cores = true;
    // Of no key: cores of this rank, once the ranks have compared theirs; 0 before.
    int64_t cores = 0;
  };

  struct Training {
    int64_t micro_batch_size = 0;             // sequences per data-parallel rank and micro-batch
    int64_t global_batch_size = 0;            // sequences per optimizer step; 0 only before `resolve_world`
    int64_t gradient_accumulation_steps = 0;  // micro-batches per optimizer step
    int64_t max_steps = 100;                  // 0: only evaluate; kOpenSteps while `epochs` says it
    double epochs = 0;                        // 0: max_steps counts. Else only before `complete_steps`
    Precision precision = Precision::kFP32;
    bool fp8 = false;              // products of the layers' linear modules in 8-bit codes
    bool fp8_weight_cache = true;  // those of weights are made once a step, of frozen ones once
    MasterDType master_dtype = MasterDType::kFP32;
    double loss_scale = -1;             // -1: dynamic with fp16, else none; 0: dynamic
    double initial_loss_scale = 65536;  // of a dynamic one
    int64_t loss_scale_window = 1000;   // steps without overflow before a dynamic one doubles
    int64_t seed = 42;
    CompileTime compile = CompileTime::kLazy;
    static constexpr int64_t kOpenSteps = std::numeric_limits<int32_t>::max();
    bool scales_loss() const { return loss_scale >= 0 || precision == Precision::kFP16; }
    bool dynamic_loss_scale() const { return scales_loss() && loss_scale <= 0; }
  };

  struct Optimizer {
    std::string name{optimizer_rules().front().name};
    double learning_rate = 3e-4;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    double momentum = 0;        // sgd only
    double beta2_decay = -0.8;  // these five adafactor's
    double clip_threshold = 1;
    double scale_epsilon = 1e-3;
    bool scale_parameter = true;
    RelativeStep relative_step = RelativeStep::kOff;
    bool nesterov = true;  // these three muon's
    int64_t ns_steps = 5;
    RateAdjustment adjust_lr_fn = RateAdjustment::kMatchRmsAdamw;
    double weight_decay = 0;
    bool decay_all = false;    // false: biases and norms are not decayed
    double max_grad_norm = 1;  // 0: no clipping
    double layer_decay = 1;    // of the learning rate, from each layer to the one before it
    struct Group {
      std::vector<std::string> match;
      std::optional<double> learning_rate = {}, weight_decay = {};
      bool frozen = false;
    };
    std::vector<Group> groups = {};
    OffloadTo offload = OffloadTo::kNone;                   // where states and masters are kept
    std::string offload_path = {};                          // a folder, of the disk
    double offload_ratio = 1;                               // of their bytes
    OffloadUpdate offload_update = OffloadUpdate::kDevice;  // of those in the host's memory
  };

  struct Scheduler {
    SchedulerName name = SchedulerName::kConstant;
    int64_t warmup_steps = 0;
    double warmup_ratio = 0;  // of training.max_steps; at most one of the two is not 0
    double min_lr = 0;
    int64_t num_cycles = 1;   // cosine_with_restarts
    double power = 1;         // polynomial
    int64_t timescale = 0;    // inverse_sqrt; 0: the warm-up's steps, or 10000 without one
    int64_t decay_steps = 0;  // warmup_stable_decay; exactly one of the two is not 0
    double decay_ratio = 0;   // of training.max_steps
    DecayShape decay_shape = DecayShape::kCosine;
    int64_t step_size = 0;   // step: not 0
    double gamma = 0.1;      // step
    double pct_start = 0.3;  // these three one_cycle
    double div_factor = 25;
    double final_div_factor = 1e4;
  };

  struct Data {
    DataFormat format = DataFormat::kText;
    std::vector<std::string> path;          // empty for random only
    std::vector<std::string> weights = {};  // of the entries of `path`, numbers; empty: their sizes
    int64_t sequence_length = 0;            // 0 only before `read_config` has made it the model's longest
    bool shuffle = true;
    int64_t seed = 0;                      // training.seed where not given
    TokenDtype dtype = TokenDtype::kAuto;  // of headerless token files
    OnBadRecord on_bad_record = OnBadRecord::kSkipBlank;
    int64_t low = 0;                        // random: ids are uniform in [low, high)
    int64_t high = 0;                       // 0 only before `read_config` has made it model.vocab_size
    int64_t samples = 0;                    // random: of an epoch; 0: there is no end
    std::vector<std::string> lengths = {};  // random: "64", "16-64" or "16-64:3"; empty: sequence_length
    int64_t constant_label = -1;            // random: every label; -1: labels are drawn
    int64_t prefetch = 2;                   // batches prepared ahead
    Packing packing = Packing::kNone;
    Padding padding = Padding::kMax;
    int64_t pad_to_multiple_of =
        0;  // 0 only with max, and before `read_config` has made it the padding's own
    bool group_by_length = false;
    struct Columns {
      std::string text, pair, label;                    // ""; the format's own
      std::string messages, prompt, completion, tools;  // of conversations in jsonl
    };
    Columns columns;                       // of csv, tsv and texts in jsonl
    std::string chat_template;             // a file, or a name in the tokenizer's folder; "": the folder's own
    Learn learn = Learn::kAuto;            // of conversations in jsonl
    bool header = true;                    // csv, tsv: the first line names the columns
    std::vector<std::string> labels = {};  // names of classes, in order
    std::string tokenizer;                 // of formats that hold texts
    Truncation truncation = Truncation::kLongestFirst;
    int64_t stride = 128;                          // question_answering: tokens that windows share
    int64_t choices = 4;                           // of a question: multiple_choice
    double mask_probability = 0.15;                // masked_lm, of data without labels
    int64_t mask_token = -1;                       // -1: none is given
    std::vector<std::string> special_tokens = {};  // ids that are never masked
  };

  struct Evaluation {
    std::vector<std::string> path;          // empty for random only
    DataFormat format = DataFormat::kText;  // data.format where not given
    int64_t every_steps = 0;                // and after the last step; 0: not by steps
    double every_epochs = 0;                // the same in epochs of the training data; at most one is not 0
    int64_t batches = 0;                    // micro-batches of each data rank, at most; 0: the whole set
    std::vector<std::string> metrics = {};  // empty: those of format and task (parallel/tasks/metrics.h)
    int64_t n_best = 20;                    // question_answering: starts and ends that are looked at
    int64_t max_answer_length = 30;         // tokens
    double null_threshold = 0;              // an answer must score more than that above none
    std::string metric_for_best_model = "loss";  // of kComparedMetrics (parallel/tasks/metrics.h)
    int64_t early_stopping_patience = 0;         // evaluations in a row that are not better; 0: any number
    double early_stopping_threshold = 0;         // by how much one must be better to count as such there
    bool runs() const { return every_steps > 0 || every_epochs > 0; }
  };

  struct Checkpoint {
    bool save_model = false;                 // model.safetensors and config.json at the end
    bool save_best_model = false;            // likewise of the best evaluation, in output_dir/best_model
    int64_t max_shard_size = 5'000'000'000;  // bytes of tensors in one file; 0: no limit
  };

  struct Snapshot {
    int64_t every_steps = 0;    // and after the last step; 0: not by steps
    double every_epochs = 0;    // at most one of these two is not 0
    int64_t every_minutes = 0;  // 0: not by the clock
    int64_t keep = 2;           // the newest ones
    std::string path;           // "": output_dir/snapshots
    bool asynchronous = true;   // a copy in host memory is written while training goes on
  };

  struct Numerics {
    OnNonFinite on_non_finite = OnNonFinite::kStop;
    int64_t max_non_finite = 3;  // skipped steps in a row, or rollbacks of the run
    double spike_z_score = 0;    // 0: losses are not looked at
    int64_t verify_every = 0;    // steps; 0: never
  };

  struct Logging {
    int64_t steps = 0;        // a line on the terminal every so many steps; 0: about twenty of the run
    double every_epochs = 0;  // in place of steps
    ProgressStyle progress = ProgressStyle::kAuto;
    std::vector<std::string> report_to = {"jsonl"};  // forms of metrics
    std::string tensorboard_dir;                     // "": output_dir/tensorboard
    std::string mlflow_dir;                          // "": output_dir/mlruns
    std::string hook;                                // command that gets every line of metrics, or ""
    bool verbose = false;                            // all that reports have, on the terminal too
  };

  struct MemoryReport {
    std::vector<std::string> at = {"start", "end"};                // and "step:N", when N steps are done
    std::vector<std::string> formats = {"json", "html", "trace"};  // of ReportFormat
  };

  struct Profiling {
    int64_t step = 0;  // whose ops are timed; 0: none. Not given: the third, or the last of fewer
  };

  struct Debug {
    std::string dump_gradients;  // file to write, or ""
    int64_t dump_step = 1;       // the first step is 1
  };

  Task task = Task::kCausalLm;  // one of the family's
  Model model;
  Lora lora;
  Parallelism parallelism;
  Device device;
  Training training;
  Optimizer optimizer;
  Scheduler scheduler;
  CheckpointingSettings activation_checkpointing;
  Data data;
  Evaluation evaluation;
  Checkpoint checkpoint;
  Snapshot snapshot;
  Numerics numerics;
  Logging logging;
  MemoryReport memory_report;
  Profiling profiling;
  Debug debug;
  std::string output_dir = "output";
  bool overwrite = false;  // the files of another run in output_dir
  std::string resume =
      "auto";  // from the newest snapshot of those that the run saves; "never"; or one's folder

  // Whether anything depends on which evaluation was the best.
  bool compares_evaluations() const {
    return training.max_steps > 0 && evaluation.runs() &&
           (checkpoint.save_best_model || evaluation.early_stopping_patience > 0);
  }
  bool saves_snapshots() const {
    return snapshot.every_steps > 0 || snapshot.every_epochs > 0 || snapshot.every_minutes > 0;
  }
  std::string snapshot_folder() const {
    return snapshot.path.empty() ? output_dir + "/snapshots" : snapshot.path;
  }

  // Key -> where it was given, for messages; "" -> the file, "data.path.0" -> an entry of a list. Not part of the
  // configuration: never compared, dumped or hashed.
  std::map<std::string, Place> origins;
  // Key -> "training.seed": how its value came about, where 0 or nothing had left it open. As `origins`.
  std::map<std::string, std::string> derived;
  // Key -> why it does nothing in a run as short as this. As `origins`.
  std::map<std::string, std::string> unreached;
  // What the file says and had to give way to the command line. As `origins`.
  std::vector<std::string> given_way;
};

}  // namespace recollect
