#ifndef LONGWAVE_COMMON_CONFIG_RUN_CONFIG_H_
#define LONGWAVE_COMMON_CONFIG_RUN_CONFIG_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "common/layout/layout.h"
#include "common/layout/manifest.h"
#include "common/wire/codec.h"

namespace longwave {

// A run, as its configuration file resolves; coordinator, shards and workers have the same text.
// Defaults, ranges and each key's documentation are in one table, config_keys.cc.

enum class SignalKind : uint8_t { kGradient, kPseudoGradient };
enum class UpdateRule : uint8_t { kSgd, kSign, kNesterov, kInner, kLocal };

struct RunSection {
  std::string preset = "longwave";  // the method's name, and the file that gave its defaults
  std::string name;                 // folder under runs/; empty: <preset>-<date>-<time>
  uint64_t steps = 0;               // inner steps of each worker
  uint32_t workers = 0;             // members that a run waits for before its first round
  uint32_t shards = 0;
  uint64_t seed = 0;                // of model, data and selection
  std::string start = "seed";       // the source of the first weights: "seed", "member"
  uint32_t validate_every = 0;      // rounds between validations; 0: about 20 validations
  uint32_t validation_batches = 0;  // batches of a validation loss

  bool operator==(const RunSection&) const = default;
};

struct ModelSection {
  std::string kind;             // "gpt", "external"
  std::string size = "custom";  // gives the defaults of d_model, layers, heads, context, vocabulary
  uint32_t d_model = 0, layers = 0, heads = 0, context = 0;
  uint32_t vocabulary = 256;  // distinct tokens; 256: bytes

  bool operator==(const ModelSection&) const = default;
};

struct DataSection {
  std::string kind;             // "text", "bytes", "tokens"
  std::string path;             // a file, a folder, a pattern, or "compiler-headers"
  std::string validation_path;  // held out; empty: a share of the others
  double validation_share = 0;  // of the training data, at the end, held out
  std::string token_type;       // of files that don't say: "uint16", "uint32"

  bool operator==(const DataSection&) const = default;
};

// The inner optimizer and its learning-rate schedule.
struct TrainSection {
  uint32_t batch = 0;                   // sequences a step and worker
  uint32_t micro_batches = 1;           // parts of a step's batch, computed one after another
  bool activation_checkpoints = false;  // a block's are computed again in the backward pass
  std::string optimizer;                // "adamw", "muon", "sgd"
  double learning_rate = 0;
  uint32_t warmup_steps = 0;
  double final_learning_rate_share = 0;      // cosine down to this share of learning_rate
  double beta1 = 0, beta2 = 0, epsilon = 0;  // AdamW's
  double momentum = 0;                       // Muon's and SGD's
  double weight_decay = 0;
  double clip_norm = 0;  // of the gradient; 0: none
  uint32_t threads = 0;  // of a worker; 0: all cores, or under `up` its share of them
  std::string device;    // "auto", "cpu", "cuda"
  std::string autocast;  // "none", "bf16"

  bool operator==(const TrainSection&) const = default;
};

// The pipeline's knobs: signal → momentum → select → quantize → residual → merge → update.
struct SyncSection {
  SignalKind signal = SignalKind::kPseudoGradient;
  // H: steps between syncs; 1 when the signal is the gradient. 0: auto, see FitsInterval.
  uint32_t inner_steps = 0;
  uint32_t inner_steps_min = 0, inner_steps_max = 0;  // bounds with auto
  double target_share = 0;                            // likewise: the time that syncs may cost
  double beta = 0;                                    // β of the momentum
  double alpha = 1;  // α: share of what was sent that leaves the residual
  Transform transform = Transform::kNone;
  Tiling tiling = Tiling::kModel;
  uint32_t block = 64;
  uint32_t segment_tiles = 256;
  PayloadFormat up;
  double rho = 0;      // ρ of the merge's normaliser
  PayloadFormat down;  // selection kAll: everything merged goes down, in codec
  UpdateRule update = UpdateRule::kSgd;
  double eta = 1;                // η; with follow_schedule, times the step's learning rate
  bool follow_schedule = false;  // η·lr(step) instead of η (DeMo)
  double mu = 0;                 // μ of Nesterov
  double weight_decay = 0;       // decoupled, at the update: θ ← (1 − η·wd)·θ
  uint32_t overlap = 0;          // τ: inner steps between a signal and its update
  uint32_t fragments = 1;        // F: parts whose syncs are spread over the H steps
  double blend = 1;              // α: share kept of what was learnt in the τ steps
  double clip = 0;               // of a contribution, in median norms; 0: none
  double quorum = 1;             // share of the members that a round can close with

  bool operator==(const SyncSection&) const = default;
};

struct ClusterSection {
  std::string coordinator;  // host:port that the coordinator listens on and others connect to
  std::string shard_host;   // address that shards bind and announce
  double heartbeat_interval_s = 0;
  double heartbeat_timeout_s = 0;  // a member that is silent for longer is lost
  double start_timeout_s = 0;      // how long a process waits for the others at the start
  double away_timeout_s = 0;       // and later; 0: see AwayTimeout
  uint32_t workers_max = 0;        // members at once; 0: see WorkersMax
  double max_upload_mbit = 0;      // of a worker, 10^6 bit/s; 0: no limit
  double max_download_mbit = 0;
  uint32_t connections = 1;        // of a worker to each shard
  uint32_t shard_threads = 1;      // of a merge
  uint64_t shard_memory_mb = 0;    // of pushes to open rounds, 10^6 bytes; 0: half of what is there
  double grace_min_s = 0;          // for stragglers after a quorum has pushed, at least
  double grace_max_s = 0;          // and at most
  uint32_t state_rounds = 0;       // rounds between snapshots of a segment's E
  uint32_t snapshot_rounds = 0;    // rounds between snapshots of the parameters
  uint32_t checkpoint_rounds = 0;  // rounds between a worker's checkpoints, at least; 0: none
  double checkpoint_share = 0;     // of the time in which a checkpoint may be written

  bool operator==(const ClusterSection&) const = default;
};

// Admission and credentials (docs/reference/security.md).
struct SecuritySection {
  std::string mode;       // "auto", "on", "off"
  std::string folder;     // a process's credentials; empty: <its state folder>/security
  std::string authority;  // the coordinator's: ca.crt and ca.key; empty: its credentials' folder
  double certificate_life_s = 0;  // of certificates that the coordinator issues

  bool operator==(const SecuritySection&) const = default;
};

struct MetricsSection {
  std::string listen;      // host:port of each process's /metrics; empty: none
  double peak_tflops = 0;  // of this worker's processor, 10¹² operations a second; 0: not known

  bool operator==(const MetricsSection&) const = default;
};

struct RunConfig {
  RunSection run;
  ModelSection model;
  DataSection data;
  TrainSection train;
  SyncSection sync;
  ClusterSection cluster;
  SecuritySection security;
  MetricsSection metrics;

  bool operator==(const RunConfig&) const = default;
};

// The names that configurations, metrics and logs use.
std::string_view Name(SignalKind signal);  // "gradient", "pseudo-gradient"
std::string_view Name(UpdateRule update);  // "sgd", "sign", "nesterov", "inner", "local"

// Whether the coordinator fits the interval H to the links while the run trains.
inline bool FitsInterval(const RunConfig& config) { return config.sync.inner_steps == 0; }

// The smallest and the largest H that a round may have: the bounds with auto, else H itself.
uint32_t LeastInnerSteps(const SyncSection& sync);
uint32_t MostInnerSteps(const SyncSection& sync);

// Rounds of a run: ceil(steps / H), and with auto the most that there can be.
uint64_t RoundCount(const RunConfig& config);

// Rounds of a run of which so many are done, for people: with auto as many as there will be if they
// go on as before, and 0 before the first.
uint64_t ExpectedRounds(const RunConfig& config, uint64_t rounds_done, uint64_t steps_done);

// A warning for a run whose few rounds say little of its method; empty if the run has enough.
std::string FewRoundsSentence(const RunConfig& config);

// The limit of members at once: cluster.workers_max, or else the larger of 64 and twice
// run.workers.
uint32_t WorkersMax(const RunConfig& config);

// How long a run that has finished a round waits for a shard, the coordinator or the last worker:
// cluster.away_timeout_s, or without end.
absl::Duration AwayTimeout(const RunConfig& config);

// The most inner steps that one contribution covers: H, or run.steps if those are fewer. With
// fragments, contributions of the last round cover more, since all of its signals are taken at its
// end: up to 2·H − ⌈H / F⌉; with auto 2·H, since the round before may be longer.
uint64_t ContributionStepsMax(const RunConfig& config);

// The largest weight of one contribution, in tokens: ContributionStepsMax times train.batch times
// model.context. A shard rejects a push with more.
uint64_t ContributionWeightMax(const RunConfig& config);

// θ is equal on all replicas under every update but `local`.
inline bool PromisesEqualReplicas(const RunConfig& config) {
  return config.sync.update != UpdateRule::kLocal;
}

// Whether merged updates and snapshots can bring a replica up to date. Under `inner` and `local` a
// replica also depends on its own worker's steps.
inline bool CanCatchUp(const RunConfig& config) {
  return config.sync.update != UpdateRule::kInner && config.sync.update != UpdateRule::kLocal;
}

// Arrays of a segment's state: the parameters and, with update nesterov, their velocity.
inline uint32_t StateArrays(const RunConfig& config) {
  return config.sync.update == UpdateRule::kNesterov ? 2 : 1;
}

// The layout options that every process derives from configuration and manifest: the file's, with
// segment_tiles lowered for a small model until every shard has a segment. For a manifest that
// Layout::Create refuses, the options stay as they are.
LayoutOptions LayoutOptionsFor(const RunConfig& config, const Manifest& manifest);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_CONFIG_RUN_CONFIG_H_
