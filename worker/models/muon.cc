#include "worker/models/muon.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "common/base/status_macros.h"
#include "worker/models/torch_compat.h"

namespace longwave {

at::Tensor Orthogonalize(const at::Tensor& matrix) {
  constexpr int kSteps = 5;
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  const bool is_tall = matrix.size(0) > matrix.size(1);
  // The Gram matrix of the smaller side takes fewer operations.
  at::Tensor x = is_tall ? matrix.t() : matrix;
  x = x / (x.norm() + 1e-7);
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor gram = at::mm(x, x.t());
    x = at::addmm(x, at::addmm(gram, gram, gram, kB, kC), x, kA, 1);
  }
  return is_tall ? x.t() : x;
}

absl::StatusOr<Muon> Muon::Create(const MuonOptions& options, const KernelOps* ops,
                                  std::vector<MuonMatrix> matrices, AdamW rest) {
  Muon muon(options, ops->on_device ? at::kCUDA : at::kCPU, std::move(matrices), std::move(rest));
  LONGWAVE_ASSIGN_OR_RETURN(muon.momentum_, DeviceFloats::Create(ops, muon.MomentumCount()));
  return muon;
}

uint64_t Muon::MomentumCount() const {
  uint64_t count = 0;
  for (const MuonMatrix& matrix : matrices_) count += matrix.count();
  return count;
}

at::Tensor Muon::View(float* data, const MuonMatrix& matrix) const {
  return at::from_blob(data, {matrix.rows, matrix.columns},
                       at::TensorOptions(at::kFloat).device(device_));
}

void Muon::StepMatrix(const MuonMatrix& matrix, const float* gradient, float* momentum,
                      double learning_rate, float* theta) const {
  // LibTorch wants mutable memory but only reads it.
  const at::Tensor g = View(const_cast<float*>(gradient) + matrix.offset, matrix);
  const at::Tensor m = View(momentum, matrix);
  m.mul_(options_.momentum).add_(g);
  at::Tensor u = g.add(m, options_.momentum);
  if (options_.bf16) u = u.to(at::kBFloat16);
  u = Orthogonalize(u).to(at::kFloat);
  const double scale = 0.2 * std::sqrt(std::max(matrix.rows, matrix.columns));
  View(theta + matrix.offset, matrix)
      .mul_(1 - learning_rate * options_.weight_decay)
      .add_(u, -learning_rate * scale);
}

absl::Status Muon::Step(const float* gradient, double learning_rate, float* theta) try {
  LONGWAVE_RETURN_IF_ERROR(rest_.Step(gradient, learning_rate, theta));
  const at::NoGradGuard no_gradient;
  float* momentum = momentum_.get();
  for (const MuonMatrix& matrix : matrices_) {
    StepMatrix(matrix, gradient, momentum, learning_rate, theta);
    momentum += matrix.count();
  }
  return absl::OkStatus();
} catch (const std::exception& error) {
  return TorchError("optimizer", error);
}

std::vector<StateArray> Muon::State() {
  std::vector<StateArray> arrays = {
      {"muon.momentum", momentum_.get(), MomentumCount() * sizeof(float)}};
  for (const StateArray& array : rest_.State()) arrays.push_back(array);
  return arrays;
}

}  // namespace longwave
