// Text to token ids and back, the same as Transformers' AutoTokenizer has them: added tokens are looked for, what lies
// between is normalized and cut into words, and a model gives each word its tokens. Reading the files that say how is
// load_tokenizer()'s part.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/data/tokenizer/added_tokens.h"
#include "engine/data/tokenizer/decoder.h"
#include "engine/data/tokenizer/post_processor.h"
#include "engine/data/tokenizer/pre_tokenizer.h"
#include "engine/data/tokenizer/token.h"
#include "engine/data/tokenizer/word_cache.h"
#include "engine/data/tokenizer/word_encoder.h"

namespace recollect {

// What encoding remembers and reuses; one per thread, and for one tokenizer.
struct EncodingMemory {
  WordCache words;
  TracedText text;
  Pieces pieces;
  StepMemory steps;
  std::vector<uint32_t> ids;
  std::vector<ByteRange> ranges;
};

// The tokens that play a part of their own, as Transformers calls them.
struct SpecialIds {
  std::optional<uint32_t> cls = {}, sep = {}, pad = {}, mask = {}, unk = {}, bos = {}, eos = {};
};

// What Transformers' configuration of a tokenizer says of those who call it.
struct TokenizerHabits {
  bool cuts_left = false, pads_left = false;  // truncation_side, padding_side
  bool gives_types = true;                    // model_input_names; otherwise all types are 0
  int64_t longest = 0;                        // model_max_length; 0: without end
};

class Tokenizer {
 public:
  struct Added {
    std::string content;
    uint32_t id = 0;
    bool normalized = false;  // looked for in the text as normalization leaves it
    bool special = false;     // may be left out of decoded text
    bool single_word = false, takes_left = false, takes_right = false;  // as AddedToken has them
  };
  struct Parts {
    std::string source = {};  // for messages
    std::vector<std::string> tokens = {};
    std::unique_ptr<WordEncoder> encoder = {};
    // Steps, one after another. Where they are left out they are BERT's, or, where there are no options of BERT,
    // GPT-2's.
    std::shared_ptr<const Characters> characters = {};  // what the steps refer to
    std::optional<Normalizers> normalizers = {};
    std::optional<PreTokenizers> pre_tokenizers = {};
    std::optional<BertOptions> bert = {};
    bool prefix_space = false;  // GPT-2's: a text that does not begin with a blank gets one
    std::vector<Added> added = {};
    PostProcessor post_processor = {};
    DecoderOptions decoder = {};
    SpecialIds special = {};
    TokenizerHabits habits = {};
    std::vector<std::string> remarks = {};
  };

  explicit Tokenizer(Parts parts);
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  std::size_t vocabulary_size() const { return tokens_.size(); }
  std::optional<uint32_t> find(std::string_view token) const;
  const std::string& token(uint32_t id) const { return tokens_.at(id); }
  bool is_special(uint32_t id) const { return id < left_out_.size() && left_out_[id]; }
  const SpecialIds& special() const { return special_; }
  const TokenizerHabits& habits() const { return habits_; }
  // What the user should know of how the files were read.
  const std::vector<std::string>& remarks() const { return remarks_; }

  // Appends the ids of `text`, which is valid UTF-8 here and below, without special tokens around it. `continues`: it
  // goes on from a text that ended at a safe_cut().
  void encode(std::string_view text, EncodingMemory& memory, std::vector<uint32_t>& ids,
              bool continues = false) const;
  // Appends the tokens with their places in the text.
  void encode(std::string_view text, EncodingMemory& memory, std::vector<Token>& tokens) const;
  // A list of words, each by itself: places are those in a word, and Token::word numbers the list.
  void encode(std::span<const std::string_view> words, EncodingMemory& memory,
              std::vector<Token>& tokens) const;

  // What a model reads of one text or two, as `first` and `second` encode them: special tokens around them, cut as
  // the options say. The first window is what a cut leaves; the others are what it takes away, where
  // options.windows. Errors: kInput where a cut leaves nothing to read.
  std::vector<std::vector<Token>> assemble(std::span<const Token> first,
                                           std::optional<std::span<const Token>> second,
                                           const AssembleOptions& options) const;
  // Special tokens that assemble() adds to one text, or to two. Error kInput where the tokenizer's file says
  // something of them that is not carried out here.
  std::size_t special_tokens_around(bool pair) const;

  // Ids outside the vocabulary are passed over. The text is valid UTF-8. Error kInput where the tokenizer's file
  // says a way that is not known here.
  std::string decode(std::span<const uint32_t> ids, bool skip_special_tokens = false) const;

  // A place in [from, text.size()) such that what lies before it and what lies behind can be encoded by
  // themselves, or text.size() where there is none. `text` need not be valid.
  std::size_t safe_cut(std::string_view text, std::size_t from) const;

 private:
  void set_steps(Parts& parts);
  void set_cuts(const Parts& parts);
  bool reaches_back(const Added& token, std::string_view blank) const;
  std::string normalized(const std::string& text) const;
  std::vector<AddedToken> looked_for(const Parts& parts, bool in_normalized) const;
  void normalize(std::string_view text, uint32_t base, bool trace, bool continues,
                 EncodingMemory& memory) const;
  void cut(std::string_view text, const TextSpan* spans, uint32_t base, EncodingMemory& memory) const;

  void encode_piece(std::string_view text, uint32_t base, bool continues, EncodingMemory& memory,
                    std::vector<uint32_t>& ids) const;
  void encode_words(EncodingMemory& memory, std::vector<uint32_t>& ids) const;
  void encode_word(std::string_view word, WordCache& cache, std::vector<uint32_t>& ids) const;

  void trace_piece(std::string_view text, uint32_t base, int32_t& word, EncodingMemory& memory,
                   std::vector<Token>& tokens) const;
  void trace_words(int32_t& word, EncodingMemory& memory, std::vector<Token>& tokens) const;
  void trim_blanks(std::span<Token> tokens) const;

  std::shared_ptr<const Characters> characters_;
  std::vector<std::string> tokens_;
  std::unique_ptr<WordEncoder> encoder_;
  Normalizers normalizers_;
  PreTokenizers pre_tokenizers_;
  std::optional<AddedTokens> added_, added_normalized_;
  PostProcessor post_processor_;
  SpecialIds special_;
  TokenizerHabits habits_;
  std::vector<std::string> remarks_;
  Decoder decoder_;
  std::unordered_map<uint32_t, std::string> respelled_;  // tokens that decode as normalization left them
  std::vector<bool> left_out_;  // of every token: special, and decoded only where these are wanted
  std::vector<bool> there_;     // of every id: whether it has a token
  bool traces_always_ = false;  // steps ask where in the original text a piece begins
  bool can_cut_ = true, can_cut_lines_ = true;
  std::string
      words_begin_with_;  // where not empty: a piece has the tokens of its parts, cut before every one of these
};

// `path`: tokenizer.json; vocab.json, with merges.txt beside it (or prefix-vocab.json and prefix-merges.txt);
// a WordPiece vocab.txt; or a folder that holds one of these, looked for in this order. It is the tokenizer that AutoTokenizer
// of Transformers 5 makes of the folder, with the files that lie beside (as_tokenizer_json.h). Errors: kInput naming file and
// place for what is missing, damaged or contradicts itself, and for every setting that is not carried out here.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

// The files that are read there, with what a folder must call them to be loaded as the same tokenizer. None where
// there is no tokenizer.
struct TokenizerFile {
  std::string path, name;
};
std::vector<TokenizerFile> parts_of_tokenizer(const std::string& path);

// Its habits().longest, of which no vocabulary is read; 0 too where nothing can be read.
int64_t longest_of_tokenizer(const std::string& path);

// Every file that load_tokenizer() might read there.
std::vector<std::string> files_of_tokenizer(const std::string& path);

}  // namespace recollect
