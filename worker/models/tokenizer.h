#ifndef LONGWAVE_WORKER_MODELS_TOKENIZER_H_
#define LONGWAVE_WORKER_MODELS_TOKENIZER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace longwave {

// A byte-level BPE, as `python -m longwave.make_tokens` learns it and PyPI's tokenizers store it
// (tokenizer.json).
class Tokenizer {
 public:
  // Errors: NotFound and others (the file cannot be read), InvalidArgument (it is no byte-level
  // BPE).
  static absl::StatusOr<Tokenizer> Read(const std::string& path);

  // The tokens of a text. Words are parted as that package parts them, but for letters and digits
  // beyond ASCII, which all count as letters.
  std::vector<int64_t> Encode(std::string_view text) const;
  // The token's bytes, of which a character may have several tokens; empty for an unknown one.
  std::string_view BytesOf(size_t token) const;
  // The number that is one past the largest token.
  size_t size() const { return bytes_.size(); }

 private:
  struct Merge {
    size_t rank;  // the smallest of those that are possible is carried out first
    int64_t token;
  };

  void EncodeWord(std::string_view word, std::vector<int64_t>* tokens) const;

  std::vector<std::string> bytes_;  // by token
  std::vector<int64_t> of_byte_;    // the token of each single byte
  std::map<std::pair<int64_t, int64_t>, Merge> merges_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_TOKENIZER_H_
