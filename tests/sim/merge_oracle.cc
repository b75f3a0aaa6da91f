#include "tests/sim/merge_oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace longwave::sim {

MergeOracle::MergeOracle(const WorldSettings& world, const Layout* layout, float start)
    : method_(world.method), rho_(world.rho), layout_(layout) {
  if (method_ == Method::kQuantized) {
    merger_ = std::make_unique<Merger>(
        MergeOptions{.run_seed = 1, .up = world.up(), .rho = world.rho, .down = world.down()});
  }
  segments_.resize(world.segments);
  for (Segment& segment : segments_) {
    segment.residual.resize(kSegmentElements);
    segment.theta.emplace_back(kSegmentElements, start);
    segment.held.emplace_back(kSegmentElements);
  }
}

void MergeOracle::BeginWith(float start) {
  for (Segment& segment : segments_) segment.theta = {std::vector<float>(kSegmentElements, start)};
}

std::string MergeOracle::Merge(uint32_t index, const std::vector<Buffer>& contributions,
                               const std::vector<Buffer>& left_out, const Buffer& merged) {
  Segment& segment = segments_[index];
  const Coefficients told = ReadCoefficients(merged.bytes());
  std::string wrong = method_ == Method::kQuantized
                          ? MergeAgain(index, contributions, left_out, merged)
                          : Hold(segment, Mean(contributions), told);
  std::vector<float> theta = segment.theta.back();
  for (size_t i = 0; i < told.indices.size(); ++i) theta[told.indices[i]] -= told.values[i];
  segment.theta.push_back(std::move(theta));
  segment.held.push_back(segment.residual);
  return wrong;
}

std::vector<float> MergeOracle::Mean(const std::vector<Buffer>& contributions) const {
  std::vector<double> sums(kSegmentElements);
  std::vector<double> senders(kSegmentElements);
  for (const Buffer& contribution : contributions) {
    const Coefficients one = ReadCoefficients(contribution.bytes());
    for (size_t i = 0; i < one.indices.size(); ++i) {
      sums[one.indices[i]] += double{one.values[i]};
      senders[one.indices[i]] += 1;
    }
  }
  std::vector<float> mean(kSegmentElements);
  const double least = rho_ * static_cast<double>(contributions.size());
  for (size_t c = 0; c < mean.size(); ++c) {
    const double divisor = std::max(senders[c], least);
    if (senders[c] > 0) mean[c] = static_cast<float>(sums[c] / divisor);
  }
  return mean;
}

std::string MergeOracle::Hold(Segment& segment, const std::vector<float>& mean,
                              const Coefficients& told) const {
  std::vector<float>& residual = segment.residual;
  for (size_t c = 0; c < mean.size(); ++c) residual[c] += mean[c];
  float least_told = std::numeric_limits<float>::infinity();
  std::string wrong;
  for (size_t i = 0; i < told.indices.size(); ++i) {
    const uint16_t c = told.indices[i];
    if (told.values[i] != residual[c] && wrong.empty()) {
      wrong = absl::StrCat("coefficient ", c, " is ", told.values[i], ", wanted ", residual[c]);
    }
    least_told = std::min(least_told, std::abs(told.values[i]));
    residual[c] = 0;
  }
  if (method_ == Method::kDense) {
    if (told.indices.size() != mean.size() && wrong.empty())
      wrong = "some coefficients are missing";
    return wrong;
  }
  for (size_t c = 0; c < residual.size() && wrong.empty(); ++c) {
    if (std::abs(residual[c]) <= least_told) continue;
    wrong = absl::StrCat("coefficient ", c, " was held back at ", residual[c], ", while ",
                         least_told, " was told");
  }
  return wrong;
}

std::string MergeOracle::MergeAgain(uint32_t index, std::vector<Buffer> contributions,
                                    const std::vector<Buffer>& left_out, const Buffer& merged) {
  // A merge without contributions equals one of contributions with factor 0.
  const double factor = contributions.empty() ? 0 : 1;
  if (contributions.empty()) contributions = left_out;
  std::vector<PayloadLayout> layouts;
  for (const Buffer& one : contributions) layouts.push_back(LayoutOfPayload(one.bytes()));
  std::vector<Contribution> all(contributions.size());
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = {
        .weight = 1, .layout = &layouts[i], .payload = contributions[i].bytes(), .factor = factor};
  }
  const MergedSegment again =
      merger_->Merge(*layout_, index, rounds(index), all, segments_[index].residual);
  const auto got = merged.bytes();
  const bool same = std::equal(got.begin(), got.end(), again.payload.begin(), again.payload.end());
  return same ? "" : "its bytes are not those of its contributions merged again";
}

void MergeOracle::ForgetResidual(uint32_t index) {
  Segment& segment = segments_[index];
  std::ranges::fill(segment.residual, 0.0f);
  segment.held.back() = segment.residual;
}

void MergeOracle::Rewind(uint32_t index, uint32_t round, bool keeps_residual) {
  Segment& segment = segments_[index];
  LONGWAVE_CHECK(round < segment.theta.size());
  segment.theta.resize(round + 1);
  segment.held.resize(round + 1);
  segment.residual = segment.held.back();
  if (!keeps_residual) ForgetResidual(index);
}

}  // namespace longwave::sim
