#include "worker/abi/abi_member.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "common/config/run_metrics.h"
#include "common/layout/layout.h"
#include "common/log/log.h"
#include "worker/member/sync_options.h"
#include "worker/sync/fragments.h"

namespace longwave {
namespace {

// A checkpoint's blobs are the loop's, with a prefix before their names, and the run's step.
constexpr char kLoopPrefix[] = "u.";
constexpr char kStepBlob[] = "step";
// Rank 0 of a node waits for the coordinator, and the others for rank 0.
constexpr absl::Duration kStartPatience = absl::Hours(24);

bool SendsGradient(const RunConfig& config) { return config.sync.signal == SignalKind::kGradient; }

bool TakesGradient(const RunConfig& config) { return config.sync.update == UpdateRule::kInner; }

// Gives all ranks the configuration that rank 0 has fetched.
absl::StatusOr<RunConfig> Share(const absl::StatusOr<RunConfig>& fetched,
                                const AbiOptions& options) {
  AbiNodeLink link(options.node);
  const bool is_first = options.node.rank == 0;
  std::string text = "+";
  if (is_first) {
    text = fetched.ok() ? "+" + FormatConfig(*fetched)
                        : absl::StrCat("-", std::string(fetched.status().message()));
  }
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                            link.AllGather(text, kStartPatience));
  if (is_first) return fetched;
  if (texts[0][0] == '-') {
    return Unavailable("rank 0 of this node got no configuration: ", texts[0].substr(1));
  }
  return ParseConfig(texts[0].substr(1), "the run's configuration", options.settings);
}

absl::Status OutOfTurn(const char* call, const char* wanted) {
  return InvalidArgument(call, ": called out of turn, wanted ", wanted);
}

}  // namespace

AbiMember::AbiMember(AbiOptions options, RunConfig config, const Manifest& manifest)
    : options_(std::move(options)),
      config_(std::move(config)),
      configuration_(FormatConfig(config_)),
      tensor_count_(manifest.tensors.size()),
      interruptible_(options_.callbacks, &stop_),
      metrics_(MetricPart::kWorker) {
  if (options_.node.ranks <= 1) return;
  link_.emplace(options_.node);
  rank_ = link_->node();
}

absl::StatusOr<std::unique_ptr<AbiMember>> AbiMember::Join(AbiOptions options,
                                                           const Manifest& manifest) {
  SetLogProcess(options.name);
  absl::StatusOr<RunConfig> config = Unknown("not asked for");
  StopSignal stop;
  const bool is_first = options.node.rank == 0;
  const absl::Status fetched = Interruptible(options.callbacks, &stop).Run([&] {
    if (is_first) config = FetchConfig(options, stop);
    return is_first ? config.status() : absl::OkStatus();
  });
  if (options.node.ranks > 1) {
    const absl::StatusOr<RunConfig> mine = fetched.ok() ? config : fetched;
    config = Share(mine, options);
    LONGWAVE_RETURN_IF_ERROR(config.status());
  }
  LONGWAVE_RETURN_IF_ERROR(fetched);
  std::unique_ptr<AbiMember> made(new AbiMember(std::move(options), *std::move(config), manifest));
  AbiMember& member = *made;
  ShowRun(member.config_, &member.metrics_);
  member.metrics_.SetLabel("worker", member.options_.name);
  if (is_first) {
    LONGWAVE_ASSIGN_OR_RETURN(
        member.metrics_server_,
        ServeMetrics(member.options_.metrics, member.config_.metrics.listen, &member.metrics_));
  }
  LONGWAVE_ASSIGN_OR_RETURN(
      member.place_,
      MemberPlace::Open({.config = member.config_,
                         .name = member.options_.name,
                         .state_dir = member.options_.state_dir,
                         .manifest = manifest,
                         .alike = member.options_.alike,
                         .metrics = &member.metrics_,
                         .link = member.link_.has_value() ? &*member.link_ : nullptr},
                        &member.stop_));
  member.own_ = *member.Owned(member.rank_.rank);
  return made;
}

absl::Status AbiMember::CheckArrays(const lw_arrays& arrays) const {
  if (arrays.theta == nullptr) return InvalidArgument("theta: got NULL");
  if (SendsGradient(config_) && arrays.gradient == nullptr) {
    return InvalidArgument("gradient: got NULL, wanted each step's gradient: sync.signal is ",
                           Name(config_.sync.signal));
  }
  if (TakesGradient(config_) && options_.callbacks.gradient_ready == nullptr) {
    return InvalidArgument(
        "gradient_ready: got none, wanted an inner optimizer's step: sync.update is ",
        Name(config_.sync.update));
  }
  return absl::OkStatus();
}

absl::Status AbiMember::ReadStart(const lw_arrays& arrays, const KernelOps& ops, const Exec& exec) {
  uint64_t count = 0;
  for (const auto& [begin, end] : own_) count += end - begin;
  start_.resize(count);
  float* to = start_.data();
  for (const auto& [begin, end] : own_) {
    LONGWAVE_RETURN_IF_ERROR(
        ops.copy(exec, to, arrays.theta + begin, (end - begin) * sizeof(float)));
    to += end - begin;
  }
  return ops.wait(exec);
}

void AbiMember::CopyStart(float* to, uint64_t first) const {
  const float* from = start_.data();
  for (const auto& [begin, end] : own_) {
    std::copy_n(from, end - begin, to + (begin - first));
    from += end - begin;
  }
}

std::vector<float> AbiMember::WholeStart() const {
  std::vector<float> whole(place_->layout().parameter_count());
  CopyStart(whole.data(), 0);
  return whole;
}

absl::Status AbiMember::Register() {
  // Of the whole model only the rank's own elements are read: the others have no memory.
  const uint64_t first = own_.empty() ? 0 : own_.front().begin;
  std::vector<float> gaps;
  const float* own = start_.data();
  if (own_.size() > 1) {
    gaps.resize(own_.back().end - first);
    CopyStart(gaps.data(), first);
    own = gaps.data();
  }
  const absl::Status joined =
      place_->Join({own - first, place_->layout().parameter_count()}).status();
  // All ranks of a node have the coordinator's refusal, and rank 0 asks for its reason.
  if (!absl::IsFailedPrecondition(joined)) return joined;
  std::string finished = place_->EndOfRun() == RunPhase::kFinished ? "y" : "n";
  if (link_.has_value()) {
    LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                              link_->AllGather(finished, kStartPatience));
    finished = all[0];
  }
  was_finished_ = finished == "y";
  if (!was_finished_) return joined;
  if (rank_.rank == 0) Log(LogLevel::kInfo, joined.message());
  return absl::OkStatus();
}

absl::StatusOr<int> AbiMember::Begin(const lw_arrays& arrays) {
  if (turn_ != Turn::kJoined) return OutOfTurn("lw_begin", "once, after lw_join");
  LONGWAVE_RETURN_IF_ERROR(CheckArrays(arrays));
  LONGWAVE_ASSIGN_OR_RETURN(const KernelOps* const ops, OpsOf(arrays.device));
  const Exec exec{.stream = arrays.stream, .threads = static_cast<int>(config_.train.threads)};
  LONGWAVE_RETURN_IF_ERROR(ReadStart(arrays, *ops, exec));
  trained_ = interruptible_.Run([&] { return Register(); });
  turn_ = trained_.ok() && !was_finished_ ? Turn::kBegun : Turn::kRefused;
  LONGWAVE_RETURN_IF_ERROR(trained_);
  if (was_finished_) return LW_OVER;
  // From here on the coordinator knows this worker, and must hear of its end.
  absl::StatusOr<MemberParts> parts = place_->Begin(
      {.theta = arrays.theta,
       .gradient = arrays.gradient,
       .ops = ops,
       .exec = exec,
       .initial_weights = [this] { return WholeStart(); },
       .wait =
           [this](absl::FunctionRef<absl::Status()> work) { return interruptible_.Run(work); }});
  if (!parts.ok()) return After(parts.status());
  parts->loop = this;
  member_.emplace(*std::move(parts));
  const absl::StatusOr<bool> trains = member_->Begin();
  skipped_ = static_cast<int64_t>(member_->step() - saved_step_);
  return After(trains);
}

absl::StatusOr<int> AbiMember::Step(double loss, uint64_t tokens) {
  if ((turn_ != Turn::kBegun && turn_ != Turn::kTraining) || !member_.has_value())
    return OutOfTurn("lw_step", "after lw_begin, until a call has said LW_OVER or failed");
  const uint64_t tokens_max = StepTokensMax();
  if (tokens > tokens_max && !std::exchange(said_tokens_, true)) {
    const std::string text = absl::StrCat(
        "tokens: got ", tokens, " for a step, which counts as ", tokens_max,
        ", the most that the run's configuration allows (train.batch times model.context",
        link_.has_value() ? ", shared by the node's ranks" : "",
        "), and so does every larger step; wanted a train.batch of the run that covers the steps");
    Log(LogLevel::kWarning, text);
    Warn(text);
  }
  turn_ = Turn::kTraining;
  loaded_.clear();
  const auto known = loss == LW_NO_LOSS ? std::nullopt : std::optional(loss);
  const absl::StatusOr<bool> trains =
      member_->StepDone(tokens == 0 ? tokens_max : std::min(tokens, tokens_max), known);
  skipped_ = static_cast<int64_t>(member_->skipped_steps());
  return After(trains);
}

absl::StatusOr<int> AbiMember::After(const absl::StatusOr<bool>& trains) {
  trained_ = trains.status();
  if (!trains.ok()) {
    turn_ = Turn::kDone;
    return trained_;
  }
  int events = 0;
  if (member_->has_moved()) events |= LW_MOVED;
  if (skipped_ > 0) events |= LW_SKIPPED;
  if (*trains) return events | (member_->next_step_syncs() ? LW_SYNCS : 0);
  turn_ = Turn::kDone;
  // Inner steps since the last signal are in no update.
  if (!SendsGradient(config_)) {
    const MemberParts& parts = member_->parts();
    trained_ = parts.pipeline->AdoptAnchor();
    if (trained_.ok()) trained_ = parts.ops->wait(parts.exec);
    LONGWAVE_RETURN_IF_ERROR(trained_);
  }
  return events | LW_MOVED | LW_OVER;
}

absl::Status AbiMember::Finish() {
  if (turn_ != Turn::kDone && turn_ != Turn::kRefused)
    return OutOfTurn("lw_finish", "once, after a call has said LW_OVER or failed");
  const Turn before = std::exchange(turn_, Turn::kClosed);
  return before == Turn::kRefused ? trained_ : place_->End(trained_);
}

absl::Status AbiMember::Leave(const char* failure) {
  if (turn_ == Turn::kJoined || turn_ == Turn::kRefused) {
    if (failure != nullptr && turn_ == Turn::kJoined) place_->FailToJoin(failure);
    turn_ = Turn::kClosed;
    return absl::OkStatus();
  }
  if (turn_ == Turn::kClosed) return OutOfTurn("lw_leave", "once, before lw_finish");
  if (loop_failed_ && failure != nullptr) trained_ = Unknown(trained_.message(), ": ", failure);
  // Interrupted, say. Of a node see below.
  if (loop_failed_ && failure == nullptr && !link_.has_value())
    trained_ = Cancelled(trained_.message());
  // A call that ended because of the loop's failure was cancelled.
  if (failure != nullptr && (trained_.ok() || absl::IsCancelled(trained_)))
    trained_ = Unknown(failure);
  if (turn_ != Turn::kDone && failure == nullptr) {
    // lw_begin may have failed before it made the member.
    trained_ = member_.has_value() ? member_->Stop() : Cancelled("left before lw_begin ended");
    if (!absl::IsCancelled(trained_)) Log(LogLevel::kWarning, trained_.message());
  }
  turn_ = Turn::kClosed;
  // Without a failure of its own a node lacks a rank, or its ranks leave at different steps. It may
  // come back, and the run goes on.
  if (failure == nullptr && link_.has_value() && !trained_.ok() && !absl::IsCancelled(trained_))
    trained_ = Unavailable(trained_.message());
  const absl::Status ended = place_->End(trained_);
  // The caller knows its own failure.
  return failure != nullptr ? absl::OkStatus() : ended;
}

lw_run AbiMember::Describe() const {
  return {.size = sizeof(lw_run),
          .parameters = place_->layout().parameter_count(),
          .steps = config_.run.steps,
          .rounds = RoundCount(config_),
          .inner_steps = MostInnerSteps(config_.sync),
          .tokens_max = StepTokensMax(),
          .sends_gradient = SendsGradient(config_),
          .takes_gradient = TakesGradient(config_)};
}

lw_figures AbiMember::Figures() const {
  lw_figures figures{.size = sizeof(lw_figures), .members = place_->members()};
  figures.writes_weights = writes_weights_;
  figures.step = was_finished_ ? config_.run.steps : 0;
  if (member_.has_value()) figures.step = member_->step();
  const RoundPlan rounds = member_.has_value() ? member_->plan().rounds() : RoundPlanOf(config_);
  const uint32_t round = rounds.RoundOf(figures.step);
  figures.round = round;
  figures.rounds = rounds.expected_round_count();
  if (rounds.IsDecided(round)) figures.inner_steps = rounds.InnerSteps(round);
  if (!member_.has_value()) return figures;
  const WorkerState& state = member_->stats();
  figures.skipped_steps = skipped_;
  figures.tokens = state.tokens;
  figures.bytes_pushed = state.bytes.pushed;
  figures.bytes_pulled = state.bytes.pulled;
  figures.worker = member_->parts().worker;
  figures.seconds_computing = state.seconds_computing;
  figures.seconds_syncing = state.seconds_syncing;
  figures.learning_rate = member_->learning_rate();
  return figures;
}

uint64_t AbiMember::StepTokensMax() const {
  return uint64_t{config_.train.batch} * config_.model.context / rank_.ranks;
}

absl::StatusOr<std::vector<ElementRange>> AbiMember::Owned(uint32_t rank) const {
  if (rank >= rank_.ranks) {
    return InvalidArgument("rank: got ", rank, ", wanted less than ", rank_.ranks);
  }
  const Layout& layout = place_->layout();
  return FragmentElements(layout, 0, 1, SegmentsOfRank(layout, rank, rank_.ranks));
}

absl::StatusOr<uint64_t> AbiMember::Offset(size_t tensor) const {
  if (tensor < tensor_count_) return place_->layout().flat_offset(tensor);
  return InvalidArgument("tensor: got ", tensor, ", wanted less than ", tensor_count_);
}

absl::StatusOr<std::span<const std::byte>> AbiMember::Loaded(const std::string& name) const {
  if (turn_ != Turn::kBegun)
    return OutOfTurn("lw_load", "after lw_begin, before the first lw_step");
  const auto blob = std::ranges::find(loaded_, name, &NamedBlob::name);
  return blob == loaded_.end() ? std::span<const std::byte>() : blob->bytes.bytes();
}

absl::Status AbiMember::FragmentApplied() {
  if (!TakesGradient(config_)) return absl::OkStatus();
  LONGWAVE_RETURN_IF_ERROR(member_->parts().ops->wait(member_->parts().exec));
  interruptible_.Ask(true);  // a signal's handler runs there, and not in the callback
  if (options_.callbacks.gradient_ready(options_.callbacks.context) == 0) return absl::OkStatus();
  loop_failed_ = true;
  return Unknown("gradient_ready failed: the inner optimizer took no step");
}

absl::StatusOr<FinalReport> AbiMember::Conclude(bool writes_weights) {
  writes_weights_ = writes_weights;
  return TrainingLoop::Conclude(writes_weights);
}

absl::Status AbiMember::Save(std::vector<NamedBlob>* blobs) {
  if (options_.callbacks.save == nullptr) return absl::OkStatus();
  interruptible_.Ask(true);  // as before gradient_ready
  lw_state state{.blobs = blobs};
  if (options_.callbacks.save(options_.callbacks.context, &state) != 0)
    return Unknown("the loop could not save its own state");
  const uint64_t step = member_->step();
  std::vector<std::byte> bytes(sizeof step);
  std::memcpy(bytes.data(), &step, sizeof step);
  blobs->push_back({kStepBlob, Buffer(std::move(bytes))});
  return absl::OkStatus();
}

absl::Status AbiMember::Load(std::span<const NamedBlob> blobs) {
  for (const NamedBlob& blob : blobs) {
    if (blob.name == kStepBlob && blob.bytes.size() == sizeof saved_step_)
      std::memcpy(&saved_step_, blob.bytes.bytes().data(), sizeof saved_step_);
    if (!absl::StartsWith(blob.name, kLoopPrefix)) continue;
    loaded_.push_back({std::string(absl::StripPrefix(blob.name, kLoopPrefix)), blob.bytes});
  }
  return absl::OkStatus();
}

}  // namespace longwave

absl::Status lw_state::Add(const char* name, const void* bytes, size_t size) {
  const size_t length = name == nullptr ? 0 : std::strlen(name);
  if (length == 0 || length > kNameBytesMax || (bytes == nullptr && size > 0)) {
    return longwave::InvalidArgument("lw_save: got a name of ", length, " bytes, wanted 1 to ",
                                     kNameBytesMax);
  }
  const std::string full = absl::StrCat(longwave::kLoopPrefix, name);
  const bool is_there = std::ranges::find(*blobs, full, &longwave::NamedBlob::name) != blobs->end();
  if (is_there || blobs->size() >= kBlobsMax) {
    return longwave::InvalidArgument("lw_save: got ", name, is_there ? " twice" : "",
                                     ", wanted at most ", kBlobsMax, " blobs of different names");
  }
  // The bytes stay the caller's until the checkpoint is written.
  blobs->push_back({full, longwave::Buffer({static_cast<const std::byte*>(bytes), size}, nullptr)});
  return absl::OkStatus();
}
