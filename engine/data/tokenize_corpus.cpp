#include "engine/data/tokenize_corpus.h"

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "engine/core/error.h"
#include "engine/data/corpus.h"

namespace recollect {
namespace {

struct Encoded {
  std::vector<uint32_t> ids;
  std::vector<std::size_t> document_ends;
};

class Work {
 public:
  Work(const Tokenizer& tokenizer, const CorpusSpec& spec, const TakeTokens& take,
       const std::function<void(uint64_t, uint64_t)>& progress)
      : tokenizer_(tokenizer),
        spec_(spec),
        corpus_(spec.inputs, tokenizer),
        take_(take),
        progress_(progress) {}

  uint64_t run() {
    std::vector<std::jthread> helpers;
    for (int i = 1; i < spec_.threads; ++i) helpers.emplace_back([this] { encode_chunks(); });
    encode_chunks();
    helpers.clear();
    if (error_) std::rethrow_exception(error_);
    if (!any_) throw Error(ExitCode::kInput, "the input holds no text");
    return done_;
  }

 private:
  void encode_chunks() {
    try {
      EncodingMemory memory;
      Chunk chunk;
      Encoded encoded;
      while (encode_next(chunk, encoded, memory)) {
      }
    } catch (...) {  // no memory for those: there is no turn to wait for
      const std::lock_guard lock(writing_);
      stop(std::current_exception());
    }
  }

  // Takes a chunk, encodes it, and writes it when all before it are written. False when there is none, or one
  // has failed.
  bool encode_next(Chunk& chunk, Encoded& encoded, EncodingMemory& memory) {
    uint64_t number = 0;
    std::exception_ptr failure;
    {
      const std::lock_guard lock(reading_);
      number = taken_;
      try {
        if (ended_ || !corpus_.next(chunk)) return false;
      } catch (...) {
        failure = std::current_exception();
        ended_ = true;
      }
      ++taken_;
    }
    try {
      if (!failure) encode(chunk, encoded, memory);
    } catch (...) {
      failure = std::current_exception();
    }
    return write(number, chunk, encoded, failure);
  }

  bool write(uint64_t number, const Chunk& chunk, const Encoded& encoded, const std::exception_ptr& failure) {
    std::unique_lock lock(writing_);
    turn_.wait(lock, [&] { return written_ == number || error_; });
    if (error_) return false;
    try {
      if (failure) std::rethrow_exception(failure);
      take_(encoded.ids, encoded.document_ends);
      any_ |= !encoded.ids.empty();
      done_ += chunk.text.size();
      progress_(done_, corpus_.bytes());
    } catch (...) {
      stop(std::current_exception());
      return false;
    }
    ++written_;
    turn_.notify_all();
    return true;
  }

  // The lock on writing_ is held.
  void stop(std::exception_ptr error) {
    if (!error_) error_ = std::move(error);
    turn_.notify_all();
  }

  void encode(const Chunk& chunk, Encoded& encoded, EncodingMemory& memory) const {
    encoded.ids.clear();
    encoded.document_ends.clear();
    const auto end_document = [&] {
      if (spec_.end_of_document) encoded.ids.push_back(*spec_.end_of_document);
      encoded.document_ends.push_back(encoded.ids.size());
    };
    const std::string_view text = chunk.text;
    if (!chunk.is_jsonl) {
      if (const std::size_t bad = first_invalid_utf8(text); bad != std::string_view::npos)
        throw Error(ExitCode::kInput,
                    fmt::format("{}: byte {}: not UTF-8", chunk.file->path(), chunk.begin + bad),
                    "convert the file, for example with iconv");
      tokenizer_.encode(text, memory, encoded.ids, chunk.begin > 0);
      if (chunk.ends_file()) end_document();
      return;
    }
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t newline = std::min(text.find('\n', begin), text.size());
      const std::string_view line = text.substr(begin, newline - begin);
      const std::size_t before = encoded.ids.size();
      if (line.find_first_not_of(" \t\r") != std::string_view::npos)
        tokenizer_.encode(text_of_json(line, spec_.key, chunk.file->path(), chunk.begin + begin), memory,
                          encoded.ids);
      if (encoded.ids.size() > before)
        end_document();
      else if (spec_.blank_records)
        ++*spec_.blank_records;
      begin = newline + 1;
    }
  }

  const Tokenizer& tokenizer_;
  const CorpusSpec& spec_;
  std::mutex reading_;  // guards what the next chunk is
  Corpus corpus_;
  uint64_t taken_ = 0;
  bool ended_ = false;
  std::mutex writing_;  // guards the rest
  std::condition_variable turn_;
  const TakeTokens& take_;
  bool any_ = false;
  const std::function<void(uint64_t, uint64_t)>& progress_;
  uint64_t written_ = 0, done_ = 0;
  std::exception_ptr error_;
};

}  // namespace

std::optional<uint32_t> usual_end_of_document(const Tokenizer& tokenizer) {
  if (const auto& end = tokenizer.special().eos) return end;
  for (const char* usual : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[SEP]"})
    if (const auto id = tokenizer.find(usual)) return id;
  return std::nullopt;
}

uint64_t tokenize_corpus(const Tokenizer& tokenizer, const CorpusSpec& spec, const TakeTokens& take,
                         const std::function<void(uint64_t, uint64_t)>& progress) {
  return Work(tokenizer, spec, take, progress).run();
}

uint64_t tokenize_corpus(const Tokenizer& tokenizer, const CorpusSpec& spec, TokenWriter& writer,
                         const std::function<void(uint64_t, uint64_t)>& progress) {
  const TakeTokens take = [&](std::span<const uint32_t> ids, std::span<const std::size_t> document_ends) {
    writer.append(ids, document_ends);
  };
  return tokenize_corpus(tokenizer, spec, take, progress);
}

}  // namespace recollect
