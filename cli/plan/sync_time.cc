#include "cli/plan/sync_time.h"

#include <algorithm>
#include <map>
#include <utility>

#include "cli/plan/transfers.h"
#include "worker/sync/send_order.h"

namespace longwave {
namespace {

class SyncClock {
 public:
  SyncClock(const PlanInputs& inputs, const Layout& layout, std::span<const SegmentSizes> sizes)
      : in_(inputs),
        config_(inputs.config),
        layout_(layout),
        sizes_(sizes),
        rates_(inputs.rates),
        worker_count_(config_.run.workers) {
    if (!inputs.keeps_state) {
      rates_.disk = kUnlimited;
      rates_.disk_sync_s = 0;
    }
    for (uint8_t kind = 0; kind <= static_cast<uint8_t>(PlanPart::Kind::kRoundTrips); ++kind)
      time_.parts.push_back({.kind = static_cast<PlanPart::Kind>(kind)});
  }

  SyncTime Take() {
    const uint32_t fragments = FragmentCount(config_.sync.fragments, layout_);
    for (uint32_t fragment = 0; fragment < fragments; ++fragment) TakeTime(fragment, fragments);
    for (const auto& [kind, seconds] : shards_) {
      const auto longest = std::ranges::max_element(seconds);
      PlanPart& part = time_.parts[static_cast<size_t>(kind)];
      part.shard = static_cast<uint32_t>(longest - seconds.begin());
      part.seconds = *longest;
    }
    return std::move(time_);
  }

 private:
  void Add(PlanPart::Kind kind, double seconds) {
    time_.parts[static_cast<size_t>(kind)].seconds += seconds;
  }
  void AddAt(size_t shard, PlanPart::Kind kind, double seconds) {
    shards_.try_emplace(kind, in_.shards.size(), 0.0).first->second[shard] += seconds;
  }

  // Moves the segments one way over the links of workers and shards. from: by class of workers and
  // segment. Returns when each class has sent or received each segment, and takes note of how long
  // the links are busy.
  using Times = std::vector<std::vector<double>>;
  Times Move(const std::vector<uint32_t>& segments, const Times& from, bool is_up) {
    const size_t classes = in_.workers.size(), shards = in_.shards.size();
    std::vector<double> rates;
    for (const PlanWorkers& each : in_.workers)
      rates.push_back(kDataShare * (is_up ? each.link.up : each.link.down));
    for (const PlanLink& link : in_.shards)
      rates.push_back(kDataShare * (is_up ? link.down : link.up));
    std::vector<Connection> connections;
    std::vector<std::vector<uint32_t>> carried(classes * shards);
    double bytes_sum = 0, ramp_most = 0, worker_most = 0;
    for (const uint32_t s : segments) bytes_sum += Frame(s, is_up);
    for (size_t c = 0; c < classes; ++c) {
      worker_most = std::max(worker_most, bytes_sum / rates[c]);
      for (size_t j = 0; j < shards; ++j) {
        Connection connection{.own_link = c,
                              .shard_link = classes + j,
                              .copies = static_cast<double>(in_.workers[c].count)};
        std::vector<uint32_t>& own = carried[c * shards + j];
        for (const uint32_t s : segments)
          if (sizes_[s].shard == j) own.push_back(s);
        std::ranges::stable_sort(own, {}, [&](uint32_t s) { return from[c][s]; });
        for (const uint32_t s : own) {
          connection.transfers.push_back({from[c][s], Frame(s, is_up)});
          AddAt(j, is_up ? PlanPart::Kind::kShardIn : PlanPart::Kind::kShardOut,
                connection.copies * Frame(s, is_up) / rates[connection.shard_link]);
        }
        connections.push_back(std::move(connection));
      }
    }
    const Times ends = TransferEnds(rates, connections);
    Times arrived(classes, std::vector<double>(sizes_.size(), 0));
    for (size_t i = 0; i < connections.size(); ++i) {
      const size_t c = i / shards;
      double bytes = 0;
      for (const Transfer& transfer : connections[i].transfers) bytes += transfer.bytes;
      // The connections of a worker share its link.
      const double parallel = config_.cluster.connections;
      const double share = std::min(rates[c] / static_cast<double>(shards),
                                    rates[connections[i].shard_link] / worker_count_);
      const double ramp =
          SlowStartSeconds(bytes / parallel, share / parallel, in_.workers[c].round_trip_s) +
          in_.workers[c].round_trip_s / 2;
      ramp_most = std::max(ramp_most, ramp);
      for (size_t k = 0; k < carried[i].size(); ++k) arrived[c][carried[i][k]] = ends[i][k] + ramp;
    }
    Add(is_up ? PlanPart::Kind::kWorkerUp : PlanPart::Kind::kWorkerDown, worker_most);
    Add(PlanPart::Kind::kRoundTrips, ramp_most);
    return arrived;
  }

  double Frame(uint32_t segment, bool is_up) const {
    return is_up ? sizes_[segment].push_frame : sizes_[segment].merged_frame;
  }

  // When the shards have merged and logged each segment.
  std::vector<double> Close(std::vector<uint32_t> segments, const Times& arrived) {
    std::vector<double> whole(sizes_.size(), 0), closed(sizes_.size(), 0);
    for (const uint32_t s : segments)
      for (const std::vector<double>& times : arrived) whole[s] = std::max(whole[s], times[s]);
    std::ranges::stable_sort(segments, {}, [&](uint32_t s) { return whole[s]; });
    std::vector<double> free_from(in_.shards.size(), 0), logging = free_from;
    for (const uint32_t s : segments) {
      const SegmentSizes& size = sizes_[s];
      const double merge =
          worker_count_ * size.coefficients / (rates_.merge * config_.cluster.shard_threads);
      const double log = worker_count_ * size.push_payload / rates_.disk;
      double& busy_until = free_from[size.shard];
      busy_until = std::max(busy_until, whole[s]) + merge + log;
      AddAt(size.shard, PlanPart::Kind::kMerge, merge);
      logging[size.shard] += log;
      // A sync is for all that came meanwhile.
      closed[s] = busy_until + rates_.disk_sync_s;
    }
    Add(PlanPart::Kind::kJournal, std::ranges::max(logging) + rates_.disk_sync_s);
    return closed;
  }

  // The sync of one fragment: each resource takes one segment after the other.
  void TakeTime(uint32_t fragment, uint32_t fragments) {
    std::vector<uint32_t> segments;
    for (uint32_t s = fragment; s < sizes_.size(); s += fragments) segments.push_back(s);
    Times posted(in_.workers.size(), std::vector<double>(sizes_.size(), 0));
    double encoding = 0, decoding = 0, journal = rates_.disk_sync_s;
    uint32_t worker = 0;
    for (size_t c = 0; c < in_.workers.size(); worker += in_.workers[c++].count) {
      double encoded = 0, logged = 0;
      for (const uint32_t s : SendOrder(layout_, worker)) {
        if (s % fragments != fragment) continue;
        encoded += sizes_[s].coefficients / rates_.encode;
        logged = std::max(logged, encoded) + sizes_[s].push_payload / rates_.disk;
        posted[c][s] = logged + rates_.disk_sync_s;
      }
      encoding = encoded;
    }
    for (const uint32_t s : segments) {
      decoding += sizes_[s].coefficients / rates_.decode;
      journal += sizes_[s].push_payload / rates_.disk;
    }
    const std::vector<double> closed = Close(segments, Move(segments, posted, /*is_up=*/true));
    const Times arrived = Move(segments, Times(in_.workers.size(), closed), /*is_up=*/false);
    double end = 0;
    for (const std::vector<double>& times : arrived) {
      std::ranges::stable_sort(segments, {}, [&](uint32_t s) { return times[s]; });
      double decoded = 0;
      for (const uint32_t s : segments)
        decoded = std::max(decoded, times[s]) + sizes_[s].coefficients / rates_.decode;
      end = std::max(end, decoded);
    }
    Add(PlanPart::Kind::kEncode, encoding);
    Add(PlanPart::Kind::kJournal, journal);
    Add(PlanPart::Kind::kDecode, decoding);
    time_.sync_s += end;
    // Encoding and decoding keep the worker's loop from its steps.
    time_.hidden_s +=
        std::clamp(end - encoding - decoding, 0.0, config_.sync.overlap * SlowestStep(in_));
  }

  const PlanInputs& in_;
  const RunConfig& config_;
  const Layout& layout_;
  const std::span<const SegmentSizes> sizes_;
  PlanRates rates_;
  const double worker_count_;
  std::map<PlanPart::Kind, std::vector<double>> shards_;  // seconds of each shard's part
  SyncTime time_;
};

}  // namespace

double SlowestStep(const PlanInputs& inputs) {
  double slowest = 0;
  for (const PlanWorkers& each : inputs.workers) slowest = std::max(slowest, each.step_s);
  return slowest;
}

SyncTime TimeSync(const PlanInputs& inputs, const Layout& layout,
                  std::span<const SegmentSizes> sizes) {
  return SyncClock(inputs, layout, sizes).Take();
}

}  // namespace longwave
