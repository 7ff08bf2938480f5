#include "engine/data/tokenizer/other_classes.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace recollect {
namespace {

// Those of tokenization_*.py in Transformers 5.24 whose constructor makes a tokenizer, or that read files of their own.
constexpr std::string_view kMakeAnew[] = {
    "AlbertTokenizer",
    "BarthezTokenizer",
    "BartphoTokenizer",
    "BertGenerationTokenizer",
    "BertJapaneseTokenizer",
    "BertweetTokenizer",
    "BigBirdTokenizer",
    "BioGptTokenizer",
    "BlenderbotSmallTokenizer",
    "BlenderbotTokenizer",
    "ByT5Tokenizer",
    "CLIPTokenizer",
    "CTRLTokenizer",
    "CamembertTokenizer",
    "CanineTokenizer",
    "CodeGenTokenizer",
    "CohereTokenizer",
    "CpmTokenizer",
    "CodeLlamaTokenizer",
    "DebertaTokenizer",
    "DebertaV2Tokenizer",
    "EsmTokenizer",
    "EsmcTokenizer",
    "FNetTokenizer",
    "FSMTTokenizer",
    "FlaubertTokenizer",
    "FunnelTokenizer",
    "GPTNeoXJapaneseTokenizer",
    "GPTSw3Tokenizer",
    "HerbertTokenizer",
    "LasrTokenizer",
    "LayoutLMv2Tokenizer",
    "LayoutLMv3Tokenizer",
    "LayoutXLMTokenizer",
    "LukeTokenizer",
    "M2M100Tokenizer",
    "MBart50Tokenizer",
    "MBartTokenizer",
    "MLukeTokenizer",
    "MPNetTokenizer",
    "MarianTokenizer",
    "MarkupLMTokenizer",
    "NllbTokenizer",
    "NougatTokenizer",
    "OpenAIGPTTokenizer",
    "PLBartTokenizer",
    "PegasusTokenizer",
    "PhobertTokenizer",
    "ProphetNetTokenizer",
    "Qwen3_5Tokenizer",
    "ReformerTokenizer",
    "RemBertTokenizer",
    "RoCBertTokenizer",
    "RoFormerTokenizer",
    "SeamlessM4TTokenizer",
    "Siglip2Tokenizer",
    "SiglipTokenizer",
    "Speech2TextTokenizer",
    "SpeechT5Tokenizer",
    "SplinterTokenizer",
    "TapasTokenizer",
    "UdopTokenizer",
    "Wav2Vec2CTCTokenizer",
    "WhisperTokenizer",
    "XGLMTokenizer",
    "XLMTokenizer",
    "XLNetTokenizer",
};

}  // namespace

bool makes_what_is_not_followed(const std::string& name) {
  return std::find(std::begin(kMakeAnew), std::end(kMakeAnew), name) != std::end(kMakeAnew);
}

}  // namespace recollect
