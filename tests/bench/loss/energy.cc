#include "tests/bench/loss/energy.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/wire/payload.h"

namespace longwave {
namespace {

constexpr PayloadFormat kHeld = {Selection::kTopK, ValueCodec::kFp32, 64};
constexpr Transform kDomains[] = {Transform::kNone, Transform::kDct};

// A table of operations holds plain functions, so what they call stands here.
EnergyMeter* watching = nullptr;

}  // namespace

absl::Status EnergyMeter::Check(const RunConfig& config, const KernelOps* ops) {
  if (ops->on_device) return absl::InvalidArgumentError("--energy wants train.device=cpu");
  if (config.sync.transform == Transform::kNone && config.sync.tiling == Tiling::kFlat &&
      config.sync.segment_tiles == kLayoutSegmentTilesMax / 2) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "--energy wants sync.transform=none, sync.tiling=flat and sync.segment_tiles=2048");
}

const KernelOps* EnergyMeter::Watch(const KernelOps* ops, Replica& replica) {
  ops_ = ops;
  replica_ = &replica;
  const Manifest& manifest = replica.manifest();
  absl::StatusOr<Layout> layout =
      Layout::Create(manifest, {.tiling = Tiling::kModel, .segment_tiles = 1});
  LONGWAVE_CHECK(layout.ok());
  layout_ = *std::move(layout);
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    if (manifest.tensors[i].shape.size() < 2) continue;
    rows_.push_back({.tensor = manifest.tensors[i].name, .from = layout_->flat_offset(i)});
  }
  // Vectors follow the matrices, and share their tiles.
  const Tile& last = layout_->tiles().back();
  if (last.rows == 1) rows_.push_back({.tensor = "vectors", .from = last.offset});
  for (const Tile& tile : layout_->tiles()) {
    if (tile.rows == 1) rows_.back().from = std::min(rows_.back().from, tile.offset);
  }
  watching = this;
  clocked_ = *ops;
  clocked_.encode = [](const Exec& exec, std::span<const EncodeArgs> all) {
    for (const EncodeArgs& args : all) LONGWAVE_RETURN_IF_ERROR(watching->Measure(exec, args));
    return watching->ops_->encode(exec, all);
  };
  return &clocked_;
}

absl::Status EnergyMeter::Measure(const Exec& exec, const EncodeArgs& args) {
  LONGWAVE_CHECK(args.layout->segments().size() == 1);
  std::vector<float> momentum(args.layout->parameter_count());
  const auto* const a = static_cast<const float*>(args.signal.a);
  const auto* const b = static_cast<const float*>(args.signal.b);
  for (size_t i = 0; i < momentum.size(); ++i) {
    const float difference = b == nullptr ? a[i] : a[i] - b[i];
    momentum[i] = args.beta * args.momentum[i] + args.signal.scale * difference;
  }
  ++rounds_;
  LONGWAVE_RETURN_IF_ERROR(Add(exec, 0, momentum.data()));
  return Add(exec, 1, replica_->gradient());
}

absl::Status EnergyMeter::Add(const Exec& exec, int measured, const float* signal) {
  std::vector<float> scratch(layout_->coefficient_count());
  std::vector<std::byte> payload;
  for (size_t domain = 0; domain < 2; ++domain) {
    std::vector<double> all(rows_.size()), held(rows_.size());
    std::fill(scratch.begin(), scratch.end(), 0.0f);
    for (uint32_t segment = 0; segment < layout_->segments().size(); ++segment) {
      LONGWAVE_ASSIGN_OR_RETURN(const PayloadLayout form,
                                PayloadLayout::Create(kHeld, layout_->TileSizes(segment)));
      payload.resize(form.bytes());
      EncodeReport report;
      const EncodeArgs args = {.layout = &*layout_,
                               .segment = segment,
                               .signal = {.a = signal},
                               .transform = kDomains[domain],
                               .momentum = scratch.data(),
                               .payload_layout = &form,
                               .payload = payload,
                               .report = &report};
      LONGWAVE_RETURN_IF_ERROR(ops_->encode(exec, {&args, 1}));
      LONGWAVE_RETURN_IF_ERROR(ops_->finish(exec, segment));
      size_t row = rows_.size() - 1;
      while (row > 0 && rows_[row].from > layout_->tiles()[segment].offset) --row;
      all[row] += report.momentum_square_sum;
      held[row] += report.sent_square_sum;
    }
    for (size_t row = 0; row < rows_.size(); ++row) {
      if (all[row] > 0) rows_[row].share[measured][domain] += held[row] / all[row];
    }
  }
  return absl::OkStatus();
}

void EnergyMeter::Print() const {
  absl::PrintF(
      "| tensor | momentum: values | DCT | gradient: values | DCT |\n|---|---|---|---|---|\n");
  for (const Row& row : rows_) {
    absl::PrintF("| %s |", row.tensor);
    for (const auto& measured : row.share) {
      for (const double share : measured) absl::PrintF(" %.1f %% |", 100 * share / rounds_);
    }
    absl::PrintF("\n");
  }
}

}  // namespace longwave
