#include "worker/models/optimizers.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/layout/layout.h"
#include "worker/models/muon.h"
#include "worker/trainer/optimizer_blobs.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const KernelOps& CpuOps() { return **OpsFor(BackendKind::kCpu); }

// In the flat array: wte 0 to 7, the hidden 8 to 31, the kernels 32 to 43, the vector 44 to 46.
const Manifest kManifest = {
    {{"wte.weight", {4, 2}}, {"b", {3}}, {"h.w", {6, 4}}, {"conv.w", {3, 2, 2}}}};
constexpr size_t kCount = 47;

TrainSection Train(const std::string& optimizer) {
  return {.optimizer = optimizer,
          .beta1 = 0.9,
          .beta2 = 0.99,
          .epsilon = 1e-8,
          .momentum = 0.95,
          .weight_decay = 0.1};
}

std::unique_ptr<InnerOptimizer> Make(const std::string& name) {
  auto made = MakeOptimizer(Train(name), kManifest, &CpuOps(), {});
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

std::vector<float> Noise(size_t count, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const at::Tensor noise = at::randn({static_cast<int64_t>(count)}, generator);
  return {noise.data_ptr<float>(), noise.data_ptr<float>() + count};
}

using Matrix = std::vector<std::vector<double>>;

Matrix Zero(size_t rows, size_t columns) { return Matrix(rows, std::vector<double>(columns)); }

Matrix Product(const Matrix& a, const Matrix& b) {
  Matrix c = Zero(a.size(), b[0].size());
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < b[0].size(); ++j)
      for (size_t k = 0; k < b.size(); ++k) c[i][j] += a[i][k] * b[k][j];
  return c;
}

Matrix Transposed(const Matrix& a) {
  Matrix b = Zero(a[0].size(), a.size());
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a[0].size(); ++j) b[j][i] = a[i][j];
  return b;
}

// X ← aX + bXXᵀX + c(XXᵀ)²X, five times, in double and as the formula stands.
Matrix OrthogonalInDouble(Matrix x) {
  double square_sum = 0;
  for (const auto& row : x)
    for (double value : row) square_sum += value * value;
  for (auto& row : x)
    for (double& value : row) value /= std::sqrt(square_sum) + 1e-7;
  for (int step = 0; step < 5; ++step) {
    const Matrix cubic = Product(Product(x, Transposed(x)), x);
    const Matrix quintic = Product(Product(x, Transposed(x)), cubic);
    for (size_t i = 0; i < x.size(); ++i)
      for (size_t j = 0; j < x[0].size(); ++j)
        x[i][j] = 3.4445 * x[i][j] - 4.7750 * cubic[i][j] + 2.0315 * quintic[i][j];
  }
  return x;
}

TEST(Orthogonalize, SingularValuesComeNearOne) {
  at::Generator generator = at::detail::createCPUGenerator(3);
  for (const auto& [rows, columns] : {std::pair{96, 96}, {96, 384}, {384, 96}, {1, 7}, {7, 1}}) {
    const at::Tensor matrix = at::randn({rows, columns}, generator) * 1e-3;
    const at::Tensor values =
        std::get<1>(at::linalg_svd(Orthogonalize(matrix), /*full_matrices=*/false));
    EXPECT_LT(values.max().item<float>(), 1.3f) << rows << " x " << columns;
    // The smallest singular values of a square matrix are nearly zero.
    EXPECT_GT(values.median().item<float>(), 0.65f) << rows << " x " << columns;
    if (rows == columns) continue;
    EXPECT_GT(values.min().item<float>(), 0.65f) << rows << " x " << columns;
  }
  EXPECT_EQ(Orthogonalize(at::zeros({3, 4})).abs().max().item<float>(), 0);
}

TEST(Muon, StepsAsTheFormulaInDouble) {
  const auto optimizer = Make("muon");
  std::vector<float> theta = Noise(kCount, 1);
  for (const auto& [offset, rows, columns] :
       {std::tuple<size_t, size_t, size_t>{8, 6, 4}, {32, 3, 4}}) {
    std::vector<float> stepped = theta;
    const auto muon = Make("muon");
    std::vector<double> m(rows * columns),
        wanted(theta.begin() + offset, theta.begin() + offset + rows * columns);
    for (int step = 0; step < 3; ++step) {
      const std::vector<float> gradient = Noise(kCount, 10 + step);
      ASSERT_TRUE(muon->Step(gradient.data(), 0.02, stepped.data()).ok());
      Matrix u = Zero(rows, columns);
      for (size_t i = 0; i < m.size(); ++i) {
        m[i] = 0.95 * m[i] + gradient[offset + i];
        u[i / columns][i % columns] = gradient[offset + i] + 0.95 * m[i];
      }
      u = OrthogonalInDouble(u);
      const double scale = 0.02 * 0.2 * std::sqrt(std::max(rows, columns));
      for (size_t i = 0; i < m.size(); ++i)
        wanted[i] = wanted[i] * (1 - 0.02 * 0.1) - scale * u[i / columns][i % columns];
    }
    for (size_t i = 0; i < m.size(); ++i) EXPECT_NEAR(stepped[offset + i], wanted[i], 1e-5) << i;
  }
}

TEST(Muon, LeavesEmbeddingsAndVectorsToAdamW) {
  std::vector<float> by_muon = Noise(kCount, 1), by_adamw = by_muon;
  const auto muon = Make("muon"), adamw = Make("adamw");
  for (int step = 0; step < 3; ++step) {
    const std::vector<float> gradient = Noise(kCount, 10 + step);
    ASSERT_TRUE(muon->Step(gradient.data(), 0.02, by_muon.data()).ok());
    ASSERT_TRUE(adamw->Step(gradient.data(), 0.02, by_adamw.data()).ok());
  }
  for (size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(by_muon[i] == by_adamw[i], i < 8 || i >= 44) << i;
  }
}

std::vector<std::string> NamesOf(const std::vector<NamedBlob>& blobs) {
  std::vector<std::string> names;
  for (const NamedBlob& blob : blobs) names.push_back(blob.name);
  return names;
}

TEST(Optimizers, GoOnFromTheirBlobsAsIfNothingHadHappened) {
  for (const std::string name : {"adamw", "muon", "sgd"}) {
    const auto straight = Make(name);
    std::vector<float> theta = Noise(kCount, 1);
    const auto steps = [](InnerOptimizer& optimizer, int begin, int end, std::vector<float>* at) {
      for (int step = begin; step < end; ++step)
        ASSERT_TRUE(optimizer.Step(Noise(kCount, 10 + step).data(), 0.02, at->data()).ok());
    };
    steps(*straight, 0, 3, &theta);
    std::vector<NamedBlob> blobs;
    ASSERT_TRUE(SaveOptimizer(*straight, CpuOps(), {}, &blobs).ok());
    std::vector<float> theta_again = theta;
    steps(*straight, 3, 6, &theta);
    const auto other = Make(name);
    ASSERT_TRUE(LoadOptimizer(blobs, CpuOps(), {}, other.get()).ok());
    steps(*other, 3, 6, &theta_again);
    EXPECT_EQ(theta_again, theta) << name;
  }
}

TEST(Optimizers, NameTheirBlobsAndRefuseThoseOfOthers) {
  std::vector<NamedBlob> blobs;
  ASSERT_TRUE(SaveOptimizer(*Make("muon"), CpuOps(), {}, &blobs).ok());
  EXPECT_THAT(NamesOf(blobs), ElementsAre("muon.momentum", "adamw.m", "adamw.v", "adamw.powers"));
  EXPECT_EQ(LoadOptimizer(blobs, CpuOps(), {}, Make("sgd").get()).message(),
            "checkpoint: got the optimizer's muon.momentum of 144 bytes, adamw.m of 44 bytes, "
            "adamw.v of 44 bytes, adamw.powers of 16 bytes, wanted sgd.momentum of 188 bytes: a "
            "worker goes on with the train.optimizer and the model that it had");
  EXPECT_THAT(std::string(LoadOptimizer({}, CpuOps(), {}, Make("sgd").get()).message()),
              HasSubstr("got the optimizer's nothing"));
}

}  // namespace
}  // namespace longwave
