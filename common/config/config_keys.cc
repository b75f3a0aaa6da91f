#include "common/config/config_keys.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "common/config/config.h"
#include "common/config/key_types.h"

namespace longwave {
namespace {

// A key's name is the path of its member: written once, so that both agree.
#define LONGWAVE_KEY(member) \
#member, [](auto& config) -> auto& { return config.member; }

constexpr uint64_t kStepsMax = 1'000'000'000;
constexpr double kMomentumMax = 0.9999;

std::vector<ConfigKey> RunKeys() {
  return {
      ChoiceKey(LONGWAVE_KEY(run.preset), WordChoices(PresetNames()), "longwave",
                "The method. Its file in `configs/presets` gives the defaults, which a "
                "configuration overrides. `--set preset=NAME` is short for this key.",
                "the name of a file of configs/presets, without its .yaml"),
      TextKey(LONGWAVE_KEY(run.name), "", IsFolderName,
              "a folder name of letters, digits, '.', '_' and '-', or \"\"",
              "Folder under `runs/` that the run writes to. Empty: preset, date and time."),
      WholeKey(LONGWAVE_KEY(run.steps), 600, 1, kStepsMax, "Inner steps of each worker."),
      WholeKey(
          LONGWAVE_KEY(run.workers), 4, 1, 10000,
          "Workers that the run waits for before its first round. The coordinator's value counts."),
      WholeKey(LONGWAVE_KEY(run.shards), 2, 1, 4096, "Aggregation servers that share the model."),
      WholeKey(LONGWAVE_KEY(run.seed), 1, 0, std::numeric_limits<uint64_t>::max(),
               "Seed of the model's weights, the order of the data and random selections."),
      ChoiceKey(
          LONGWAVE_KEY(run.start), WordChoices({"seed", "member"}), "seed",
          "The run begins with the weights of the first worker that registers. `seed`: every "
          "worker draws the same weights from `run.seed`, and the coordinator refuses a worker "
          "that brings others. `member`: a worker that brings others joins and fetches the run's "
          "weights. The shards keep a snapshot of these, and need a folder for it."),
      WholeKey(LONGWAVE_KEY(run.validate_every), 0, 0, kStepsMax,
               "Rounds between validations. 0: as many as give about 20 validations in the run. "
               "The end of a run is always validated."),
      WholeKey(LONGWAVE_KEY(run.validation_batches), 16, 1, 1'000'000,
               "Batches over which a validation loss is the mean. They are always the same ones."),
  };
}

std::vector<ConfigKey> ModelKeys() {
  return {
      ChoiceKey(
          LONGWAVE_KEY(model.kind), WordChoices({"gpt", "external"}), "gpt",
          "`gpt`: a GPT of bytes or tokens, which `longwave-worker` trains. `external`: the model "
          "that the first worker brings, such as one of PyTorch (docs/how-to/python.md)."),
      ChoiceKey(LONGWAVE_KEY(model.size), WordChoices({"custom", "gpt2-124m", "gpt2-350m"}),
                "custom",
                "GPT-2's sizes. The keys of `model` that a configuration sets stand, and the "
                "others are those of the size (768 wide, 12 blocks of 12 heads, or 1024, 24 and "
                "16; context 1024, 50257 tokens)."),
      WholeKey(LONGWAVE_KEY(model.d_model), 96, 8, 16384, "Width, a multiple of `model.heads`."),
      WholeKey(LONGWAVE_KEY(model.layers), 3, 1, 256, "Transformer blocks."),
      WholeKey(LONGWAVE_KEY(model.heads), 4, 1, 256, "Attention heads of a block."),
      WholeKey(LONGWAVE_KEY(model.context), 64, 2, 65536, "Tokens of a sequence (of text: bytes)."),
      WholeKey(LONGWAVE_KEY(model.vocabulary), 256, 2, 1'000'000,
               "Tokens that the model knows: 256 bytes, or the tokens of the files' tokenizer. "
               "Data with a token beyond them are refused."),
  };
}

std::vector<ConfigKey> DataKeys() {
  return {
      ChoiceKey(
          LONGWAVE_KEY(data.kind), WordChoices({"text", "bytes", "tokens"}), "text",
          "`text`: bytes of text, at most 1 GiB, which a worker holds in memory. Files of gzip and "
          "zstd are unpacked, and data that are no text are refused. `bytes`: likewise, but bytes "
          "of any meaning, as they are. `tokens`: mapped files of tokens. The shards of llm.c say "
          "at their beginning what they are; nanoGPT and Megatron write tokens alone "
          "(`data.token_type`). docs/how-to/data.md has the rest."),
      TextKey(LONGWAVE_KEY(data.path), "compiler-headers", IsPath, "a path, or compiler-headers",
              "The data to train on: a file; a folder, whose files are read in the order of their "
              "names, without hidden ones (of `tokens`: `*.bin`); a pattern with `*`; or, for "
              "text, `compiler-headers`, the C++ headers of this machine's compiler. Several files "
              "are read as if they were one."),
      TextKey(LONGWAVE_KEY(data.validation_path), "", IsPathOrNone, "a path, or \"\"",
              "The data to validate with, in the same forms. No worker trains on them. Empty: the "
              "files of `data.path` whose names say so (`val.bin` beside `train.bin`), or else "
              "`data.validation_share` of the data."),
      NumberKey(LONGWAVE_KEY(data.validation_share), 0.1, 0.001, 0.5,
                "Share of the data, at their end, that is held out for validation."),
      ChoiceKey(LONGWAVE_KEY(data.token_type), WordChoices({"uint16", "uint32"}), "uint16",
                "Type of the tokens in files that do not say it, little-endian."),
  };
}

std::vector<ConfigKey> TrainKeys() {
  return {
      WholeKey(LONGWAVE_KEY(train.batch), 8, 1, 65536,
               "Sequences of a step. The value of the coordinator and the shards is the run's, and "
               "a worker may use a smaller one. A contribution weighs as many tokens as are behind "
               "it, and the shards reject a weight above what the run's batch allows."),
      WholeKey(LONGWAVE_KEY(train.micro_batches), 1, 1, 65536,
               "Parts of a step's batch that are computed one after another. Their gradients are "
               "added in that order. More parts need less memory for activations."),
      FlagKey(LONGWAVE_KEY(train.activation_checkpoints), false,
              "Of `gpt`: the worker keeps only a block's input, and the backward pass computes the "
              "block's activations again. That needs the memory of one block instead of all, for "
              "about a third more time. Gradients are the same."),
      ChoiceKey(LONGWAVE_KEY(train.optimizer), WordChoices({"adamw", "muon", "sgd"}), "muon",
                "The inner optimizer. `muon`: the momentum of the hidden matrices, orthogonalised "
                "by five Newton-Schulz steps and multiplied by 0.2·√max(rows, columns), so that "
                "AdamW's learning rate and weight decay carry over; embeddings, head and vectors "
                "have AdamW. With `sync.update: inner` it needs workers with equal processors and "
                "threads, whose products round alike. `sgd`: with momentum."),
      NumberKey(LONGWAVE_KEY(train.learning_rate), 1.5e-2, 0, 10,
                "Peak learning rate of the inner optimizer, and the lr of the signal lr·g."),
      WholeKey(LONGWAVE_KEY(train.warmup_steps), 50, 0, kStepsMax,
               "Steps in which the learning rate rises linearly to its peak, fewer than "
               "`run.steps`. A cosine follows."),
      NumberKey(LONGWAVE_KEY(train.final_learning_rate_share), 0.1, 0, 1,
                "The learning rate at the last step, as a share of the peak."),
      NumberKey(LONGWAVE_KEY(train.beta1), 0.9, 0, kMomentumMax, "AdamW's β₁."),
      NumberKey(LONGWAVE_KEY(train.beta2), 0.99, 0, 0.99999, "AdamW's β₂."),
      NumberKey(LONGWAVE_KEY(train.epsilon), 1e-8, 1e-16, 0.1, "AdamW's ε."),
      NumberKey(LONGWAVE_KEY(train.momentum), 0.95, 0, kMomentumMax,
                "μ of `muon` (Nesterov's) and of `sgd`."),
      NumberKey(LONGWAVE_KEY(train.weight_decay), 0.1, 0, 10,
                "Decoupled weight decay of matrices, for each step and unit of learning rate."),
      NumberKey(LONGWAVE_KEY(train.clip_norm), 1, 0, 1e6,
                "L2 norm to which the gradient of a step is clipped. 0: not clipped."),
      WholeKey(
          LONGWAVE_KEY(train.threads), 0, 0, 1024,
          "Threads of a worker. 0: `OMP_NUM_THREADS`, or else the cores that the worker may use "
          "(its CPU set, its container's quota), shared among the workers under `longwave up`."),
      ChoiceKey(LONGWAVE_KEY(train.device), WordChoices({"auto", "cpu", "cuda"}), "auto",
                "Where a worker computes. `auto`: on a GPU if there is one. A worker without a GPU "
                "refuses `cuda`."),
      ChoiceKey(LONGWAVE_KEY(train.autocast), WordChoices({"none", "bf16"}), "none",
                "`bf16`: the model's matrix products are computed in bf16, at a multiple of fp32's "
                "speed on GPUs that have it. Parameters, gradients and losses stay in fp32."),
  };
}

std::vector<ConfigKey> SyncKeys() {
  using enum ValueCodec;
  const Choices<ValueCodec> codecs =
      NamedChoices<ValueCodec>({kFp32, kBf16, kInt8, kInt4, kInt2, kSign});
  return {
      ChoiceKey(LONGWAVE_KEY(sync.signal),
                NamedChoices<SignalKind>({SignalKind::kGradient, SignalKind::kPseudoGradient}),
                "pseudo-gradient",
                "s, the signal of a worker. `pseudo-gradient`: θ − θᵢ, the anchor minus the "
                "replica after H inner steps. `gradient` (H = 1): lr·g. With `sync.update: inner` "
                "it is g itself, so that clipping and optimizer see the merged gradient."),
      WholeOrAutoKey(
          LONGWAVE_KEY(sync.inner_steps), 30, 1, 1'000'000,
          "H: inner steps between syncs, at most `run.steps`. It is 1 with the gradient as the "
          "signal. `auto`: the coordinator fits H to the links while the run trains."),
      WholeKey(LONGWAVE_KEY(sync.inner_steps_min), 2, 1, 1'000'000,
               "The smallest H of `auto`. Fragments and an overlap have to fit it."),
      WholeKey(LONGWAVE_KEY(sync.inner_steps_max), 100, 1, 1'000'000, "The largest H of `auto`."),
      NumberKey(LONGWAVE_KEY(sync.target_share), 0.03, 0.001, 0.5,
                "With `auto`: the share of their time for which syncs may keep members from "
                "computing, without the wait for members that compute more slowly."),
      NumberKey(LONGWAVE_KEY(sync.beta), 0.45, 0, kMomentumMax,
                "β of the momentum m ← β·m + s. With 0 nothing is left of a signal that was sent, "
                "and a signal whose push was late is added whole to the next one."),
      NumberKey(LONGWAVE_KEY(sync.alpha), 1, 0, 1,
                "α: share of the sent values that leaves the momentum, m ← m − α·T⁻¹(q̂)."),
      ChoiceKey(
          LONGWAVE_KEY(sync.transform),
          NamedChoices<Transform>({Transform::kNone, Transform::kDct}), "dct",
          "T: the domain of a tile's coefficients. Use `dct` with Muon and `none` with AdamW."),
      ChoiceKey(
          LONGWAVE_KEY(sync.tiling),
          Choices<Tiling>{
              {"model", Tiling::kModel}, {"tensor", Tiling::kTensor}, {"flat", Tiling::kFlat}},
          "model",
          "`model`: matrices in blocks of 64 × 64 (32 × 128 or 128 × 32 where fewer of them cover "
          "the matrix) with padded edges, and all vectors end to end in runs of 4096. `tensor`: "
          "each tensor on its own, in blocks that divide it. `flat`: all parameters end to end in "
          "runs of 4096."),
      WholeKey(LONGWAVE_KEY(sync.block), 64, 1, 64,
               "Largest side of a block and length of a run with `sync.tiling: tensor`. It is 64 "
               "otherwise."),
      // 2048 tiles of 4096 fp32 values stay below kPayloadBytesMax.
      WholeKey(LONGWAVE_KEY(sync.segment_tiles), 256, 1, 2048,
               "Tiles of a segment, the unit that is encoded, sent, merged and applied. Segments "
               "of small models have fewer, so that every shard has a segment."),
      ChoiceKey(LONGWAVE_KEY(sync.up.selection),
                NamedChoices<Selection>(
                    {Selection::kAll, Selection::kTopK, Selection::kRandom, Selection::kStride}),
                "topk",
                "S: the coefficients of a tile that a worker sends. `all`: every one. `topk`: the "
                "k largest. `random`: k that the round's seed draws. `stride`: every (n/k)th."),
      WholeKey(LONGWAVE_KEY(sync.up.k), 116, 1, kTileSizeMax,
               "Coefficients of a tile that a worker sends unless it sends all. With `stride` it "
               "divides 4096. Smaller tiles are sent whole. With `topk` each worker may have its "
               "own `k`, and may come back with another."),
      ChoiceKey(
          LONGWAVE_KEY(sync.up.codec), codecs, "sign",
          "Q: how a worker writes a value, in 32, 16, 8, 4 or 2 bits, or in 1 (`sign`). The "
          "integer codecs have one scale a tile. Each worker may have its own codec, and may come "
          "back with another. If the shards' codec is an integer one, they reject fp32 and bf16. "
          "The shards reserve memory by their own codec, which should be the largest."),
      NumberKey(LONGWAVE_KEY(sync.rho), 0.25, 0, 1,
                "ρ of the merge Σ w·q̂ / max(Σ_senders w, ρ·Σ_all w). 0 is the mean over the "
                "workers that sent a coefficient, 1 the mean over all."),
      ChoiceKey(LONGWAVE_KEY(sync.down.selection),
                NamedChoices<Selection>({Selection::kAll, Selection::kTopK}), "topk",
                "The merged coefficients of a tile that a shard sends back: all, or the k largest. "
                "The shard keeps the rest for later rounds."),
      WholeKey(LONGWAVE_KEY(sync.down.k), 464, 1, kTileSizeMax,
               "Coefficients of a tile that a shard sends back unless it sends all."),
      ChoiceKey(LONGWAVE_KEY(sync.down.codec), codecs, "int2", "How a shard writes a value."),
      ChoiceKey(
          LONGWAVE_KEY(sync.update),
          NamedChoices<UpdateRule>({UpdateRule::kSgd, UpdateRule::kSign, UpdateRule::kNesterov,
                                    UpdateRule::kInner, UpdateRule::kLocal}),
          "sgd",
          "How the merged u changes θ. `sgd`: θ − η·u. `sign`: θ − η·sign(u). `nesterov`: v ← μ·v "
          "+ u, θ − η·(u + μ·v). `inner`: the inner optimizer takes u as its gradient. `local`: m "
          "← m + u, θ − η·(s + β·m), each worker on its own anchor, so that replicas differ."),
      NumberKey(LONGWAVE_KEY(sync.eta), 1, 0, 100, "η of the update. `inner` does not use it."),
      FlagKey(LONGWAVE_KEY(sync.follow_schedule), false,
              "The update uses η times the learning rate of the step."),
      NumberKey(LONGWAVE_KEY(sync.mu), 0, 0, kMomentumMax, "μ of `sync.update: nesterov`."),
      NumberKey(LONGWAVE_KEY(sync.weight_decay), 0, 0, 10,
                "Decoupled weight decay at the update, θ ← (1 − η·wd)·θ. It is 0 with `inner`."),
      WholeKey(LONGWAVE_KEY(sync.overlap), 0, 0, 1'000'000,
               "τ: inner steps that go on while a sync is in flight. Its update is blended in τ "
               "steps after its signal was taken. Fewer than the steps between two syncs."),
      WholeKey(
          LONGWAVE_KEY(sync.fragments), 1, 1, 4096,
          "F: parts of the model whose syncs are spread over the H steps. Every part is synced "
          "once in H steps. At most H. A model of fewer segments has as many parts as segments."),
      NumberKey(LONGWAVE_KEY(sync.blend), 1, 0, 1,
                "α: share of the replica's progress in the τ steps of an overlap that is kept, θᵢ "
                "← θ + α·(θᵢ − θᵢ at the signal)."),
      NumberKey(LONGWAVE_KEY(sync.clip), 10, 0, 1'000'000,
                "Largest norm of a contribution, as a multiple of the usual norm in its segment. "
                "The excess is clipped off and lost, not returned to the worker. A contribution "
                "that would be clipped to less than a thousandth is left out. The usual norm is "
                "the median of the round's contributions; with two of them it is the median of "
                "both and the last merged update's norm, with one it is the latter. Contributions "
                "of zeros do not count. 0: shards neither clip nor check norms."),
      NumberKey(LONGWAVE_KEY(sync.quorum), 0.5, 0, 1,
                "Share of the members whose pushes close a round without the others, once the "
                "grace (`cluster.grace_min_s`) has passed. A later push goes back into its "
                "worker's momentum and goes with a later round (see `sync.beta`). 1: a round waits "
                "for every member until the coordinator counts it as lost."),
  };
}

std::vector<ConfigKey> ClusterKeys() {
  return {
      TextKey(LONGWAVE_KEY(cluster.coordinator), "127.0.0.1:7070", IsHostPort,
              "host:port with a port from 0 to 65535",
              "Where the coordinator listens and the others connect. Port 0, for `longwave up`: "
              "any free port, which `up` tells the others."),
      TextKey(
          LONGWAVE_KEY(cluster.shard_host), "127.0.0.1", IsHost, "a host name or address",
          "Address of this machine that a shard binds and announces. Its ports are any free ones."),
      NumberKey(LONGWAVE_KEY(cluster.heartbeat_interval_s), 0.25, 0.01, 60,
                "Seconds between heartbeats."),
      NumberKey(LONGWAVE_KEY(cluster.heartbeat_timeout_s), 15, 0.02, 3600,
                "Seconds of silence after which a member counts as lost."),
      NumberKey(
          LONGWAVE_KEY(cluster.start_timeout_s), 120, 0.1, 86400,
          "Seconds that a process waits for the others at the start. At the end of the run a "
          "member has at least this long to report its replica before the run leaves it out."),
      NumberKey(LONGWAVE_KEY(cluster.away_timeout_s), 0, 0, 1e6,
                "Seconds that a run waits for a shard, the coordinator or the last worker that is "
                "away before it fails, once it has finished a round. 0: without end."),
      WholeKey(LONGWAVE_KEY(cluster.workers_max), 0, 0, 65536,
               "Members that the coordinator admits at once: those that the run waits for "
               "(`run.workers`) and those that join late. Shards size their queues by it and say "
               "at their start whether they have the memory, so they and the coordinator need the "
               "same value. 0: the larger of 64 and twice `run.workers`."),
      NumberKey(LONGWAVE_KEY(cluster.max_upload_mbit), 0, 0, 1e6,
                "The most that a worker sends over all shards, in Mbit/s (10⁶ bit). It is an "
                "average over frames, which are sent whole. 0: no limit."),
      NumberKey(LONGWAVE_KEY(cluster.max_download_mbit), 0, 0, 1e6,
                "The most that all shards together send a worker, in Mbit/s. It is an average over "
                "frames, which are sent whole. 0: no limit."),
      WholeKey(
          LONGWAVE_KEY(cluster.connections), 1, 1, 16,
          "Connections of a worker to each shard, for links that one connection does not fill."),
      WholeKey(LONGWAVE_KEY(cluster.shard_threads), 1, 1, 256, "Threads of a shard's merge."),
      WholeKey(
          LONGWAVE_KEY(cluster.shard_memory_mb), 0, 0, 1'000'000'000,
          "Megabytes (10⁶ bytes) of pushes to open rounds that a shard keeps. It answers further "
          "pushes with `busy`, and the workers send them again. Its queues may take half as much "
          "beside. 0: a third of the memory that is available at the start, or what the model "
          "leaves of it. Shards whose `cluster.shard_host` is a loopback address share it."),
      NumberKey(LONGWAVE_KEY(cluster.grace_min_s), 10, 0, 86400,
                "Seconds that the other members have at least, once a quorum (`sync.quorum`) has "
                "pushed a segment. Between this and `cluster.grace_max_s` a shard takes the median "
                "of what past rounds needed, and four times their median deviation."),
      NumberKey(LONGWAVE_KEY(cluster.grace_max_s), 120, 0, 86400,
                "Seconds that the other members have at most. Not below `cluster.grace_min_s`."),
      WholeKey(LONGWAVE_KEY(cluster.state_rounds), 16, 1, 1'000'000,
               "Rounds between two snapshots of what only a shard has of a segment. A shard that "
               "comes back merges at most twice as many rounds again."),
      WholeKey(LONGWAVE_KEY(cluster.snapshot_rounds), 500, 1, 1'000'000,
               "Rounds between two snapshots of a segment's parameters. The members send them to "
               "the shards in turns, and the segments are spread over these rounds. A shard drops "
               "the part of its log that is older than two snapshots of each segment. A worker "
               "that joins fetches the snapshot or the log, whichever is fewer bytes."),
      WholeKey(LONGWAVE_KEY(cluster.checkpoint_rounds), 1, 0, 1'000'000,
               "Rounds between two checkpoints of a worker that has a folder (`--state-dir`), at "
               "least: its residual and its optimizer's state. The worker copies them between two "
               "steps and writes them while it trains. A worker that is told to end writes one "
               "more. 0: none."),
      NumberKey(LONGWAVE_KEY(cluster.checkpoint_share), 0.1, 0.001, 1,
                "Share of the time in which a worker's disk may write a checkpoint. 0.1: a write "
                "that takes a second is spread over ten."),
  };
}

std::vector<ConfigKey> SecurityKeys() {
  return {
      ChoiceKey(LONGWAVE_KEY(security.mode), WordChoices({"auto", "on", "off"}), "auto",
                "Whether control is mutual TLS and data is encrypted, both with certificates of "
                "the run's own authority (docs/reference/security.md). `auto`: off if every "
                "address of the process is one of loopback, else on."),
      TextKey(LONGWAVE_KEY(security.folder), "", IsPathOrNone, "a path, or \"\"",
              "Folder of a process's credentials: `ca.crt`, `tls.crt` and `tls.key`. The process "
              "reads them again when they change. Empty: `security` in its state folder."),
      TextKey(LONGWAVE_KEY(security.authority), "", IsPathOrNone, "a path, or \"\"",
              "Coordinator: folder of `ca.crt` and `ca.key`, with which it issues certificates to "
              "processes that join with a token. Empty: its credentials' folder, where it makes "
              "both if there are none."),
      NumberKey(LONGWAVE_KEY(security.certificate_life_s), 2592000, 10, 315360000,
                "Seconds for which the coordinator issues a certificate. A process renews its "
                "certificate after two thirds of them."),
  };
}

std::vector<ConfigKey> MetricsKeys() {
  return {
      TextKey(LONGWAVE_KEY(metrics.listen), "127.0.0.1:0", IsHostPortOrNone,
              "host:port with a port from 0 to 65535, or \"\"",
              "Where each process serves its metrics (docs/reference/metrics.md), without TLS. "
              "Port 0: any free port, which the process's log names. Empty: nowhere. `--metrics` "
              "overrides it."),
      NumberKey(LONGWAVE_KEY(metrics.peak_tflops), 0, 0, 1e6,
                "The most that a worker's processor (of a node: each rank's) can do, in 10¹² "
                "floating point operations a second of the kind that `train.autocast` selects: its "
                "maker's figure for dense bf16, or for fp32. The worker's metrics then have the "
                "share of it that the worker uses (model FLOPs utilisation). 0: not known."),
  };
}

#undef LONGWAVE_KEY

}  // namespace

const std::vector<ConfigKey>& ConfigKeys() {
  static const std::vector<ConfigKey>* const keys = [] {
    auto* all = new std::vector<ConfigKey>;
    for (auto section : {RunKeys, ModelKeys, DataKeys, TrainKeys, SyncKeys, ClusterKeys,
                         SecurityKeys, MetricsKeys}) {
      for (ConfigKey& key : section()) {
        key.binding = BindingOf(key.name);
        if (key.documented.empty()) key.documented = key.wanted;
        all->push_back(std::move(key));
      }
    }
    return all;
  }();
  return *keys;
}

const ConfigKey* FindConfigKey(std::string_view name) {
  for (const ConfigKey& key : ConfigKeys()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

bool IsConfigSection(std::string_view name) {
  const std::string prefix = std::string(name) + ".";
  return std::ranges::any_of(
      ConfigKeys(), [&](const ConfigKey& key) { return absl::StartsWith(key.name, prefix); });
}

}  // namespace longwave
