#ifndef LONGWAVE_TESTS_BENCH_KERNELS_GROUP_H_
#define LONGWAVE_TESTS_BENCH_KERNELS_GROUP_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/ops.h"
#include "tests/bench/kernels/problem.h"
#include "tests/bench/kernels/roofline.h"
#include "tests/bench/kernels/row.h"

namespace longwave::bench {

// How long a row is measured. On a shared machine the best of many repetitions shows the code's
// speed; the mean also shows the other processes.
struct Patience {
  double seconds = 1;  // of the operation itself
  int repetitions_min = 3;
  int repetitions_max = 40;
};

// The rows of one backend with one number of threads. Each repetition of an operation runs the copy
// and the two passes beside it, so that all have seen the same machine. In host memory, repetitions
// are timed segment by segment, copy and passes in the same pieces: the time of a row is the sum of
// the best of each, so that a millisecond that another process takes away costs one piece, not the
// repetition. On a device the whole model is one piece, since segments overlap there.
class Group {
 public:
  static absl::StatusOr<std::unique_ptr<Group>> Create(std::string backend, const KernelOps* ops,
                                                       const Roofline* roofline, int threads,
                                                       Problem* problem, Patience patience);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  enum class SignalKind : uint8_t { kOne, kDifference };
  absl::Status Encode(const Setting& setting, SignalKind signal);
  absl::Status DecodeUpdate(const Setting& setting, UpdateKind update);
  // The rows of the copy and the passes, then all others.
  absl::StatusOr<std::vector<Row>> Rows();

  void set_patience(Patience patience) { patience_ = patience; }

 private:
  // In the backend's memory.
  enum ArrayIndex { kA, kB, kMomentum, kTheta, kVelocity, kGradient, kScratch, kArrays };
  enum RooflineIndex { kCopy, kPass, kReadWrite, kRooflines };

  Group(std::string backend, const KernelOps* ops, const Roofline* roofline, int threads,
        Problem* problem, Patience patience);

  Row MakeRow(const std::string& bench, const Setting* setting) const;
  // Of a period of the problem; the array gets as many as it has.
  absl::Status Upload(ArrayIndex array, const std::vector<float>& period);
  absl::StatusOr<std::vector<float>> Download(const float* from, uint64_t count) const;
  absl::Status RunRoofline(RooflineIndex index, uint64_t begin, uint64_t end);
  absl::StatusOr<bool> RooflineIsRight(RooflineIndex index);
  // Whether a decode-update's result is the generic CPU's: to the bit, or near for the reference,
  // which computes in double precision.
  absl::StatusOr<bool> UpdateIsRight(const Setting& setting, UpdateKind update);
  // Seconds of the best of the repetitions of operation(begin, end), which does these segments.
  absl::StatusOr<double> Best(const Layout& layout,
                              const std::function<absl::Status(uint32_t, uint32_t)>& operation);
  // Runs the operation, and keeps its time for piece `piece` if it is the best.
  absl::Status Time(const std::function<absl::Status()>& operation, std::vector<double>& best,
                    size_t piece);

  const std::string backend_;
  const KernelOps* const ops_;
  const Roofline* const roofline_;
  const Exec exec_;
  Problem* const problem_;
  Patience patience_;
  std::array<float*, kArrays> arrays_ = {};
  std::array<std::vector<double>, kRooflines> roofline_best_;  // by piece
  std::vector<Row> rows_;
};

}  // namespace longwave::bench

#endif  // LONGWAVE_TESTS_BENCH_KERNELS_GROUP_H_
