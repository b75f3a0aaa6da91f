#ifndef LONGWAVE_TESTS_SIM_TRACE_H_
#define LONGWAVE_TESTS_SIM_TRACE_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>

#include "absl/time/time.h"
#include "common/base/rng.h"
#include "tests/sim/scheduler.h"

namespace longwave::sim {

// A hash over all events, equal for two runs of one seed. A listener gets the events in words,
// which are made only for it.
class Trace {
 public:
  explicit Trace(const Scheduler* scheduler, std::function<void(const std::string&)> listener = {})
      : scheduler_(scheduler), listener_(std::move(listener)) {}

  // kind: a number for the kind of event; words: the values that distinguish events of one kind.
  void Add(uint64_t kind, std::initializer_list<uint64_t> words) {
    Mix(static_cast<uint64_t>(absl::ToUnixNanos(scheduler_->now())));
    Mix(kind);
    for (const uint64_t word : words) Mix(word);
  }

  bool verbose() const { return static_cast<bool>(listener_); }
  template <typename MakeText>
  void Print(MakeText make_text) {
    if (verbose()) Say(make_text());
  }

  uint64_t hash() const { return hash_; }

 private:
  void Mix(uint64_t word) { hash_ = Mix64(hash_ ^ word) + 0x9e3779b97f4a7c15u; }
  void Say(const std::string& text);

  const Scheduler* const scheduler_;
  const std::function<void(const std::string&)> listener_;
  uint64_t hash_ = 0;
};

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_TRACE_H_
