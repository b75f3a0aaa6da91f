#include "server/service/shard_service.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/errors.h"
#include "common/base/figures.h"
#include "common/base/heartbeat_schedule.h"
#include "common/base/memory.h"
#include "common/base/random_word.h"
#include "common/base/status_macros.h"
#include "common/base/termination.h"
#include "common/config/config.h"
#include "common/layout/layout.h"
#include "common/link/endpoint.h"
#include "common/link/link.h"
#include "common/log/log.h"
#include "common/rpc/certificate_keeper.h"
#include "common/rpc/coordinator_client.h"
#include "common/rpc/health_server.h"
#include "common/rpc/rpc_server.h"
#include "common/security/certificate_metric.h"
#include "server/service/names_known.h"
#include "server/service/process_security.h"
#include "server/service/shard_data_plane.h"
#include "server/service/shard_memory.h"
#include "server/service/shard_metrics.h"
#include "server/shard/tile_threads.h"
#include "server/shard_state/durable_shard.h"
#include "server/store/posix_file_system.h"
#include "server/store/shard_store.h"

namespace longwave {
namespace {

// Deadline of one call to the coordinator, below the two seconds in which a stopped shard must end.
constexpr absl::Duration kCallDeadline = absl::Seconds(1);
// A folder that takes longer to open is trouble.
constexpr std::chrono::seconds kOpeningPatience(1);
// A coordinator that has just refused the shard is there, but may be busy.
constexpr int kRunIsOverTries = 5;

// The address to announce: `given` by the flag and checked, or the `bound` one.
std::string Announced(const std::string& given, const std::string& bound, const char* flag) {
  if (!given.empty()) return given;
  if (IsWildcard(bound)) {
    Log(LogLevel::kWarning, "announces ", bound, ", by which others reach their own ", "machine; ",
        flag, " HOST:PORT says where this one is");
  }
  return bound;
}

// `options` with the announced addresses in the form for the coordinator.
absl::StatusOr<ShardServiceOptions> WithCheckedAddresses(ShardServiceOptions options) {
  for (auto [flag, address] : {std::pair{"--advertise", &options.advertised_data},
                               std::pair{"--control-advertise", &options.advertised_control}}) {
    if (address->empty()) continue;
    if (const std::vector<std::string> of_all = absl::StrSplit(*address, ','); of_all.size() > 1) {
      if (of_all.size() <= options.shard) {
        return InvalidArgument(flag, ": got ", of_all.size(), " addresses, wanted one for shard ",
                               options.shard, " too, or one alone");
      }
      *address = of_all[options.shard];
    }
    absl::StatusOr<std::string> endpoint = EndpointToConnectTo(*address);
    if (!endpoint.ok()) return Prefixed(flag, endpoint.status());
    *address = *std::move(endpoint);
  }
  // gRPC addresses have no scheme.
  options.advertised_control = std::string(absl::StripPrefix(options.advertised_control, "tcp://"));
  return options;
}

class ShardServiceImpl final : public ShardService, private ShardHandler {
 public:
  ShardServiceImpl(const ShardServiceOptions& options, uint64_t open_bytes_max,
                   const FolderOwner& owner, std::unique_ptr<Router> router,
                   std::unique_ptr<ProcessSecurity> security)
      : options_(options),
        open_bytes_max_(open_bytes_max),
        run_in_folder_(owner.run),
        own_metrics_(options.metrics == nullptr ? std::make_unique<Metrics>(MetricPart::kShard)
                                                : nullptr),
        metrics_(options.metrics == nullptr ? own_metrics_.get() : options.metrics, options.shard,
                 options.state_dir, open_bytes_max, CanCatchUp(options.config)),
        folder_(options.state_dir.empty() || owner.folder != 0 ? owner.folder : RandomWord()),
        incarnation_(RandomWord()),
        files_(MakePosixFileSystem(metrics_.disk().watch())),
        security_(std::move(security)),
        data_(std::move(router), &metrics_),
        coordinator_(
            CoordinatorClient::Connect(options.coordinator, kCallDeadline, security_->credentials)),
        schedule_(absl::Seconds(options.config.cluster.heartbeat_interval_s), MonotonicNow()) {}

  absl::Status StartControl() {
    refresher_ = metrics_.page()->OnPage([this] {
      const absl::Time answered_at = absl::FromUnixNanos(answered_at_ns_.load());
      metrics_.Show(data_.figures(), security_->refusals, MonotonicNow() - answered_at);
    });
    expiry_ = ShowCertificateExpiry(metrics_.page(), security_->credentials);
    LONGWAVE_ASSIGN_OR_RETURN(
        control_, RpcServer::Start(options_.control_address, this, security_->ForServer()));
    if (security_->is_on()) {
      keeper_ = CertificateKeeper::Start(
          security_->credentials, [coordinator = coordinator_](const std::string& request) {
            return coordinator->RenewCertificate({.request = request});
          });
    }
    if (!options_.health_address.empty()) {
      LONGWAVE_ASSIGN_OR_RETURN(health_, HealthServer::Start(options_.health_address));
    }
    advertised_data_ = Announced(options_.advertised_data, data_endpoint(), "--advertise");
    advertised_control_ =
        Announced(options_.advertised_control, control_address(), "--control-advertise");
    return absl::OkStatus();
  }

  std::string data_endpoint() const override { return data_.endpoint(); }
  std::string control_address() const override { return control_->address(); }
  std::string advertised_data() const override { return advertised_data_; }
  std::string advertised_control() const override { return advertised_control_; }
  std::string health_address() const override {
    return health_ == nullptr ? "" : health_->address();
  }

  absl::Status Run(std::stop_token stop, const std::function<void()>& ready) override {
    std::thread serving;
    absl::Status status = KeepPlace(stop, [&] {
      ready();
      serving = std::thread([this] { NoteFailure(data_.Serve()); });
    });
    if (serving.joinable()) {
      if (status.ok()) Stay(stop);
      data_.Stop();
      serving.join();
    } else if (absl::IsFailedPrecondition(status) && RunEndedWell()) {
      Log(LogLevel::kInfo, status.message());
      if (options_.stay_when_done) ready();
      Stay(stop);
      status = absl::OkStatus();
    }
    control_->Shutdown();
    return status;
  }

 private:
  absl::StatusOr<ShardReport> GetStatus() override {
    ShardReport status = data_.status();
    status.shard = options_.shard;
    status.refusals = CountsOf(security_->refusals);
    status.secured = security_->is_on();
    return status;
  }

  std::optional<CallRefusal> Admit(const CertificateInfo& caller) override {
    return names_.Admit(caller);
  }

  // For stay_when_done. A shard whose run is over counts as ready.
  void Stay(const std::stop_token& stop) {
    if (!options_.stay_when_done || stop.stop_requested()) return;
    Log(LogLevel::kInfo, "stays until it is told to end");
    SetReady(true);
    while (!stop.stop_requested()) WaitFor(absl::Hours(1), stop);
  }

  // Whether nothing is left to do: by any end of the run, if the shard stays.
  bool RunEndedWell() {
    for (int i = 0; i < kRunIsOverTries; ++i) {
      const auto run = coordinator_->GetStatus(/*round_records_from=*/kRoundNever);
      if (!run.ok()) continue;
      return options_.stay_when_done ? IsOver(run->phase) : run->phase == RunPhase::kFinished;
    }
    return false;
  }

  void SetReady(bool ready) {
    if (health_ == nullptr || ready == is_ready_) return;
    is_ready_ = ready;
    health_->SetReady(ready);
  }

  // Registers and sends heartbeats until the coordinator says stop, `stop` is requested, or the
  // shard cannot go on. Calls `registered` once.
  absl::Status KeepPlace(const std::stop_token& stop, const std::function<void()>& registered) {
    bool was_registered = false;
    while (!stop.stop_requested()) {
      const HeartbeatSchedule::Call call = schedule_.TakeDue(MonotonicNow());
      if (call == HeartbeatSchedule::Call::kNone) {
        WaitFor(schedule_.due_at() - MonotonicNow(), stop);
        continue;
      }
      const absl::Status failure = this->failure();
      ShardHeartbeatReply reply;
      const absl::Status answer =
          call == HeartbeatSchedule::Call::kRegister ? Register() : Beat(failure, &reply);
      const bool was_reachable = schedule_.is_reachable();
      const auto end =
          schedule_.Ended(answer, known_epoch_ != 0, known_epoch_ != 0, MonotonicNow());
      // A failure ends the process once the coordinator was told, or after a while without an
      // answer.
      const bool gave_up = MonotonicNow() - schedule_.answered_at() > kCallDeadline * 3;
      if (!failure.ok() && (answer.ok() || gave_up)) return failure;
      switch (end) {
        case HeartbeatSchedule::End::kAnswered:
          break;
        case HeartbeatSchedule::End::kSilent:
          LONGWAVE_RETURN_IF_ERROR(BearSilence(answer, was_reachable));
          continue;
        case HeartbeatSchedule::End::kLostPlace:
          Log(LogLevel::kWarning,
              "has lost its place before the run began, and registers again: ", answer.message());
          SetReady(false);
          continue;
        case HeartbeatSchedule::End::kRefused:
          return answer;
      }
      answered_at_ns_.store(absl::ToUnixNanos(schedule_.answered_at()), std::memory_order_relaxed);
      if (call == HeartbeatSchedule::Call::kRegister) {
        if (!std::exchange(was_registered, true)) registered();
        continue;
      }
      if (reply.instruction == Instruction::kStop) {
        Log(LogLevel::kInfo, "the coordinator says stop: ", reply.reason);
        return absl::OkStatus();
      }
      // The shard confirms a new membership at once, since workers begin when all shards know it. A
      // shard that comes back to a run is ready when the answers bring nothing new.
      if (Learn(reply)) {
        schedule_.Urge();
      } else if (takes_pushes_) {
        SetReady(true);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Register() {
    LONGWAVE_ASSIGN_OR_RETURN(
        registration_, coordinator_->Register(RegisterShard{
                           .shard = options_.shard,
                           .data_endpoint = WithKey(advertised_data_, security_->keys.public_key),
                           .control_endpoint = advertised_control_,
                           .incarnation = incarnation_,
                           .settings = BindingSettings(options_.config),
                           .run = run_in_folder_,
                           .folder = folder_}));
    metrics_.SetRun(registration_.run);
    return absl::OkStatus();
  }

  absl::Status Beat(const absl::Status& failure, ShardHeartbeatReply* reply) {
    ShardHeartbeat report = data_.Report(known_epoch_);
    report.shard = options_.shard;
    report.incarnation = incarnation_;
    report.knows_manifest = knows_manifest_;
    report.failure = std::string(failure.message());
    report.names_version = names_.version();
    if (opening_.valid()) report.trouble = "opens its folder, and reads the log";
    takes_pushes_ = failure.ok() && report.trouble.empty();
    if (!takes_pushes_) SetReady(false);
    LONGWAVE_ASSIGN_OR_RETURN(*reply, coordinator_->Heartbeat(report));
    return absl::OkStatus();
  }

  // Handles a call without an answer. Unavailable: neither the coordinator nor any worker was heard
  // for too long.
  absl::Status BearSilence(const absl::Status& answer, bool is_new) {
    const std::string reason(answer.message());
    if (is_new) {
      Log(LogLevel::kWarning, reason, schedule_.is_registered() ? "; the data plane runs on" : "",
          "; trying again");
    }
    const absl::Duration silence =
        MonotonicNow() - std::max(schedule_.answered_at(), data_.figures().last_frame);
    const absl::Duration patience = known_epoch_ != 0
                                        ? AwayTimeout(options_.config)
                                        : absl::Seconds(options_.config.cluster.start_timeout_s);
    if (silence <= patience) return absl::OkStatus();
    return Unavailable(reason, "; nothing was heard of the run for ", FormatSeconds(silence));
  }

  // The folder's log may take longer to read than the coordinator waits for a heartbeat, so another
  // thread opens the shard. True: it has just been opened, or cannot be.
  bool Open(const std::optional<Manifest>& manifest) {
    if (knows_manifest_ || !manifest.has_value()) return false;
    if (!opening_.valid()) {
      opening_ = std::async(std::launch::async, [this, manifest = *manifest, of = registration_] {
        return Begin(manifest, of);
      });
    }
    if (opening_.wait_for(kOpeningPatience) != std::future_status::ready) return false;
    const absl::Status begun = opening_.get();
    NoteFailure(begun);
    knows_manifest_ = begun.ok();
    return true;
  }

  // True if the answer had news.
  bool Learn(const ShardHeartbeatReply& reply) {
    if (reply.names.has_value()) names_.Set(*reply.names);
    if (knows_manifest_ && !reply.hash_checks.empty()) data_.SetHashChecks(reply.hash_checks);
    if (knows_manifest_) data_.HoldBack(reply.reason);
    bool learned = Open(reply.manifest);
    // A membership is unusable before the manifest. The coordinator repeats it until it is
    // confirmed.
    if (knows_manifest_ && reply.membership.has_value() &&
        reply.membership->epoch != known_epoch_) {
      known_epoch_ = reply.membership->epoch;
      Log(LogLevel::kInfo, "epoch ", known_epoch_, ": ", reply.membership->members.size(),
          " members");
      data_.SetMembership(*reply.membership);
      learned = true;
    }
    return learned;
  }

  absl::Status Begin(const Manifest& manifest, const ShardRegistration& of) {
    const RunConfig& config = options_.config;
    LONGWAVE_ASSIGN_OR_RETURN(Layout layout,
                              Layout::Create(manifest, LayoutOptionsFor(config, manifest)));
    LONGWAVE_ASSIGN_OR_RETURN(const MachineMemory machine, ReadMachineMemory());
    DurableShardOptions options{
        .aggregator = {.run = of.run,
                       .run_seed = config.run.seed,
                       .shard = options_.shard,
                       .up = config.sync.up,
                       .rho = config.sync.rho,
                       .down = config.sync.down,
                       .available_bytes = BytesForShard(config, machine),
                       .workers = WorkersMax(config),
                       .queue_bytes = QueueBytes(QueuesWithin(open_bytes_max_, config), config,
                                                 layout, options_.shard),
                       .weight_max = ContributionWeightMax(config),
                       .clip = config.sync.clip,
                       .fragments = config.sync.fragments,
                       .open_bytes_max = open_bytes_max_,
                       .quorum = config.sync.quorum,
                       .grace_min = absl::Seconds(config.cluster.grace_min_s),
                       .grace_max = absl::Seconds(config.cluster.grace_max_s),
                       .rounds = RoundCount(config)},
        .state_rounds = config.cluster.state_rounds,
        .snapshot_rounds = config.cluster.snapshot_rounds,
        .can_catch_up = CanCatchUp(config),
        .keeps_start = config.run.start == "member",
        .lowers_open_bytes = config.cluster.shard_memory_mb == 0,
        .model_arrays = StateArrays(config),
        .restore = of.restore,
        .rounds = of.rounds,
        // A folder with this run at the start has at least one record, so its log must not begin
        // anew.
        .log_records = std::max<uint64_t>(of.log_records, run_in_folder_ != 0 ? 1 : 0),
        .told_epoch = of.told_epoch,
        .join_patience = absl::Seconds(config.cluster.heartbeat_timeout_s)};
    options.aggregator.threads =
        std::make_shared<TileThreads>(config.cluster.shard_threads, [this](absl::Duration took) {
          metrics_.merge_seconds().Observe(absl::ToDoubleSeconds(took));
        });
    OpenStore open_store;
    if (!options_.state_dir.empty()) {
      ShardStoreOptions store;
      store.identity = {of.run, options_.shard, layout.hash()};
      store.folder = folder_;
      store.settings = BindingSettings(config);
      store.log.salt = static_cast<uint32_t>(RandomWord());
      open_store = [this, store] {
        return ShardStore::Open(files_.get(), options_.state_dir, store);
      };
    }
    LONGWAVE_ASSIGN_OR_RETURN(
        std::unique_ptr<DurableShard> shard,
        DurableShard::Open(options, std::move(layout), std::move(open_store)));
    metrics_.SetMemoryLimit(shard->open_bytes_max());
    data_.Begin(of.run, incarnation_, std::move(shard));
    return absl::OkStatus();
  }

  void NoteFailure(const absl::Status& status) {
    if (status.ok()) return;
    Log(LogLevel::kError, status.message());
    const std::lock_guard lock(mutex_);
    failure_.Update(status);
  }
  absl::Status failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  const ShardServiceOptions options_;
  const uint64_t open_bytes_max_;
  const uint64_t run_in_folder_;                // at the start; 0: none
  const std::unique_ptr<Metrics> own_metrics_;  // if none are given
  ShardMetrics metrics_;
  const uint64_t folder_;  // random word; 0: without a folder
  const uint64_t incarnation_;
  const std::unique_ptr<FileSystem> files_;  // outlives the shard in data_
  const std::unique_ptr<ProcessSecurity> security_;
  ShardDataPlane data_;
  const std::shared_ptr<CoordinatorClient> coordinator_;
  std::unique_ptr<CertificateKeeper> keeper_;  // null: no security
  NamesKnown names_;                           // outlives the server that uses it
  std::unique_ptr<RpcServer> control_;
  std::unique_ptr<HealthServer> health_;  // null: none
  std::string advertised_data_;
  std::string advertised_control_;

  // Run's thread alone.
  ShardRegistration registration_;
  uint32_t known_epoch_ = 0;
  bool knows_manifest_ = false;
  bool is_ready_ = false;
  bool takes_pushes_ = false;
  HeartbeatSchedule schedule_;

  mutable std::mutex mutex_;
  absl::Status failure_;  // why this shard cannot go on: the first reason

  // Time of the coordinator's last answer.
  std::atomic<int64_t> answered_at_ns_{absl::ToUnixNanos(MonotonicNow())};
  std::unique_ptr<Metrics::Refresher> expiry_;     // expiry of the certificate; null: none
  std::unique_ptr<Metrics::Refresher> refresher_;  // reads all members above
  std::future<absl::Status> opening_;              // Run's thread's; its own thread uses all above
};

}  // namespace

absl::StatusOr<std::unique_ptr<ShardService>> ShardService::Start(
    const ShardServiceOptions& given) {
  LONGWAVE_ASSIGN_OR_RETURN(const ShardServiceOptions options, WithCheckedAddresses(given));
  if (options.config.run.start == "member" && options.state_dir.empty()) {
    return InvalidArgument(
        "run.start: member: got no --state-dir, wanted a folder, where the shard keeps what the "
        "run began with");
  }
  LONGWAVE_ASSIGN_OR_RETURN(const MachineMemory machine, ReadMachineMemory());
  const uint64_t open_bytes_max = OpenBytesMax(options.config, machine);
  LONGWAVE_ASSIGN_OR_RETURN(
      std::unique_ptr<ProcessSecurity> security,
      OpenSecurity(options.config, options.state_dir, ShardIdentity(options.shard),
                   {options.coordinator, options.data_endpoint, options.control_address,
                    options.advertised_data, options.advertised_control}));
  LinkOptions link = QueuesWithin(open_bytes_max, options.config);
  link.keys = security->keys;
  link.refusals = &security->refusals;
  LONGWAVE_ASSIGN_OR_RETURN(std::unique_ptr<Router> router,
                            Router::Bind(options.data_endpoint, link));
  FolderOwner owner;
  if (!options.state_dir.empty()) {
    const std::unique_ptr<FileSystem> files = MakePosixFileSystem();
    LONGWAVE_RETURN_IF_ERROR(files->CreateFolder(options.state_dir));
    LONGWAVE_ASSIGN_OR_RETURN(owner, OwnerOfFolder(*files, options.state_dir));
  }
  auto service = std::make_unique<ShardServiceImpl>(options, open_bytes_max, owner,
                                                    std::move(router), std::move(security));
  LONGWAVE_RETURN_IF_ERROR(service->StartControl());
  return service;
}

}  // namespace longwave
