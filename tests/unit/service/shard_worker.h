#ifndef LONGWAVE_TESTS_UNIT_SERVICE_SHARD_WORKER_H_
#define LONGWAVE_TESTS_UNIT_SERVICE_SHARD_WORKER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/config/config.h"
#include "common/layout/layout.h"
#include "common/link/link.h"
#include "common/wire/payload.h"
#include "gtest/gtest.h"

namespace longwave {

// A worker's part in tests of a shard: a run of one small matrix, and its frames.

constexpr absl::Duration kWait = absl::Seconds(60);
constexpr uint64_t kRun = 0x1234;

inline Manifest OneMatrix() { return Manifest{{{"w", {64, 64}}}}; }

// The plain average of one tile of fp32.
inline RunConfig OneRoundConfig() {
  auto config = ParseConfig(
      "run: {preset: ddp, steps: 1, workers: 1, shards: 1}\n"
      "model: {d_model: 8, layers: 1, heads: 1, context: 16}\n"
      "train: {warmup_steps: 0}\n"
      "sync: {up: {codec: fp32}, down: {codec: fp32}}\n",
      "test.yaml");
  EXPECT_TRUE(config.ok()) << config.status();
  return *std::move(config);
}

inline Layout LayoutOf(const RunConfig& config, const Manifest& manifest = OneMatrix()) {
  auto layout = Layout::Create(manifest, LayoutOptionsFor(config, manifest));
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *std::move(layout);
}

// Zeros for a segment in the configured form.
inline Buffer ZeroPayload(const RunConfig& config, const Layout& layout, uint32_t segment = 0) {
  const auto form = PayloadLayout::Create(config.sync.up, layout.TileSizes(segment));
  EXPECT_TRUE(form.ok()) << form.status();
  std::vector<std::byte> payload(form->bytes());
  BeginPayload(*form, payload);
  return Buffer(std::move(payload));
}

template <typename T>
T Header(uint64_t run, uint32_t worker) {
  T header{.run = run};
  header.worker = worker;
  if constexpr (requires { header.epoch; }) header.epoch = 1;
  if constexpr (requires { header.weight; }) header.weight = 100;
  return header;
}

// Of an answer to a hello, or to another frame; kNone: the frame is no answer.
inline Outcome OutcomeOf(const Frame& frame) {
  if (const auto* answer = std::get_if<AnswerFrame>(&frame.header)) return answer->outcome;
  const auto* const welcome = std::get_if<WelcomeFrame>(&frame.header);
  return welcome == nullptr ? Outcome::kNone : welcome->outcome;
}

inline Frame MustReceive(Dealer& dealer) {
  auto received = dealer.Receive(kWait);
  EXPECT_TRUE(received.ok() && received->has_value()) << "nothing came";
  if (!received.ok() || !received->has_value()) return {};
  return **std::move(received);
}

// Without a limit.
inline void SayHello(Dealer& from, uint64_t run, uint32_t worker) {
  EXPECT_TRUE(from.Send(Header<HelloFrame>(run, worker), Buffer()).ok());
  EXPECT_EQ(OutcomeOf(MustReceive(from)), Outcome::kAccepted);
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_SERVICE_SHARD_WORKER_H_
