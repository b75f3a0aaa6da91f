#ifndef LONGWAVE_TESTS_SIM_MERGE_ORACLE_H_
#define LONGWAVE_TESTS_SIM_MERGE_ORACLE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/layout/layout.h"
#include "common/wire/buffer.h"
#include "server/shard/merge.h"
#include "tests/sim/coefficients.h"
#include "tests/sim/settings.h"

namespace longwave::sim {

// The expected result of each segment's merges: its residual E and its parameters before each
// round, computed from the contributions alone. Contributions are whole numbers with weight 1, so
// sums are exact in any order.
//
// Dense and top k merges are computed again from the formula:
//   G = Σ q̂ / max(senders, ρ·all);   E ← E + G;   Ĝ = the largest of E (or G itself);   E ← E − Ĝ;
//   θ ← θ − Ĝ
// Quantized merges are computed by a Merger that never crashes.
class MergeOracle {
 public:
  MergeOracle(const WorldSettings& world, const Layout* layout, float start);

  // Sets the first weights of all replicas, before the first merge.
  void BeginWith(float start);

  // Computes the next round. left_out: accepted contributions without effect. Returns the fault of
  // `merged`; empty: none.
  std::string Merge(uint32_t segment, const std::vector<Buffer>& contributions,
                    const std::vector<Buffer>& left_out, const Buffer& merged);

  // Rounds merged so far.
  uint32_t rounds(uint32_t segment) const {
    return static_cast<uint32_t>(segments_[segment].theta.size() - 1);
  }
  // Parameters before the round, which is at most rounds(segment).
  const std::vector<float>& Theta(uint32_t segment, uint32_t round) const {
    return segments_[segment].theta[round];
  }

  // A shard with a lost folder has no E any more. The shard may begin again at an earlier round if
  // no living member has seen the later ones.
  void ForgetResidual(uint32_t segment);
  // keeps_residual: the shard has the E from before the round.
  void Rewind(uint32_t segment, uint32_t round, bool keeps_residual);

 private:
  struct Segment {
    std::vector<float> residual;
    std::vector<std::vector<float>> theta;  // by round
    std::vector<std::vector<float>> held;   // E before each round
  };
  std::vector<float> Mean(const std::vector<Buffer>& contributions) const;
  std::string Hold(Segment& segment, const std::vector<float>& mean,
                   const Coefficients& told) const;
  std::string MergeAgain(uint32_t index, std::vector<Buffer> contributions,
                         const std::vector<Buffer>& left_out, const Buffer& merged);

  const Method method_;
  const double rho_;
  const Layout* const layout_;
  std::unique_ptr<Merger> merger_;  // of quantized contributions
  std::vector<Segment> segments_;
};

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_MERGE_ORACLE_H_
