#include "worker/models/replica.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/memory.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "common/config/gpt_shape.h"
#include "common/layout/layout.h"
#include "worker/models/gpt.h"
#include "worker/models/memory.h"
#include "worker/models/torch_compat.h"

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

// Inside, matrix products and what else gains by it compute in bf16; parameters, gradients and
// everything that sums up over a step stay in fp32.
class Autocast {
 public:
  Autocast(bool enabled, at::DeviceType device) : enabled_(enabled), device_(device) {
    if (enabled_) SetAutocast(device_, true);
  }
  ~Autocast() {
    if (!enabled_) return;
    SetAutocast(device_, false);
    at::autocast::clear_cache();  // the weights' copies in bf16
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const bool enabled_;
  const at::DeviceType device_;
};

class GptReplica final : public Replica {
 public:
  GptReplica(const ModelSection& model, bool bf16, at::DeviceType device, Manifest manifest,
             const Layout& layout, uint64_t seed)
      : model_(model),
        bf16_(bf16),
        device_(device),
        manifest_(std::move(manifest)),
        theta_(Zeros(layout)),
        gradient_(Zeros(layout)) {
    for (size_t i = 0; i < manifest_.tensors.size(); ++i) {
      const TensorSpec& tensor = manifest_.tensors[i];
      const auto offset = static_cast<int64_t>(layout.flat_offset(i));
      at::Tensor parameter = View(theta_, offset, tensor);
      parameter.copy_(Start(InitOf(model_, static_cast<int>(i)), seed, i, tensor));
      parameter.set_requires_grad(true);
      // Backward adds into a gradient that is there already, so this view stays.
      parameter.mutable_grad() = View(gradient_, offset, tensor);
      parameters_.push_back(std::move(parameter));
    }
  }

  const Manifest& manifest() const override { return manifest_; }
  uint64_t parameter_count() const override { return static_cast<uint64_t>(theta_.numel()); }
  float* theta() override { return theta_.data_ptr<float>(); }
  float* gradient() override { return gradient_.data_ptr<float>(); }

  absl::StatusOr<double> ForwardBackward(const Batch& batch) override try {
    FlushDenormals flush;
    gradient_.zero_();
    const at::Tensor loss = Forward(batch);
    loss.backward();
    return loss.item<float>();
  } catch (const std::exception& error) {
    return TensorLibraryError(error);
  }

  absl::StatusOr<double> Loss(const Batch& batch) override try {
    FlushDenormals flush;
    at::NoGradGuard no_gradient;
    return Forward(batch).item<float>();
  } catch (const std::exception& error) {
    return TensorLibraryError(error);
  }

  absl::StatusOr<std::vector<float>> NextLogits(std::span<const int64_t> tokens) override try {
    FlushDenormals flush;
    at::NoGradGuard no_gradient;
    // What is known of the same beginning, at the same θ, is not computed again.
    const auto differs = std::ranges::mismatch(tokens, remembered_).in1;
    remembered_.resize(static_cast<size_t>(differs - tokens.begin()));
    if (remembered_.size() == tokens.size()) remembered_.pop_back();
    at::Tensor logits;
    for (size_t i = remembered_.size(); i < tokens.size(); ++i) {
      logits = GptStep(model_, parameters_, tokens[i], static_cast<int64_t>(i), &memory_);
      remembered_.push_back(tokens[i]);
    }
    logits = logits.cpu();
    const float* const values = logits.data_ptr<float>();
    return std::vector<float>(values, values + logits.numel());
  } catch (const std::exception& error) {
    return TensorLibraryError(error);
  }

 private:
  at::Tensor Zeros(const Layout& layout) const {
    at::Tensor flat = at::empty({static_cast<int64_t>(layout.parameter_count())},
                                at::TensorOptions(at::kFloat).device(device_));
    if (device_ == at::kCPU) PreferHugePages(flat.data_ptr(), flat.nbytes());
    return flat.zero_();
  }

  // A tensor of its own over a part of a flat array: no view that autograd would have to follow.
  at::Tensor View(const at::Tensor& flat, int64_t offset, const TensorSpec& tensor) const {
    return at::from_blob(flat.data_ptr<float>() + offset, tensor.shape, flat.options());
  }

  // Drawn on the host, so that every device starts from the same bits.
  static at::Tensor Start(const GptInit& init, uint64_t seed, uint64_t index,
                          const TensorSpec& tensor) {
    at::Tensor start = at::full(tensor.shape, init.constant, at::TensorOptions(at::kFloat));
    if (init.deviation == 0) return start;
    Rng rng(Mix64(seed ^ kInitStream), index);
    float* const values = start.data_ptr<float>();
    for (int64_t i = 0; i < start.numel(); ++i) values[i] = NormalLike(rng, init.deviation);
    return start;
  }

  at::Tensor Forward(const Batch& batch) {
    const Autocast autocast(bf16_, device_);
    return GptLoss(model_, parameters_,
                   {ToDevice(batch, batch.tokens, &pinned_tokens_),
                    ToDevice(batch, batch.targets, &pinned_targets_)});
  }

  // On a GPU by way of pinned memory, which is free again: the loss of the last batch was waited
  // for.
  at::Tensor ToDevice(const Batch& batch, const std::vector<int64_t>& tokens, at::Tensor* pinned) {
    const std::array<int64_t, 2> shape = {batch.rows, batch.length};
    // LibTorch takes mutable memory but only reads it.
    const at::Tensor host =
        at::from_blob(const_cast<int64_t*>(tokens.data()), shape, at::TensorOptions(at::kLong));
    if (device_ == at::kCPU) return host;
    if (!pinned->defined() || pinned->sizes() != at::IntArrayRef(shape)) {
      *pinned = at::empty(shape, at::TensorOptions(at::kLong).pinned_memory(true));
    }
    pinned->copy_(host);
    return pinned->to(at::TensorOptions(at::kLong).device(device_), /*non_blocking=*/true);
  }

  const ModelSection model_;
  const bool bf16_;
  const at::DeviceType device_;
  const Manifest manifest_;
  const at::Tensor theta_;
  const at::Tensor gradient_;
  std::vector<at::Tensor> parameters_;  // parts of theta_, their gradients parts of gradient_
  at::Tensor pinned_tokens_, pinned_targets_;
  std::vector<int64_t> remembered_;  // NextLogits' tokens, whose keys and values memory_ has
  GptMemory memory_;
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
                                                         int threads, BackendKind device) {
  LONGWAVE_ASSIGN_OR_RETURN(Manifest manifest, ModelManifest(model));
  LONGWAVE_ASSIGN_OR_RETURN(const KernelOps* ops, OpsFor(device));
  LONGWAVE_ASSIGN_OR_RETURN(const MachineMemory memory, ops->memory());
  LONGWAVE_RETURN_IF_ERROR(CheckMemory(ReplicaMemory(model, train.batch), 1, memory,
                                       ops->on_device ? kGpuMemory : kMachineMemory));
  // Where tensors lie in the flat array does not depend on how it is tiled.
  LONGWAVE_ASSIGN_OR_RETURN(const Layout layout, Layout::Create(manifest, LayoutOptions{}));
  try {
    at::set_num_threads(threads);
    SetBlasThreads(threads);
    const at::DeviceType torch_device = device == BackendKind::kCuda ? at::kCUDA : at::kCPU;
    return std::make_unique<GptReplica>(model, train.autocast == "bf16", torch_device,
                                        std::move(manifest), layout, seed);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("model: no memory for ", GptParameterCount(model), " parameters"));
  } catch (const std::exception& error) {
    return TensorLibraryError(error);
  }
}

}  // namespace longwave
