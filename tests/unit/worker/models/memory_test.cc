#include "worker/models/memory.h"

#include <gtest/gtest.h>

#include <string>

#include "common/config/gpt_shape.h"

namespace longwave {
namespace {

RunConfig Config() {
  RunConfig config;
  config.model = {.kind = "gpt", .d_model = 1024, .layers = 24, .heads = 16, .context = 1024};
  config.train.batch = 1;
  config.run.workers = 4;
  config.sync.signal = SignalKind::kGradient;
  config.sync.up = {Selection::kTopK, ValueCodec::kSign, 64};
  config.sync.down = {Selection::kTopK, ValueCodec::kInt2, 256};
  return config;
}

double FloatsAParameter(const RunConfig& config) {
  const MemoryNeed need = WorkerMemory(config, GptManifest(config.model).value());
  const double activations = GptActivationBytes(config.model, config.train.batch);
  return (need.bytes - activations) / 4 / need.parameter_count;
}

TEST(CheckMemory, SaysWhatIsWantedAndWhatIsThere) {
  const absl::Status status = CheckMemory({12.3e9, 295.2e9}, 1, {20.1e9, 64e9});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(status.message()),
            "model: 12.3 G parameters want about 295.2 GB of memory for this worker, 20.1 GB are "
            "available");
}

TEST(CheckMemory, CountsEveryWorkerOfTheMachine) {
  EXPECT_TRUE(CheckMemory({1e9, 24e9}, 1, {60e9, 64e9}).ok());
  EXPECT_TRUE(CheckMemory({1e9, 24e9}, 2, {60e9, 64e9}).ok());
  EXPECT_EQ(
      std::string(CheckMemory({1e9, 24e9}, 3, {60e9, 64e9}).message()),
      "model: 1.0 G parameters want about 24.0 GB of memory for each of the 3 workers on this "
      "machine, which has 64.0 GB");
}

TEST(CheckMemory, NamesTheGpuWhereItIsItsMemory) {
  EXPECT_EQ(
      std::string(CheckMemory({12.3e9, 295.2e9}, 1, {20.1e9, 64e9}, kGpuMemory).message()),
      "model: 12.3 G parameters want about 295.2 GB of GPU memory for this worker, 20.1 GB are "
      "available");
  EXPECT_EQ(std::string(CheckMemory({1e9, 24e9}, 3, {60e9, 64e9}, kGpuMemory).message()),
            "model: 1.0 G parameters want about 24.0 GB of GPU memory for each of the 3 workers on "
            "this GPU, which has 64.0 GB");
}

TEST(CheckpointBytes, AreThreeArrays) {
  const RunConfig config = Config();
  const double parameters = GptParameterCount(config.model);
  const double bytes = CheckpointBytes(config, GptManifest(config.model).value());
  EXPECT_NEAR(bytes / 4 / parameters, 3, 0.05);
}

TEST(HostMemory, IsWhatStaysOnTheHostBesideAGpu) {
  // θ once, while it is written; payloads and tables.
  const RunConfig config = Config();
  const MemoryNeed need = HostMemory(config, GptManifest(config.model).value());
  EXPECT_NEAR(need.bytes / 4 / need.parameter_count, 1, 0.05);
}

TEST(WorkerMemory, CountsWhatTheSettingsAllocate) {
  // θ, gradient, two moments, momentum; payloads and tables are a few hundredths of a float.
  RunConfig config = Config();
  EXPECT_NEAR(FloatsAParameter(config), 5, 0.05);
  config.sync.signal = SignalKind::kPseudoGradient;
  EXPECT_NEAR(FloatsAParameter(config), 6, 0.05);
  config.sync.update = UpdateRule::kNesterov;
  EXPECT_NEAR(FloatsAParameter(config), 7, 0.05);
  config.sync.up = {Selection::kAll, ValueCodec::kFp32, 0};
  EXPECT_NEAR(FloatsAParameter(config), 8, 0.05);
  config.sync.down = {Selection::kAll, ValueCodec::kFp32, 0};
  EXPECT_NEAR(FloatsAParameter(config), 9, 0.05);
}

TEST(WorkerMemory, CountsWhatAnOverlapKeepsUnlessNothingOfItIsBlendedIn) {
  RunConfig config = Config();
  config.sync.signal = SignalKind::kPseudoGradient;
  config.sync.overlap = 3;
  EXPECT_NEAR(FloatsAParameter(config), 7, 0.05);
  config.sync.blend = 0;
  EXPECT_NEAR(FloatsAParameter(config), 6, 0.05);
}

TEST(WorkerMemory, CountsThePaddingOfThinMatrices) {
  RunConfig config = Config();
  config.model = {.kind = "gpt", .d_model = 65, .layers = 8, .heads = 1, .context = 1};
  const double padded = FloatsAParameter(config);
  config.sync.tiling = Tiling::kFlat;
  EXPECT_GT(padded, FloatsAParameter(config) + 0.5);
}

TEST(WorkerMemory, CountsActivations) {
  RunConfig config = Config();
  const Manifest manifest = GptManifest(config.model).value();
  const double one = WorkerMemory(config, manifest).bytes;
  config.train.batch = 3;
  EXPECT_DOUBLE_EQ(WorkerMemory(config, manifest).bytes - one,
                   2 * GptActivationBytes(config.model, 1));
}

TEST(WorkerMemory, CountsOneBlocksActivationsAndEveryBlocksInputWithCheckpoints) {
  RunConfig config = Config();
  const auto need = [&](uint32_t layers) {
    config.model.layers = layers;
    const Manifest manifest = GptManifest(config.model).value();
    return ReplicaMemory(config.model, manifest, config.train).bytes - 8 * ParameterCount(manifest);
  };
  const double plain_one = need(1), plain = need(24);
  config.train.activation_checkpoints = true;
  const double inputs = 4.0 * config.model.context * config.model.d_model;
  EXPECT_DOUBLE_EQ(need(1), plain_one + inputs);
  EXPECT_DOUBLE_EQ(need(24), plain_one + 24 * inputs);
  EXPECT_LT(need(24), plain / 5);
}

TEST(WorkersHere, AreAllWhenTheCoordinatorIsLocal) {
  RunConfig config = Config();
  for (const char* local : {"127.0.0.1:7000", "localhost:7000", "[::1]:7000"}) {
    config.cluster.coordinator = local;
    EXPECT_EQ(WorkersHere(config), 4u) << local;
  }
  config.cluster.coordinator = "10.0.0.1:7000";
  EXPECT_EQ(WorkersHere(config), 1u);
}

}  // namespace
}  // namespace longwave
