#ifndef LONGWAVE_TESTS_CONFORMANCE_HARNESS_H_
#define LONGWAVE_TESTS_CONFORMANCE_HARNESS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "common/layout/layout.h"
#include "common/wire/payload.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/ops.h"

namespace longwave::conformance {

// A backend under test: its table, or why it is absent.
struct Backend {
  std::string name;
  absl::StatusOr<const KernelOps*> ops;
};
void PrintTo(const Backend& backend, std::ostream* out);

// The CPU backend in every instruction set of this machine, and CUDA. All answer to the reference.
std::vector<Backend> Backends();
const KernelOps& Reference();
const KernelOps& GenericCpu();

// In its scope the CUDA backend transforms runs by its own stages, which have the CPU's bits.
struct WithStages {
  WithStages() { cuda::SetRunTransform(cuda::RunTransform::kStages); }
  ~WithStages() { cuda::SetRunTransform(cuda::RunTransform::kFft); }
};

// A suite for every backend. A test skips, with the reason, if the backend is absent.
class Conformance : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override;
  const KernelOps& ops() const { return **GetParam().ops; }
};
#define LONGWAVE_CONFORMANCE_SUITE(suite)                                          \
  INSTANTIATE_TEST_SUITE_P(Backends, suite,                                        \
                           testing::ValuesIn(::longwave::conformance::Backends()), \
                           [](const auto& info) { return info.param.name; })

// An array in a backend's memory with guards on both sides, which its destructor holds unwritten.
class DenseArray {
 public:
  DenseArray(const KernelOps& ops, const std::vector<float>& values);
  ~DenseArray();
  DenseArray(const DenseArray&) = delete;
  DenseArray& operator=(const DenseArray&) = delete;

  float* data() const { return memory_ + kGuard; }
  std::vector<float> Read() const;

 private:
  static constexpr size_t kGuard = 64;
  static constexpr float kCanary = -8.5e30f;

  const KernelOps& ops_;
  size_t size_;
  float* memory_ = nullptr;
};

// Models that between them have full tiles, tiles padded on the right, below and on both, vectors
// laid end to end in a padded run, and tiles of many sizes.
Layout LayoutOf(Tiling tiling);

std::vector<float> RandomVector(size_t n, uint64_t seed, double magnitude = 1.0);

// Arrays of one worker, filled at random, the same for every backend.
struct State {
  explicit State(const Layout& layout);
  std::vector<float> theta, anchor, velocity, gradient, momentum;
};

struct Encoded {
  absl::Status status;
  std::vector<std::byte> payload;
  EncodeReport report;
  std::vector<float> momentum;  // after
};

struct EncodeSetting {
  Transform transform = Transform::kDct;
  PayloadFormat format;
  float beta = 0.95f;
  float alpha = 1.0f;
  int threads = 1;
};
Encoded Encode(const KernelOps& ops, const Layout& layout, uint32_t segment, const State& state,
               const EncodeSetting& setting);
// Encodes any signal with arrays in the backend's memory.
Encoded Encode(const KernelOps& ops, const Layout& layout, uint32_t segment, const Signal& signal,
               const std::vector<float>& momentum, const EncodeSetting& setting);

inline constexpr UpdateKind kRules[] = {UpdateKind::kSgd, UpdateKind::kSign, UpdateKind::kNesterov,
                                        UpdateKind::kInner, UpdateKind::kLocal};

struct Decoded {
  absl::Status status;
  std::vector<float> theta, velocity, gradient, momentum;
};

struct DecodeSetting {
  Transform transform = Transform::kDct;
  UpdateKind update = UpdateKind::kSgd;
  float keep = 1;
  int threads = 1;
};
// The call takes the payload's bytes, so the caller may change them afterwards, and Decode does.
Decoded Decode(const KernelOps& ops, const Layout& layout, uint32_t segment, const State& state,
               const PayloadLayout& payload_layout, std::vector<std::byte> payload,
               const DecodeSetting& setting);

bool SameBits(const std::vector<float>& x, const std::vector<float>& y);
void ExpectSameBits(const Decoded& got, const Decoded& wanted);

// The hashes of `count` segments from `begin` on.
std::vector<uint64_t> Hashes(const KernelOps& ops, const Layout& layout, uint32_t begin,
                             size_t count, const std::vector<float>& theta);

PayloadLayout PayloadLayoutOf(const Layout& layout, uint32_t segment, const PayloadFormat& format);

// The payload's values at their places among the segment's coefficients, zero elsewhere.
std::vector<double> Dequantized(const Layout& layout, uint32_t segment,
                                const PayloadLayout& payload_layout,
                                const std::vector<std::byte>& payload);

// β·m̂ + T(s) of a segment straight from the definition, in double.
std::vector<double> ExpectedMomentum(const Layout& layout, uint32_t segment, const State& state,
                                     Transform transform, double beta);

double Norm(const std::vector<double>& x);
double Distance(const std::vector<double>& x, const std::vector<double>& y);

// Elements of a segment's tiles in the flat array.
std::vector<uint64_t> FlatIndices(const Layout& layout, uint32_t segment);

inline constexpr uint64_t kRunSeed = 77;
inline constexpr uint32_t kRound = 5;

// Tolerance of float against double arithmetic, relative to a tile's norm: the transform's bound
// for 4096 elements and the few further operations.
inline constexpr double kTolerance = 4e-6;

}  // namespace longwave::conformance

#endif  // LONGWAVE_TESTS_CONFORMANCE_HARNESS_H_
