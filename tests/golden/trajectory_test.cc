// Holds our pipeline, merge included, against trajectories of the published optimizers: the same
// objects that run in workers and shards, fed with the recorded signals of every worker.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numbers>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/layout/layout.h"
#include "common/wire/tile_codec.h"
#include "tests/golden/safetensors_reader.h"
#include "tests/support/lockstep.h"

namespace longwave {
namespace {

// Agreement with the published code: errors relative to the largest magnitude of the tensor.
constexpr double kTolerance = 1e-5;
// After a sign, an element may differ only where the sign's argument is this close to zero.
constexpr double kSignArgument = 1e-6;

struct Trajectory {
  std::string name;
  std::vector<GoldenFile> workers;

  double Number(const std::string& key, double otherwise = 0) const {
    const auto& metadata = workers[0].metadata;
    const auto found = metadata.find(key);
    double number = otherwise;
    if (found == metadata.end()) return otherwise;
    EXPECT_TRUE(absl::SimpleAtod(found->second, &number)) << key;
    return number;
  }
};

absl::StatusOr<Trajectory> Load(const std::filesystem::path& folder, const std::string& name) {
  Trajectory trajectory{.name = name, .workers = {}};
  for (int i = 0;; ++i) {
    const auto path = folder / absl::StrCat(name, ".worker", i, ".safetensors");
    if (!std::filesystem::exists(path)) break;
    absl::StatusOr<GoldenFile> file = ReadSafetensors(path);
    if (!file.ok()) return file.status();
    trajectory.workers.push_back(*std::move(file));
  }
  return trajectory;
}

std::set<std::string> Names(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string file = entry.path().filename();
    const size_t at = file.find(".worker0.safetensors");
    if (at != std::string::npos) names.insert(file.substr(0, at));
  }
  return names;
}

// The plain definition, in double precision and with no transform of ours: x = Cᵀ·X.
std::vector<double> InverseDct(const std::vector<double>& in, size_t count, size_t length,
                               size_t element_stride, size_t vector_stride) {
  std::vector<double> out(in.size());
  for (size_t v = 0; v < count; ++v) {
    for (size_t i = 0; i < length; ++i) {
      double sum = 0;
      for (size_t k = 0; k < length; ++k) {
        const double s = k == 0 ? std::sqrt(1.0 / length) : std::sqrt(2.0 / length);
        sum += s * in[v * vector_stride + k * element_stride] *
               std::cos(std::numbers::pi * static_cast<double>((2 * i + 1) * k) / (2.0 * length));
      }
      out[v * vector_stride + i * element_stride] = sum;
    }
  }
  return out;
}

// Flat elements of all coefficients: T⁻¹ of each tile.
std::vector<double> Elements(const Layout& layout, const std::vector<double>& coefficients) {
  std::vector<double> flat(layout.parameter_count());
  for (const Tile& tile : layout.tiles()) {
    const auto begin = coefficients.begin() + static_cast<std::ptrdiff_t>(tile.coefficient_offset);
    std::vector<double> block(begin, begin + tile.size());
    block = InverseDct(block, tile.rows, tile.cols, tile.rows, 1);
    if (tile.rows > 1) block = InverseDct(block, tile.cols, tile.rows, 1, tile.rows);
    for (size_t r = 0; r < tile.rows_valid; ++r) {
      for (size_t c = 0; c < tile.cols_valid; ++c) {
        flat[tile.offset + r * tile.row_stride + c] = block[c * tile.rows + r];
      }
    }
  }
  return flat;
}

class Replay {
 public:
  Replay(const Trajectory& trajectory, bool decoupled) : trajectory_(trajectory) {
    Manifest manifest;
    for (size_t j = 0;; ++j) {
      const auto found = Tensors(0).find(absl::StrCat("param", j, ".init"));
      if (found == Tensors(0).end()) break;
      manifest.tensors.push_back({.name = absl::StrCat("param", j), .shape = found->second.shape});
    }
    tensor_count_ = manifest.tensors.size();
    LayoutOptions options;
    options.tiling = Tiling::kTensor;
    options.block = static_cast<uint32_t>(trajectory.Number("chunk", 64));

    SyncOptions sync;
    sync.pseudo_gradient = false;  // the test passes the recorded signal unchanged
    sync.scale_by_learning_rate = !decoupled;
    if (!decoupled) signal_scale_ = trajectory.Number("lr");
    sync.transform = Transform::kDct;
    sync.up = {.selection = Selection::kTopK,
               .codec = ValueCodec::kFp32,
               .k = static_cast<uint16_t>(trajectory.Number("k"))};
    sync.beta = static_cast<float>(trajectory.Number("decay"));
    sync.update = decoupled ? UpdateKind::kLocal : UpdateKind::kSign;
    sync.eta = decoupled ? static_cast<float>(trajectory.Number("lr")) : 1.0f;
    sync.eta_follows_learning_rate = !decoupled;
    sync.weight_decay = static_cast<float>(trajectory.Number("wd"));

    std::vector<float> start(Layout::Create(manifest, options)->parameter_count());
    const auto workers = static_cast<uint32_t>(trajectory.workers.size());
    cluster_ =
        Lockstep::Create(manifest, options, sync, {.rho = 0, .down = {}}, workers, start).value();
    for (uint32_t i = 0; i < workers; ++i) Fill(cluster_->theta(i), i, "", ".init", "param");
  }

  // A step of all workers: encode, merge, apply. signal: "grad" or "pseudo_gradient".
  void Step(uint32_t t, const std::string& when, const std::string& signal, double learning_rate) {
    std::vector<uint32_t> order(cluster_->workers());
    for (uint32_t i = 0; i < order.size(); ++i) {
      Fill(cluster_->gradient(i), i, absl::StrCat(when, t, "."), "", signal);
      order[i] = (i + t) % cluster_->workers();  // another order each step
    }
    const absl::Status done = cluster_->Round(t, learning_rate, order);
    ASSERT_TRUE(done.ok()) << done;
    ASSERT_EQ(cluster_->merged().size(), layout().segments().size());
    merged_.assign(layout().coefficient_count(), 0.0);
    for (const auto& update : cluster_->merged()) ReadMerged(update);
  }

  // Holds residual and parameters of every worker against the recorded ones after step t. Where the
  // parameters differ for a sign's sake, ours take the recorded value, so that one disagreement is
  // counted once. Returns how many there were.
  size_t Compare(uint32_t t, const std::string& when, bool signs) {
    const std::vector<double> argument = Elements(layout(), merged_);
    size_t disagreements = 0;
    for (uint32_t i = 0; i < cluster_->workers(); ++i) {
      const std::span<const float> momentum(cluster_->pipeline(i).momentum(),
                                            layout().coefficient_count());
      const std::vector<double> residual =
          Elements(layout(), std::vector<double>(momentum.begin(), momentum.end()));
      for (size_t j = 0; j < tensor_count_; ++j) {
        const std::string prefix = absl::StrCat(when, t, ".");
        const uint64_t offset = layout().flat_offset(j);
        const auto& residuals = Tensors(i).at(absl::StrCat(prefix, "residual", j)).values;
        const auto& parameters = Tensors(i).at(absl::StrCat(prefix, "param", j)).values;
        // A residual is a difference, so its error is at least the rounding of its signal.
        const std::span<const float> signal =
            cluster_->gradient(i).subspan(offset, residuals.size());
        const double residual_scale = std::max(Largest(residuals), signal_scale_ * Largest(signal));
        const double parameter_scale = Largest(parameters);
        for (size_t e = 0; e < residuals.size(); ++e) {
          EXPECT_NEAR(residual[offset + e], residuals[e], kTolerance * residual_scale)
              << "residual, worker " << i << ", " << prefix << " tensor " << j << ", element " << e;
          float& ours = cluster_->theta(i)[offset + e];
          if (std::abs(ours - parameters[e]) <= kTolerance * parameter_scale) continue;
          EXPECT_TRUE(signs && std::abs(argument[offset + e]) <= kSignArgument)
              << "parameter, worker " << i << ", " << prefix << " tensor " << j << ", element " << e
              << ": got " << ours << ", wanted " << parameters[e] << ", argument "
              << argument[offset + e];
          ours = parameters[e];
          ++disagreements;
          if (testing::Test::HasFailure()) return disagreements;
        }
        if (testing::Test::HasFailure()) return disagreements;
      }
    }
    return disagreements;
  }

 private:
  const Layout& layout() const { return cluster_->layout(); }

  const std::map<std::string, GoldenTensor>& Tensors(size_t worker) const {
    return trajectory_.workers[worker].tensors;
  }

  void Fill(std::span<float> flat, size_t worker, const std::string& prefix,
            const std::string& suffix, const std::string& what) const {
    for (size_t j = 0; j < tensor_count_; ++j) {
      const auto& values = Tensors(worker).at(absl::StrCat(prefix, what, j, suffix)).values;
      std::copy(values.begin(), values.end(),
                flat.begin() + static_cast<std::ptrdiff_t>(layout().flat_offset(j)));
    }
  }

  void ReadMerged(const SentFrame<MergedFrame>& update) {
    const Segment& segment = layout().segments()[update.header.segment];
    const PayloadFormat format = DecodePayloadHead(update.payload.bytes()).value();
    const PayloadLayout payload =
        PayloadLayout::Create(format, layout().TileSizes(update.header.segment)).value();
    for (uint32_t n = 0; n < segment.tile_count; ++n) {
      std::vector<uint16_t> indices(payload.sent_count(n));
      std::vector<float> values(payload.sent_count(n));
      ReadTile(payload, n, update.payload.bytes(), 0, indices, values);
      const Tile& tile = layout().tiles()[segment.tile_begin + n];
      for (size_t v = 0; v < values.size(); ++v) {
        merged_[tile.coefficient_offset + indices[v]] = values[v];
      }
    }
  }

  static double Largest(std::span<const float> values) {
    double largest = 0;
    for (const float value : values) largest = std::max(largest, std::abs(double{value}));
    return largest;
  }

  const Trajectory& trajectory_;
  size_t tensor_count_ = 0;
  std::unique_ptr<Lockstep> cluster_;
  double signal_scale_ = 1;     // of the recorded signal when it enters the momentum
  std::vector<double> merged_;  // the last merge's coefficients, over the whole layout
};

void RunTrajectory(const Trajectory& trajectory) {
  const bool decoupled = absl::StartsWith(trajectory.name, "decoupled");
  ASSERT_TRUE(decoupled || absl::StartsWith(trajectory.name, "demo"))
      << "wanted a name that starts with demo or decoupled";
  ASSERT_EQ(trajectory.workers.size(), trajectory.Number("workers"));
  const std::string when = decoupled ? "round" : "step";
  Replay replay(trajectory, decoupled);
  const auto steps = static_cast<uint32_t>(trajectory.Number("steps"));
  ASSERT_GT(steps, 0u);
  size_t disagreements = 0;
  for (uint32_t t = 0; t < steps; ++t) {
    replay.Step(t, when, decoupled ? "pseudo_gradient" : "grad", trajectory.Number("lr"));
    if (testing::Test::HasFatalFailure()) return;
    disagreements += replay.Compare(t, when, !decoupled);
    if (testing::Test::HasFailure()) return;
  }
  std::printf("%s: %zu workers, %u steps, %zu sign disagreements at arguments within %g of zero\n",
              trajectory.name.c_str(), trajectory.workers.size(), steps, disagreements,
              kSignArgument);
}

TEST(Golden, ReproducesEveryPublishedTrajectory) {
  const char* given = std::getenv("LONGWAVE_GOLDEN_DIR");
  const std::filesystem::path folder = given != nullptr ? given : LONGWAVE_GOLDEN_DEFAULT;
  ASSERT_TRUE(std::filesystem::is_directory(folder)) << folder;
  const std::set<std::string> names = Names(folder);
  ASSERT_FALSE(names.empty()) << "no <name>.worker0.safetensors in " << folder;
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const absl::StatusOr<Trajectory> trajectory = Load(folder, name);
    ASSERT_TRUE(trajectory.ok()) << trajectory.status();
    RunTrajectory(*trajectory);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace longwave
