#ifndef LONGWAVE_TESTS_UNIT_WORKER_MODELS_REPLICA_PARTS_H_
#define LONGWAVE_TESTS_UNIT_WORKER_MODELS_REPLICA_PARTS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "worker/models/adamw.h"
#include "worker/models/replica.h"

// For tests of models: a replica on the CPU, its arrays, and an optimizer.

namespace longwave {

inline const TrainSection kTrain = {.batch = 4};

inline std::unique_ptr<Replica> MakeReplica(uint64_t seed, const ModelSection& model) {
  auto replica = Replica::Create(model, kTrain, seed, 1);
  EXPECT_TRUE(replica.ok()) << replica.status();
  return *std::move(replica);
}

inline std::span<float> Theta(Replica& replica) {
  return {replica.theta(), replica.parameter_count()};
}
inline std::span<float> Gradient(Replica& replica) {
  return {replica.gradient(), replica.parameter_count()};
}

inline const KernelOps& Cpu() { return **OpsFor(BackendKind::kCpu); }

inline AdamW MakeOptimizer(const Replica& replica, const AdamWOptions& options = {}) {
  return *AdamW::Create(options, &Cpu(), {}, {{0, replica.parameter_count()}});
}

inline void Step(AdamW& optimizer, Replica& replica, double learning_rate) {
  ASSERT_TRUE(optimizer.Step(replica.gradient(), learning_rate, replica.theta()).ok());
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_WORKER_MODELS_REPLICA_PARTS_H_
