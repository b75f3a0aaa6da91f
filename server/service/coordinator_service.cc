#include "server/service/coordinator_service.h"

#include <malloc.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/errors.h"
#include "common/base/random_word.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "common/config/gpt_shape.h"
#include "common/layout/layout.h"
#include "common/log/log.h"
#include "common/log/refusals.h"
#include "common/rpc/certificate_keeper.h"
#include "common/rpc/health_server.h"
#include "common/rpc/line_limit.h"
#include "common/rpc/rpc_server.h"
#include "common/security/certificate_metric.h"
#include "common/security/credentials.h"
#include "common/security/security_mode.h"
#include "server/coordinator/coordinator.h"
#include "server/service/admission.h"
#include "server/service/coordinator_metrics.h"
#include "server/service/group_commit.h"
#include "server/service/interval_options.h"
#include "server/service/metrics_file.h"
#include "server/service/process_security.h"
#include "server/store/coordinator_store.h"
#include "server/store/posix_file_system.h"

namespace longwave {
namespace {

constexpr absl::Duration kTickInterval = absl::Milliseconds(100);
// How long members without a heartbeat may delay the end: after a signal, since the process must
// end within two seconds, and otherwise.
constexpr absl::Duration kTellingAfterSignal = absl::Milliseconds(700);
constexpr absl::Duration kTellingMax = absl::Seconds(15);
// After StopRun the end stays visible to status calls for this long.
constexpr absl::Duration kShowingMin = absl::Seconds(5);

constexpr absl::Duration kReplaceAfterMin = absl::Seconds(1);
constexpr uint32_t kRoundsBehindMin = 8;
// Interval for returning free memory of large or many messages to the system.
constexpr absl::Duration kTrimInterval = absl::Seconds(5);
// Interval between reports of a disk that keeps failing.
constexpr absl::Duration kComplaintInterval = absl::Seconds(10);
// Lines a minute about calls that the core refuses.
constexpr uint64_t kRefusedLinesMax = 32;

// If the configuration determines the model, a first worker with another model must not block the
// others.
absl::StatusOr<uint64_t> SegmentCount(const RunConfig& config, const Manifest& manifest,
                                      uint64_t layout_hash) {
  if (config.model.kind == "gpt") {
    LONGWAVE_ASSIGN_OR_RETURN(const Manifest wanted, GptManifest(config.model));
    if (const std::string difference = FirstDifference(manifest, wanted); !difference.empty()) {
      return InvalidArgument("the model is not that of the configuration: ", difference);
    }
  }
  const LayoutOptions options = LayoutOptionsFor(config, manifest);
  LONGWAVE_ASSIGN_OR_RETURN(const uint64_t segments, CountSegments(manifest, options));
  if (const uint64_t wanted = LayoutHash(manifest, options); layout_hash != wanted) {
    return InvalidArgument(
        absl::StrFormat("the model is cut another way than the configuration says: layout hash "
                        "%016x, wanted %016x",
                        layout_hash, wanted));
  }
  return segments;
}

CoordinatorOptions OptionsOf(const RunConfig& config) {
  return {.workers_wanted = config.run.workers,
          .workers_max = WorkersMax(config),
          .shards_wanted = config.run.shards,
          .rounds = RoundCount(config),
          .interval = IntervalOptionsOf(config),
          .promises_equal_replicas = PromisesEqualReplicas(config),
          .settings = BindingSettings(config),
          .settings_at_most = SettingsAtMost(),
          .takes_other_starts = config.run.start == "member",
          .segment_count =
              [config](const Manifest& manifest, uint64_t layout_hash) {
                return SegmentCount(config, manifest, layout_hash);
              },
          .heartbeat_timeout = absl::Seconds(config.cluster.heartbeat_timeout_s),
          .start_timeout = absl::Seconds(config.cluster.start_timeout_s),
          .away_timeout = AwayTimeout(config),
          // A live shard sends several heartbeats in this time.
          .replace_after =
              std::max(kReplaceAfterMin, absl::Seconds(config.cluster.heartbeat_interval_s) * 4),
          .rounds_behind_max = std::max(config.cluster.state_rounds, kRoundsBehindMin)};
}

class CoordinatorServiceImpl final : public CoordinatorService, private CoordinatorHandler {
 public:
  CoordinatorServiceImpl(const CoordinatorServiceOptions& options, Coordinator core,
                         std::unique_ptr<FileSystem> files, std::unique_ptr<CoordinatorStore> store,
                         std::optional<MetricsFile> metrics)
      : exit_when_done_(options.exit_when_done),
        configuration_(FormatConfig(ShownToOthers(options.config))),
        files_(std::move(files)),
        core_(std::move(core)),
        rng_(RandomWord()),
        own_series_(options.metrics == nullptr ? std::make_unique<Metrics>(MetricPart::kCoordinator)
                                               : nullptr),
        series_(options.metrics == nullptr ? own_series_.get() : options.metrics,
                RoundCount(options.config), PromisesEqualReplicas(options.config)),
        commit_(&core_, std::move(store),
                [this](absl::Duration took, bool ok) { series_.Saved(took, ok); }),
        metrics_(std::move(metrics)) {
    // A coordinator that continues writes and reports what the one before had no time for.
    if (core_.is_over()) ended_at_ = MonotonicNow();
    WriteMetrics();
    for (bool all = false; !all;) {
      const RunStatus status = core_.Status(series_.next_record(), MonotonicNow());
      series_.Know(status);
      all = series_.next_record() >= status.record_count;
    }
    refresher_ = series_.page()->OnPage([this] {
      const std::lock_guard lock(mutex_);
      series_.Refresh(StatusFrom(series_.next_record()), refusals_);
    });
  }

  // Before StartServer: calls are checked against certificates and known names.
  void Secure(std::unique_ptr<Admission> admission, RpcServerOptions server) {
    {
      const std::lock_guard lock(mutex_);  // pages are made already
      admission_ = std::move(admission);
    }
    server_options_ = std::move(server);
    server_options_.refusals = &refusals_;
    expiry_ = ShowCertificateExpiry(series_.page(), server_options_.credentials);
    operator_keeper_ = CertificateKeeper::Start(
        absl::StrCat(server_options_.credentials, "/operator"), [this](const std::string& request) {
          return admission_->RenewOwn(
              OperatorIdentity(), absl::StrCat(server_options_.credentials, "/operator"), request);
        });
    keeper_ =
        CertificateKeeper::Start(server_options_.credentials, [this](const std::string& request) {
          return admission_->RenewOwn(CoordinatorIdentity(), server_options_.credentials, request);
        });
  }

  absl::Status StartServer(const std::string& address, const std::string& health_address) {
    if (!health_address.empty()) {
      LONGWAVE_ASSIGN_OR_RETURN(health_, HealthServer::Start(health_address));
      health_->SetReady(commit_.status().ok());
    }
    LONGWAVE_ASSIGN_OR_RETURN(server_, RpcServer::Start(address, this, server_options_));
    return absl::OkStatus();
  }

  std::string address() const override { return server_->address(); }
  std::string health_address() const override {
    return health_ == nullptr ? "" : health_->address();
  }

  absl::Status Run(std::stop_token stop) override {
    {
      std::unique_lock lock(mutex_);
      while (!MayEnd(stop.stop_requested())) {
        // Waits for the next tick, or less if an event may end the run.
        changed_.wait_for(lock, stop, absl::ToChronoNanoseconds(kTickInterval),
                          [&] { return std::exchange(end_may_have_come_, false); });
        Step(Tick{}, lock);
        if (const absl::Time now = MonotonicNow(); now >= look_at_) {
          series_.Observe(core_.Status(series_.next_record(), now));
          look_at_ = now + CoordinatorMetrics::kInterval;
        }
#if defined(__GLIBC__)
        if (const absl::Time now = MonotonicNow(); now >= trim_at_) {
          malloc_trim(0);
          trim_at_ = now + kTrimInterval;
        }
#endif
        if (!stop.stop_requested() || core_.is_over()) continue;
        if (commit_.keeps()) {  // nobody was told what a failed write lacks
          Log(LogLevel::kInfo, "told to end; the run goes on when it is started again");
          break;
        }
        Step(StopRequested{"the coordinator was told to end"}, lock);
      }
    }
    server_->Shutdown();
    const std::lock_guard lock(mutex_);
    if (exit_when_done_ && core_.phase() == RunPhase::kFailed) return Aborted(core_.reason());
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<uint32_t> Register(const RegisterWorker& request) override {
    std::unique_lock lock(mutex_);
    // A second check, since the worker may have been expelled meanwhile: see Expel.
    if (admission_ != nullptr) LONGWAVE_RETURN_IF_ERROR(admission_->CheckWorker(request.name));
    LONGWAVE_ASSIGN_OR_RETURN(const WorkerRegistered answer, Ask<WorkerRegistered>(request, lock));
    series_.Registered(request, answer.worker);
    return answer.worker;
  }

  absl::StatusOr<ShardRegistration> Register(const RegisterShard& request) override {
    std::unique_lock lock(mutex_);
    LONGWAVE_ASSIGN_OR_RETURN(const ShardRegistration answer,
                              Ask<ShardRegistration>(request, lock));
    series_.Registered(request);
    series_.SetRun(answer.run);
    return answer;
  }

  absl::StatusOr<WorkerHeartbeatReply> Heartbeat(const WorkerHeartbeat& heartbeat) override {
    std::unique_lock lock(mutex_);
    LONGWAVE_ASSIGN_OR_RETURN(WorkerHeartbeatReply reply,
                              Ask<WorkerHeartbeatReply>(heartbeat, lock));
    series_.Heard(heartbeat, MonotonicNow());
    // Perhaps the last one to be told.
    if (reply.instruction == Instruction::kStop) NoteEndMayHaveCome();
    return reply;
  }

  absl::StatusOr<ShardHeartbeatReply> Heartbeat(const ShardHeartbeat& heartbeat) override {
    std::unique_lock lock(mutex_);
    LONGWAVE_ASSIGN_OR_RETURN(ShardHeartbeatReply reply, Ask<ShardHeartbeatReply>(heartbeat, lock));
    series_.Heard(heartbeat);
    if (reply.instruction == Instruction::kStop) NoteEndMayHaveCome();
    if (admission_ != nullptr) reply.names = admission_->NewerNames(heartbeat.names_version);
    return reply;
  }

  absl::StatusOr<RunStatus> GetStatus(uint64_t round_records_from) override {
    const std::lock_guard lock(mutex_);
    RunStatus status = StatusFrom(round_records_from);
    AddTrouble(metrics_written_, &status);  // no caller waits for that
    status.refusals = CountsOf(refusals_);
    status.secured = admission_ != nullptr;
    return status;
  }

  absl::StatusOr<RunDescription> GetRun() override {
    RunDescription run{.configuration = configuration_};
    const std::lock_guard lock(mutex_);
    run.manifest = core_.manifest();
    return run;
  }

  absl::Status StopRun(const std::string& reason) override {
    std::unique_lock lock(mutex_);
    std::vector<CoordinatorEffect> effects;
    // A run whose end is not on the disk would go on with the next coordinator.
    const absl::Status saved =
        core_.is_over() ? commit_.Commit(lock) : Step(StopRequested{reason}, lock, &effects);
    if (!saved.ok()) return Unavailable("the run stops once it is written: ", saved.message());
    end_requested_ = true;
    NoteEndMayHaveCome();
    return absl::OkStatus();
  }

  absl::Status AddNote(const std::string& note) override {
    if (note.empty()) return InvalidArgument("note: got none, wanted some words");
    Log(LogLevel::kInfo, "an operator notes: ", note);
    return absl::OkStatus();
  }

  std::string WorkerName(uint32_t worker) override {
    const std::lock_guard lock(mutex_);
    return core_.NameOf(worker);
  }
  std::optional<CallRefusal> Admit(const CertificateInfo& caller) override {
    return admission_->Admit(caller);
  }
  absl::StatusOr<std::string> GetAuthority() override { return admission_->GetAuthority(); }
  absl::Status CheckToken(const std::string& token) override {
    return admission_->CheckToken(token);
  }
  absl::StatusOr<JoinAnswer> Join(const JoinWish& wish) override {
    std::optional<Manifest> manifest;
    bool is_taken = false;
    {
      const std::lock_guard lock(mutex_);
      manifest = core_.manifest();
      is_taken =
          wish.subject.role == Role::kWorker && core_.IndexOf(wish.subject.worker).has_value();
    }
    return Counted(admission_->Join(wish, is_taken, std::move(manifest)));
  }
  absl::StatusOr<std::string> RenewCertificate(const RenewalWish& wish) override {
    return Counted(admission_->RenewCertificate(wish.caller, wish.request));
  }
  absl::StatusOr<NewToken> CreateToken(const TokenWish& wish) override {
    return admission_->CreateToken(wish);
  }
  absl::StatusOr<TokenList> ListTokens() override { return admission_->ListTokens(); }
  absl::Status RevokeToken(const std::string& id) override { return admission_->RevokeToken(id); }
  absl::StatusOr<Expulsion> Expel(const std::string& worker, bool undo, bool whole) override {
    // Admission changes before the place is taken away. A registration that has passed admission
    // checks again while it holds mutex_: it either comes before the place is taken, or is refused.
    LONGWAVE_ASSIGN_OR_RETURN(Expulsion expulsion, admission_->Expel(worker, undo, whole));
    std::unique_lock lock(mutex_);
    if (undo) return expulsion;
    if (const auto index = core_.IndexOf(worker)) series_.Expelled(*index);
    Step(WorkerExpelled{worker}, lock);
    return expulsion;
  }

  // Counts issued certificates.
  template <typename Answer>
  absl::StatusOr<Answer> Counted(absl::StatusOr<Answer> answer) {
    if (answer.ok()) series_.Issued();
    return answer;
  }

  // The caller of the following holds mutex_; functions with `lock` release it during a write.

  // The answer among the effects of an event that has one. Unavailable: the decision is not on the
  // disk, so it must not be sent; a retry gets the same answer.
  template <typename Answer>
  absl::StatusOr<Answer> Ask(const CoordinatorEvent& event, std::unique_lock<std::mutex>& lock) {
    std::vector<CoordinatorEffect> effects;
    if (const absl::Status saved = Step(event, lock, &effects); !saved.ok()) {
      core_.NoteUnsent();
      series_.Refused(Unavailable(saved.message()));
      return Unavailable(saved.message());
    }
    for (CoordinatorEffect& effect : effects) {
      if (auto* answer = std::get_if<Answer>(&effect)) return std::move(*answer);
      if (auto* refused = std::get_if<Refused>(&effect)) {
        series_.Refused(refused->status);
        if (std::string left_out; refused_lines_.May(MonotonicNow(), &left_out)) {
          Log(LogLevel::kWarning, "refused: ", refused->status.message(), left_out);
        }
        return refused->status;
      }
    }
    LONGWAVE_CHECK(false);  // the core answers each event of this kind
  }

  // The core's status, with a note while the core's state cannot be written.
  RunStatus StatusFrom(uint64_t first_record) const {
    RunStatus status = core_.Status(first_record, MonotonicNow());
    AddTrouble(saved_, &status);
    if (admission_ == nullptr) return status;
    const std::set<std::string> expelled = admission_->Expelled();
    for (MemberStatus& member : status.members) {
      if (expelled.contains(member.member.name)) member.state.phase = WorkerPhase::kExpelled;
    }
    return status;
  }
  static void AddTrouble(const absl::Status& written, RunStatus* status) {
    if (written.ok()) return;
    absl::StrAppend(&status->trouble, status->trouble.empty() ? "" : "; ", written.message());
  }

  // Runs one step of the core, performs its effects except answers, which are in `effects`, and
  // makes the step durable. Returns the status of the write.
  absl::Status Step(const CoordinatorEvent& event, std::unique_lock<std::mutex>& lock,
                    std::vector<CoordinatorEffect>* effects) {
    *effects = core_.Step(event, MonotonicNow(), rng_);
    for (const CoordinatorEffect& effect : *effects) {
      if (const auto* changed = std::get_if<PhaseChanged>(&effect)) {
        EnterPhase(*changed);
      } else if (const auto* notice = std::get_if<Notice>(&effect)) {
        Log(notice->is_warning ? LogLevel::kWarning : LogLevel::kInfo, notice->text);
      }
    }
    absl::Status saved = commit_.Commit(lock);
    NoteSaved(saved);
    WriteMetrics();
    return saved;
  }
  void Step(const CoordinatorEvent& event, std::unique_lock<std::mutex>& lock) {
    std::vector<CoordinatorEffect> effects;
    Step(event, lock, &effects).IgnoreError();  // the next step retries the write
  }

  // Logs when a file cannot be written, and when it can be again.
  void NoteWritten(const char* what, const absl::Status& status, absl::Status* before) {
    if (status.ok()) {
      if (!before->ok()) Log(LogLevel::kInfo, what, " can be written again");
      *before = status;
      return;
    }
    const bool is_new = before->ok();
    *before =
        absl::Status(status.code(), absl::StrCat(what, " cannot be written: ", status.message()));
    if (!is_new && MonotonicNow() - complained_at_ <= kComplaintInterval) return;
    complained_at_ = MonotonicNow();
    Log(LogLevel::kError, before->message());
  }
  void NoteSaved(const absl::Status& status) {
    if (health_ != nullptr && status.ok() != saved_.ok()) health_->SetReady(status.ok());
    NoteWritten("the coordinator's state, which it must keep before it answers anybody,", status,
                &saved_);
  }

  // Durable finished rounds that the file lacks.
  void WriteMetrics() {
    if (!metrics_.has_value()) return;
    absl::Status written;
    for (const FinishedRound& round : core_.RoundsFrom(metrics_->next_round())) {
      if (!written.ok() || round.record.round >= commit_.durable_rounds()) break;
      written = metrics_->Append(round.record);
    }
    if (!written.ok()) series_.MetricsNotWritten();
    NoteWritten("metrics.jsonl", written, &metrics_written_);
  }

  void EnterPhase(const PhaseChanged& changed) {
    Log(changed.phase == RunPhase::kFailed ? LogLevel::kError : LogLevel::kInfo, "the run is ",
        Name(changed.phase), changed.reason.empty() ? "" : ": ", changed.reason);
    if (!core_.is_over()) return;
    ended_at_ = MonotonicNow();
    NoteEndMayHaveCome();
  }

  void NoteEndMayHaveCome() {
    end_may_have_come_ = true;
    changed_.notify_all();
  }

  bool MayEnd(bool signalled) const {
    if (!core_.is_over() || !(signalled || end_requested_ || exit_when_done_)) return false;
    const absl::Duration since_end = MonotonicNow() - ended_at_;
    if (since_end >= (signalled ? kTellingAfterSignal : kTellingMax)) return true;
    if (!signalled && end_requested_ && since_end < kShowingMin) return false;
    return core_.EveryoneToldOfTheEnd();
  }

  const bool exit_when_done_;
  const std::string configuration_;  // as shown to other processes
  const std::unique_ptr<FileSystem> files_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  Coordinator core_;
  Rng rng_;
  const std::unique_ptr<Metrics> own_series_;  // if none are given
  CoordinatorMetrics series_;
  absl::Time look_at_ = absl::InfinitePast();  // next Take of series_
  absl::Time trim_at_ = absl::InfinitePast();  // next return of free memory
  GroupCommit commit_;
  absl::Status saved_;            // last logged status of the state file
  absl::Status metrics_written_;  // last logged status of metrics_
  absl::Time complained_at_ = absl::InfinitePast();
  LineLimit refused_lines_{kRefusedLinesMax, absl::Minutes(1)};
  std::optional<MetricsFile> metrics_;
  bool end_may_have_come_ = false;  // an event may let Run end
  bool end_requested_ = false;      // by StopRun
  absl::Time ended_at_ = absl::InfinitePast();

  // Null: no security.
  std::unique_ptr<Admission> admission_;
  std::unique_ptr<CertificateKeeper> keeper_;
  std::unique_ptr<CertificateKeeper> operator_keeper_;
  Refusals refusals_;
  RpcServerOptions server_options_;

  std::unique_ptr<Metrics::Refresher> expiry_;  // expiry of the certificate; null: none
  std::unique_ptr<Metrics::Refresher> refresher_;
  std::unique_ptr<HealthServer> health_;  // null: none
  std::unique_ptr<RpcServer> server_;     // serves calls into all members above: destroyed first
};

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorService>> CoordinatorService::Start(
    const CoordinatorServiceOptions& options) {
  CoordinatorOptions core_options = OptionsOf(options.config);
  core_options.continues_failed = options.continues_failed;
  core_options.takes_as_newest = options.takes_as_newest;
  std::unique_ptr<FileSystem> files = MakePosixFileSystem();
  std::unique_ptr<CoordinatorStore> store;
  std::optional<CoordinatorRecord> record;
  if (!options.state_dir.empty()) {
    LONGWAVE_ASSIGN_OR_RETURN(
        store, CoordinatorStore::Open(files.get(), options.state_dir,
                                      {.salt = static_cast<uint32_t>(RandomWord())}));
    record = store->TakeRecord();
    if (!store->cut().empty()) Log(LogLevel::kWarning, store->cut());
  }
  if (record) {
    LONGWAVE_RETURN_IF_ERROR(
        Prefixed(options.state_dir, Coordinator::CheckRecord(core_options, *record)));
    Log(LogLevel::kInfo, absl::StrFormat("goes on with run %016x: %s, epoch %d, %d rounds finished",
                                         record->state.run, Name(record->state.phase),
                                         record->state.epoch, record->state.next_round));
    if (options.takes_as_newest)
      Log(LogLevel::kWarning, "takes this record as the run's newest, as an operator has decided");
  }
  std::optional<MetricsFile> metrics;
  if (!options.run_dir.empty()) {
    LONGWAVE_ASSIGN_OR_RETURN(
        metrics, record ? MetricsFile::Continue(options.run_dir, record->state.next_round)
                        : MetricsFile::Open(options.run_dir));
  }
  auto service = std::make_unique<CoordinatorServiceImpl>(
      options, record ? Coordinator(core_options, *std::move(record)) : Coordinator(core_options),
      std::move(files), std::move(store), std::move(metrics));
  const SecuritySection& security = options.config.security;
  if (IsSecured(security.mode, {options.address, options.config.cluster.coordinator,
                                options.config.cluster.shard_host})) {
    LONGWAVE_ASSIGN_OR_RETURN(const std::string credentials,
                              CredentialsFolder(security.folder, options.state_dir));
    LONGWAVE_ASSIGN_OR_RETURN(std::unique_ptr<Admission> admission,
                              Admission::Open({.config = options.config,
                                               .credentials = credentials,
                                               .authority = security.authority,
                                               .book_folder = options.state_dir,
                                               .address = options.address}));
    service->Secure(std::move(admission),
                    {.credentials = credentials, .connection_age_max = ConnectionAgeMax(security)});
  }
  LONGWAVE_RETURN_IF_ERROR(service->StartServer(options.address, options.health_address));
  return service;
}

}  // namespace longwave
