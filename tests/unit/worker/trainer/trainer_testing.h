#ifndef LONGWAVE_TESTS_UNIT_WORKER_TRAINER_TRAINER_TESTING_H_
#define LONGWAVE_TESTS_UNIT_WORKER_TRAINER_TRAINER_TESTING_H_

#include <functional>
#include <utility>
#include <vector>

#include "tests/unit/worker/member/member_testing.h"
#include "worker/data/corpus.h"
#include "worker/models/adamw.h"
#include "worker/trainer/trainer.h"

namespace longwave {

// Windows of four bytes of a small text, in batches of three.
inline RunConfig TrainerConfig(uint64_t steps) {
  RunConfig config;
  config.run = {.preset = "test", .steps = steps, .workers = 1, .shards = 1, .seed = 5};
  config.model = {.kind = "gpt", .context = 4};
  config.train = {.batch = 3,
                  .learning_rate = 0.1,
                  .final_learning_rate_share = 1,
                  .beta1 = 0.9,
                  .beta2 = 0.99,
                  .epsilon = 1e-8};
  config.sync = {
      .signal = SignalKind::kPseudoGradient, .inner_steps = 4, .update = UpdateRule::kSgd};
  return config;
}
inline Corpus TrainerCorpus() {
  return *Corpus::FromText("some text to draw windows from, long enough", 0.3, 4, "text");
}

inline const KernelOps& Cpu() { return **OpsFor(BackendKind::kCpu); }

// Half the squared distance of θ to 1: the gradient is θ − 1, whatever the batch.
class QuadraticReplica final : public Replica {
 public:
  explicit QuadraticReplica(Manifest manifest = {{{"w", {3, 2}}, {"b", {2}}}})
      : manifest_(std::move(manifest)),
        theta_(static_cast<size_t>(ParameterCount(manifest_))),
        gradient_(theta_.size()) {}
  const Manifest& manifest() const override { return manifest_; }
  uint64_t parameter_count() const override { return theta_.size(); }
  float* theta() override { return theta_.data(); }
  float* gradient() override { return gradient_.data(); }
  absl::StatusOr<double> ForwardBackward(const Batch& batch) override {
    batches.push_back(batch);
    for (size_t i = 0; i < theta_.size(); ++i) gradient_[i] = theta_[i] - 1;
    return on_loss ? on_loss(batches.size() - 1) : Value();
  }
  absl::StatusOr<std::vector<float>> NextLogits(std::span<const int64_t>) override {
    return std::vector<float>();
  }
  absl::StatusOr<double> Loss(const Batch&) override {
    return on_validation ? on_validation() : Value();
  }

  std::vector<Batch> batches;
  std::function<double(size_t)> on_loss;
  std::function<double()> on_validation;

 private:
  double Value() const {
    double sum = 0;
    for (float value : theta_) sum += 0.5 * (value - 1) * (value - 1);
    return sum;
  }

  const Manifest manifest_;
  std::vector<float> theta_, gradient_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_WORKER_TRAINER_TRAINER_TESTING_H_
