#ifndef LONGWAVE_TESTS_BENCH_KERNELS_PROBLEM_H_
#define LONGWAVE_TESTS_BENCH_KERNELS_PROBLEM_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/layout/layout.h"
#include "common/wire/payload.h"
#include "kernels/host_bytes.h"
#include "kernels/ops.h"

namespace longwave::bench {

// How the parameters are laid out and transformed: the column `transform`.
enum class Shape : uint8_t {
  kFlat = 0,    // none: the flat array in runs of 4096
  kMatrix = 1,  // dct: one matrix in blocks of 64 × 64
  kRuns = 2,    // dct-run: one vector in runs of 4096
};
std::string Name(Shape shape);
inline Transform TransformOf(Shape shape) {
  return shape == Shape::kFlat ? Transform::kNone : Transform::kDct;
}

// Width of the matrix: no power of two, as rows that far apart would share few sets of a cache.
inline constexpr uint64_t kMatrixColumns = 768;
inline constexpr uint64_t kParamsUnit = 64 * kMatrixColumns;  // whole tiles in every shape
// The values of a larger problem repeat after so many parameters, so that it is made and checked in
// seconds: whole rows of blocks and, at any power of two of tiles, whole segments.
inline constexpr uint64_t kPeriod = 1024 * kParamsUnit;

// The settings of a row of the table.
struct Setting {
  Shape shape = Shape::kMatrix;
  uint16_t k = 64;
  ValueCodec codec = ValueCodec::kInt2;

  PayloadFormat format() const { return {.selection = Selection::kTopK, .codec = codec, .k = k}; }
  auto operator<=>(const Setting&) const = default;
};

inline constexpr float kBeta = 0.95f;
inline constexpr float kAlpha = 1.0f;
inline constexpr float kEta = 0.7f;
inline constexpr float kMu = 0.9f;

// The payloads of a whole model, segment by segment.
struct Payloads {
  std::vector<PayloadLayout> layouts;
  std::vector<std::span<std::byte>> bytes;  // in `memory`, one behind another
  std::shared_ptr<HostBytes> memory;
  uint64_t total_bytes = 0;
};

// A worker's dense arrays.
struct Arrays {
  const float* a = nullptr;
  const float* b = nullptr;
  float* momentum = nullptr;
  float* theta = nullptr;
  float* velocity = nullptr;
  float* gradient = nullptr;
};

// A model of `params` parameters (multiples of kParamsUnit, above kPeriod of kPeriod) with signals
// at random, and what is known about the right results. In host memory, the same for every backend.
class Problem {
 public:
  // segment_tiles: of a segment, at most.
  static absl::StatusOr<std::unique_ptr<Problem>> Create(uint64_t params, uint32_t segment_tiles);

  uint64_t params() const { return params_; }
  // Of the arrays below: params(), or what repeats.
  uint64_t period() const { return a_.size(); }
  const Layout& layout(Shape shape) const { return layouts_[static_cast<size_t>(shape)]; }
  const std::vector<float>& a() const { return a_; }
  const std::vector<float>& b() const { return b_; }
  const std::vector<float>& momentum() const { return momentum_; }
  const std::vector<float>& theta() const { return theta_; }

  // Empty payloads of the right sizes, in the host's memory for a backend.
  absl::StatusOr<Payloads> MakePayloads(const Setting& setting, const KernelOps& ops) const;
  // A worker's payloads, for decoding.
  absl::StatusOr<const Payloads*> Encoded(const Setting& setting);
  // The array that a decode-update of Encoded(setting) has written (θ, or the gradient for kInner),
  // begun from theta() with velocities zero, after the generic CPU. Of a large model only the first
  // hashed_segments() are done.
  absl::StatusOr<std::vector<float>> UpdatedArray(const Setting& setting, UpdateKind update);
  // The array's hashes by segment.
  absl::StatusOr<const std::vector<uint64_t>*> Updated(const Setting& setting, UpdateKind update);
  uint32_t hashed_segments(Shape shape) const;

 private:
  Problem() = default;
  // Segments that begin before a coefficient.
  uint32_t SegmentsBefore(Shape shape, uint64_t coefficient) const;

  uint64_t params_ = 0;
  std::vector<Layout> layouts_;  // by Shape
  std::vector<float> a_, b_, momentum_, theta_;
  std::map<Setting, Payloads> encoded_;
  std::map<std::pair<Setting, UpdateKind>, std::vector<uint64_t>> updated_;
};

// Segments begin … end − 1, as a worker encodes them: some at a time.
absl::Status EncodeSegments(const KernelOps& ops, const Exec& exec, const Layout& layout,
                            Transform transform, const Arrays& arrays, Payloads& payloads,
                            std::vector<EncodeReport>& reports, uint32_t begin, uint32_t end);

absl::Status DecodeSegments(const KernelOps& ops, const Exec& exec, const Layout& layout,
                            Transform transform, UpdateKind update, const Arrays& arrays,
                            const Payloads& payloads, uint32_t begin, uint32_t end);

}  // namespace longwave::bench

#endif  // LONGWAVE_TESTS_BENCH_KERNELS_PROBLEM_H_
