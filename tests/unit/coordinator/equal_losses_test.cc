#include "server/coordinator/equal_losses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Groups = std::vector<std::vector<uint32_t>>;

TEST(EqualLosses, FindsEachGroupAfterThreeRoundsAndOnce) {
  EqualLosses watch;
  for (int round = 0; round < 9; ++round) {
    const double loss = 3 - 0.1 * round;
    const Groups found =
        watch.Take({{0, loss}, {1, loss + 1}, {2, loss}, {3, loss + 1}, {4, loss + 2}});
    EXPECT_EQ(found, round == 2 ? Groups({{0, 2}, {1, 3}}) : Groups()) << round;
  }
}

TEST(EqualLosses, OfThreeRoundsAllMustBeEqualToTheBit) {
  EqualLosses watch;
  for (int round = 0; round < 30; ++round) {
    const double loss = 3 - 0.1 * round;
    const double other = round % 3 == 0 ? loss * (1 + 1e-15) : loss;
    EXPECT_THAT(watch.Take({{0, loss}, {1, other}}), IsEmpty()) << round;
  }
}

// A loop that always passes the same number, or a task that is solved.
TEST(EqualLosses, LossesThatDoNotChangeProveNothing) {
  EqualLosses watch;
  for (int round = 0; round < 9; ++round)
    EXPECT_THAT(watch.Take({{0, 0.0}, {1, 0.0}}), IsEmpty()) << round;
}

TEST(EqualLosses, AWorkerThatMissedARoundBeginsAnew) {
  EqualLosses watch;
  for (int round = 0; round < 12; ++round) {
    const double loss = 3 - 0.1 * round;
    std::map<uint32_t, double> losses = {{0, loss}, {1, loss}};
    if (round % 3 == 2) losses.erase(1);
    EXPECT_THAT(watch.Take(losses), IsEmpty()) << round;
  }
  EXPECT_THAT(watch.Take({{0, 1.5}, {1, 1.5}}), IsEmpty());
  EXPECT_THAT(watch.Take({{0, 1.4}, {1, 1.4}}), IsEmpty());
  EXPECT_THAT(watch.Take({{0, 1.3}, {1, 1.3}}), ElementsAre(ElementsAre(0, 1)));
  for (const double loss : {1.2, 1.1}) EXPECT_THAT(watch.Take({{0, loss}, {2, loss}}), IsEmpty());
  EXPECT_THAT(watch.Take({{0, 1.0}, {2, 1.0}}), ElementsAre(ElementsAre(0, 2))) << "2 is new";
}

}  // namespace
}  // namespace longwave
