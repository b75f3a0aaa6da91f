#include "worker/models/replica.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "common/base/errors.h"
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

// Separates the streams of initial values from other streams of the same seed.
constexpr uint64_t kInitStream = 0x696e6974;  // "init"

// OpenBLAS has a thread pool of its own, which LibTorch does not set. Looked up by name, since
// another BLAS may be linked.
void SetBlasThreads(int threads) {
  using SetThreads = void (*)(int);
  if (auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"))) {
    set(threads);
  }
}

// Subnormal numbers read and write as zero during the object's life, since activations that fade
// out would slow a step down many times. The sync's arithmetic is exact IEEE-754, so the life is
// one step.
class FlushDenormals {
 public:
  FlushDenormals() { at::globalContext().setFlushDenormal(true); }
  ~FlushDenormals() { at::globalContext().setFlushDenormal(false); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;
};

// An approximately normal number. A sum of twelve uniform 16-bit numbers (Irwin–Hall) has deviation
// 65536 up to 10⁻¹⁰. Integers make the sum exact, while log and cos differ between maths libraries.
float NormalLike(Rng& rng, double deviation) {
  int64_t sum = 0;
  for (int word = 0; word < 3; ++word) {
    const uint64_t bits = rng.Next();
    sum += (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
  }
  constexpr int64_t kMean = 6 * 0xffff;
  return static_cast<float>(static_cast<double>(sum - kMean) * 0x1p-16 * deviation);
}

class TorchReplica final : public Replica {
 public:
  TorchReplica(const ModelSection& model, const TrainSection& train, at::DeviceType device,
               Manifest manifest, const Layout& layout, uint64_t seed)
      : model_(model),
        bf16_(train.autocast == "bf16"),
        recompute_(train.activation_checkpoints),
        micro_batches_(std::max(1u, train.micro_batches)),
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
      // The backward pass adds to an existing gradient, so this view stays.
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
    const Tokens tokens = ToDevice(batch);
    const int64_t parts = PartCount(batch);
    double sum = 0;
    for (int64_t part = 0; part < parts; ++part) sum += AddPart(tokens, batch.rows, part);
    return sum;
  } catch (const std::exception& error) {
    return TorchError("model", error);
  }

  absl::StatusOr<double> Loss(const Batch& batch) override try {
    FlushDenormals flush;
    at::NoGradGuard no_gradient;
    return Forward(ToDevice(batch)).item<float>();
  } catch (const std::exception& error) {
    return TorchError("model", error);
  }

  absl::StatusOr<std::vector<float>> NextLogits(std::span<const int64_t> tokens) override try {
    FlushDenormals flush;
    at::NoGradGuard no_gradient;
    // Tokens with a known beginning, at the same θ, are not computed again.
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
    return TorchError("model", error);
  }

 private:
  int64_t RowsOfPart(int64_t rows) const { return (rows + micro_batches_ - 1) / micro_batches_; }
  int64_t PartCount(const Batch& batch) const {
    const int64_t part = RowsOfPart(batch.rows);
    return (batch.rows + part - 1) / part;
  }

  // Adds the gradient of a part of the batch to the gradient, and returns its share of the loss.
  double AddPart(const Tokens& tokens, int64_t batch_rows, int64_t part) {
    const int64_t begin = part * RowsOfPart(batch_rows);
    const int64_t rows = std::min(RowsOfPart(batch_rows), batch_rows - begin);
    at::Tensor loss =
        Forward({tokens.inputs.narrow(0, begin, rows), tokens.targets.narrow(0, begin, rows)});
    // A part's mean is weighted by its share. A whole batch is not multiplied by 1.
    const double share = static_cast<double>(rows) / static_cast<double>(batch_rows);
    if (rows < batch_rows) loss = loss * share;
    loss.backward();
    return loss.item<float>();
  }

  at::Tensor Zeros(const Layout& layout) const {
    at::Tensor flat = at::empty({static_cast<int64_t>(layout.parameter_count())},
                                at::TensorOptions(at::kFloat).device(device_));
    if (device_ == at::kCPU) PreferHugePages(flat.data_ptr(), flat.nbytes());
    return flat.zero_();
  }

  // A tensor over a part of a flat array, but no view that autograd would track.
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

  at::Tensor Forward(const Tokens& tokens) {
    const Autocast autocast(bf16_, device_);
    return GptLoss(model_, parameters_, tokens, recompute_);
  }

  Tokens ToDevice(const Batch& batch) {
    const std::vector<int64_t> shape = {batch.rows, batch.length};
    return {ToDevice(batch.tokens, shape, &pinned_inputs_),
            ToDevice(batch.targets, shape, &pinned_targets_)};
  }

  // Copies to a GPU by way of pinned memory, which is free again since the last batch's loss was
  // awaited.
  at::Tensor ToDevice(const std::vector<int64_t>& values, const std::vector<int64_t>& shape,
                      at::Tensor* pinned) {
    const at::TensorOptions options(at::kLong);
    // LibTorch wants mutable memory but only reads it.
    const at::Tensor host = at::from_blob(const_cast<int64_t*>(values.data()), shape, options);
    if (device_ == at::kCPU) return host;
    if (!pinned->defined() || pinned->sizes() != at::IntArrayRef(shape)) {
      *pinned = at::empty(shape, options.pinned_memory(true));
    }
    pinned->copy_(host);
    return pinned->to(options.device(device_), /*non_blocking=*/true);
  }

  const ModelSection model_;
  const bool bf16_;
  const bool recompute_;  // train.activation_checkpoints
  const int64_t micro_batches_;
  const at::DeviceType device_;
  const Manifest manifest_;
  const at::Tensor theta_;
  const at::Tensor gradient_;
  std::vector<at::Tensor> parameters_;  // parts of theta_, their gradients parts of gradient_
  at::Tensor pinned_inputs_, pinned_targets_;
  std::vector<int64_t> remembered_;  // NextLogits' tokens with keys and values in memory_
  GptMemory memory_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Replica>> Replica::Create(const ModelSection& model,
                                                         const TrainSection& train, uint64_t seed,
                                                         int threads, BackendKind device) {
  const at::DeviceType torch_device = device == BackendKind::kCuda ? at::kCUDA : at::kCPU;
  LONGWAVE_ASSIGN_OR_RETURN(Manifest manifest, GptManifest(model));
  LONGWAVE_ASSIGN_OR_RETURN(const KernelOps* ops, OpsFor(device));
  LONGWAVE_ASSIGN_OR_RETURN(const MachineMemory memory, ops->memory());
  LONGWAVE_RETURN_IF_ERROR(CheckMemory(ReplicaMemory(model, manifest, train), 1, memory,
                                       ops->on_device ? kGpuMemory : kMachineMemory));
  // The place of tensors in the flat array does not depend on the tiling.
  LONGWAVE_ASSIGN_OR_RETURN(const Layout layout, Layout::Create(manifest, LayoutOptions{}));
  try {
    at::set_num_threads(threads);
    SetBlasThreads(threads);
    return std::make_unique<TorchReplica>(model, train, torch_device, std::move(manifest), layout,
                                          seed);
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("model: no memory for ", layout.parameter_count(), " parameters");
  } catch (const std::exception& error) {
    return TorchError("model", error);
  }
}

}  // namespace longwave
