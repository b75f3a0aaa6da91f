#include "tests/conformance/harness.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/wire/tile_codec.h"
#include "kernels/cpu/cpu_ops.h"
#include "tests/support/reference/dct.h"
#include "tests/support/reference/ops.h"

namespace longwave::conformance {

void PrintTo(const Backend& backend, std::ostream* out) { *out << backend.name; }

std::vector<Backend> Backends() {
  std::vector<Backend> backends;
  for (const Isa isa : SupportedIsas()) {
    backends.push_back({"cpu_" + std::string(Name(isa)), &cpu::OpsOf(isa)});
  }
  backends.push_back({"cuda", OpsFor(BackendKind::kCuda)});
  return backends;
}

const KernelOps& Reference() { return ref::Ops(); }
const KernelOps& GenericCpu() { return cpu::OpsOf(Isa::kGeneric); }

void Conformance::SetUp() {
  if (!GetParam().ops.ok()) GTEST_SKIP() << GetParam().ops.status().message();
}

DenseArray::DenseArray(const KernelOps& ops, const std::vector<float>& values)
    : ops_(ops), size_(values.size()) {
  std::vector<float> guarded(size_ + 2 * kGuard, kCanary);
  std::copy(values.begin(), values.end(), guarded.begin() + kGuard);
  absl::StatusOr<void*> memory = ops_.allocate(guarded.size() * sizeof(float));
  LONGWAVE_CHECK(memory.ok());
  memory_ = static_cast<float*>(*memory);
  LONGWAVE_CHECK(ops_.copy({}, memory_, guarded.data(), guarded.size() * sizeof(float)).ok());
  LONGWAVE_CHECK(ops_.wait({}).ok());
}

DenseArray::~DenseArray() {
  std::vector<float> guarded(size_ + 2 * kGuard);
  EXPECT_TRUE(ops_.copy({}, guarded.data(), memory_, guarded.size() * sizeof(float)).ok());
  EXPECT_TRUE(ops_.wait({}).ok());
  for (size_t i = 0; i < kGuard; ++i) {
    EXPECT_EQ(guarded[i], kCanary) << "written before the array's begin";
    EXPECT_EQ(guarded[kGuard + size_ + i], kCanary) << "written past the array's end";
  }
  ops_.release(memory_);
}

std::vector<float> DenseArray::Read() const {
  std::vector<float> values(size_);
  EXPECT_TRUE(ops_.copy({}, values.data(), data(), size_ * sizeof(float)).ok());
  EXPECT_TRUE(ops_.wait({}).ok());
  return values;
}

Layout LayoutOf(Tiling tiling) {
  Manifest manifest;
  LayoutOptions options;
  options.tiling = tiling;
  options.shard_count = 1;
  if (tiling == Tiling::kModel) {
    manifest.tensors = {{"a", {130, 70}}, {"bias", {100}}, {"b", {64, 64}}, {"gain", {3000}}};
    options.segment_tiles = 4;
  } else {
    manifest.tensors = {
        {"a", {48, 20}}, {"bias", {35}}, {"b", {7, 64}}, {"c", {5, 3, 3}}, {"d", {97}}};
    options.block = 16;
    options.segment_tiles = 8;
  }
  absl::StatusOr<Layout> layout = Layout::Create(manifest, options);
  LONGWAVE_CHECK(layout.ok());
  return *std::move(layout);
}

std::vector<float> RandomVector(size_t n, uint64_t seed, double magnitude) {
  Rng rng(seed);
  std::vector<float> x(n);
  // The sum of two gives magnitudes worth choosing among.
  for (float& v : x) v = static_cast<float>(magnitude * (rng.Uniform() + rng.Uniform() - 1));
  return x;
}

State::State(const Layout& layout)
    : theta(RandomVector(layout.parameter_count(), 1)),
      anchor(RandomVector(layout.parameter_count(), 2)),
      velocity(RandomVector(layout.parameter_count(), 3)),
      gradient(RandomVector(layout.parameter_count(), 4)),
      momentum(RandomVector(layout.coefficient_count(), 5)) {}

PayloadLayout PayloadLayoutOf(const Layout& layout, uint32_t segment, const PayloadFormat& format) {
  absl::StatusOr<PayloadLayout> result = PayloadLayout::Create(format, layout.TileSizes(segment));
  LONGWAVE_CHECK(result.ok());
  return *std::move(result);
}

Encoded Encode(const KernelOps& ops, const Layout& layout, uint32_t segment, const State& state,
               const EncodeSetting& setting) {
  const DenseArray theta(ops, state.theta), anchor(ops, state.anchor);
  return Encode(ops, layout, segment, {anchor.data(), theta.data(), 0.5f}, state.momentum, setting);
}

Encoded Encode(const KernelOps& ops, const Layout& layout, uint32_t segment, const Signal& signal,
               const std::vector<float>& momentum_values, const EncodeSetting& setting) {
  const PayloadLayout payload_layout = PayloadLayoutOf(layout, segment, setting.format);
  const DenseArray momentum(ops, momentum_values);
  Encoded encoded;
  encoded.payload.assign(payload_layout.bytes(), std::byte{0xee});
  EncodeArgs args;
  args.layout = &layout;
  args.segment = segment;
  args.signal = signal;
  args.transform = setting.transform;
  args.beta = setting.beta;
  args.alpha = setting.alpha;
  args.run_seed = kRunSeed;
  args.round = kRound;
  args.momentum = momentum.data();
  args.payload_layout = &payload_layout;
  args.payload = encoded.payload;
  args.report = &encoded.report;
  Exec exec;
  exec.threads = setting.threads;
  encoded.status = ops.encode(exec, {&args, 1});
  if (encoded.status.ok()) encoded.status = ops.finish(exec, args.segment);
  encoded.momentum = momentum.Read();
  return encoded;
}

Decoded Decode(const KernelOps& ops, const Layout& layout, uint32_t segment, const State& state,
               const PayloadLayout& payload_layout, std::vector<std::byte> payload,
               const DecodeSetting& setting) {
  const DenseArray theta(ops, state.theta), anchor(ops, state.anchor),
      velocity(ops, state.velocity), gradient(ops, state.gradient), momentum(ops, state.momentum);
  DecodeUpdateArgs args;
  args.layout = &layout;
  args.segment = segment;
  args.transform = setting.transform;
  args.update = setting.update;
  args.eta = 0.7f;
  args.mu = 0.9f;
  args.keep = setting.keep;
  args.run_seed = kRunSeed;
  args.round = kRound;
  args.payload_layout = &payload_layout;
  args.payload = payload;
  args.theta = theta.data();
  args.velocity = velocity.data();
  args.gradient = gradient.data();
  args.signal = {anchor.data(), theta.data(), 0.5f};
  args.beta = 0.95f;
  args.momentum = momentum.data();
  Exec exec;
  exec.threads = setting.threads;
  Decoded decoded;
  decoded.status = ops.decode_update(exec, {&args, 1});
  std::fill(payload.begin(), payload.end(), std::byte{0xff});
  if (decoded.status.ok()) decoded.status = ops.wait(exec);
  decoded.theta = theta.Read();
  decoded.velocity = velocity.Read();
  decoded.gradient = gradient.Read();
  decoded.momentum = momentum.Read();
  return decoded;
}

bool SameBits(const std::vector<float>& x, const std::vector<float>& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
}

void ExpectSameBits(const Decoded& got, const Decoded& wanted) {
  EXPECT_EQ(got.status, wanted.status);
  EXPECT_TRUE(SameBits(got.theta, wanted.theta));
  EXPECT_TRUE(SameBits(got.velocity, wanted.velocity));
  EXPECT_TRUE(SameBits(got.gradient, wanted.gradient));
  EXPECT_TRUE(SameBits(got.momentum, wanted.momentum));
}

std::vector<uint64_t> Hashes(const KernelOps& ops, const Layout& layout, uint32_t begin,
                             size_t count, const std::vector<float>& theta) {
  const DenseArray array(ops, theta);
  std::vector<uint64_t> hashes(count);
  EXPECT_EQ(ops.hash({}, {&layout, begin, array.data(), hashes}), absl::OkStatus());
  return hashes;
}

std::vector<double> Dequantized(const Layout& layout, uint32_t segment,
                                const PayloadLayout& payload_layout,
                                const std::vector<std::byte>& payload) {
  const Segment& info = layout.segments()[segment];
  std::vector<double> result(info.coefficient_count, 0.0);
  for (uint32_t t = 0; t < info.tile_count; ++t) {
    std::vector<uint16_t> indices(payload_layout.sent_count(t));
    std::vector<float> values(indices.size());
    ReadTile(payload_layout, t, payload, SelectionDraw(kRunSeed, kRound, info.tile_begin + t),
             indices, values);
    const uint64_t begin = layout.tiles(info)[t].coefficient_offset - info.coefficient_begin;
    for (size_t i = 0; i < indices.size(); ++i) result[begin + indices[i]] = values[i];
  }
  return result;
}

std::vector<double> ExpectedMomentum(const Layout& layout, uint32_t segment, const State& state,
                                     Transform transform, double beta) {
  std::vector<double> result;
  for (const Tile& tile : layout.tiles(layout.segments()[segment])) {
    std::vector<double> s(tile.size(), 0.0);
    for (uint32_t r = 0; r < tile.rows_valid; ++r) {
      for (uint32_t c = 0; c < tile.cols_valid; ++c) {
        const uint64_t i = tile.offset + uint64_t{r} * tile.row_stride + c;
        s[r * tile.cols + c] = 0.5 * (double{state.anchor[i]} - state.theta[i]);
      }
    }
    if (transform == Transform::kDct) s = ref::Dct(s, tile.rows, tile.cols);
    for (uint32_t i = 0; i < tile.size(); ++i) {
      result.push_back(beta * state.momentum[tile.coefficient_offset + i] + s[i]);
    }
  }
  return result;
}

double Norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

double Distance(const std::vector<double>& x, const std::vector<double>& y) {
  LONGWAVE_CHECK(x.size() == y.size());
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += (x[i] - y[i]) * (x[i] - y[i]);
  return std::sqrt(sum);
}

std::vector<uint64_t> FlatIndices(const Layout& layout, uint32_t segment) {
  std::vector<uint64_t> indices;
  for (const Tile& tile : layout.tiles(layout.segments()[segment])) {
    for (uint32_t r = 0; r < tile.rows_valid; ++r) {
      for (uint32_t c = 0; c < tile.cols_valid; ++c) {
        indices.push_back(tile.offset + uint64_t{r} * tile.row_stride + c);
      }
    }
  }
  return indices;
}

}  // namespace longwave::conformance
