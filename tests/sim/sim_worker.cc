#include "tests/sim/sim_worker.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/wire/snapshot_payload.h"
#include "kernels/cpu/cpu_ops.h"

namespace longwave::sim {
namespace {

constexpr char kFolder[] = "worker";
constexpr absl::Duration kBackoff = absl::Milliseconds(300);
constexpr absl::Duration kEarlyInterval = absl::Milliseconds(200);
constexpr absl::Duration kNameTakenBackoff = absl::Seconds(1);
constexpr absl::Duration kStartAgain = absl::Seconds(1);
// Of the trainer's CatchUp, which looks a little more often.
constexpr absl::Duration kFollowEvery = absl::Milliseconds(200);
constexpr absl::Duration kNewsEvery = absl::Seconds(1);
constexpr absl::Duration kFillPatience = absl::Seconds(2);
// A signal's largest number, in units.
constexpr uint64_t kSignalMax = 8;

std::string NameOf(uint32_t place) { return absl::StrCat("worker-", place); }

uint64_t PortOf(const std::string& endpoint) {
  const char* const colon = endpoint.data() + endpoint.rfind(':');
  uint64_t port = 0;
  std::from_chars(colon + 1, endpoint.data() + endpoint.size(), port);
  return port;
}

}  // namespace

SimWorker::SimWorker(const Environment& env, const KernelOps* ops, SimCoordinator* coordinator,
                     std::vector<SimShard*> shards, uint32_t place)
    : Process(env.scheduler, env.settings->NodeOfWorker(place)),
      env_(env),
      ops_(ops),
      coordinator_(coordinator),
      shards_(std::move(shards)),
      place_(place),
      rng_(env.settings->seed, 10000 + place) {
  if (env.settings->worker_has_disk[place]) disk_ = std::make_unique<SimFileSystem>(rng_.Next());
}

void SimWorker::OnStart() {
  env_.trace->Add(static_cast<uint64_t>(Mark::kStart), {node(), generation()});
  env_.trace->Tell([&] { return absl::StrCat(NameOf(place_), " starts"); });
  incarnation_ = rng_.Next() | 1;
  identity_ = incarnation_;
  if (disk_ != nullptr) {
    auto folder = WorkerFolder::Open(disk_.get(), kFolder);
    if (!folder.ok()) return Die(folder.status(), "opens its folder");
    folder_ = *std::move(folder);
    identity_ = folder_->identity();
  }
  theta_.assign(env_.layout->parameter_count(), kStart);
  auto pipeline = SyncPipeline::Create(env_.settings->MakeSyncOptions(), env_.layout, ops_, Exec{},
                                       {.theta = theta_.data(), .gradient = nullptr});
  if (!pipeline.ok()) return Die(pipeline.status(), "makes its pipeline");
  pipeline_ = *std::move(pipeline);
  account_ = env_.checker->NewAccount();
  merged_before_.assign(env_.layout->segments().size(), Buffer());
  stage_ = Stage::kJoining;
  Register();
}

void SimWorker::OnCrash() {
  env_.trace->Add(static_cast<uint64_t>(Mark::kCrash), {node()});
  env_.trace->Tell([&] { return absl::StrCat(NameOf(place_), " ends"); });
  env_.probes->Hit(Probe::kWorkerCrashed);
  folder_.reset();
  ledger_.reset();
  pipeline_.reset();
  membership_ = {};
  addresses_.clear();
  ports_.clear();
  unanswered_.clear();
  ready_round_ = kRoundNever;
  final_.reset();
  repair_.reset();
  posted_again_.clear();
  asks_.clear();
  sent_.clear();
  heard_.clear();
  anew_.clear();
  beating_ = urgent_ = stopped_ = validates_ = missing_ = pumping_ = false;
  damaged_.clear();
  repaired_round_ = round_ = awaited_ = 0;
  wakes_at_ = absl::InfiniteFuture();
  if (disk_ != nullptr) disk_->Restart(SimFileSystem::Stop::kProcess);
}

void SimWorker::Slow(double factor, absl::Time until) {
  slowness_ = factor;
  slow_until_ = until;
}

void SimWorker::LoseFolder() {
  Crash();
  if (disk_ != nullptr) disk_ = std::make_unique<SimFileSystem>(rng_.Next());
}

void SimWorker::Damage(uint64_t element) {
  // What happens in the last rounds nobody is there to mend.
  if (!up() || stage_ != Stage::kComputing || round_ + 6 > env_.settings->rounds) return;
  // The anchor is the pipeline's own; a cosmic ray asks nobody.
  const size_t at = element % theta_.size();
  // No two are hit alike: a majority that is wrong together nobody can tell from a right one.
  const_cast<float*>(pipeline_->anchor())[at] += 3 + static_cast<float>(place_);
  damaged_.insert(static_cast<uint32_t>(at / kSegmentElements));
  env_.probes->Hit(Probe::kReplicaDamaged);
  env_.trace->Tell([&] { return absl::StrCat("the replica of ", NameOf(place_), " is damaged"); });
}

void SimWorker::Die(const absl::Status& status, const char* doing) {
  env_.checker->Violate(
      absl::StrCat(NameOf(place_), " ", doing, ": ", std::string(status.message())));
}

std::string SimWorker::Describe() const {
  constexpr const char* kStages[] = {"joins",    "catches up", "resumes", "follows", "fills",
                                     "computes", "syncs",      "repairs", "is done"};
  std::string text =
      absl::StrCat(NameOf(place_), ": ", up() ? kStages[static_cast<int>(stage_)] : "down");
  if (!up()) return text;
  absl::StrAppend(&text, ", round ", round_, ", epoch ", membership_.epoch, ", first round ",
                  first_round() == kRoundNever ? "never" : absl::StrCat(first_round()),
                  ", waits for ", awaited_, " updates, has heard of ",
                  std::ranges::count(heard_, true), " segments");
  if (pipeline_ == nullptr) return text;
  for (uint32_t s = 0; s < env_.layout->segments().size(); ++s) {
    absl::StrAppend(&text, s == 0 ? ", anchors before rounds " : " ", pipeline_->anchor_round(s));
  }
  return text;
}

// Control.

void SimWorker::Register() {
  const RegisterWorker request{.name = NameOf(place_),
                               .identity = identity_,
                               .manifest = env_.settings->MakeManifest(),
                               .layout_hash = env_.layout->hash(),
                               .incarnation = incarnation_,
                               .settings = ""};
  coordinator_->Call(*this, request, [this](const absl::StatusOr<CoordinatorEffect>& answer) {
    if (answer.ok()) {
      worker_ = std::get<WorkerRegistered>(*answer).worker;
      return Beat();
    }
    if (absl::IsUnavailable(answer.status())) return After(kBackoff, [this] { Register(); });
    // Another process without a folder had the name, and is not counted as lost yet.
    if (absl::IsAlreadyExists(answer.status()))
      return After(kNameTakenBackoff, [this] { Register(); });
    if (coordinator_->is_over()) return;
    Die(answer.status(), "may not register");
  });
}

void SimWorker::BeatNow() {
  if (beating_) {
    urgent_ = true;
    return;
  }
  Beat();
}

void SimWorker::Beat() {
  ++beats_;
  beating_ = true;
  urgent_ = false;
  WorkerHeartbeat heartbeat;
  heartbeat.worker = worker_;
  heartbeat.incarnation = incarnation_;
  heartbeat.state.phase = stage_ == Stage::kDone ? WorkerPhase::kDone : WorkerPhase::kTraining;
  heartbeat.state.round = round_;
  heartbeat.state.train_loss = 1;
  heartbeat.rounds = unanswered_;
  heartbeat.known_epoch = membership_.epoch;
  heartbeat.final = final_;
  heartbeat.ready_round = ready_round_;
  coordinator_->Call(*this, heartbeat,
                     [this, heartbeat](const absl::StatusOr<CoordinatorEffect>& answer) {
                       beating_ = false;
                       absl::Duration pause = kBackoff;
                       if (answer.ok()) {
                         TakeReply(heartbeat, std::get<WorkerHeartbeatReply>(*answer));
                         if (!up() || stopped_) return;
                         const bool early = first_round() == kRoundNever;
                         pause = early ? kEarlyInterval : env_.settings->heartbeat_interval;
                         if (urgent_ || !unanswered_.empty()) pause = absl::ZeroDuration();
                       } else if (!absl::IsUnavailable(answer.status())) {
                         if (coordinator_->is_over()) return;
                         // It had no place in the run yet, and lost it: whoever starts workers
                         // tries again.
                         if (membership_.epoch == 0) return StartAgain();
                         return Die(answer.status(), "may not say how it is");
                       }
                       if (beating_) return;  // what the answer brought about was told at once
                       After(pause, [this, beats = beats_] {
                         if (beats == beats_ && !beating_) Beat();
                       });
                     });
}

void SimWorker::TakeReply(const WorkerHeartbeat& sent, const WorkerHeartbeatReply& reply) {
  unanswered_.erase(unanswered_.begin(),
                    unanswered_.begin() + static_cast<std::ptrdiff_t>(sent.rounds.size()));
  run_ = reply.run;
  validates_ = reply.validates;
  repair_ = reply.repair;
  if (reply.instruction == Instruction::kStop) {
    stopped_ = true;
    return;
  }
  if (reply.membership.has_value() && reply.membership->epoch >= membership_.epoch) {
    membership_ = *reply.membership;
    addresses_ = reply.shards;
    ConnectShards();
  }
  // The duty came to this worker after its last round.
  if (final_.has_value() && validates_ && final_->model_file.empty()) {
    final_->model_file = "model";
    BeatNow();
  }
  if (stage_ == Stage::kJoining && Self() != nullptr && ports_.size() == shards_.size())
    BeginWithShards();
  if (stage_ == Stage::kFollowing) Follow();
  Pump();
}

void SimWorker::StartAgain() {
  Crash();
  scheduler_->After(kStartAgain, [this] { Start(); });
}

const Member* SimWorker::Self() const {
  const auto self = std::ranges::find(membership_.members, worker_, &Member::worker);
  return self == membership_.members.end() ? nullptr : &*self;
}

uint32_t SimWorker::first_round() const {
  const Member* const self = Self();
  return self == nullptr ? kRoundNever : self->first_round;
}

void SimWorker::ConnectShards() {
  if (addresses_.size() != shards_.size()) return;
  std::vector<uint64_t> ports(shards_.size());
  for (const ShardAddress& address : addresses_)
    ports[address.shard] = PortOf(address.data_endpoint);
  for (uint32_t s = 0; s < ports.size() && ledger_ != nullptr; ++s) {
    if (ports[s] != ports_[s]) ledger_->Reconnected(s, now());
  }
  ports_ = std::move(ports);
}

// Catching up, as CatchUp of worker/trainer has it.

void SimWorker::BeginWithShards() {
  LedgerOptions options;
  options.run = run_;
  options.worker = worker_;
  for (const Segment& segment : env_.layout->segments()) {
    options.connections.push_back(segment.shard);
    options.snapshot_bytes.push_back(4 * kSegmentElements);
  }
  options.connection_count = static_cast<uint32_t>(shards_.size());
  ledger_ = std::make_unique<WorkerLedger>(options);
  const bool returns = ReadCheckpoint();
  if (!returns && first_round() == 0) {
    round_ = 0;
    return NextRound();
  }
  if (!returns) env_.probes->Hit(Probe::kWorkerJoinedLate);
  Join();
}

// True: there was one to go on from.
bool SimWorker::ReadCheckpoint() {
  if (folder_ == nullptr) return false;
  auto found = folder_->Read(run_, NameOf(place_), worker_, ShapeOf(*env_.layout));
  if (!found.ok()) {
    Die(found.status(), "reads its checkpoint");
    return false;
  }
  if (!found->has_value() || (*found)->stale) return false;
  Checkpoint& checkpoint = (*found)->checkpoint;
  if (const absl::Status loaded = pipeline_->LoadMomentum(checkpoint.momentum); !loaded.ok())
    Die(loaded, "takes its residual back");
  env_.probes->Hit(Probe::kWorkerReturned);
  account_ = kept_account_;
  if (env_.settings->canary == Canary::kForgottenPush) return true;
  for (UnsettledPush& push : checkpoint.pushes) {
    posted_again_.push_back({.epoch = membership_.epoch,
                             .round = checkpoint.round,
                             .segment = push.segment,
                             .payload = std::move(push.payload),
                             .norm = push.norm,
                             .weight = push.weight,
                             .sent_before = true});
  }
  return true;
}

uint32_t SimWorker::LowestRound() const {
  uint32_t lowest = kRoundNever;
  for (uint32_t s = 0; s < env_.layout->segments().size(); ++s)
    lowest = std::min(lowest, pipeline_->anchor_round(s));
  return lowest;
}

uint32_t SimWorker::HighestRound() const {
  uint32_t highest = ledger_->newest_open_round();
  for (uint32_t s = 0; s < env_.layout->segments().size(); ++s)
    highest = std::max(highest, pipeline_->anchor_round(s));
  return highest;
}

bool SimWorker::IsBehind(uint32_t next) const {
  if (next >= env_.settings->rounds) return false;
  return ledger_->newest_open_round() > next || first_round() > next || LowestRound() != next;
}

void SimWorker::SetReadyRound(uint32_t round) {
  if (ready_round_ == round) return;
  ready_round_ = round;
  if (first_round() == kRoundNever) BeatNow();
}

// Every segment to its own present.
void SimWorker::Join() {
  env_.trace->Tell([&] { return absl::StrCat(NameOf(place_), " catches up"); });
  stage_ = Stage::kHearing;
  SetReadyRound(kRoundNever);
  heard_.assign(env_.layout->segments().size(), false);
  for (uint32_t s = 0; s < heard_.size(); ++s) {
    // One that is being fetched still tells as well.
    const absl::Status wanted = ledger_->Fetch(s, pipeline_->anchor_round(s), kRoundNever, now());
    if (!wanted.ok() && !absl::IsFailedPrecondition(wanted)) return Die(wanted, "fetches");
  }
}

bool SimWorker::CatchesUp() const {
  return stage_ == Stage::kHearing || stage_ == Stage::kFollowing || stage_ == Stage::kRepairing;
}

void SimWorker::FetchAgain(uint32_t segment) {
  const uint32_t round = pipeline_->anchor_round(segment);
  if (ledger_->Fetch(segment, round, kRoundNever, now()).ok()) heard_[segment] = false;
}

bool SimWorker::HeardAll() const { return std::ranges::find(heard_, false) == heard_.end(); }

void SimWorker::TakeFetched(const FetchEvent& event) {
  if (const auto* refused = std::get_if<FetchRefused>(&event))
    return Die(absl::FailedPreconditionError(refused->reason), "cannot catch up");
  if (const auto* fetched = std::get_if<Fetched>(&event)) {
    if (const absl::Status applied = ApplyFetched(*fetched); !applied.ok())
      return Die(applied, "takes what it fetched");
    last_news_ = now();
  } else {
    const uint32_t segment = std::get<UpToDate>(event).segment;
    if (segment < heard_.size()) heard_[segment] = true;
  }
  if (stage_ == Stage::kRepairing && HeardAll()) return Repaired();
  if (stage_ == Stage::kHearing && HeardAll()) return Heard();
  if (stage_ == Stage::kFollowing) Follow();
}

absl::Status SimWorker::ApplyFetched(const Fetched& fetched) {
  const uint32_t s = fetched.segment;
  const bool anew = anew_.contains(s);
  const uint32_t anchor_round = pipeline_->anchor_round(s);
  const bool known =
      fetched.round < anchor_round || (fetched.is_snapshot && fetched.round == anchor_round);
  if (known && !anew) return absl::OkStatus();
  if (fetched.is_snapshot) {
    auto arrays = DecodeSnapshotPayload(fetched.payload.bytes(), pipeline_->segment_arrays(),
                                        pipeline_->segment_elements(s));
    if (!arrays.ok()) return arrays.status();
    if (absl::Status loaded = pipeline_->LoadSegment(s, fetched.round, *arrays); !loaded.ok())
      return loaded;
    damaged_.erase(s);
  } else {
    if (anew && fetched.round != 0) return absl::OkStatus();
    if (anew) {
      const std::vector<std::vector<float>> start(1, std::vector<float>(kSegmentElements, kStart));
      if (absl::Status loaded = pipeline_->LoadSegment(s, 0, start); !loaded.ok()) return loaded;
      damaged_.erase(s);
    }
    env_.probes->Hit(Probe::kFetchByLog);
    Buffer& before = merged_before_[s];
    // The update before once more, instead of this one.
    const bool skips = env_.settings->canary == Canary::kSkippedUpdate && !before.empty();
    const Buffer payload = skips ? before : fetched.payload;
    before = fetched.payload;
    if (absl::Status taken = pipeline_->CatchUp(s, fetched.round, 1, payload); !taken.ok())
      return taken;
  }
  anew_.erase(s);
  CheckReplica();
  return absl::OkStatus();
}

void SimWorker::Heard() {
  if (!posted_again_.empty()) return PostAgain();
  BeginToFollow();
}

void SimWorker::BeginToFollow() {
  stage_ = Stage::kFollowing;
  last_news_ = now();
  last_asked_ = absl::InfinitePast();
  CheckResidual();
  FollowForEver(++follows_);
}

void SimWorker::FollowForEver(uint64_t which) {
  if (stage_ != Stage::kFollowing || which != follows_) return;
  Follow();
  After(kFollowEvery, [this, which] {
    FollowForEver(which);
    Pump();
  });
}

void SimWorker::Follow() {
  const uint32_t lowest = LowestRound();
  const uint32_t highest = HighestRound();
  const uint32_t first = first_round();
  const bool level = lowest == highest;
  SetReadyRound(lowest);
  if (level && (first <= lowest || lowest >= env_.settings->rounds)) {
    if (const absl::Status adopted = pipeline_->AdoptAnchor(); !adopted.ok())
      return Die(adopted, "takes its anchor");
    round_ = lowest;
    return NextRound();
  }
  if (now() - last_asked_ >= (level ? kNewsEvery : kFollowEvery)) {
    last_asked_ = now();
    const auto segments = env_.layout->segments();
    for (uint32_t s = 0; s < segments.size(); ++s) {
      const bool asks = level ? s == 0 || segments[s].shard != segments[s - 1].shard
                              : pipeline_->anchor_round(s) < highest;
      if (asks) FetchAgain(s);
    }
  }
  if (level || !HeardAll() || first > lowest || now() - last_news_ < kFillPatience) return;
  Fill(lowest);
}

// Closes what nobody else closes, without inner steps.
void SimWorker::Fill(uint32_t round) {
  env_.probes->Hit(Probe::kRoundFilled);
  env_.trace->Tell([&] { return absl::StrCat(NameOf(place_), " fills round ", round); });
  if (folder_ != nullptr) {
    if (const absl::Status retired = folder_->Retire(); !retired.ok())
      return Die(retired, "retires its checkpoint");
  }
  absl::Status begun = pipeline_->AdoptAnchor();
  if (begun.ok()) begun = pipeline_->BeginFragment(round, 0, 1);
  if (!begun.ok()) return Die(begun, "begins to fill a round");
  round_ = round;
  std::vector<SegmentPush> pushes;
  const std::vector<float> nothing(kSegmentElements);
  for (uint32_t s = 0; s < env_.layout->segments().size(); ++s) {
    if (pipeline_->anchor_round(s) != round) continue;
    auto push = pipeline_->Encode(s);
    if (!push.ok()) return Die(push.status(), "encodes");
    env_.checker->Encoded(worker_, &account_, round, s, nothing, push->payload);
    pushes.push_back({.epoch = membership_.epoch,
                      .round = round,
                      .segment = s,
                      .payload = std::move(push->payload),
                      .norm = push->norm,
                      .weight = 1});
  }
  stage_ = Stage::kFilling;
  Post(std::move(pushes));
}

// Rounds.

void SimWorker::NextRound() {
  if (round_ >= env_.settings->rounds) {
    stage_ = Stage::kDone;
    final_ = FinalReport{.validation_loss = {}, .model_file = validates_ ? "model" : ""};
    return BeatNow();
  }
  stage_ = Stage::kComputing;
  SetReadyRound(round_);
  absl::Duration time = env_.settings->round_computation[place_] * (0.9 + 0.2 * rng_.Uniform());
  if (scheduler_->now() < slow_until_) time *= slowness_;
  After(time, [this] { Send(); });
}

void SimWorker::Send() {
  stage_ = Stage::kSyncing;
  if (const absl::Status begun = pipeline_->BeginFragment(round_, 0, 1); !begun.ok())
    return Die(begun, "begins a round");
  std::vector<SegmentPush> pushes;
  std::vector<float> signal(kSegmentElements);
  const float* const anchor = pipeline_->anchor();
  for (uint32_t s = 0; s < env_.layout->segments().size(); ++s) {
    const size_t begin = size_t{s} * kSegmentElements;
    for (size_t e = 0; e < kSegmentElements; ++e) {
      const auto drawn =
          static_cast<int64_t>(rng_.Below(2 * kSignalMax + 1)) - static_cast<int64_t>(kSignalMax);
      theta_[begin + e] =
          anchor[begin + e] - static_cast<float>(drawn * int64_t{env_.settings->unit});
      signal[e] = anchor[begin + e] - theta_[begin + e];
    }
    auto push = pipeline_->Encode(s);
    if (!push.ok()) return Die(push.status(), "encodes");
    env_.checker->Encoded(worker_, &account_, round_, s, signal, push->payload);
    pushes.push_back({.epoch = membership_.epoch,
                      .round = round_,
                      .segment = s,
                      .payload = std::move(push->payload),
                      .norm = push->norm,
                      .weight = 1});
  }
  env_.trace->Tell([&] { return absl::StrCat(NameOf(place_), " pushes round ", round_); });
  if (folder_ != nullptr && !WriteCheckpoint(pushes)) return;
  Post(std::move(pushes));
}

bool SimWorker::WriteCheckpoint(const std::vector<SegmentPush>& pushes) {
  auto momentum = pipeline_->ExportMomentum();
  if (!momentum.ok()) {
    Die(momentum.status(), "gives its residual");
    return false;
  }
  Checkpoint checkpoint;
  checkpoint.run = run_;
  checkpoint.layout_hash = env_.layout->hash();
  checkpoint.name = NameOf(place_);
  checkpoint.worker = worker_;
  checkpoint.round = round_;
  checkpoint.step = round_;
  checkpoint.m.resize(theta_.size());
  checkpoint.v.resize(theta_.size());
  checkpoint.momentum = *std::move(momentum);
  for (const SegmentPush& push : pushes)
    checkpoint.pushes.push_back({push.segment, push.norm, push.weight, push.payload});
  if (const absl::Status written = folder_->Write(checkpoint); !written.ok()) {
    Die(written, "writes its checkpoint");
    return false;
  }
  kept_account_ = account_;
  return true;
}

// What an earlier process encoded, and may have posted.
void SimWorker::PostAgain() {
  env_.probes->Hit(Probe::kPushesPostedAgain);
  stage_ = Stage::kResuming;
  SetReadyRound(LowestRound());
  std::vector<SegmentPush> pushes;
  for (SegmentPush& push : posted_again_) {
    push.epoch = membership_.epoch;
    if (pipeline_->anchor_round(push.segment) >= push.round) {
      pushes.push_back(push);
      continue;
    }
    // A shard that stands before its round has never seen it.
    env_.checker->Settled(worker_, &account_, push.round, push.segment, Fate::kLate);
    if (const absl::Status restored =
            pipeline_->RestoreFrom(push.segment, push.round, push.payload);
        !restored.ok()) {
      return Die(restored, "takes a contribution back");
    }
  }
  if (pushes.empty()) return EndPosting();
  Post(std::move(pushes));
}

void SimWorker::Post(std::vector<SegmentPush> pushes) {
  missing_ = false;
  awaited_ = static_cast<uint32_t>(pushes.size());
  for (SegmentPush& push : pushes) {
    if (const absl::Status posted = ledger_->Post(std::move(push), now()); !posted.ok())
      return Die(posted, "posts");
  }
  Pump();
}

void SimWorker::TakeSettled(const Settled& settled) {
  const uint32_t s = settled.segment;
  const bool syncs = stage_ == Stage::kSyncing;
  if ((!syncs && stage_ != Stage::kFilling && stage_ != Stage::kResuming) || awaited_ == 0) {
    return env_.checker->Violate(absl::StrCat(NameOf(place_), " settles round ", settled.round,
                                              ", segment ", s, ", of which nothing is posted"));
  }
  env_.trace->Tell([&] {
    constexpr const char* kFates[] = {"accepted", "late", "unknown"};
    return absl::StrCat(NameOf(place_), " settles round ", settled.round, ", segment ", s, ": ",
                        kFates[static_cast<int>(settled.fate)], settled.gone ? ", gone" : "");
  });
  env_.checker->Settled(worker_, &account_, settled.round, s, settled.fate);
  if (settled.fate == Fate::kLate) env_.probes->Hit(Probe::kSettledLate);
  if (settled.gone) env_.probes->Hit(Probe::kSettledGone);
  absl::Status status = TakeBack(settled);
  if (status.ok() && syncs && !settled.gone) {
    status = pipeline_->Apply(s, settled.merged);
  } else if (status.ok() && !settled.gone && pipeline_->anchor_round(s) == settled.round) {
    status = pipeline_->CatchUp(s, settled.round, 1, settled.merged);
  }
  if (!status.ok()) return Die(status, "settles a contribution");
  if (settled.gone) missing_ = true;
  if (--awaited_ == 0) EndPosting();
}

// What was not accepted goes back into the residual.
absl::Status SimWorker::TakeBack(const Settled& settled) {
  const uint32_t s = settled.segment;
  const Canary canary = env_.settings->canary;
  if (settled.fate == Fate::kUnknown && stage_ == Stage::kResuming) {
    // The residual may tell of what others have already.
    auto momentum = pipeline_->ExportMomentum();
    if (!momentum.ok()) return momentum.status();
    const auto begin = static_cast<std::ptrdiff_t>(size_t{s} * kSegmentElements);
    std::fill_n(momentum->begin() + begin, kSegmentElements, 0.0f);
    std::fill_n(account_.owed.begin() + begin, kSegmentElements, 0.0);
    return pipeline_->LoadMomentum(*momentum);
  }
  const bool takes_back = (settled.fate == Fate::kLate && canary != Canary::kKeptLatePush) ||
                          (settled.fate == Fate::kAccepted && canary == Canary::kRestoredAccepted);
  if (!takes_back) return absl::OkStatus();
  if (stage_ != Stage::kResuming) return pipeline_->Restore(s);
  const auto push = std::ranges::find(posted_again_, s, &SegmentPush::segment);
  return pipeline_->RestoreFrom(s, settled.round, push->payload);
}

// Everything that was posted is settled.
void SimWorker::EndPosting() {
  if (stage_ == Stage::kSyncing) return EndSync();
  posted_again_.clear();
  if (const absl::Status adopted = pipeline_->AdoptAnchor(); !adopted.ok())
    return Die(adopted, "takes its anchor");
  CheckReplica();
  BeginToFollow();
}

void SimWorker::EndSync() {
  if (std::exchange(missing_, false)) {
    env_.probes->Hit(Probe::kWorkerFellBehind);
    return Join();
  }
  if (const absl::Status ended = pipeline_->EndFragment(); !ended.ok())
    return Die(ended, "ends a round");
  CheckReplica();
  CheckResidual();
  EndRound();
  if (!Repair()) GoOn();
}

// With the rounds before round_, after whatever came between.
void SimWorker::GoOn() {
  if (!IsBehind(round_)) return NextRound();
  env_.probes->Hit(Probe::kWorkerFellBehind);
  Join();
}

void SimWorker::EndRound() {
  const auto hashes = pipeline_->Hashes();
  if (!hashes.ok()) return Die(hashes.status(), "hashes its replica");
  RoundReport report;
  report.round = round_;
  report.step = round_ + 1;
  report.train_loss = 1;
  report.segment_hashes = *hashes;
  report.tokens = round_ + 1;
  unanswered_.push_back(std::move(report));
  ++round_;
  BeatNow();
}

// Whether segments are fetched anew before the next round.
bool SimWorker::Repair() {
  if (!repair_.has_value() || repair_->round < repaired_round_) return false;
  if (round_ >= env_.settings->rounds || env_.settings->canary == Canary::kIgnoredRepair)
    return false;
  repaired_round_ = round_;
  stage_ = Stage::kRepairing;
  heard_.assign(env_.layout->segments().size(), true);
  for (const uint32_t s : repair_->segments) {
    if (const absl::Status wanted = ledger_->Fetch(s, 0, round_, now()); !wanted.ok()) {
      Die(wanted, "repairs its replica");
      return true;
    }
    anew_.insert(s);
    heard_[s] = false;
  }
  if (HeardAll()) return false;
  env_.trace->Tell([&] { return absl::StrCat(NameOf(place_), " repairs its replica"); });
  return true;
}

void SimWorker::Repaired() {
  env_.probes->Hit(Probe::kReplicaRepaired);
  anew_.clear();
  CheckReplica();
  if (const absl::Status adopted = pipeline_->AdoptAnchor(); !adopted.ok())
    return Die(adopted, "takes its repaired anchor");
  GoOn();
}

std::span<const float> SimWorker::AnchorOf(uint32_t segment) const {
  return {pipeline_->anchor() + size_t{segment} * kSegmentElements, kSegmentElements};
}

void SimWorker::CheckReplica() {
  for (uint32_t s = 0; s < env_.layout->segments().size(); ++s) {
    if (damaged_.contains(s)) continue;
    env_.checker->HoldsReplica(worker_, s, pipeline_->anchor_round(s), AnchorOf(s));
  }
}

void SimWorker::CheckResidual() {
  env_.checker->HoldsResidual(worker_, account_,
                              {pipeline_->momentum(), env_.layout->coefficient_count()});
}

// Data.

void SimWorker::TakeFrame(uint32_t shard, const WireFrame& frame) {
  if (ledger_ == nullptr || stopped_) return;
  const FrameHeader header = Open(frame, env_.checker);
  env_.trace->Add(static_cast<uint64_t>(Mark::kFrameToWorker),
                  {node(), static_cast<uint64_t>(header.kind), header.round, header.segment,
                   static_cast<uint64_t>(header.outcome)});
  env_.trace->Tell([&] {
    return absl::StrCat(NameOf(place_), " gets ", std::string(Name(header.kind)), " ",
                        header.kind == FrameKind::kAnswer ? std::string(Name(header.outcome)) : "",
                        " of shard ", shard, ", round ", header.round, ", segment ",
                        header.segment);
  });
  ledger_->Take(shard, header, frame.payload, now());
  Pump();
}

// All that has come in, and all that is to go out.
void SimWorker::Pump() {
  if (ledger_ == nullptr || stopped_) return;
  // What is done about one thing may call this again; the outermost does it all.
  if (pumping_) return;
  pumping_ = true;
  bool more = true;
  while (more && env_.checker->violation().empty()) {
    more = false;
    for (const Settled& settled : ledger_->TakeSettled()) {
      TakeSettled(settled);
      more = true;
    }
    // Whoever trains has no eye for what an earlier fetch still brings.
    while (CatchesUp()) {
      const std::optional<FetchEvent> event = ledger_->TakeFetched();
      if (!event.has_value()) break;
      TakeFetched(*event);
      more = true;
    }
    while (const std::optional<SnapshotAsk> ask = ledger_->TakeAsk()) {
      std::erase_if(asks_, [&](const SnapshotAsk& a) { return a.segment == ask->segment; });
      asks_.push_back(*ask);
    }
    ServeAsks();
  }
  if (!ledger_->failure().ok()) Die(ledger_->failure(), "is refused");
  SendDue();
  pumping_ = false;
}

void SimWorker::ServeAsks() {
  if (stage_ == Stage::kDone) return;  // nobody is there to do it
  std::erase_if(asks_, [&](const SnapshotAsk& ask) {
    if (anew_.contains(ask.segment)) return false;
    const uint32_t round = pipeline_->anchor_round(ask.segment);
    if (round != ask.round) return round > ask.round;
    const auto arrays = pipeline_->ExportSegment(ask.segment);
    if (!arrays.ok()) {
      Die(arrays.status(), "gives a segment away");
      return true;
    }
    const std::vector<std::span<const float>> spans(arrays->begin(), arrays->end());
    const absl::Status posted =
        ledger_->PostSnapshot(ask.segment, round, EncodeSnapshotPayload(spans), now());
    if (!posted.ok()) Die(posted, "posts a snapshot");
    return true;
  });
}

void SimWorker::SendDue() {
  while (const std::optional<OutgoingFrame> frame = ledger_->Due(now())) {
    ledger_->Sent(*frame, now());
    SendFrame(*frame);
  }
  WakeWhenDue();
}

void SimWorker::WakeWhenDue() {
  const absl::Time due = ledger_->DueAt();
  if (due == absl::InfiniteFuture()) return;
  const absl::Time at = std::max(due, now());
  if (at >= wakes_at_ && wakes_at_ > now()) return;
  wakes_at_ = at;
  After(at - now(), [this, at] {
    if (wakes_at_ == at) wakes_at_ = absl::InfiniteFuture();
    Pump();
  });
}

void SimWorker::SendFrame(const OutgoingFrame& outgoing) {
  const FrameHeader& header = outgoing.header;
  if (env_.settings->canary == Canary::kSilentRetry && header.kind != FrameKind::kHello &&
      !sent_.insert({header.kind, header.segment, header.round}).second) {
    return;
  }
  const WireFrame frame = Seal(header, outgoing.payload);
  SimShard* const shard = shards_[outgoing.connection];
  env_.network->Send(
      node(), *shard, frame.bytes(), Network::Kind::kDatagram,
      [this, shard, frame, from = Peer{this, generation()}, port = ports_[outgoing.connection]] {
        shard->TakeFrame(frame, from, this, port);
      });
}

}  // namespace longwave::sim
