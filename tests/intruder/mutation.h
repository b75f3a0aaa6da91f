#ifndef LONGWAVE_TESTS_INTRUDER_MUTATION_H_
#define LONGWAVE_TESTS_INTRUDER_MUTATION_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/rng.h"
#include "common/control/control.h"
#include "google/protobuf/message.h"

namespace longwave {

// A hostile member's knowledge of the run, since numbers near the true ones do more harm.
struct Beliefs {
  bool registered = false;
  uint32_t worker = 0;
  uint64_t incarnation = 0;
  uint64_t run = 0;
  uint32_t epoch = 0;
  uint32_t first_round = kRoundNever;
  uint32_t round = 0;           // open at some shard
  uint32_t next_report = 0;     // the first round that it has not reported
  std::vector<Member> members;  // as a status shows them, honest ones included
  std::vector<ShardAddress> shards;
};

// In each text that a hostile member sends: a line that begins with it was made by its sender.
inline constexpr std::string_view kForged = "FORGED";

inline bool OneIn(Rng& rng, uint64_t count) { return rng.Below(count) == 0; }
template <typename T>
const T& OneOf(Rng& rng, const std::vector<T>& choices) {
  return choices[rng.Below(choices.size())];
}

// Numbers at which something might happen.
uint32_t Odd32(Rng& rng, const Beliefs& beliefs);
uint64_t Odd64(Rng& rng, const Beliefs& beliefs);
double OddDouble(Rng& rng);
// UTF-8 with control characters, line breaks of all kinds, forged lines; some of 100 kB.
std::string OddText(Rng& rng);

// Changes some field of the message or of one inside it.
void Mutate(google::protobuf::Message* message, Rng& rng, const Beliefs& beliefs);
// Flips, cuts off or appends some bytes.
void Damage(std::string* bytes, Rng& rng);

// The fault of a text for a terminal: control characters except line feeds (also C1 and Unicode's
// separators), marks that change the direction of writing, bytes that are not UTF-8, lines that
// begin with kForged or are longer than 16 KiB. Empty: none.
std::string FindRaw(std::string_view text);

}  // namespace longwave

#endif  // LONGWAVE_TESTS_INTRUDER_MUTATION_H_
