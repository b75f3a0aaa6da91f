#ifndef LONGWAVE_WORKER_MODELS_MUON_H_
#define LONGWAVE_WORKER_MODELS_MUON_H_

#include <ATen/ATen.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device_floats.h"
#include "worker/models/adamw.h"

namespace longwave {

// Private to worker/models, since it exposes LibTorch's types.

// The matrix with singular values near 1 (0.7 to 1.2) and the singular vectors of `matrix`, [rows,
// columns] of any size, by five steps of a quintic Newton-Schulz iteration. Singular values below
// about 10⁻³ of the norm come out smaller.
at::Tensor Orthogonalize(const at::Tensor& matrix);

struct MuonOptions {
  double momentum = 0.95;
  double weight_decay = 0;
  bool bf16 = false;  // the iteration's products
};

// A matrix of the flat array.
struct MuonMatrix {
  uint64_t offset = 0;
  int64_t rows = 0, columns = 0;

  uint64_t count() const { return static_cast<uint64_t>(rows * columns); }
};

// Muon for matrices, AdamW for everything else:
//   m ← μ·m + g
//   θ ← θ·(1 − lr·wd) − lr·0.2·√max(rows, columns)·Orthogonalize(g + μ·m)
// The scale gives updates the root mean square of AdamW's, so AdamW's learning rate and weight
// decay fit. Source: Jordan 2024 (kellerjordan.github.io/posts/muon), Liu et al. 2025 (arXiv
// 2502.16982) for the scale, Thérien et al. 2025 (arXiv 2505.23725) for its use between syncs.
//
// LibTorch's products have equal bits only on equal processors with equal threads. That matters
// only where replicas step with merged gradients (`update: inner`).
class Muon final : public InnerOptimizer {
 public:
  // `rest` steps the parameters outside of the matrices. ResourceExhausted: no memory for the
  // momentum.
  static absl::StatusOr<Muon> Create(const MuonOptions& options, const KernelOps* ops,
                                     std::vector<MuonMatrix> matrices, AdamW rest);

  absl::Status Step(const float* gradient, double learning_rate, float* theta) override;
  // muon.momentum, f32 an element of the matrices, and AdamW's.
  std::vector<StateArray> State() override;
  absl::Status CheckState() const override { return rest_.CheckState(); }

 private:
  Muon(const MuonOptions& options, at::DeviceType device, std::vector<MuonMatrix> matrices,
       AdamW rest)
      : options_(options),
        device_(device),
        matrices_(std::move(matrices)),
        rest_(std::move(rest)) {}

  uint64_t MomentumCount() const;
  at::Tensor View(float* data, const MuonMatrix& matrix) const;
  // momentum: of the matrix.
  void StepMatrix(const MuonMatrix& matrix, const float* gradient, float* momentum,
                  double learning_rate, float* theta) const;

  MuonOptions options_;
  at::DeviceType device_;
  std::vector<MuonMatrix> matrices_;
  AdamW rest_;
  DeviceFloats momentum_;  // matrix after matrix
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_MUON_H_
