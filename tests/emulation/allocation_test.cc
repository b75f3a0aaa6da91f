// The CUDA backend allocates nothing once each kind of call has been made: neither of the host's
// memory nor of the device's, pinned memory, streams or events. A program of its own, since it
// replaces operator new.
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/ops.h"
#include "tests/emulation/device_memory.h"
#include "tests/emulation/runtime.h"
#include "tests/emulation/testing.h"
#include "tests/support/replaced_new.h"

namespace {
std::atomic<size_t> host_allocations{0};  // but for the emulation's own
}  // namespace

void NoteAllocated(void*) {
  if (!longwave::emulation::Inside::Now()) host_allocations.fetch_add(1);
}
void NoteReleased(void*) {}

namespace longwave {
namespace {

const KernelOps& Ops() { return **OpsFor(BackendKind::kCuda); }

// Counts of allocations so far.
struct Counts {
  size_t host = host_allocations.load();
  emulation::ResourceCounts device = emulation::ResourcesMade();
};
std::string Since(const Counts& before) {
  const Counts now;
  const auto more = [](const char* name, size_t earlier, size_t later) {
    return later == earlier ? "" : std::to_string(later - earlier) + " " + name + "; ";
  };
  return more("host allocations", before.host, now.host) +
         more("device arrays", before.device.device_arrays, now.device.device_arrays) +
         more("pinned arrays", before.device.pinned_arrays, now.device.pinned_arrays) +
         more("streams", before.device.streams, now.device.streams) +
         more("events", before.device.events, now.device.events);
}

// A worker's arrays on the device, and every operation on all of its segments.
class Worker {
 public:
  Worker(std::vector<TensorSpec> tensors, uint32_t segment_tiles, PayloadFormat format,
         Tiling tiling = Tiling::kModel)
      : layout_(*Layout::Create({.tensors = std::move(tensors)},
                                {.tiling = tiling, .segment_tiles = segment_tiles})),
        theta_(Values(layout_.parameter_count())),
        anchor_(Values(layout_.parameter_count())),
        velocity_(Values(layout_.parameter_count())),
        gradient_(Values(layout_.parameter_count())),
        momentum_(Values(layout_.coefficient_count())),
        host_(layout_.parameter_count()),
        hashes_(layout_.segments().size()) {
    for (uint32_t s = 0; s < layout_.segments().size(); ++s) {
      forms_.push_back(*PayloadLayout::Create(format, layout_.TileSizes(s)));
      payloads_.emplace_back(forms_.back().bytes());
    }
  }

  void Sync(const Exec& exec) {
    for (uint32_t s = 0; s < forms_.size(); ++s) {
      Encode(exec, s);
      // The one before is sent while this one runs.
      if (s > 0) Finish(exec, s - 1);
    }
    Finish(exec, static_cast<uint32_t>(forms_.size()) - 1);
    for (uint32_t s = 0; s < forms_.size(); ++s) {
      for (const UpdateKind update : {UpdateKind::kSgd, UpdateKind::kSign, UpdateKind::kNesterov,
                                      UpdateKind::kInner, UpdateKind::kLocal}) {
        Decode(exec, s, update);
      }
      Restore(exec, s);
    }
    HashArgs hash;
    hash.layout = &layout_;
    hash.theta = theta_.data();
    hash.hashes = hashes_;
    EXPECT_TRUE(Ops().hash(exec, hash).ok());
  }

  void Step(const Exec& exec) {
    const uint64_t count = layout_.parameter_count();
    AdamWArgs adamw;
    adamw.count = count;
    adamw.gradient = gradient_.data();
    adamw.m = velocity_.data();
    adamw.v = anchor_.data();
    adamw.theta = theta_.data();
    EXPECT_TRUE(Ops().adamw(exec, adamw).ok());
    double sum = 0;
    EXPECT_TRUE(Ops().square_sum(exec, {count, gradient_.data(), &sum}).ok());
    EXPECT_TRUE(Ops().scale(exec, {count, gradient_.data(), 0.5f}).ok());
    for (const float alpha : {0.0f, 0.5f}) {
      EXPECT_TRUE(
          Ops()
              .blend(exec, {0, count, theta_.data(), anchor_.data(), velocity_.data(), alpha})
              .ok());
    }
    const size_t bytes = count * sizeof(float);
    EXPECT_TRUE(Ops().copy(exec, anchor_.data(), theta_.data(), bytes).ok());
    EXPECT_TRUE(Ops().copy(exec, host_.data(), theta_.data(), bytes).ok());
    EXPECT_TRUE(Ops().copy(exec, theta_.data(), host_.data(), bytes).ok());
    EXPECT_TRUE(Ops().wait(exec).ok());
    EXPECT_TRUE(Ops().memory().ok());
  }

  // Encodes the first segment with ever more of the device's memory. Returns the tries.
  int EncodeInLittleMemory() {
    const size_t all = emulation::device_bytes_max;
    emulation::device_bytes_max = emulation::AllocatedDeviceBytes();
    int tries = 1;
    for (; true; ++tries, emulation::device_bytes_max += 512) {
      const absl::Status status = TryEncode({}, 0);
      if (status.ok()) break;
      EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
      EXPECT_NE(status.message().find(" bytes"), std::string::npos) << status;
      if (testing::Test::HasFailure()) break;
    }
    emulation::device_bytes_max = all;
    Finish({}, 0);
    return tries;
  }

 private:
  static std::vector<float> Values(size_t n) {
    std::vector<float> values(n);
    for (size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i % 17) + 1;
    return values;
  }

  absl::Status TryEncode(const Exec& exec, uint32_t segment) {
    EncodeArgs args;
    args.layout = &layout_;
    args.segment = segment;
    args.signal = {theta_.data(), anchor_.data()};
    args.transform = Transform::kDct;
    args.beta = 0.9f;
    args.momentum = momentum_.data();
    args.payload_layout = &forms_[segment];
    args.payload = payloads_[segment];
    args.report = &report_;
    return Ops().encode(exec, {&args, 1});
  }
  void Encode(const Exec& exec, uint32_t segment) { EXPECT_TRUE(TryEncode(exec, segment).ok()); }
  void Finish(const Exec& exec, uint32_t segment) {
    EXPECT_TRUE(Ops().finish(exec, segment).ok());
    EXPECT_EQ(report_.nonfinite_tile, EncodeReport::kNone);
  }
  void Decode(const Exec& exec, uint32_t segment, UpdateKind update) {
    DecodeUpdateArgs args;
    args.layout = &layout_;
    args.segment = segment;
    args.transform = Transform::kDct;
    args.update = update;
    args.eta = 0.1f;
    args.payload_layout = &forms_[segment];
    args.payload = payloads_[segment];
    args.theta = theta_.data();
    args.velocity = velocity_.data();
    args.gradient = gradient_.data();
    args.signal = {theta_.data(), anchor_.data()};
    args.beta = 0.9f;
    args.momentum = momentum_.data();
    EXPECT_TRUE(Ops().decode_update(exec, {&args, 1}).ok());
  }
  void Restore(const Exec& exec, uint32_t segment) {
    RestoreArgs args;
    args.layout = &layout_;
    args.segment = segment;
    args.momentum = momentum_.data();
    args.payload_layout = &forms_[segment];
    args.payload = payloads_[segment];
    EXPECT_TRUE(Ops().restore(exec, args).ok());
  }

  const Layout layout_;
  const emulation::DeviceArray<float> theta_, anchor_, velocity_, gradient_, momentum_;
  std::vector<float> host_;
  std::vector<uint64_t> hashes_;
  std::vector<PayloadLayout> forms_;
  std::vector<std::vector<std::byte>> payloads_;
  EncodeReport report_;
};

// The first of the process: arrays that another test has had made would not be wanted again.
TEST(CudaBackend, SaysWhatItWantsOfADeviceWithoutMemoryAndGoesOnWithIt) {
  Worker worker({{"a", {90, 90}}, {"b", {4097}}}, 8, {Selection::kTopK, ValueCodec::kInt4, 70});
  EXPECT_GT(worker.EncodeInLittleMemory(), 3);
  worker.Sync({});
}

TEST(CudaBackend, AllocatesNothingInSteadyState) {
  // Segments of full tiles, of tiles of several sizes, and of one run.
  std::vector<std::unique_ptr<Worker>> workers;
  for (const Selection selection : {Selection::kTopK, Selection::kRandom, Selection::kAll}) {
    workers.push_back(
        std::make_unique<Worker>(std::vector<TensorSpec>{{"a", {100, 140}}, {"b", {5000}}}, 3u,
                                 PayloadFormat{selection, ValueCodec::kInt2, 64}));
  }
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  const auto all = [&] {
    for (const auto& worker : workers) {
      for (const Exec& exec : {Exec{}, Exec{stream}}) {
        worker->Sync(exec);
        worker->Step(exec);
      }
    }
  };
  using Kind = emulation::StreamOrder::Kind;
  for (const Kind kind : {Kind::kEager, Kind::kLazy}) {
    const emulation::WithOrder order(emulation::StreamOrder{kind});
    all();
    const Counts before;
    all();
    all();
    EXPECT_EQ(Since(before), "");
  }
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

// Runs of 4096 take the way of an FFT.
TEST(CudaBackend, AllocatesNothingInSteadyStateOfAnFft) {
  Worker worker({{"a", {4096}}}, 1, {Selection::kTopK, ValueCodec::kInt2, 64});
  worker.Sync({});
  const Counts before;
  worker.Sync({});
  EXPECT_EQ(Since(before), "");
}

// Tiles of several sizes have a table of the places of their parts, which depend on k.
TEST(CudaBackend, AllocatesNothingWhereTheNumberSentChanges) {
  const std::vector<TensorSpec> tensors = {{"a", {96, 96}}, {"b", {5000}}};
  Worker more(tensors, 128, {Selection::kTopK, ValueCodec::kInt2, 32}, Tiling::kTensor);
  Worker fewer(tensors, 128, {Selection::kTopK, ValueCodec::kInt2, 31}, Tiling::kTensor);
  more.Sync({});
  const Counts before;
  fewer.Sync({});
  EXPECT_EQ(Since(before), "");
}

// Shows that the counters count.
TEST(CudaBackend, AllocatesInTheFirstCallsOfLargerSegments) {
  Worker worker({{"a", {512, 512}}}, 64, {Selection::kAll, ValueCodec::kFp32, 0});
  const Counts before;
  worker.Sync({});
  const std::string made = Since(before);
  for (const char* what : {"host allocations", "device arrays", "pinned arrays"}) {
    EXPECT_NE(made.find(what), std::string::npos) << what << " not in: " << made;
  }
}

TEST(CudaBackend, EncodesByStagesWhereTheFftFails) {
  Worker worker({{"a", {4096}}}, 1, {Selection::kTopK, ValueCodec::kInt2, 64});
  emulation::fft_fails = true;
  worker.Sync({});  // which expects success
  emulation::fft_fails = false;
}

TEST(CudaBackend, RefusesAnotherDeviceThanThatOfItsStreams) {
  Worker worker({{"a", {64, 64}}}, 1, {Selection::kTopK, ValueCodec::kSign, 64});
  worker.Sync({});
  emulation::device = 1;
  const absl::Status refused = Ops().finish({}, 0);
  emulation::device = 0;
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(
      std::string(refused.message())
          .find("device 1 is current in this process, which computes on device 0; wanted one"),
      std::string::npos)
      << refused;
  worker.Sync({});
}

TEST(CudaBackend, ReleasesPayloadsOnItsDeviceWhateverTheThread) {
  Worker worker({{"a", {64, 64}}}, 1, {Selection::kTopK, ValueCodec::kSign, 64});
  worker.Sync({});
  void* const memory = *Ops().allocate_host(64);
  emulation::device = 1;
  Ops().release_host(memory);
  EXPECT_EQ(std::exchange(emulation::device, 0), 0);
}

TEST(Device, OlderThanTheCompiledCodeIsNotUsed) {
  emulation::capability = 70;
  const absl::Status refused = OpsFor(BackendKind::kCuda).status();
  emulation::capability = 90;
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(refused.message()).find("compute capability 7.0, wanted at least 7.5"),
            std::string::npos)
      << refused;
  EXPECT_TRUE(OpsFor(BackendKind::kCuda).ok());
}

}  // namespace
}  // namespace longwave
