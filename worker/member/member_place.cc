#include "worker/member/member_place.h"

#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/errors.h"
#include "common/base/figures.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "common/layout/layout.h"
#include "common/layout/segment_elements.h"
#include "common/link/curve.h"
#include "common/log/log.h"
#include "common/rpc/certificate_keeper.h"
#include "common/rpc/coordinator_client.h"
#include "common/security/certificate_metric.h"
#include "common/security/credentials.h"
#include "common/security/security_mode.h"
#include "server/store/posix_file_system.h"
#include "worker/checkpoint/worker_folder.h"
#include "worker/member/node.h"
#include "worker/member/session.h"
#include "worker/member/sync_options.h"

namespace longwave {
namespace {

// Below the time within which a stopped worker must exit. Calls that take longer are repeated.
constexpr absl::Duration kPlaceCallDeadline = absl::Seconds(3);
// How long a worker that cannot start tries to tell the coordinator why.
constexpr absl::Duration kEarlyFailurePatience = absl::Seconds(1);
// A coordinator that has just refused the worker is there, but may be busy.
constexpr int kEndOfRunTries = 5;
// A worker's connections to a shard: a shard knows twice as many of each worker, so that all may be
// replaced.
constexpr uint32_t kConnectionsMax = 64;

// A worker's credentials if the run is secured, else empty.
struct WorkerSecurity {
  std::string credentials;  // folder of the credentials
  CurveKeys keys;
};

absl::StatusOr<WorkerSecurity> OpenSecurity(const MemberPlaceOptions& options) {
  const RunConfig& config = options.config;
  WorkerSecurity security;
  if (!IsSecured(config.security.mode, {config.cluster.coordinator, config.cluster.shard_host}))
    return security;
  LONGWAVE_ASSIGN_OR_RETURN(security.credentials,
                            CredentialsFolder(config.security.folder, options.state_dir));
  LONGWAVE_RETURN_IF_ERROR(
      CheckCredentials(security.credentials, WorkerIdentity(options.name), absl::Now()).status());
  LONGWAVE_ASSIGN_OR_RETURN(security.keys, MakeCurveKeys());
  return security;
}

// The other ranks wait while one draws or reads the first weights again.
constexpr uint64_t kParametersDrawnPerSecond = 20'000'000;

// Below this number of tiles padding costs next to nothing.
constexpr size_t kPaddedTilesMin = 16;

// A sentence if padding is a third or more of all tiles; empty otherwise.
std::string PaddingSentence(const Layout& layout, const RunConfig& config) {
  const double padded = static_cast<double>(layout.coefficient_count());
  const double count = static_cast<double>(layout.parameter_count());
  if (layout.tiles().size() < kPaddedTilesMin || padded < 1.5 * count) return "";
  const char* const preset = config.sync.signal == SignalKind::kGradient ? "flexdemo"
                             : config.train.optimizer == "muon"          ? "muloco_int4"
                                                                         : "longwave_adamw";
  return absl::StrFormat(
      "the model's matrices are thin: %s parameters are padded to %s in tiles of 4096, and padding "
      "costs time and bytes as parameters do; the preset %s pads nothing (sync.tiling: flat)",
      FormatCount(count), FormatCount(padded), preset);
}

class MemberPlaceImpl final : public MemberPlace {
 public:
  MemberPlaceImpl(MemberPlaceOptions options, StopSignal* stop, Layout layout,
                  std::unique_ptr<FileSystem> files, std::unique_ptr<WorkerFolder> folder,
                  WorkerSecurity security)
      : options_(std::move(options)),
        stop_(stop),
        layout_(std::move(layout)),
        files_(std::move(files)),
        folder_(std::move(folder)),
        security_(std::move(security)) {
    if (options_.link != nullptr) {
      node_.emplace(options_.link, &layout_, stop_,
                    absl::Seconds(options_.config.cluster.heartbeat_timeout_s) +
                        absl::Seconds(layout_.parameter_count() / kParametersDrawnPerSecond),
                    options_.metrics == nullptr
                        ? nullptr
                        : &options_.metrics->histogram("longwave_worker_meeting_seconds"));
    }
    if (!IsFirst()) return;
    client_ = CoordinatorClient::Connect(options_.config.cluster.coordinator, kPlaceCallDeadline,
                                         security_.credentials);
    if (security_.credentials.empty()) return;
    keeper_ = CertificateKeeper::Start(security_.credentials,
                                       [client = client_](const std::string& request) {
                                         return client->RenewCertificate({.request = request});
                                       });
    if (options_.metrics != nullptr)
      expiry_ = ShowCertificateExpiry(options_.metrics, security_.credentials);
  }

  const Layout& layout() const override { return layout_; }

  absl::StatusOr<uint32_t> Join(std::span<const float> start) override {
    if (!start.empty() && start.size() != layout_.parameter_count()) {
      return InvalidArgument("first weights: got ", start.size(),
                             " parameters, wanted the manifest's ", layout_.parameter_count());
    }
    std::vector<uint64_t> hashes;
    if (!start.empty()) hashes = StartHashes(layout_, start, StateArrays(options_.config), owned());
    if (!node_.has_value()) return JoinSession(std::move(hashes));
    LONGWAVE_ASSIGN_OR_RETURN(hashes, node_->Hashes(std::move(hashes)));
    if (!hashes.empty() && hashes.size() != layout_.segments().size()) {
      return InvalidArgument(
          "first weights: some ranks of the node have them and some have not, wanted all or none");
    }
    absl::StatusOr<RunStart> start_of_node = RunStart{};
    if (IsFirst()) {
      const absl::StatusOr<uint32_t> worker = JoinSession(std::move(hashes));
      start_of_node =
          worker.ok() ? absl::StatusOr<RunStart>(RunStart{.worker = *worker}) : worker.status();
    }
    LONGWAVE_ASSIGN_OR_RETURN(start_of_node, node_->Share(start_of_node));
    return start_of_node->worker;
  }

  void FailToJoin(const std::string& reason) override {
    if (!IsFirst()) return;
    const auto session = OpenSession(kEarlyFailurePatience, {});
    if (session.ok()) (*session)->Fail(reason);
  }

  std::optional<RunPhase> EndOfRun() override {
    if (!IsFirst()) return std::nullopt;
    absl::StatusOr<RunStatus> run = client_->GetStatus(/*round_records_from=*/kRoundNever);
    for (int i = 1; !run.ok() && i < kEndOfRunTries; ++i) run = client_->GetStatus(kRoundNever);
    if (!run.ok() || !IsOver(run->phase)) return std::nullopt;
    return run->phase;
  }

  void Warn(const std::string& text) override {
    if (!IsFirst()) return node_->Warn(text);
    const std::lock_guard lock(warnings_mutex_);
    if (session_ != nullptr) return session_->Warn(text);
    early_warnings_.push_back(text);
  }

  uint32_t members() const override { return session_ == nullptr ? 0 : session_->members(); }

  absl::StatusOr<MemberParts> Begin(const MemberArrays& arrays) override {
    const RunConfig& config = options_.config;
    absl::StatusOr<RunStart> awaited = Unknown("not awaited");
    const auto await = [&] {
      awaited = AwaitStart();
      return awaited.status();
    };
    LONGWAVE_RETURN_IF_ERROR(arrays.wait ? arrays.wait(await) : await());
    const RunStart& start = *awaited;
    if (options_.metrics != nullptr)
      options_.metrics->SetLabelIfNone("run", absl::StrFormat("%016x", start.run));
    // The workers of a run have one layout, so one of them says it.
    const std::string padding = PaddingSentence(layout_, config);
    if (start.worker == 0 && IsFirst() && !padding.empty()) {
      Log(LogLevel::kWarning, padding);
      Warn(padding);
    }
    SyncOptions sync = SyncOptionsOf(config.sync, config.run.seed);
    if (options_.adjust_sync) options_.adjust_sync(&sync);
    LONGWAVE_ASSIGN_OR_RETURN(
        pipeline_,
        SyncPipeline::Create(sync, &layout_, arrays.ops, arrays.exec,
                             {.theta = arrays.theta, .gradient = arrays.gradient}, owned()));
    LONGWAVE_ASSIGN_OR_RETURN(
        exchange_, Exchange::Connect({.run = start.run,
                                      .worker = start.worker,
                                      .node = node_.has_value() ? node_->rank() : NodeRank{},
                                      .shard_endpoints = start.shard_endpoints,
                                      .workers = config.run.workers,
                                      .keys = start.keys,
                                      .connections = config.cluster.connections,
                                      .fragments = config.sync.fragments,
                                      // The ranks share the worker's link.
                                      .max_upload_mbit = config.cluster.max_upload_mbit / ranks(),
                                      .max_download_mbit = config.cluster.max_download_mbit},
                                     layout_));
    if (options_.wrap_exchange) exchange_ = options_.wrap_exchange(std::move(exchange_));
    if (node_.has_value()) node_->Open(std::move(exchange_), session_.get(), start.process);
    if (node_.has_value() && IsFirst()) {
      node_->Watch([this](absl::Duration took) {
        Log(LogLevel::kError, "the step has not ended for ", FormatSeconds(took),
            ": a rank of this node hangs; the node leaves the run (what the loop does between "
            "two steps counts, unless it pauses)");
        session_->Leave();
      });
    }
    // Only a worker that can catch up can use a checkpoint.
    const bool keeps = CanCatchUp(config) && !options_.state_dir.empty();
    return MemberParts{
        .config = &options_.config,
        .layout = &layout_,
        .ops = arrays.ops,
        .exec = arrays.exec,
        .gradient = arrays.gradient,
        .pipeline = pipeline_.get(),
        .exchange = node_.has_value() ? &*node_ : exchange_.get(),
        .control = node_.has_value() ? static_cast<ControlPlane*>(&*node_) : session_.get(),
        .folder = keeps ? folder_.get() : nullptr,
        .node = node_.has_value() ? &*node_ : nullptr,
        .shared_folder =
            keeps && !IsFirst() ? SharedFolder{files_.get(), options_.state_dir} : SharedFolder{},
        .run = start.run,
        .name = options_.name,
        .worker = start.worker,
        .initial_weights = arrays.initial_weights,
        .metrics = options_.metrics};
  }

  absl::Status End(const absl::Status& trained) override {
    const bool failed = !trained.ok() && !absl::IsCancelled(trained);
    // The coordinator's reason is that of all ranks.
    if (!IsFirst()) return failed ? trained : node_->ended().value_or(absl::OkStatus());
    // A rank that has ended or hangs ends the process of the whole node, which comes back.
    if (node_.has_value() && absl::IsUnavailable(trained)) {
      session_->Leave();
      return trained;
    }
    if (failed) {
      session_->Fail(std::string(trained.message()));
      return trained;
    }
    const auto ended = node_.has_value() ? node_->ended() : session_->ended();
    if (ended.has_value()) return *ended;
    // The session has not ended: the coordinator has exited, or a signal requested the stop. In the
    // second case the run must not wait for this worker.
    if (!trained.ok()) session_->Leave();
    return absl::OkStatus();
  }

 private:
  // True: this process is a worker of its own, or rank 0 of a node.
  bool IsFirst() const { return options_.link == nullptr || options_.link->node().rank == 0; }
  uint64_t process() const { return folder_ == nullptr ? 0 : folder_->process(); }
  uint32_t ranks() const { return node_.has_value() ? node_->rank().ranks : 1; }
  SegmentRange owned() const { return node_.has_value() ? node_->owned() : AllSegments(layout_); }

  absl::StatusOr<uint32_t> JoinSession(std::vector<uint64_t> start_hashes) {
    LONGWAVE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                              OpenSession(absl::Seconds(options_.config.cluster.start_timeout_s),
                                          std::move(start_hashes)));
    const std::lock_guard lock(warnings_mutex_);
    session_ = std::move(session);
    session_->SetState({.ranks = options_.link == nullptr ? 1 : options_.link->node().ranks});
    for (const std::string& text : early_warnings_) session_->Warn(text);
    return session_->worker();
  }

  absl::StatusOr<RunStart> AwaitStart() {
    if (!IsFirst()) return node_->Share(RunStart{});
    absl::StatusOr<RunStart> start = session_->AwaitStart(options_.config.run.shards);
    if (start.ok()) {
      start->process = process();
      start->keys = security_.keys;
    }
    return node_.has_value() ? node_->Share(start, session_->ended()) : start;
  }

  absl::StatusOr<std::unique_ptr<Session>> OpenSession(absl::Duration start_timeout,
                                                       std::vector<uint64_t> start_hashes) {
    const RunConfig& config = options_.config;
    return Session::Join(
        client_.get(),
        {.coordinator = config.cluster.coordinator,
         .heartbeat_interval = absl::Seconds(config.cluster.heartbeat_interval_s),
         .start_timeout = start_timeout,
         .away_timeout = AwayTimeout(config),
         .rounds =
             FitsInterval(config) ? std::optional(RoundPlan(config.run.steps)) : std::nullopt},
        {.name = options_.name,
         .identity = folder_ == nullptr ? 0 : folder_->identity(),
         .manifest = options_.manifest,
         .layout_hash = layout_.hash(),
         .settings = BindingSettings(config),
         .process = process(),
         .data_key = security_.keys.public_key,
         .start_hashes = std::move(start_hashes),
         .alike = options_.alike},
        stop_);
  }

  const MemberPlaceOptions options_;
  StopSignal* const stop_;
  const Layout layout_;
  const std::unique_ptr<FileSystem> files_;
  const std::unique_ptr<WorkerFolder> folder_;  // null: no folder
  const WorkerSecurity security_;
  std::shared_ptr<CoordinatorClient> client_;   // null: a rank above 0
  std::unique_ptr<CertificateKeeper> keeper_;   // null: no security
  std::unique_ptr<Metrics::Refresher> expiry_;  // expiry of the certificate; null: none
  std::mutex warnings_mutex_;
  std::vector<std::string> early_warnings_;  // before the session
  std::unique_ptr<Session> session_;
  std::unique_ptr<SyncPipeline> pipeline_;
  std::unique_ptr<Exchange> exchange_;  // of one device
  std::optional<Node> node_;            // of a rank; its exchange ends before the session
};

}  // namespace

absl::StatusOr<std::unique_ptr<MemberPlace>> MemberPlace::Open(MemberPlaceOptions options,
                                                               StopSignal* stop) {
  LONGWAVE_ASSIGN_OR_RETURN(
      Layout layout,
      Layout::Create(options.manifest, LayoutOptionsFor(options.config, options.manifest)));
  std::unique_ptr<FileSystem> files = MakePosixFileSystem();
  std::unique_ptr<WorkerFolder> folder;
  const NodeRank node = options.link == nullptr ? NodeRank{} : options.link->node();
  const uint32_t connections = node.ranks * options.config.cluster.connections;
  if (node.ranks > NodeRank::kRanksMax || connections > kConnectionsMax) {
    return InvalidArgument("node: got ", node.ranks, " ranks with ",
                           options.config.cluster.connections,
                           " connections to a shard each (cluster.connections), wanted at most ",
                           kConnectionsMax, " together");
  }
  if (!options.state_dir.empty() && node.rank == 0) {
    LONGWAVE_ASSIGN_OR_RETURN(folder, WorkerFolder::Open(files.get(), options.state_dir));
  }
  WorkerSecurity security;
  if (node.rank == 0) {
    LONGWAVE_ASSIGN_OR_RETURN(security, OpenSecurity(options));
  }
  return std::make_unique<MemberPlaceImpl>(std::move(options), stop, std::move(layout),
                                           std::move(files), std::move(folder),
                                           std::move(security));
}

}  // namespace longwave
