#include "worker/models/replica.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "common/layout/layout.h"
#include "worker/models/gpt.h"
#include "worker/models/gpt_shape.h"
#include "worker/models/memory.h"

namespace longwave {
namespace {

constexpr char kGptKind[] = "gpt";

// Keeps the streams of the start apart from others that are drawn from the same seed.
constexpr uint64_t kInitStream = 0x696e6974;  // "init"

// OpenBLAS keeps a pool of threads of its own, which LibTorch does not set. Looked up by name since
// another BLAS may be in its place.
void SetBlasThreads(int threads) {
  using SetThreads = void (*)(int);
  if (auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"))) {
    set(threads);
  }
}

// Subnormal numbers read and write as zero while one of these lives: activations that fade out
// would slow a step down many times. Not for longer, since the sync's arithmetic is exact IEEE-754.
class FlushDenormals {
 public:
  FlushDenormals() { at::globalContext().setFlushDenormal(true); }
  ~FlushDenormals() { at::globalContext().setFlushDenormal(false); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;
};

// Normal enough: a sum of twelve uniform 16-bit numbers (Irwin–Hall) has deviation 65536 but for
// 10⁻¹⁰, and integers make it exact, where log and cos differ between maths libraries.
float NormalLike(Rng& rng, double deviation) {
  int64_t sum = 0;
  for (int word = 0; word < 3; ++word) {
    const uint64_t bits = rng.Next();
    sum += (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
  }
  constexpr int64_t kMean = 6 * 0xffff;
  return static_cast<float>(static_cast<double>(sum - kMean) * 0x1p-16 * deviation);
}

absl::Status TensorLibraryError(const std::exception& error) {
  // LibTorch appends a stack trace; the first line is the sentence.
  const std::string text = error.what();
  return absl::InternalError(absl::StrCat("model: LibTorch: ", text.substr(0, text.find('\n'))));
}

class GptReplica final : public Replica {
 public:
  GptReplica(const ModelSection& model, Manifest manifest, const Layout& layout, uint64_t seed)
      : model_(model),
        manifest_(std::move(manifest)),
        theta_(layout.parameter_count()),
        gradient_(layout.parameter_count()) {
    for (size_t i = 0; i < manifest_.tensors.size(); ++i) {
      const TensorSpec& tensor = manifest_.tensors[i];
      const uint64_t offset = layout.flat_offset(i);
      Fill(InitOf(model_, static_cast<int>(i)), seed, i,
           std::span(theta_).subspan(offset, ElementCount(tensor)));
      at::Tensor parameter = at::from_blob(theta_.data() + offset, tensor.shape);
      parameter.set_requires_grad(true);
      // Backward adds into a gradient that is there already, so this view stays.
      parameter.mutable_grad() = at::from_blob(gradient_.data() + offset, tensor.shape);
      parameters_.push_back(std::move(parameter));
    }
  }

  const Manifest& manifest() const override { return manifest_; }
  uint64_t parameter_count() const override { return theta_.size(); }
  float* theta() override { return theta_.data(); }
  float* gradient() override { return gradient_.data(); }

  absl::StatusOr<double> ForwardBackward(const Batch& batch) override try {
    FlushDenormals flush;
    std::fill(gradient_.begin(), gradient_.end(), 0.0f);
    const at::Tensor loss = GptLoss(model_, parameters_, batch);
    loss.backward();
    return loss.item<float>();
  } catch (const std::exception& error) {
    return TensorLibraryError(error);
  }

  absl::StatusOr<double> Loss(const Batch& batch) override try {
    FlushDenormals flush;
    at::NoGradGuard no_gradient;
    return GptLoss(model_, parameters_, batch).item<float>();
  } catch (const std::exception& error) {
    return TensorLibraryError(error);
  }

 private:
  static void Fill(const GptInit& init, uint64_t seed, uint64_t tensor, std::span<float> out) {
    if (init.deviation == 0) {
      std::fill(out.begin(), out.end(), init.constant);
      return;
    }
    Rng rng(Mix64(seed ^ kInitStream), tensor);
    for (float& value : out) value = NormalLike(rng, init.deviation);
  }

  const ModelSection model_;
  const Manifest manifest_;
  std::vector<float> theta_;
  std::vector<float> gradient_;
  std::vector<at::Tensor> parameters_;  // views of theta_, their gradients views of gradient_
};

}  // namespace

absl::StatusOr<Manifest> ModelManifest(const ModelSection& model) {
  if (model.kind != kGptKind) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.kind is \"", model.kind, "\"; wanted \"", kGptKind, "\""));
  }
  return GptManifest(model);
}

absl::StatusOr<std::unique_ptr<Replica>> Replica::Create(const ModelSection& model,
                                                         const TrainSection& train, uint64_t seed,
                                                         int threads) {
  LONGWAVE_ASSIGN_OR_RETURN(Manifest manifest, ModelManifest(model));
  LONGWAVE_ASSIGN_OR_RETURN(const MachineMemory machine, ReadMachineMemory());
  LONGWAVE_RETURN_IF_ERROR(CheckMemory(ReplicaMemory(model, train.batch), 1, machine));
  // Where tensors lie in the flat array does not depend on how it is tiled.
  LONGWAVE_ASSIGN_OR_RETURN(const Layout layout, Layout::Create(manifest, LayoutOptions{}));
  try {
    at::set_num_threads(threads);
    SetBlasThreads(threads);
    return std::make_unique<GptReplica>(model, std::move(manifest), layout, seed);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("model: no memory for ", GptParameterCount(model), " parameters"));
  } catch (const std::exception& error) {
    return TensorLibraryError(error);
  }
}

}  // namespace longwave
