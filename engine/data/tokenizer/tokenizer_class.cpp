#include "engine/data/tokenizer/tokenizer_class.h"

#include <optional>
#include <string_view>

namespace recollect {
namespace {

struct Named {
  std::string_view name;
  TokenizerClass value;
};

constexpr Named kClasses[] = {{"GPT2Tokenizer", TokenizerClass::kGpt2},
                              {"BertTokenizer", TokenizerClass::kBert},
                              {"DistilBertTokenizer", TokenizerClass::kBert},
                              {"ElectraTokenizer", TokenizerClass::kBert},
                              {"MobileBertTokenizer", TokenizerClass::kBert},
                              {"SqueezeBertTokenizer", TokenizerClass::kBert},
                              {"LayoutLMTokenizer", TokenizerClass::kBert},
                              {"LxmertTokenizer", TokenizerClass::kBert},
                              {"Qwen2Tokenizer", TokenizerClass::kQwen2},
                              {"LlamaTokenizer", TokenizerClass::kLlama},
                              {"PreTrainedTokenizer", TokenizerClass::kAsFile},
                              {"PreTrainedTokenizerFast", TokenizerClass::kAsFile},
                              {"TokenizersBackend", TokenizerClass::kAsFile},
                              {"PythonBackend", TokenizerClass::kAsFile},
                              {"BloomTokenizer", TokenizerClass::kAsFile},
                              {"Phi3Tokenizer", TokenizerClass::kLlama},
                              {"RobertaTokenizer", TokenizerClass::kRoberta},
                              {"BartTokenizer", TokenizerClass::kRoberta},
                              {"LEDTokenizer", TokenizerClass::kRoberta},
                              {"LongformerTokenizer", TokenizerClass::kRoberta},
                              {"MvpTokenizer", TokenizerClass::kRoberta},
                              {"GPTNeoXTokenizer", TokenizerClass::kGptNeoX},
                              {"GemmaTokenizer", TokenizerClass::kGemma},
                              {"T5Tokenizer", TokenizerClass::kT5},
                              {"XLMRobertaTokenizer", TokenizerClass::kXlmRoberta}};

// Transformers' TOKENIZER_MAPPING_NAMES: a model type's tokenizer class where no file names one. For types in the
// row of kAsFile, tokenizer.json counts as it is, whatever a file says. Other types have no class of their own.
struct Models {
  TokenizerClass value;
  std::string_view names;
};
constexpr Models kModels[] = {
    {TokenizerClass::kGpt2,
     "blip-2 codegen dbrx emu3 gpt2 gpt_neo gptj hyperclovax_vision_v2 instructblip instructblipvideo "
     "jais2 opt phi starcoder2"},
    {TokenizerClass::kRoberta,
     "bart bridgetower clap data2vec-text florence2 ibert led lilt longformer mega mra mvp roberta "
     "roberta-prelayernorm"},
    {TokenizerClass::kGptNeoX, "falcon_mamba gpt_neox mamba mamba2 mpt olmo olmoe rwkv xlstm"},
    {TokenizerClass::kBert,
     "align bark bert blip bros chinese_clip convbert distilbert electra ernie flava git "
     "grounding-dino layoutlm lxmert megatron-bert mm-grounding-dino mobilebert nezha nomic_bert qdqbert "
     "realm "
     "retribert squeezebert tvp vilt visual_bert"},
    {TokenizerClass::kQwen2,
     "audioflamingo3 colqwen2 cosmos3_omni dots3_note fun_asr_nano hunyuan_vl internvl lighton_ocr "
     "moss_transcribe_diarize ovis2 qianfan_ocr qwen2 qwen2_5_omni qwen2_5_vl qwen2_audio qwen2_moe "
     "qwen2_vl qwen3 qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe qwen3_vl qwen3_vl_moe vibevoice"},
    {TokenizerClass::kLlama, "idefics idefics2"},
    {TokenizerClass::kGemma,
     "diffusion_gemma gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma "
     "shieldgemma2 t5gemma zaya"},
    {TokenizerClass::kT5, "mt5 musicgen musicgen_melody switch_transformers t5"},
    {TokenizerClass::kXlmRoberta, "gte jina_embeddings_v3 metaclip_2 trocr xlm-roberta xmod"},
    {TokenizerClass::kAsFile,
     "EvollaModel arctic aria beam bigbird_pegasus camembertv2-base canary chatlm cohere_asr ernie4_5 "
     "ernie4_5_moe flex_olmo fuyu glm glm4 glm4_moe glm4_moe_lite glm4v glm4v_moe glm_image glmasr "
     "got_ocr2 gpt_bigcode gradium_phonon_tts granite granitemoe granitemoehybrid granitemoeshared "
     "h2ovl_chat hyperclovax hyperclovax_vlm internlm2 internlm3 iquestcoder jamba kimi_k25 "
     "kimi_linear kosmos-2 llava llava_next mimo_v2_flash minicpm3 minicpm_ocr minicpmv minicpmv4_6 "
     "minicpmv4_7 minimax_m2 ministral ministral3 mistral mistral3 mistral_large4 mixtral modernbert "
     "modernbert-decoder molmo molmo2 nemo_speechlm nemotron nvfp4 nystromformer olmo2 olmo3 "
     "olmo_hybrid omniasr opencua openvla paddleocr_vl pegasus_x persimmon phi3 phi3_v phimoe "
     "pix2struct pixtral pocket_tts smolvlm stablelm step3_vl umt5 vipllava voxtral voxtral_realtime "
     "xlm-roberta-xl"},
    {TokenizerClass::kOther,
     "aimv2 albert aya_vision barthez bartpho bert-generation bert-japanese bertweet big_bird biogpt "
     "blenderbot blenderbot-small byt5 camembert canine clip clipseg clvp code_llama cohere cohere2 "
     "cpm cpmant ctrl data2vec-audio deberta deberta-v2 dia dpr esm esmc esmfold2 flaubert fnet fsmt "
     "funnel gpt-sw3 gpt_neox_japanese granite_speech5_ctc groupvit herbert hubert lasr_ctc "
     "lasr_encoder layoutlmv2 layoutlmv3 layoutxlm luke m2m_100 marian markuplm mbart mbart50 mgp-str "
     "mluke mpnet myt5 nemotron3_5_asr nemotron_asr_streaming nllb nllb-moe nougat omdet-turbo "
     "omniasr_ctc oneformer openai-gpt owlv2 owlvit parakeet_ctc parakeet_rnnt parakeet_tdt pegasus "
     "perceiver phobert plbart pp_formulanet prophetnet qwen3_5 qwen3_5_moe qwen3_5_moe_text "
     "qwen3_5_text qwen4_exp rag reformer rembert roc_bert roformer sam3 sam3_video seamless_m4t "
     "seamless_m4t_v2 siglip siglip2 speech_to_text speecht5 splinter tapas tipsv2 udop unispeech "
     "unispeech-sat videoprism vits wav2vec2 wav2vec2-bert wav2vec2-conformer wav2vec2_phoneme whisper "
     "xclip xglm xlm xlnet yoso"}};

// Nothing if the model type has no class of its own.
std::optional<TokenizerClass> class_of_model(const std::string& type) {
  for (const Models& row : kModels)
    for (std::size_t at = row.names.find(type); !type.empty() && at != std::string_view::npos;
         at = row.names.find(type, at + 1)) {
      const std::size_t end = at + type.size();
      if ((at == 0 || row.names[at - 1] == ' ') && (end == row.names.size() || row.names[end] == ' '))
        return row.value;
    }
  return std::nullopt;
}

}  // namespace

TokenizerClass tokenizer_class_of(const std::string& name) {
  for (const Named& known : kClasses)
    if (known.name == name) return known.value;
  return TokenizerClass::kOther;
}

TokenizerClass choose_tokenizer_class(const FilesBeside& beside, bool byte_level) {
  if (beside.tokenizer_class.empty() && beside.model_type.empty()) return TokenizerClass::kUnsaid;
  const std::optional<TokenizerClass> of_model = class_of_model(beside.model_type);
  if (beside.tokenizer_class.empty()) return of_model.value_or(TokenizerClass::kAsFile);
  const TokenizerClass said = tokenizer_class_of(beside.tokenizer_class);
  if (said == TokenizerClass::kLlama && byte_level) return TokenizerClass::kAsFile;
  return of_model == TokenizerClass::kAsFile ? TokenizerClass::kAsFile : said;
}

TokenizerClass class_of_transformers(const FilesBeside& beside, bool byte_level) {
  return beside.model_type == "qwen2" ? TokenizerClass::kQwen2 : choose_tokenizer_class(beside, byte_level);
}

const char* tokenizer_class_name(TokenizerClass choice) {
  for (const Named& known : kClasses)  // the first name of its value
    if (known.value == choice && choice != TokenizerClass::kAsFile) return known.name.data();
  return "PreTrainedTokenizerFast";
}

VocabularyKind vocabulary_kind(TokenizerClass choice) {
  switch (choice) {
    case TokenizerClass::kBert:
      return VocabularyKind::kWordPieces;
    case TokenizerClass::kT5:
    case TokenizerClass::kXlmRoberta:
      return VocabularyKind::kScoredPieces;
    default:
      return VocabularyKind::kBytePairs;
  }
}

}  // namespace recollect
