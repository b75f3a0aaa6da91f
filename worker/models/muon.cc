#include "worker/models/muon.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <numeric>
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

std::vector<MuonMatrix> MatricesOfRank(const std::vector<MuonMatrix>& matrices, NodeRank node) {
  const auto cost = [](const MuonMatrix& matrix) {
    return static_cast<double>(matrix.count()) *
           static_cast<double>(std::min(matrix.rows, matrix.columns));
  };
  std::vector<size_t> by_cost(matrices.size());
  std::iota(by_cost.begin(), by_cost.end(), size_t{0});
  std::ranges::stable_sort(by_cost, std::greater(), [&](size_t i) { return cost(matrices[i]); });
  // The dearest one first, each to the rank that has least.
  std::vector<double> costs(node.ranks);
  std::vector<size_t> mine;
  for (const size_t i : by_cost) {
    const auto least = std::ranges::min_element(costs);
    *least += cost(matrices[i]);
    if (least - costs.begin() == node.rank) mine.push_back(i);
  }
  std::ranges::sort(mine);
  std::vector<MuonMatrix> of_rank;
  for (const size_t i : mine) of_rank.push_back(matrices[i]);
  return of_rank;
}

namespace {

std::vector<ParameterRange> RangesOf(const std::vector<MuonMatrix>& matrices) {
  std::vector<ParameterRange> ranges;
  for (const MuonMatrix& matrix : matrices)
    ranges.push_back({.begin = matrix.offset, .count = matrix.count()});
  return ranges;
}

}  // namespace

Muon::Muon(const MuonOptions& options, at::DeviceType device, std::vector<MuonMatrix> matrices,
           AdamW rest, NodeTensors* node)
    : options_(options),
      device_(device),
      matrices_(node == nullptr ? matrices : MatricesOfRank(matrices, node->node())),
      shares_(RangesOf(matrices), node),
      rest_(std::move(rest)),
      node_(node) {}

absl::StatusOr<Muon> Muon::Create(const MuonOptions& options, const KernelOps* ops,
                                  std::vector<MuonMatrix> matrices, AdamW rest, NodeTensors* node) {
  Muon muon(options, ops->on_device ? at::kCUDA : at::kCPU, std::move(matrices), std::move(rest),
            node);
  LONGWAVE_ASSIGN_OR_RETURN(muon.momentum_, DeviceFloats::Create(ops, muon.shares_.count));
  if (node == nullptr) return muon;
  uint64_t count = 0;
  for (const MuonMatrix& matrix : muon.matrices_) count += matrix.count();
  LONGWAVE_ASSIGN_OR_RETURN(muon.whole_, DeviceFloats::Create(ops, count));
  return muon;
}

at::Tensor Muon::View(float* data, int64_t rows, int64_t columns) const {
  return at::from_blob(data, {rows, columns}, at::TensorOptions(at::kFloat).device(device_));
}

void Muon::AddToMomentum(const float* gradient, float* momentum, int64_t rows,
                         int64_t columns) const {
  // LibTorch wants mutable memory but only reads it.
  const at::Tensor g = View(const_cast<float*>(gradient), rows, columns);
  View(momentum, rows, columns).mul_(options_.momentum).add_(g);
}

void Muon::StepMatrix(const MuonMatrix& matrix, const float* gradient, float* momentum,
                      double learning_rate, float* theta) const {
  const auto [offset, rows, columns] = matrix;
  const at::Tensor g = View(const_cast<float*>(gradient) + offset, rows, columns);
  at::Tensor u = g.add(View(momentum, rows, columns), options_.momentum);
  if (options_.bf16) u = u.to(at::kBFloat16);
  u = Orthogonalize(u).to(at::kFloat);
  const double scale = 0.2 * std::sqrt(std::max(rows, columns));
  View(theta + offset, rows, columns)
      .mul_(1 - learning_rate * options_.weight_decay)
      .add_(u, -learning_rate * scale);
}

absl::Status Muon::Step(const float* gradient, double learning_rate, float* theta) try {
  LONGWAVE_RETURN_IF_ERROR(rest_.Step(gradient, learning_rate, theta));
  const at::NoGradGuard no_gradient;
  if (node_ != nullptr) LONGWAVE_RETURN_IF_ERROR(MoveMomentum(gradient));
  float* momentum = node_ == nullptr ? momentum_.get() : whole_.get();
  for (const MuonMatrix& matrix : matrices_) {
    if (node_ == nullptr)
      AddToMomentum(gradient + matrix.offset, momentum, matrix.rows, matrix.columns);
    StepMatrix(matrix, gradient, momentum, learning_rate, theta);
    momentum += matrix.count();
  }
  return absl::OkStatus();
} catch (const std::exception& error) {
  return TorchError("optimizer", error);
}

absl::Status Muon::MoveMomentum(const float* gradient) {
  std::vector<FlatPart> given, taken;
  float* momentum = momentum_.get();
  for (const auto& [begin, end] : shares_.elements) {
    // Each operation rounds once, so the bits do not depend on the element's place.
    AddToMomentum(gradient + begin, momentum, 1, static_cast<int64_t>(end - begin));
    given.push_back({begin, end, momentum});
    momentum += end - begin;
  }
  momentum = whole_.get();
  for (const MuonMatrix& matrix : matrices_) {
    taken.push_back({matrix.offset, matrix.offset + matrix.count(), momentum});
    momentum += matrix.count();
  }
  return node_->Move(given, taken);
}

std::vector<ElementRange> Muon::stepped() const {
  std::vector<ElementRange> elements = rest_.stepped();
  for (const MuonMatrix& matrix : matrices_)
    elements.push_back({matrix.offset, matrix.offset + matrix.count()});
  std::ranges::sort(elements, {}, &ElementRange::begin);
  return elements;
}

std::vector<StateArray> Muon::State() {
  std::vector<StateArray> arrays = {
      {"muon.momentum", momentum_.get(), shares_.count * sizeof(float), shares_.whole}};
  for (const StateArray& array : rest_.State()) arrays.push_back(array);
  return arrays;
}

}  // namespace longwave
