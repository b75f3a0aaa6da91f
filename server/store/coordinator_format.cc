#include "server/store/coordinator_format.h"

#include <bit>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "server/store/byte_stream.h"

namespace longwave {
namespace {

constexpr uint32_t kMagic = 0x6443574c;  // "LWCd" read as bytes

// Fields(coder, value) names a struct's fields in their order, once for both ways: to the Writer
// with a const value, to the Reader with one to be filled.
template <typename Coder, typename Value>
void Fields(Coder& code, Value& value);

class Writer {
 public:
  template <typename T>
  void operator()(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      out_.Put<uint8_t>(value);
    } else if constexpr (std::is_same_v<T, double>) {
      out_.Put(std::bit_cast<uint64_t>(value));
    } else if constexpr (std::is_same_v<T, std::string>) {
      out_.Put<uint64_t>(value.size());
      out_.PutText(value);
    } else if constexpr (std::is_enum_v<T>) {
      out_.Put(static_cast<uint8_t>(value));
    } else if constexpr (std::is_same_v<T, int64_t>) {
      out_.Put(static_cast<uint64_t>(value));
    } else if constexpr (std::is_integral_v<T>) {
      out_.Put<T>(value);
    } else {
      Fields(*this, value);
    }
  }
  template <typename T>
  void operator()(const std::vector<T>& list) {
    out_.Put<uint64_t>(list.size());
    for (const T& one : list) (*this)(one);
  }
  template <typename T>
  void operator()(const std::optional<T>& value) {
    (*this)(value.has_value());
    if (value) (*this)(*value);
  }
  template <typename A, typename B>
  void operator()(const std::pair<A, B>& pair) {
    (*this)(pair.first);
    (*this)(pair.second);
  }

  void Reserve(size_t bytes) { out_.Reserve(bytes); }
  std::vector<std::byte> Take() { return out_.Take(); }

 private:
  ByteWriter out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : in_(bytes) {}

  template <typename T>
  void operator()(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      const auto byte = in_.Get<uint8_t>();
      good_ &= byte <= 1;
      value = byte == 1;
    } else if constexpr (std::is_same_v<T, double>) {
      value = std::bit_cast<double>(in_.Get<uint64_t>());
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = std::string(in_.GetText(in_.Get<uint64_t>()));
    } else if constexpr (std::is_same_v<T, RunPhase>) {
      value = Known(RunPhase::kStopped);
    } else if constexpr (std::is_same_v<T, WorkerPhase>) {
      value = Known(WorkerPhase::kJoining);
    } else if constexpr (std::is_same_v<T, int64_t>) {
      value = static_cast<int64_t>(in_.Get<uint64_t>());
    } else if constexpr (std::is_integral_v<T>) {
      value = in_.Get<T>();
    } else {
      Fields(*this, value);
    }
  }
  template <typename T>
  void operator()(std::vector<T>& list) {
    const auto count = in_.Get<uint64_t>();
    // Whatever the count says, it ends where the bytes do.
    for (uint64_t i = 0; i < count && in_.ok(); ++i) (*this)(list.emplace_back());
  }
  template <typename T>
  void operator()(std::optional<T>& value) {
    bool has_value = false;
    (*this)(has_value);
    if (has_value) (*this)(value.emplace());
  }
  template <typename A, typename B>
  void operator()(std::pair<A, B>& pair) {
    (*this)(pair.first);
    (*this)(pair.second);
  }

  absl::Status Status() const {
    if (in_.done() && good_) return absl::OkStatus();
    return absl::DataLossError(good_ ? "its length is not what its fields say"
                                     : "a value that is none of its kind");
  }

 private:
  // Enums count from 1.
  template <typename Enum>
  Enum Known(Enum last) {
    const auto byte = in_.Get<uint8_t>();
    good_ &= byte >= 1 && byte <= static_cast<uint8_t>(last);
    return static_cast<Enum>(byte);
  }

  ByteReader in_;
  bool good_ = true;
};

template <typename Coder, typename Value>
void Fields(Coder& code, Value& v) {
  using T = std::remove_const_t<Value>;
  const auto all = [&code](auto&... fields) { (code(fields), ...); };
  if constexpr (std::is_same_v<T, TensorSpec>) {
    all(v.name, v.shape);
  } else if constexpr (std::is_same_v<T, Manifest>) {
    all(v.tensors);
  } else if constexpr (std::is_same_v<T, Member>) {
    all(v.worker, v.name, v.first_round, v.data_key, v.other_start);
  } else if constexpr (std::is_same_v<T, ShardAddress>) {
    all(v.shard, v.data_endpoint, v.control_endpoint);
  } else if constexpr (std::is_same_v<T, ByteCounts>) {
    all(v.pushed, v.pulled, v.payload_pushed, v.payload_pulled);
  } else if constexpr (std::is_same_v<T, FinalReport>) {
    all(v.validation_loss, v.model_file);
  } else if constexpr (std::is_same_v<T, Repair>) {
    all(v.round, v.segments);
  } else if constexpr (std::is_same_v<T, WorkerState>) {
    all(v.phase, v.step, v.round, v.train_loss, v.tokens, v.bytes, v.seconds_computing,
        v.seconds_syncing);
  } else if constexpr (std::is_same_v<T, ShardState>) {
    all(v.pushes_accepted, v.pushes_duplicate, v.pushes_late, v.pushes_rejected, v.segments_closed,
        v.open_round, v.bytes_received, v.bytes_sent, v.pushes_busy, v.pushes_clipped,
        v.newest_round, v.closed_by_quorum, v.log_bytes, v.snapshot_bytes, v.log_records);
  } else if constexpr (std::is_same_v<T, RoundReport>) {
    all(v.round, v.step, v.train_loss, v.validation_loss, v.segment_hashes, v.tokens, v.bytes,
        v.seconds_computing, v.seconds_syncing);
  } else if constexpr (std::is_same_v<T, RoundRecord>) {
    all(v.round, v.step, v.train_loss, v.validation_loss, v.tokens, v.bytes, v.seconds,
        v.tokens_per_second, v.replicas_equal, v.state_hash, v.members, v.compute_share);
  } else if constexpr (std::is_same_v<T, OpenReport>) {
    all(v.member, v.report);
  } else if constexpr (std::is_same_v<T, WorkTotals>) {
    all(v.tokens, v.bytes, v.seconds_computing, v.seconds_syncing);
  } else if constexpr (std::is_same_v<T, LedgerWorker>) {
    all(v.next_round, v.taken_part, v.former, v.newest, v.counted);
  } else if constexpr (std::is_same_v<T, WorkerRecord>) {
    all(v.member, v.identity, v.process, v.incarnation, v.former, v.joined_epoch, v.member_epoch,
        v.ready_round, v.begun, v.lost, v.left, v.behind, v.final, v.repair, v.state);
  } else if constexpr (std::is_same_v<T, ShardRecord>) {
    all(v.address, v.incarnation, v.former, v.folder, v.restore, v.told_epoch, v.known_epoch,
        v.state, v.trouble);
  } else if constexpr (std::is_same_v<T, FinishedRound>) {
    all(v.record, v.hashes, v.undecided);
  } else if constexpr (std::is_same_v<T, CoordinatorChanges>) {
    all(v.state, v.manifest_changed, v.manifest, v.start_hashes, v.rounds, v.reports);
  } else {
    static_assert(std::is_same_v<T, CoordinatorState>);
    all(v.settings, v.phase, v.reason, v.outdated, v.run, v.epoch, v.layout_hash, v.repairs,
        v.seconds, v.workers, v.shards, v.next_round, v.ledger_workers, v.segment_count,
        v.inequality, v.rate_seconds, v.rate_tokens);
  }
}

}  // namespace

std::vector<std::byte> Encode(const CoordinatorChanges& changes) {
  constexpr size_t kUsualBytes = 4096;
  Writer out;
  out.Reserve(kUsualBytes);
  out(kMagic);
  out(kCoordinatorFormat);
  out(changes);
  return out.Take();
}

absl::StatusOr<CoordinatorChanges> DecodeCoordinatorChanges(std::span<const std::byte> bytes) {
  Reader in(bytes);
  uint32_t magic = 0;
  uint32_t format = 0;
  in(magic);
  in(format);
  if (magic != kMagic) {
    return absl::FailedPreconditionError(
        absl::StrFormat("magic: got %08x, wanted %08x", magic, kMagic));
  }
  if (format != kCoordinatorFormat) {
    return absl::FailedPreconditionError(
        absl::StrCat("format: got ", format, ", wanted ", kCoordinatorFormat));
  }
  CoordinatorChanges changes;
  in(changes);
  LONGWAVE_RETURN_IF_ERROR(in.Status());
  if (changes.manifest) LONGWAVE_RETURN_IF_ERROR(Validate(*changes.manifest));
  return changes;
}

}  // namespace longwave
