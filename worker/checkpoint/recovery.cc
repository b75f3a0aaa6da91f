#include "worker/checkpoint/recovery.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "common/wire/payload.h"
#include "kernels/ops.h"
#include "worker/checkpoint/checkpoint_parts.h"
#include "worker/checkpoint/push_journal.h"
#include "worker/sync/fragments.h"

namespace longwave {
namespace {

class Replay {
 public:
  Replay(const Layout& layout, const SyncOptions& options, Checkpoint* checkpoint)
      : layout_(layout),
        options_(options),
        checkpoint_(*checkpoint),
        owned_(SegmentsOfRank(layout, checkpoint->node.rank, checkpoint->node.ranks)),
        segments_(layout.segments().size()) {
    for (UnsettledPush& push : std::exchange(checkpoint_.pushes, {})) {
      Segment& segment = segments_[push.segment];
      segment.given_back = false;
      segment.round = checkpoint_.round;
      segment.push = std::move(push);
    }
  }

  absl::Status Take(const JournalRecord& record) {
    if (record.segment >= segments_.size())
      return DataLoss("journal: got a record of segment ", record.segment, " of ",
                      segments_.size());
    Segment& segment = segments_[record.segment];
    const bool settles = segment.push.has_value() && segment.round == record.round;
    switch (record.kind) {
      case JournalKind::kPush:
        Settle(record.segment);  // a push that is followed by another one was settled
        return Push(record);
      case JournalKind::kAccepted:
        if (settles) Settle(record.segment);
        return absl::OkStatus();
      case JournalKind::kReturned:
        return settles ? Return(record.segment) : absl::OkStatus();
      case JournalKind::kDropped:
        if (!settles) return absl::OkStatus();
        std::ranges::fill(ResidualOf(record.segment), 0.0f);
        segment.push.reset();
        segment.given_back = true;
        checkpoint_.accounted[record.segment] = 0;
        return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  void End(bool has_records) {
    uint32_t newest = 0;
    bool is_open = false;
    for (const Segment& segment : segments_) {
      if (!segment.push.has_value()) continue;
      is_open = true;
      newest = std::max(newest, segment.round);
    }
    for (uint32_t s = 0; s < segments_.size(); ++s) {
      if (segments_[s].push.has_value() && segments_[s].round < newest) Settle(s);
      if (segments_[s].push.has_value()) checkpoint_.pushes.push_back(*segments_[s].push);
    }
    if (!has_records || is_open) return;
    // All is settled: the fragment is done.
    if (++checkpoint_.fragment == FragmentCount(options_.fragments, layout_))
      ++checkpoint_.round, checkpoint_.fragment = 0;
  }

 private:
  struct Segment {
    bool given_back = true;  // as SyncPipeline::LoadMomentum has it
    uint32_t round = 0;      // of the push
    std::optional<UnsettledPush> push;
  };

  std::span<float> ResidualOf(uint32_t segment) {
    if (!owned_.Contains(segment)) return {};
    const auto segments = layout_.segments();
    const uint64_t first = segments[owned_.begin].coefficient_begin;
    return std::span(checkpoint_.momentum)
        .subspan(segments[segment].coefficient_begin - first, segments[segment].coefficient_count);
  }

  // Adds alpha · payload to `to`, the segment's coefficients.
  absl::Status Add(uint32_t segment, uint32_t round, const Buffer& payload, std::span<float> to) {
    LONGWAVE_ASSIGN_OR_RETURN(const KernelOps* const ops, OpsFor(BackendKind::kCpu));
    LONGWAVE_ASSIGN_OR_RETURN(const PayloadFormat format, DecodePayloadHead(payload.bytes()));
    LONGWAVE_ASSIGN_OR_RETURN(const PayloadLayout form,
                              PayloadLayout::Create(format, layout_.TileSizes(segment)));
    LONGWAVE_RETURN_IF_ERROR(ValidatePayload(form, payload.bytes()));
    return ops->restore(Exec{},
                        {.layout = &layout_,
                         .segment = segment,
                         .alpha = options_.alpha,
                         .run_seed = options_.run_seed,
                         .round = round,
                         .momentum = to.data() - layout_.segments()[segment].coefficient_begin,
                         .payload_layout = &form,
                         .payload = payload.bytes()});
  }

  absl::Status Push(const JournalRecord& record) {
    const uint32_t s = record.segment;
    Segment& segment = segments_[s];
    const std::span<float> residual = ResidualOf(s);
    if (!residual.empty()) {
      const float decay = options_.beta == 0 && segment.given_back ? 1.0f : options_.beta;
      std::vector<float> sent(residual.size());
      LONGWAVE_RETURN_IF_ERROR(Add(s, record.round, record.payload, sent));
      for (size_t i = 0; i < residual.size(); ++i)
        residual[i] = sent[i] != 0 ? 0.0f : decay * residual[i];
    }
    segment.given_back = false;
    segment.round = record.round;
    segment.push = UnsettledPush{.segment = s,
                                 .norm = record.norm,
                                 .weight = record.weight,
                                 .payload = residual.empty() ? Buffer() : record.payload};
    checkpoint_.accounted[s] = record.accounted;
    checkpoint_.round = record.round;
    checkpoint_.fragment = record.fragment;
    checkpoint_.step = record.step;
    checkpoint_.tokens = record.tokens;
    return absl::OkStatus();
  }

  // The segment's push counts, if there is one.
  void Settle(uint32_t s) {
    Segment& segment = segments_[s];
    if (!std::exchange(segment.push, std::nullopt).has_value()) return;
    checkpoint_.accounted[s] = segment.round + 1;
    // The next encoding would drop the rest.
    if (options_.beta == 0) std::ranges::fill(ResidualOf(s), 0.0f);
  }

  absl::Status Return(uint32_t s) {
    Segment& segment = segments_[s];
    if (const std::span<float> residual = ResidualOf(s); !residual.empty())
      LONGWAVE_RETURN_IF_ERROR(Add(s, segment.round, segment.push->payload, residual));
    if (checkpoint_.accounted[s] == 0) checkpoint_.accounted[s] = segment.round + 1;
    segment.given_back = true;
    segment.push.reset();
    return absl::OkStatus();
  }

  const Layout& layout_;
  const SyncOptions& options_;
  Checkpoint& checkpoint_;
  const SegmentRange owned_;
  std::vector<Segment> segments_;
};

absl::Status ApplyFrom(FileSystem& files, const std::string& folder, const Layout& layout,
                       const SyncOptions& options, Checkpoint* checkpoint) {
  const JournalHeader of = {
      .run = checkpoint->run, .layout_hash = checkpoint->layout_hash, .worker = checkpoint->worker};
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<JournalRecord> records,
                            ReadJournals(files, folder, checkpoint->write, &of));
  return ApplyJournal(layout, options, records, checkpoint);
}

}  // namespace

absl::Status ApplyJournal(const Layout& layout, const SyncOptions& options,
                          std::span<const JournalRecord> records, Checkpoint* checkpoint) {
  Replay replay(layout, options, checkpoint);
  for (const JournalRecord& record : records) {
    if (const absl::Status taken = replay.Take(record); !taken.ok())
      return DataLoss(taken.message());
  }
  replay.End(!records.empty());
  return absl::OkStatus();
}

absl::StatusOr<std::optional<FoundCheckpoint>> Recover(FileSystem& files, const std::string& folder,
                                                       uint64_t run, const std::string& name,
                                                       uint32_t worker, const Layout& layout,
                                                       NodeRank node, const SyncOptions& options) {
  LONGWAVE_ASSIGN_OR_RETURN(std::optional<FoundCheckpoint> found,
                            ReadPartOfLast(files, folder, run, name, worker, layout, node));
  if (!found.has_value() || found->stale) return found;
  const absl::Status applied = ApplyFrom(files, folder, layout, options, &found->checkpoint);
  if (absl::IsDataLoss(applied)) {
    Log(LogLevel::kWarning, "no use of the last checkpoint's residual: ", applied.message());
    found->stale = true;
    return found;
  }
  LONGWAVE_RETURN_IF_ERROR(applied);
  return found;
}

}  // namespace longwave
