#include "worker/data/held_out.h"

#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace longwave {
namespace {

// Files of equal size and beginning, which most files differ by.
std::pair<size_t, std::string_view> KeyOf(const TokenPiece& piece) {
  constexpr size_t kBeginningBytes = 256;
  return {piece.text().size(), piece.text().substr(0, kBeginningBytes)};
}

}  // namespace

uint64_t RemoveHeldOut(std::vector<TokenPiece>* pieces, uint64_t train_count, bool is_apart,
                       std::vector<std::string>* left_out) {
  std::multimap<std::pair<size_t, std::string_view>, const TokenPiece*> held_out;
  uint64_t end = 0;
  for (const TokenPiece& piece : *pieces) {
    end += piece.count;
    if (end > train_count) held_out.emplace(KeyOf(piece), &piece);
  }
  uint64_t left = train_count;
  end = 0;
  for (TokenPiece& piece : *pieces) {
    end += piece.count;
    if (end > train_count) break;
    const std::string_view text = piece.text();
    const auto remove = [&](uint64_t first, uint64_t count, const TokenPiece& other) {
      left_out->push_back(absl::StrCat(piece.path, ": ",
                                       count == piece.count ? "its content"
                                       : first == 0         ? "its beginning"
                                                            : "its end",
                                       " is held out as ", other.path));
      if (first == 0) piece.bytes += count * piece.width;
      piece.count -= count;
      left -= count;
    };
    const auto [same, same_end] = held_out.equal_range(KeyOf(piece));
    for (auto it = same; it != same_end && piece.count > 0; ++it) {
      if (it->second->text() == text) remove(0, piece.count, *it->second);
    }
    if (!is_apart) continue;
    for (const auto& [key, other] : held_out) {
      const std::string_view part = other->text();
      if (other->width != piece.width || part.empty() || part.size() >= piece.text().size())
        continue;
      if (piece.text().starts_with(part)) remove(0, other->count, *other);
      if (piece.text().ends_with(part)) remove(piece.count - other->count, other->count, *other);
    }
  }
  return left;
}

}  // namespace longwave
