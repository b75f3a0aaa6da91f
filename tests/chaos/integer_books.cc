#include "tests/chaos/integer_books.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/wire/payload.h"
#include "common/wire/tile_codec.h"
#include "tests/chaos/integer_signal.h"

namespace longwave {
namespace {

constexpr size_t kProblemsKept = 20;
constexpr double kExactMax = 0x1p24;  // fp32 has every integer up to here

std::pair<uint64_t, uint32_t> NameOf(uint32_t worker, uint32_t segment, uint32_t round) {
  return {uint64_t{worker} << 32 | segment, round};
}

std::string Where(uint32_t segment, uint32_t round) {
  return absl::StrCat("segment ", segment, ", round ", round, ": ");
}

}  // namespace

IntegerBooks::IntegerBooks(const Layout* layout)
    : layout_(layout), model_(layout->parameter_count()), held_(layout->parameter_count()) {}

absl::StatusOr<std::vector<IntegerBooks::Value>> IntegerBooks::Read(
    uint32_t segment, std::span<const std::byte> payload) {
  LONGWAVE_ASSIGN_OR_RETURN(const PayloadFormat format, DecodePayloadHead(payload));
  LONGWAVE_ASSIGN_OR_RETURN(const PayloadLayout layout,
                            PayloadLayout::Create(format, layout_->TileSizes(segment)));
  LONGWAVE_RETURN_IF_ERROR(ValidatePayload(layout, payload));
  if (format.codec != ValueCodec::kFp32) {
    return absl::InvalidArgumentError(absl::StrCat("got ", Describe(format), ", wanted fp32"));
  }
  std::vector<Value> read;
  const auto tiles = layout_->tiles(layout_->segments()[segment]);
  for (uint32_t t = 0; t < layout.tile_count(); ++t) {
    std::vector<uint16_t> indices(layout.sent_count(t));
    std::vector<float> values(indices.size());
    ReadTile(layout, t, payload, /*draw=*/0, indices, values);
    for (size_t i = 0; i < indices.size(); ++i) {
      const float value = values[i];
      if (value != std::nearbyint(value) || std::fabs(value) > kExactMax) {
        return absl::InvalidArgumentError(absl::StrCat("value ", value, " is no exact integer"));
      }
      if (indices[i] >= tiles[t].cols_valid) {
        if (value == 0) continue;  // padding
        return absl::InvalidArgumentError(absl::StrCat("padding has the value ", value));
      }
      read.push_back({tiles[t].offset + indices[i], static_cast<int64_t>(value)});
    }
  }
  values_checked_ += read.size();
  return read;
}

absl::Status IntegerBooks::Merge(const MergedRecord& merged,
                                 const std::map<uint32_t, PushRecord>& pushes) {
  const uint32_t segment = merged.header.segment, round = merged.header.round;
  struct Sum {
    int64_t sum = 0;
    int64_t weight = 0;
  };
  std::map<uint64_t, Sum> sums;
  for (const Contributor& contributor : merged.contributors) {
    const auto push = pushes.find(contributor.worker);
    if (push == pushes.end()) {
      Problem(absl::StrCat(Where(segment, round), "no push of worker ", contributor.worker));
      continue;
    }
    if (!in_merges_.insert(NameOf(contributor.worker, segment, round)).second) {
      Problem(absl::StrCat(Where(segment, round), "worker ", contributor.worker,
                           "'s push is in two merges"));
    }
    LONGWAVE_ASSIGN_OR_RETURN(const std::vector<Value> values,
                              Read(segment, push->second.payload.bytes()));
    std::vector<int64_t>& given = given_[contributor.worker];
    given.resize(model_.size());
    if (contributor.weight == kSignalWeight) accepted_[contributor.worker].insert(round);
    const auto weight = static_cast<int64_t>(contributor.weight);
    for (const Value& value : values) {
      given[value.element] += value.value;
      sums[value.element].sum += weight * value.value;
      sums[value.element].weight += weight;
    }
  }
  for (const auto& [element, sum] : sums) {
    if (sum.sum % sum.weight != 0) {
      Problem(absl::StrCat(Where(segment, round), "element ", element, ": the mean, ", sum.sum,
                           " over ", sum.weight, ", is no integer"));
    }
    held_[element] += sum.sum / sum.weight;
  }

  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<Value> sent, Read(segment, merged.payload.bytes()));
  for (const auto& tile : layout_->tiles(layout_->segments()[segment])) {
    int64_t least_sent = INT64_MAX;
    for (const Value& value : sent) {
      if (value.element < tile.offset || value.element >= tile.offset + tile.cols_valid) continue;
      if (value.value != held_[value.element]) {
        Problem(absl::StrCat(Where(segment, round), "element ", value.element, ": got ",
                             value.value, ", wanted ", held_[value.element]));
      }
      held_[value.element] -= value.value;
      model_[value.element] -= value.value;
      least_sent = std::min(least_sent, std::abs(value.value));
    }
    for (uint64_t i = tile.offset; i < tile.offset + tile.cols_valid; ++i) {
      if (std::abs(held_[i]) <= least_sent) continue;
      Problem(absl::StrCat(Where(segment, round), "element ", i, " is held back with ", held_[i],
                           " while ", least_sent, " was sent"));
      break;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> IntegerBooks::CheckWorker(uint32_t worker, const Checkpoint& at_end,
                                                   const std::set<uint32_t>& posted,
                                                   const std::set<uint32_t>& partial) {
  const std::string who = absl::StrCat("worker ", worker, " (", at_end.name, "): ");
  std::vector<int64_t> total = given_[worker];
  total.resize(model_.size());
  const auto tiles = layout_->tiles();
  for (const Tile& tile : tiles) {
    for (uint64_t i = 0; i < tile.cols_valid; ++i) {
      const float value = at_end.momentum[tile.coefficient_offset + i];
      if (value != std::nearbyint(value)) {
        Problem(absl::StrCat(who, "residual ", value, " is no integer"));
      }
      total[tile.offset + i] += static_cast<int64_t>(value);
    }
  }
  for (const UnsettledPush& push : at_end.pushes) {
    // `given` already has the pushes that are in a merge.
    if (in_merges_.contains(NameOf(worker, push.segment, at_end.round))) continue;
    LONGWAVE_ASSIGN_OR_RETURN(const std::vector<Value> values,
                              Read(push.segment, push.payload.bytes()));
    for (const Value& value : values) total[value.element] += value.value;
  }

  // The first whole tile shows which steps are present; the other elements follow from them.
  std::set<uint32_t> steps;
  for (uint32_t place = 0; place < kSignalMarkers; ++place) {
    if (total[tiles[0].offset + place] != 0 && !partial.contains(place)) steps.insert(place);
  }
  for (uint64_t element = 0; element < total.size(); ++element) {
    int64_t wanted = 0;
    for (const uint32_t step : steps) wanted += SignalOf(worker, step, element);
    // Of the partial steps any number may be present.
    int64_t below = 0;
    int64_t above = 0;
    for (const uint32_t step : partial) {
      const int64_t signal = SignalOf(worker, step, element);
      (signal < 0 ? below : above) += signal;
    }
    ++values_checked_;
    const int64_t rest = total[element] - wanted;
    const bool is_marker = element % kSignalTile < kSignalMarkers;
    if (is_marker ? rest == 0 || rest == above : below <= rest && rest <= above) continue;
    Problem(absl::StrCat(who, "element ", element, ": sent and kept ", total[element], ", wanted ",
                         wanted, " of its ", steps.size(), " steps, and from ", below, " to ",
                         above, " of ", partial.size(), " partial ones"));
  }
  const auto check_kept = [&](const std::set<uint32_t>& rounds, absl::string_view what) {
    for (const uint32_t round : rounds) {
      if (!steps.contains(round) && !partial.contains(round))
        Problem(absl::StrCat(who, "round ", round, " was ", what, " and its step is lost"));
    }
  };
  check_kept(posted, "posted");
  check_kept(accepted_[worker], "accepted");
  return steps.size();
}

void IntegerBooks::CheckReplica(const std::string& name, std::span<const float> anchor) {
  if (anchor.size() != model_.size()) {
    Problem(absl::StrCat(name, "'s replica: got ", anchor.size(), " parameters, wanted ",
                         model_.size()));
    return;
  }
  for (uint64_t i = 0; i < anchor.size(); ++i) {
    ++values_checked_;
    if (anchor[i] == static_cast<float>(model_[i])) continue;
    Problem(
        absl::StrCat(name, "'s replica, element ", i, ": got ", anchor[i], ", wanted ", model_[i]));
  }
}

void IntegerBooks::Problem(std::string sentence) {
  ++problem_count_;
  if (problems_.size() < kProblemsKept) problems_.push_back(std::move(sentence));
}

}  // namespace longwave
