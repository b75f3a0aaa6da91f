#ifndef LONGWAVE_TESTS_CHAOS_INTEGER_BOOKS_H_
#define LONGWAVE_TESTS_CHAOS_INTEGER_BOOKS_H_

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/layout/layout.h"
#include "common/wire/buffer.h"
#include "server/store/log_record.h"
#include "worker/checkpoint/checkpoint.h"

namespace longwave {

// The books of a run of integer signals, kept beside the shards' logs in plain integers and without
// any of the merging and decoding code: for each segment the shard's residual, the model, and the
// contributions of each worker. Settings: flat tiling, no transform, topk in fp32 both ways, a mean
// over senders (ρ = 0), sgd with η = 1.
class IntegerBooks {
 public:
  explicit IntegerBooks(const Layout* layout);

  // Enters a closed round with its accepted pushes. Checks that each merged value is the whole
  // residual of its coefficient, and that no remaining value is larger.
  absl::Status Merge(const MergedRecord& merged, const std::map<uint32_t, PushRecord>& pushes);

  // Checks a worker's state at its end: its residual, and pushes of unknown fate. posted: rounds
  // that its journal says it has posted. partial: steps of which a crash has lost what no push had
  // sent. Contributions and residual must add up to the worker's steps. Each step is present once
  // or not at all, in all segments alike, and no posted or accepted step is missing; a partial one
  // is present at most once in each element. Returns the number of other steps present.
  absl::StatusOr<uint64_t> CheckWorker(uint32_t worker, const Checkpoint& at_end,
                                       const std::set<uint32_t>& posted,
                                       const std::set<uint32_t>& partial);

  // Checks a replica's parameters after all rounds of the log.
  void CheckReplica(const std::string& name, std::span<const float> anchor);

  uint64_t element_count() const { return model_.size(); }
  uint64_t values_checked() const { return values_checked_; }
  const std::vector<std::string>& problems() const { return problems_; }
  uint64_t problem_count() const { return problem_count_; }

 private:
  struct Value {
    uint64_t element = 0;
    int64_t value = 0;
  };
  // A payload's values, by element of the flat array. InvalidArgument: a value is not an integer.
  absl::StatusOr<std::vector<Value>> Read(uint32_t segment, std::span<const std::byte> payload);
  void Problem(std::string sentence);

  const Layout* const layout_;
  std::vector<int64_t> model_;
  std::vector<int64_t> held_;                        // E
  std::map<uint32_t, std::vector<int64_t>> given_;   // by worker: the sum of accepted contributions
  std::map<uint32_t, std::set<uint32_t>> accepted_;  // by worker: rounds
  std::set<std::pair<uint64_t, uint32_t>> in_merges_;  // (worker, segment) word and round
  uint64_t values_checked_ = 0;
  uint64_t problem_count_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_CHAOS_INTEGER_BOOKS_H_
