#include "worker/models/tokenizer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

// More is nobody's vocabulary.
constexpr int64_t kTokensMax = 1'000'000;

// The bytes behind the printable characters that stand for them in a vocabulary: a printable byte
// of Latin-1 for itself, each other byte for the next character from 256 on (GPT-2's table).
std::optional<std::string> BytesBehind(std::string_view name) {
  static const std::array<int, 324> kBytes = [] {
    std::array<int, 324> bytes;
    bytes.fill(-1);
    int next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool is_itself = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
      bytes[is_itself ? byte : next++] = byte;
    }
    return bytes;
  }();
  std::string text;
  for (size_t i = 0; i < name.size(); ++i) {
    size_t character = static_cast<unsigned char>(name[i]);
    // Two bytes of UTF-8; all characters of the table have at most that many.
    if (character >= 0xc0 && i + 1 < name.size())
      character = (character & 0x1f) << 6 | (static_cast<unsigned char>(name[++i]) & 0x3f);
    if (character >= kBytes.size() || kBytes[character] < 0) return std::nullopt;
    text += static_cast<char>(kBytes[character]);
  }
  return text;
}

enum class Kind : uint8_t { kLetter, kDigit, kSpace, kOther };
Kind KindOf(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x80 || absl::ascii_isalpha(byte)) return Kind::kLetter;
  return absl::ascii_isdigit(byte)   ? Kind::kDigit
         : absl::ascii_isspace(byte) ? Kind::kSpace
                                     : Kind::kOther;
}

// The length of the first word of a text that is not empty: an English ending behind an apostrophe;
// letters, digits or other characters with a space before them; or white space, of which the last
// space is left to the word behind it.
size_t WordLength(std::string_view text) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.starts_with(ending)) return ending.size();
  }
  const size_t begin = text.size() > 1 && text[0] == ' ' && KindOf(text[1]) != Kind::kSpace;
  const Kind kind = KindOf(text[begin]);
  size_t end = begin + 1;
  while (end < text.size() && KindOf(text[end]) == kind) ++end;
  if (kind == Kind::kSpace && end < text.size() && end > 1) --end;
  return end;
}

std::string TextAt(const nlohmann::json& json, const char* key) {
  const auto member = json.is_object() ? json.find(key) : json.end();
  return json.is_object() && member != json.end() && member->is_string()
             ? member->get<std::string>()
             : "";
}

}  // namespace

absl::StatusOr<Tokenizer> Tokenizer::Read(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  const auto unfit = [&](const auto&... got) {
    return InvalidArgument(path, ": got ", got..., "; wanted a byte-level BPE, as ",
                           "`python -m longwave.make_tokens` writes one");
  };
  if (!json.is_object() || !json.contains("model") || !json.contains("pre_tokenizer"))
    return unfit("no tokenizer");
  const nlohmann::json &model = json["model"], &before = json["pre_tokenizer"];
  if (TextAt(model, "type") != "BPE" || TextAt(before, "type") != "ByteLevel")
    return unfit("a tokenizer of ", TextAt(model, "type"), " after ", TextAt(before, "type"));
  const auto vocabulary = model.find("vocab"), merges = model.find("merges");
  if (vocabulary == model.end() || !vocabulary->is_object() || merges == model.end() ||
      !merges->is_array())
    return unfit("no vocabulary with merges");

  Tokenizer tokenizer;
  std::map<std::string, int64_t> tokens;
  for (const auto& [name, token] : vocabulary->items()) {
    const std::optional<std::string> bytes = BytesBehind(name);
    // Special ones, such as <|endoftext|>, may have other characters; no text has them.
    if (!token.is_number_unsigned() || token > kTokensMax)
      return unfit("the token ", token.dump(), " of ", name);
    const auto number = token.get<int64_t>();
    if (tokenizer.size() <= static_cast<size_t>(number)) tokenizer.bytes_.resize(number + 1);
    if (!bytes) continue;
    tokenizer.bytes_[number] = *bytes;
    tokens[*bytes] = number;
  }
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = tokens.find(std::string(1, static_cast<char>(byte)));
    if (found == tokens.end()) return unfit("no token for the byte ", byte);
    tokenizer.of_byte_.push_back(found->second);
  }
  for (const nlohmann::json& merge : *merges) {
    // A pair, or in older files one text with a space between.
    std::string left, right;
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
    } else if (merge.is_string()) {
      const std::string both = merge.get<std::string>();
      left = both.substr(0, both.find(' '));
      right = both.substr(std::min(both.size(), left.size() + 1));
    }
    const std::string first = BytesBehind(left).value_or(""),
                      second = BytesBehind(right).value_or("");
    const auto a = tokens.find(first), b = tokens.find(second), ab = tokens.find(first + second);
    if (first.empty() || second.empty() || a == tokens.end() || b == tokens.end() ||
        ab == tokens.end())
      return unfit("a merge of ", merge.dump(), " that its vocabulary lacks");
    tokenizer.merges_.try_emplace({a->second, b->second},
                                  Merge{tokenizer.merges_.size(), ab->second});
  }
  return tokenizer;
}

std::vector<int64_t> Tokenizer::Encode(std::string_view text) const {
  std::vector<int64_t> tokens;
  while (!text.empty()) {
    const size_t length = WordLength(text);
    EncodeWord(text.substr(0, length), &tokens);
    text.remove_prefix(length);
  }
  return tokens;
}

void Tokenizer::EncodeWord(std::string_view word, std::vector<int64_t>* tokens) const {
  std::vector<int64_t> parts;
  for (const char c : word) parts.push_back(of_byte_[static_cast<unsigned char>(c)]);
  while (true) {
    const Merge* best = nullptr;
    size_t at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = merges_.find({parts[i], parts[i + 1]});
      if (found == merges_.end() || (best != nullptr && best->rank <= found->second.rank)) continue;
      best = &found->second;
      at = i;
    }
    if (best == nullptr) break;
    parts[at] = best->token;
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
  tokens->insert(tokens->end(), parts.begin(), parts.end());
}

std::string_view Tokenizer::BytesOf(size_t token) const {
  return token < bytes_.size() ? std::string_view(bytes_[token]) : std::string_view();
}

}  // namespace longwave
