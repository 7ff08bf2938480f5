// What others call the model's sizes, and what they do with the whole of it, where it is no alias of ours.
#include "launch/config/foreign_keys.h"

namespace recollect {

namespace {

constexpr std::string_view
    kAsItsConfig = "write it as the model's config.json calls it, in section 'model'",
    kDropouts =
        "write the model's, as its config.json calls them, in section 'model'; `recollect config reference` "
        "lists those of each type",
    kOfTheType = "each type of model has its own: write type in section 'model'",
    kSizes = "write type and sizes in section 'model', or pretrained: FOLDER";

constexpr ForeignKey kModelKeys[] = {
    {"model", "PyTorch", "model.pretrained", ""},
    {"num_layers", "Megatron", "", kAsItsConfig},
    {"num_heads", "PyTorch", "", kAsItsConfig},
    {"kv_channels", "Megatron", "", kAsItsConfig},
    {"group_query_attention", "Megatron", "", "write num_key_value_heads in section 'model'"},
    {"swiglu", "Megatron", "model.type", kOfTheType},
    {"normalization", "Megatron", "model.type", kOfTheType},
    {"position_embedding_type", "Megatron", "model.type", kOfTheType},
    {"hidden_dropout", "Megatron", "", kDropouts},
    {"resid_dropout", "PyTorch", "", kDropouts},
    {"embd_dropout", "PyTorch", "", kDropouts},
    {"embedding_dropout", "PyTorch", "", kDropouts},
    {"attention_dropout", "Megatron", "", kDropouts},
    {"attn_dropout", "PyTorch", "", kDropouts},
    {"d_model", "PyTorch", "", kAsItsConfig},
    {"model.dim", "torchtitan", "", kAsItsConfig},
    {"dropout", "nanoGPT", "", kDropouts},
    {"model.name", "torchtitan", "model.type", kSizes},
    {"model.size", "PyTorch", "model.type", kSizes},
    {"model.path", "PyTorch", "model.pretrained", ""},
    {"model.weights", "PyTorch", "model.pretrained", ""},
    {"ffn_hidden_size", "Megatron", "model.intermediate_size", ""},
    {"max_sequence_length", "Megatron", "data.sequence_length", ""},
    {"flavor", "torchtitan", "model.type", kSizes},
    {"elasticity", "DeepSpeed", "", "not supported: a resumed run may have other ranks"},
    {"autotuning", "DeepSpeed", "", "recollect estimate CONFIG.yaml --compare and --max-micro-batch choose"},
    {"hybrid_engine", "DeepSpeed", "",
     "not supported: recollect generate continues texts, apart from training"},
    {"sparse_attention", "DeepSpeed", "", "not supported: attention is whole"},
    {"progressive_layer_drop", "DeepSpeed", "", "not supported: all layers are trained"},
};

}  // namespace

std::span<const ForeignKey> foreign_model_keys() { return kModelKeys; }

}  // namespace recollect
