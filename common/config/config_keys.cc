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
      ChoiceKey(
          LONGWAVE_KEY(run.preset), WordChoices(PresetNames()), "longwave",
          "The method: its file of `configs/presets` gives the defaults under the keys that a "
          "configuration sets itself. `--set preset=NAME` is short for it.",
          "the name of a file of configs/presets, without its .yaml"),
      TextKey(LONGWAVE_KEY(run.name), "", IsFolderName,
              "a folder name of letters, digits, '.', '_' and '-', or \"\"",
              "Folder under `runs/` that the run writes to; empty: preset, date and time."),
      WholeKey(LONGWAVE_KEY(run.steps), 600, 1, kStepsMax, "Inner steps of each worker."),
      WholeKey(LONGWAVE_KEY(run.workers), 4, 1, 10000,
               "Workers that the run waits for before its first round: the coordinator's says."),
      WholeKey(LONGWAVE_KEY(run.shards), 2, 1, 4096,
               "Aggregation servers, among which the model is divided."),
      WholeKey(LONGWAVE_KEY(run.seed), 1, 0, std::numeric_limits<uint64_t>::max(),
               "Seed of the model's weights, the order of the data and random selections."),
      ChoiceKey(LONGWAVE_KEY(run.start), WordChoices({"seed", "member"}), "seed",
                "The weights that the run begins with are those of the first worker to register. "
                "`seed`: every worker draws the same from `run.seed`; one that brings others is "
                "refused. `member`: one that brings others joins and fetches the run's; the shards "
                "keep a snapshot of them, and need a folder for it."),
      WholeKey(
          LONGWAVE_KEY(run.validate_every), 0, 0, kStepsMax,
          "Rounds between validations; 0: as many as give about 20 in the run. The end of a run "
          "is validated in any case."),
      WholeKey(LONGWAVE_KEY(run.validation_batches), 16, 1, 1'000'000,
               "Batches that a validation loss is the mean of, always the same ones."),
  };
}

std::vector<ConfigKey> ModelKeys() {
  return {
      ChoiceKey(LONGWAVE_KEY(model.kind), WordChoices({"gpt", "external"}), "gpt",
                "`gpt`: a GPT of bytes or tokens, which `longwave-worker` trains. `external`: what "
                "the first worker brings, such as a model of PyTorch (docs/python.md)."),
      ChoiceKey(
          LONGWAVE_KEY(model.size), WordChoices({"custom", "gpt2-124m", "gpt2-350m"}), "custom",
          "GPT-2's sizes: what `model` sets beside it stands, and the rest are that model's "
          "(768 wide, 12 blocks of 12 heads, or 1024, 24 and 16; context 1024, 50257 tokens)."),
      WholeKey(LONGWAVE_KEY(model.d_model), 96, 8, 16384, "Width, a multiple of `model.heads`."),
      WholeKey(LONGWAVE_KEY(model.layers), 3, 1, 256, "Transformer blocks."),
      WholeKey(LONGWAVE_KEY(model.heads), 4, 1, 256, "Attention heads of a block."),
      WholeKey(LONGWAVE_KEY(model.context), 64, 2, 65536, "Tokens of a sequence; bytes of text."),
      WholeKey(LONGWAVE_KEY(model.vocabulary), 256, 2, 1'000'000,
               "Tokens that the model tells apart: 256 bytes, or as many as the files' tokenizer "
               "has. Data with others are refused."),
  };
}

std::vector<ConfigKey> DataKeys() {
  return {
      ChoiceKey(LONGWAVE_KEY(data.kind), WordChoices({"text", "bytes", "tokens"}), "text",
                "`text`: its bytes, at most 1 GiB, which a worker holds in memory; files of gzip "
                "and zstd are unpacked, and whatever is no text is refused. `bytes`: likewise, but "
                "of any meaning and as they are. `tokens`: files of tokens, which are mapped: "
                "llm.c's shards, which say so at their beginning, or tokens alone as nanoGPT and "
                "Megatron write them (`data.token_type`). docs/data.md has the rest."),
      TextKey(
          LONGWAVE_KEY(data.path), "compiler-headers", IsPath, "a path, or compiler-headers",
          "The data to train on: a file, a folder (its files in order of their names, none of them "
          "hidden; of tokens, `*.bin`), a pattern with `*`, or, of text, `compiler-headers`, the "
          "C++ "
          "headers of this machine's compiler. Files are read as if they were one."),
      TextKey(LONGWAVE_KEY(data.validation_path), "", IsPathOrNone, "a path, or \"\"",
              "Likewise, the data to validate with, which are left out of the others; empty: those "
              "of the others that are named so (`val.bin` beside `train.bin`), or "
              "`data.validation_share` of them."),
      NumberKey(LONGWAVE_KEY(data.validation_share), 0.1, 0.001, 0.5,
                "Share of the data, at their end, that is held out for validation."),
      ChoiceKey(LONGWAVE_KEY(data.token_type), WordChoices({"uint16", "uint32"}), "uint16",
                "Tokens of files that don't say, little-endian."),
  };
}

std::vector<ConfigKey> TrainKeys() {
  return {
      WholeKey(
          LONGWAVE_KEY(train.batch), 8, 1, 65536,
          "Sequences of a step. The coordinator's and the shards' value is the "
          "run's; a worker may use a smaller one. The weight of a contribution is its number of "
          "tokens, and the shards reject one that weighs more than the run's batch can."),
      WholeKey(LONGWAVE_KEY(train.micro_batches), 1, 1, 65536,
               "Parts of a step's batch that are computed one after another, their gradients added "
               "up in that order: less memory for activations."),
      FlagKey(LONGWAVE_KEY(train.activation_checkpoints), false,
              "Of `gpt`: the backward pass computes a block's activations again from the block's "
              "input, which alone is kept: memory of one block instead of all, for about a third "
              "more time. Gradients are the same."),
      ChoiceKey(
          LONGWAVE_KEY(train.optimizer), WordChoices({"adamw", "muon", "sgd"}), "muon",
          "The inner optimizer. `muon`: of the hidden matrices the momentum, orthogonalised by "
          "five Newton-Schulz steps and times 0.2·√max(rows, columns), so that AdamW's learning "
          "rate and weight decay carry over; AdamW for embeddings, head and vectors. With "
          "`sync.update` inner it wants workers with equal processors and threads, whose products "
          "round alike. `sgd`: with momentum."),
      NumberKey(LONGWAVE_KEY(train.learning_rate), 1.5e-2, 0, 10,
                "Peak learning rate of the inner optimizer; also the lr of the signal lr·g."),
      WholeKey(
          LONGWAVE_KEY(train.warmup_steps), 50, 0, kStepsMax,
          "Steps in which the learning rate rises linearly to its peak, fewer than `run.steps`; "
          "a cosine follows."),
      NumberKey(LONGWAVE_KEY(train.final_learning_rate_share), 0.1, 0, 1,
                "The learning rate at the last step, as a share of the peak."),
      NumberKey(LONGWAVE_KEY(train.beta1), 0.9, 0, kMomentumMax, "AdamW's β₁."),
      NumberKey(LONGWAVE_KEY(train.beta2), 0.99, 0, 0.99999, "AdamW's β₂."),
      NumberKey(LONGWAVE_KEY(train.epsilon), 1e-8, 1e-16, 0.1, "AdamW's ε."),
      NumberKey(LONGWAVE_KEY(train.momentum), 0.95, 0, kMomentumMax,
                "μ of `muon` (Nesterov's) and of `sgd`."),
      NumberKey(LONGWAVE_KEY(train.weight_decay), 0.1, 0, 10,
                "Decoupled weight decay of matrices, a step and unit of learning rate."),
      NumberKey(LONGWAVE_KEY(train.clip_norm), 1, 0, 1e6,
                "L2 norm that the gradient of a step is clipped to; 0: not clipped."),
      WholeKey(
          LONGWAVE_KEY(train.threads), 0, 0, 1024,
          "Threads of a worker; 0: `OMP_NUM_THREADS`, or else the cores that it may use (its CPU "
          "set, its container's quota), shared among the workers under `longwave up`."),
      ChoiceKey(LONGWAVE_KEY(train.device), WordChoices({"auto", "cpu", "cuda"}), "auto",
                "Where a worker computes; `auto`: on a GPU if there is one. A worker without a GPU "
                "refuses `cuda`."),
      ChoiceKey(LONGWAVE_KEY(train.autocast), WordChoices({"none", "bf16"}), "none",
                "`bf16`: matrix products of the model compute in bf16, at a multiple of fp32's "
                "speed on GPUs that have it. Parameters, gradients and losses stay in fp32."),
  };
}

std::vector<ConfigKey> SyncKeys() {
  using enum ValueCodec;
  const Choices<ValueCodec> codecs =
      NamedChoices<ValueCodec>({kFp32, kBf16, kInt8, kInt4, kInt2, kSign});
  return {
      ChoiceKey(
          LONGWAVE_KEY(sync.signal),
          NamedChoices<SignalKind>({SignalKind::kGradient, SignalKind::kPseudoGradient}),
          "pseudo-gradient",
          "s, what a worker tells the others. `pseudo-gradient`: θ − θᵢ, the anchor less the "
          "replica after H inner steps. `gradient` (H = 1): lr·g, except with `sync.update` "
          "inner, where it is g itself, so that clipping and optimizer see the merged gradient."),
      WholeOrAutoKey(
          LONGWAVE_KEY(sync.inner_steps), 30, 1, 1'000'000,
          "H: inner steps between syncs, at most `run.steps`; 1 with the gradient as the signal. "
          "`auto`: the coordinator fits H to the links while the run trains, the same for all "
          "workers in a round: the smallest with which the members that make a quorum "
          "(`sync.quorum`) lose at most `sync.target_share` of their time by syncs. Log and status "
          "say H and why it changed. Not with `sync.signal` gradient."),
      WholeKey(LONGWAVE_KEY(sync.inner_steps_min), 2, 1, 1'000'000,
               "The smallest H with `sync.inner_steps` auto, which fragments and an overlap fit."),
      WholeKey(LONGWAVE_KEY(sync.inner_steps_max), 100, 1, 1'000'000,
               "The largest H with `sync.inner_steps` auto. The first rounds have the geometric "
               "mean of both."),
      NumberKey(
          LONGWAVE_KEY(sync.target_share), 0.03, 0.001, 0.5,
          "With `sync.inner_steps` auto, the share of their time that syncs may keep members "
          "from computing. The time that one waits for another that computes more slowly does "
          "not count."),
      NumberKey(LONGWAVE_KEY(sync.beta), 0.45, 0, kMomentumMax,
                "β of the momentum m ← β·m + s. With 0 nothing is left of a signal that was sent; "
                "one whose push was late is added whole to the next."),
      NumberKey(LONGWAVE_KEY(sync.alpha), 1, 0, 1,
                "α: share of what was sent that leaves the momentum, m ← m − α·T⁻¹(q̂)."),
      ChoiceKey(LONGWAVE_KEY(sync.transform),
                NamedChoices<Transform>({Transform::kNone, Transform::kDct}), "dct",
                "T: the domain of the coefficients, tile by tile: dct for Muon, none for AdamW."),
      ChoiceKey(
          LONGWAVE_KEY(sync.tiling),
          Choices<Tiling>{
              {"model", Tiling::kModel}, {"tensor", Tiling::kTensor}, {"flat", Tiling::kFlat}},
          "model",
          "`model`: 64 × 64 blocks of matrices (32 × 128 or 128 × 32 where fewer of them cover "
          "it), edges padded, and runs of 4096 of all vectors end to end. `tensor`: each tensor on "
          "its own, in blocks that divide it. `flat`: all parameters end to end in runs of 4096."),
      WholeKey(LONGWAVE_KEY(sync.block), 64, 1, 64,
               "Largest side of a block and length of a run with `sync.tiling` tensor; 64 "
               "otherwise."),
      // 2048 tiles of 4096 fp32 values stay below kPayloadBytesMax.
      WholeKey(
          LONGWAVE_KEY(sync.segment_tiles), 256, 1, 2048,
          "Tiles of a segment, the unit that is encoded, sent, merged and applied; lowered for "
          "small models until every shard has a segment."),
      ChoiceKey(LONGWAVE_KEY(sync.up.selection),
                NamedChoices<Selection>(
                    {Selection::kAll, Selection::kTopK, Selection::kRandom, Selection::kStride}),
                "topk",
                "S: coefficients of a tile that a worker sends: every one, the k largest, k drawn "
                "from the round's seed, or every (n/k)th."),
      WholeKey(LONGWAVE_KEY(sync.up.k), 116, 1, kTileSizeMax,
               "Coefficients of a tile that a worker sends, unless it sends all; with stride, a "
               "divisor of 4096. Smaller tiles are sent whole. With topk each worker may have its "
               "own `k`, and come back with another."),
      ChoiceKey(
          LONGWAVE_KEY(sync.up.codec), codecs, "sign",
          "Q: how a worker writes a value: 32, 16, 8, 4, 2 bits, or 1 (sign); the integer ones "
          "with one scale a tile. Each worker may have its own, and come back with another, but "
          "where the shards' is an integer one they reject fp32 and bf16; they reckon their memory "
          "by theirs, which should be the largest."),
      NumberKey(LONGWAVE_KEY(sync.rho), 0.25, 0, 1,
                "ρ of the merge Σ w·q̂ / max(Σ_senders w, ρ·Σ_all w): 0 is the mean over those that "
                "sent a coefficient, 1 the mean over all."),
      ChoiceKey(
          LONGWAVE_KEY(sync.down.selection),
          NamedChoices<Selection>({Selection::kAll, Selection::kTopK}), "topk",
          "Coefficients of a tile that a shard sends back: everything merged, or the k largest; "
          "the rest stays with the shard for later rounds."),
      WholeKey(LONGWAVE_KEY(sync.down.k), 464, 1, kTileSizeMax,
               "Coefficients of a tile that a shard sends back, unless it sends all."),
      ChoiceKey(LONGWAVE_KEY(sync.down.codec), codecs, "int2", "How a shard writes a value."),
      ChoiceKey(
          LONGWAVE_KEY(sync.update),
          NamedChoices<UpdateRule>({UpdateRule::kSgd, UpdateRule::kSign, UpdateRule::kNesterov,
                                    UpdateRule::kInner, UpdateRule::kLocal}),
          "sgd",
          "What the merged u does to θ. `sgd`: θ − η·u. `sign`: θ − η·sign(u). `nesterov`: "
          "v ← μ·v + u, θ − η·(u + μ·v). `inner`: the inner optimizer takes u as its gradient. "
          "`local`: m ← m + u, θ − η·(s + β·m), each worker on its own anchor: replicas differ."),
      NumberKey(LONGWAVE_KEY(sync.eta), 1, 0, 100, "η of the update; unused with inner."),
      FlagKey(LONGWAVE_KEY(sync.follow_schedule), false,
              "Use η times the learning rate of the step instead of η."),
      NumberKey(LONGWAVE_KEY(sync.mu), 0, 0, kMomentumMax, "μ of `sync.update` nesterov."),
      NumberKey(LONGWAVE_KEY(sync.weight_decay), 0, 0, 10,
                "Decoupled weight decay at the update, θ ← (1 − η·wd)·θ; 0 with inner."),
      WholeKey(LONGWAVE_KEY(sync.overlap), 0, 0, 1'000'000,
               "τ: inner steps that go on while a sync is in flight; its update is blended in τ "
               "steps after its signal was taken. Fewer than the steps between two syncs."),
      WholeKey(
          LONGWAVE_KEY(sync.fragments), 1, 1, 4096,
          "F: parts of the model whose syncs are spread over the H steps; every part is synced "
          "once in H steps. At most H; as many as the model has segments, where those are fewer."),
      NumberKey(
          LONGWAVE_KEY(sync.blend), 1, 0, 1,
          "α: share that is kept of what the replica has learnt in the τ steps of an overlap, "
          "θᵢ ← θ + α·(θᵢ − θᵢ at the signal)."),
      NumberKey(
          LONGWAVE_KEY(sync.clip), 10, 0, 1'000'000,
          "Multiple of the usual norm of a segment's contributions that one of them is "
          "clipped to: of their median or, with fewer than three of them, of the median of "
          "them and the last merged update's (of one, of the latter). Contributions of "
          "nothing do not count. What would be clipped to less than a thousandth is left out. "
          "What is clipped off is lost, not returned to its worker. 0: not clipped, and norms "
          "are not checked."),
      NumberKey(LONGWAVE_KEY(sync.quorum), 0.5, 0, 1,
                "Share of the members whose pushes a round needs to close without the others, once "
                "the grace (cluster.grace_min_s) has passed. What comes later goes back into "
                "its worker's momentum and goes with a later round (see `sync.beta`). 1: a round "
                "waits for every member until the coordinator counts it as lost."),
  };
}

std::vector<ConfigKey> ClusterKeys() {
  return {
      TextKey(LONGWAVE_KEY(cluster.coordinator), "127.0.0.1:7070", IsHostPort,
              "host:port with a port from 0 to 65535",
              "Where the coordinator listens and the others connect; port 0: any free one (for "
              "`longwave up`, which tells the others)."),
      TextKey(LONGWAVE_KEY(cluster.shard_host), "127.0.0.1", IsHost, "a host name or address",
              "Address of this machine that a shard binds and announces; its ports are any free "
              "ones."),
      NumberKey(LONGWAVE_KEY(cluster.heartbeat_interval_s), 0.25, 0.01, 60,
                "Seconds between signs of life."),
      NumberKey(LONGWAVE_KEY(cluster.heartbeat_timeout_s), 15, 0.02, 3600,
                "Seconds of silence after which a member counts as lost."),
      NumberKey(LONGWAVE_KEY(cluster.start_timeout_s), 120, 0.1, 86400,
                "Seconds that a process waits for the others at the start. At the end of the run a "
                "member has at least this long to report its replica before it is left out."),
      NumberKey(LONGWAVE_KEY(cluster.away_timeout_s), 0, 0, 1e6,
                "Seconds that a run which has finished a round waits for a shard, the coordinator "
                "or the last worker that is away, before it fails. 0: without end."),
      WholeKey(LONGWAVE_KEY(cluster.workers_max), 0, 0, 65536,
               "Members that the coordinator lets in at once, those that the run waits for "
               "(`run.workers`) and those that join late. By it shards size their queues and say "
               "at their start whether they have the memory for so many: they and the coordinator "
               "want the same. 0: the larger of 64 and twice `run.workers`."),
      NumberKey(LONGWAVE_KEY(cluster.max_upload_mbit), 0, 0, 1e6,
                "What a worker sends at most, in Mbit/s (10⁶ bit), over all shards; an average "
                "over frames, which leave whole; 0: no limit."),
      NumberKey(LONGWAVE_KEY(cluster.max_download_mbit), 0, 0, 1e6,
                "What a worker is sent at most, in Mbit/s, by all shards together; an average over "
                "frames, which leave whole; 0: no limit."),
      WholeKey(LONGWAVE_KEY(cluster.connections), 1, 1, 16,
               "Connections of a worker to each shard, for links on which one does not fill the "
               "path."),
      WholeKey(LONGWAVE_KEY(cluster.shard_threads), 1, 1, 256, "Threads of a shard's merge."),
      WholeKey(
          LONGWAVE_KEY(cluster.shard_memory_mb), 0, 0, 1'000'000'000,
          "Megabytes (10⁶ bytes) of pushes that a shard keeps for rounds that are open; beyond "
          "it pushes are answered `busy` and come again. Its queues may take half as much beside. "
          "0: a third of what is available at the start, or what the model leaves of it, shared by "
          "all shards where cluster.shard_host is a loopback address."),
      NumberKey(LONGWAVE_KEY(cluster.grace_min_s), 10, 0, 86400,
                "Seconds that the rest of the members have at least, once a quorum (sync.quorum) "
                "has pushed a segment. Between this and grace_max_s a shard takes the median of "
                "what past rounds needed, and four times their median deviation."),
      NumberKey(LONGWAVE_KEY(cluster.grace_max_s), 120, 0, 86400,
                "Seconds that they have at most; not below grace_min_s."),
      WholeKey(
          LONGWAVE_KEY(cluster.state_rounds), 16, 1, 1'000'000,
          "Rounds between two snapshots of what a shard alone holds of a segment. A shard that "
          "comes back merges at most twice as many again."),
      WholeKey(LONGWAVE_KEY(cluster.snapshot_rounds), 500, 1, 1'000'000,
               "Rounds between two snapshots of a segment's parameters, which members send to the "
               "shards in turns; segments are spread over these rounds. Log is dropped that is "
               "older than two of each; who joins fetches the cheaper of snapshot and log."),
      WholeKey(LONGWAVE_KEY(cluster.checkpoint_rounds), 1, 0, 1'000'000,
               "Rounds between two checkpoints of a worker that has a folder (--state-dir): its "
               "residual momentum and its optimizer's state. One that is told to end writes one "
               "more. 0: none."),
  };
}

std::vector<ConfigKey> SecurityKeys() {
  return {
      ChoiceKey(LONGWAVE_KEY(security.mode), WordChoices({"auto", "on", "off"}), "auto",
                "Whether control is mutual TLS and data is encrypted, both with certificates of "
                "the run's own authority (docs/security.md). auto: off where every address of the "
                "process is one of loopback, else on."),
      TextKey(
          LONGWAVE_KEY(security.folder), "", IsPathOrNone, "a path, or \"\"",
          "Folder of a process's credentials: ca.crt, tls.crt and tls.key, which are read again "
          "when they change. Empty: `security` in its state folder."),
      TextKey(
          LONGWAVE_KEY(security.authority), "", IsPathOrNone, "a path, or \"\"",
          "Coordinator: folder of ca.crt and ca.key, with which it issues certificates to those "
          "who join with a token. Empty: its credentials' folder, where it makes them if there "
          "are none."),
      NumberKey(
          LONGWAVE_KEY(security.certificate_life_s), 2592000, 10, 315360000,
          "Seconds that a certificate is good for which the coordinator issues; it is renewed "
          "when two thirds of them have passed."),
  };
}

std::vector<ConfigKey> MetricsKeys() {
  return {
      TextKey(LONGWAVE_KEY(metrics.listen), "127.0.0.1:0", IsHostPortOrNone,
              "host:port with a port from 0 to 65535, or \"\"",
              "Where each process serves its metrics (docs/metrics.md), without TLS; port 0: any "
              "free one, which its log names. Empty: nowhere. `--metrics` stands for it."),
      NumberKey(LONGWAVE_KEY(metrics.peak_tflops), 0, 0, 1e6,
                "What a worker's processor, or that of each rank of a node, can do at most, in "
                "10¹² floating point operations a second, of the kind that `train.autocast` has it "
                "do: its maker's figure for dense bf16, or fp32. With it the worker's metrics say "
                "what share of that it uses (model FLOPs utilisation); 0: not known."),
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
