#ifndef LONGWAVE_SERVER_COORDINATOR_EQUAL_LOSSES_H_
#define LONGWAVE_SERVER_COORDINATOR_EQUAL_LOSSES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace longwave {

// Finds workers that train on the same data: their training losses are equal to the bit, round
// after round. Replicas begin a round equal, so equal rows in the same order give equal losses.
class EqualLosses {
 public:
  // Rounds in a row. Losses that do not change from round to round prove nothing: they are constant
  // for another reason.
  static constexpr size_t kRounds = 3;

  // Takes in a finished round's losses by worker, without workers that have none. Returns each
  // group of workers that have had equal losses in the last kRounds rounds and of which one is new.
  std::vector<std::vector<uint32_t>> Take(const std::map<uint32_t, double>& losses);

 private:
  std::map<uint32_t, std::vector<double>> recent_;  // at most kRounds, the latest last
  std::set<uint32_t> found_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_COORDINATOR_EQUAL_LOSSES_H_
