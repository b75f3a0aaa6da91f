#ifndef LONGWAVE_KERNELS_OPS_H_
#define LONGWAVE_KERNELS_OPS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/memory.h"
#include "common/layout/layout.h"
#include "common/wire/codec.h"
#include "common/wire/payload.h"
#include "kernels/optimizer.h"

namespace longwave {

// The operations of a sync on dense data, behind one table a backend. Callers see no CUDA header.

enum class BackendKind : uint8_t { kCpu, kCuda };

// The place and means of an operation.
struct Exec {
  void* stream = nullptr;  // cudaStream_t of the CUDA backend; unused elsewhere
  int threads = 1;         // host threads, CPU backend
  // The owner of encodings: callers that encode on one stream at the same time each need an address
  // of their own.
  const void* owner = nullptr;
};

// A worker's signal, as a difference of two flat arrays or a scaled one: s = scale · (a − b), or
// scale · a if b is null, each operation rounded to fp32.
// a, b: [Layout::parameter_count()].
struct Signal {
  const float* a = nullptr;
  const float* b = nullptr;
  float scale = 1.0f;
};

// Payloads that lie one behind another in memory of KernelOps::allocate_host, each at the next
// multiple of so many bytes, reach the host in one copy.
inline constexpr size_t kPayloadAlignment = 64;

// Written by Encode, in host memory.
struct EncodeReport {
  static constexpr uint32_t kNone = ~uint32_t{0};
  uint32_t nonfinite_tile = kNone;  // first tile of the segment with a NaN or an infinity
  double signal_square_sum = 0;     // of s
  double momentum_square_sum = 0;   // of m̂ before the residual is taken
  double sent_square_sum = 0;       // of the sent values, as dequantized
};

// momentum  m̂ ← β·m̂ + T(s)       select and quantize q̂ of m̂ per tile       residual  m̂ ← m̂ − α·q̂
// in the transform's domain: T is linear and orthonormal, so no inverse transform is needed.
//
// A call takes many segments, each once. Segments whose arguments differ in nothing but the
// segment's own (marked below) are encoded by one launch.
//
// Enqueues and returns. A segment's payload and report are valid once finish(exec, segment) has
// returned, and the caller keeps their memory until then. A device writes to a payload in memory of
// allocate_host; other memory takes a wait. Errors: FailedPrecondition (the segment's last
// encoding, for this stream and owner, was not finished). After an error none of the call's
// encodings is under way, but the residuals may have changed.
//
// A tile whose m̂ would become a NaN or an infinity is reported and keeps its m̂. The payload is then
// incomplete and must not be sent. The report's sums leave such tiles out.
//
// Random and stride selection draw from SelectionDraw(run_seed, round, index of the tile in the
// layout, not in the segment).
//
// Agreement: on the same input, the payload reconstructs m̂ as well as the reference's does, within
// the transform's rounding. A backend repeats itself to the bit with any number of threads.
struct EncodeArgs {
  const Layout* layout = nullptr;
  uint32_t segment = 0;  // its own
  Signal signal;
  Transform transform = Transform::kNone;
  float beta = 0;  // its own
  float alpha = 1;
  uint64_t run_seed = 0;  // with round and tile, what random and stride selection draw from
  uint32_t round = 0;
  float* momentum = nullptr;  // m̂, [Layout::coefficient_count()], tile after tile
  const PayloadLayout* payload_layout = nullptr;  // its own
  std::span<std::byte> payload;                   // its own; payload_layout->bytes()
  EncodeReport* report = nullptr;                 // its own; host memory
};

// m̂ ← fma(α, q̂, m̂): puts a payload that was not accepted back into the residual. The payload may
// be released after the return. Agreement: bit-exact on every backend.
struct RestoreArgs {
  const Layout* layout = nullptr;
  uint32_t segment = 0;
  float alpha = 1;
  uint64_t run_seed = 0;
  uint32_t round = 0;
  float* momentum = nullptr;
  const PayloadLayout* payload_layout = nullptr;
  std::span<const std::byte> payload;  // validated
};

enum class UpdateKind : uint8_t {
  kSgd = 0,       // θ ← θ − η·u
  kSign = 1,      // θ ← θ − η·sign(u)
  kNesterov = 2,  // v ← μ·v + u;  θ ← θ − η·(u + μ·v)
  kInner = 3,     // gradient ← u: the inner optimizer takes the step
  kLocal = 4,  // m̂ ← m̂ + Ĝ;  θ ← θ − η·(s + β·T⁻¹(m̂))  (arXiv 2510.03371 as released)
};

// u = T⁻¹(Ĝ), then the update of the elements of one segment.
//
// A call takes many segments, each once. Segments whose arguments differ in segment and payload
// alone are decoded by one launch.
//
// The result is the same to the bit on every backend, since the order of operations is fixed.
// Values are level · scale in fp32 (exact). The inverse transform is the sequence of
// kernels/dct_plan.h. fma(a, b, c) is rounded once, and so is every other operation:
//   decay      θ ← θ·keep, with the caller's keep = 1 − η·weight_decay in fp32; skipped at 1 and
//              for kInner
//   kSgd       θ ← fma(−η, u, θ)
//   kSign      θ ← θ − η where u > 0, θ + η where u < 0, else θ
//   kNesterov  v ← fma(μ, v, u);  θ ← fma(−η, fma(μ, v, u), θ)
//   kInner     gradient ← u
//   kLocal     m̂ ← m̂ + Ĝ;  θ ← fma(−η, fma(β, T⁻¹(m̂), s), θ)  with s = scale · (a − b)
// kLocal's signal may be theta itself: each element is read before it is written.
//
// Where values overflow, every backend gives a NaN, whose bits depend on the processor.
//
// The payload may be released after the return.
struct DecodeUpdateArgs {
  const Layout* layout = nullptr;
  uint32_t segment = 0;
  Transform transform = Transform::kNone;
  UpdateKind update = UpdateKind::kSgd;
  float eta = 1;
  float mu = 0;
  float keep = 1;
  uint64_t run_seed = 0;
  uint32_t round = 0;
  const PayloadLayout* payload_layout = nullptr;
  std::span<const std::byte> payload;  // host memory, validated
  float* theta = nullptr;              // [parameter_count], read and written; not read for kInner
  float* velocity = nullptr;           // [parameter_count], kNesterov only
  float* gradient = nullptr;           // [parameter_count], written, kInner only
  Signal signal;                       // kLocal only
  float beta = 0;                      // kLocal only
  float* momentum = nullptr;           // [coefficient_count], kLocal only
};

// Hashes of neighbouring segments that depend on each bit and its position but on no order of
// evaluation: Σ Mix64(Mix64(flat index) + bits of θ[flat index]) modulo 2^64. Waits for the result.
struct HashArgs {
  const Layout* layout = nullptr;
  uint32_t segment_begin = 0;
  const float* theta = nullptr;
  std::span<uint64_t> hashes;  // host memory; one for each segment, at least one
};

// A row for each backend, constant after start-up. Operations enqueue on exec's stream and
// return; the CPU's are complete by then. After the first call of each kind none allocates memory.
// Pointers to dense data are in the backend's memory. Errors: InvalidArgument (shapes that do not
// fit), Internal (a failed launch).
struct KernelOps {
  std::string_view name;
  absl::Status (*encode)(const Exec&, std::span<const EncodeArgs>);
  // Waits for the encoding of `segment`; returns at once if none is under way.
  absl::Status (*finish)(const Exec&, uint32_t segment);
  absl::Status (*restore)(const Exec&, const RestoreArgs&);
  absl::Status (*decode_update)(const Exec&, std::span<const DecodeUpdateArgs>);
  absl::Status (*hash)(const Exec&, const HashArgs&);
  // to ← from, each in the backend's memory or the host's, not overlapping.
  absl::Status (*copy)(const Exec&, void* to, const void* from, size_t bytes);
  // Memory of the backend, zeroed, 256-byte aligned. Errors: ResourceExhausted, with the wanted
  // size.
  absl::StatusOr<void*> (*allocate)(size_t bytes);
  void (*release)(void* memory);
  // Host memory that the backend copies to and from without a wait, kPayloadAlignment-byte aligned.
  absl::StatusOr<void*> (*allocate_host)(size_t bytes);
  void (*release_host)(void* memory);
  // Waits for all work enqueued on exec's stream. Errors: Internal (a failed kernel).
  absl::Status (*wait)(const Exec&);
  // On flat arrays; see optimizer.h. square_sum waits for its result.
  absl::Status (*adamw)(const Exec&, const AdamWArgs&);
  absl::Status (*square_sum)(const Exec&, const SquareSumArgs&);
  absl::Status (*scale)(const Exec&, const ScaleArgs&);
  absl::Status (*blend)(const Exec&, const BlendArgs&);
  // The memory that `allocate` takes from.
  absl::StatusOr<MachineMemory> (*memory)();
  // Whether dense data is in a device's memory, which host code must not touch, and operations may
  // return before they are complete.
  bool on_device;
};

// Errors: Unavailable (the backend is not in this build, or has no device).
absl::StatusOr<const KernelOps*> OpsFor(BackendKind kind);

}  // namespace longwave

#endif  // LONGWAVE_KERNELS_OPS_H_
