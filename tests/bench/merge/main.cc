// The cost of a shard's core: pushes of synthetic workers into an Aggregator of one segment of a
// million parameters, on one thread, without sockets. Per setting and instruction set:
//   Mcoef/s      the workers' coefficients per second of Step: validated, merged, encoded
//   cyc/coef     cycles of this core per coefficient
//   validate     the part of these cycles in pushes that close nothing
//   cyc/close    cycles per tile of the push that closes the segment
//   x generic    the figure relative to that of the plain instructions, in the same minute
// Each result is compared with the same rounds with the plain instructions, byte for byte.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/isa.h"
#include "common/base/rng.h"
#include "common/layout/layout.h"
#include "common/wire/payload.h"
#include "common/wire/tile_codec.h"
#include "server/shard/aggregator.h"
#include "tests/bench/clock.h"
#include "tests/support/reference/tile_codec.h"
#include "tests/support/sent_frame.h"

namespace longwave {
namespace {

constexpr uint64_t kRun = 1;

struct Setting {
  uint32_t workers;
  PayloadFormat up;
  PayloadFormat down;
};

// Processor time of this thread, which excludes other processes.
double Now() { return SecondsOf(CLOCK_THREAD_CPUTIME_ID); }

// Cycles a second of this core: a chain of additions is one cycle each.
double MeasureFrequency() {
  double best = 0;
  for (int trial = 0; trial < 5; ++trial) {
    const double begin = Now();
    uint64_t x = 1;
    constexpr int kSteps = 20'000'000;
    for (int i = 0; i < kSteps; ++i) {
#if defined(__x86_64__)
      asm volatile("add $1, %0" : "+r"(x));
#else
      asm volatile("add %0, %0, #1" : "+r"(x));
#endif
    }
    best = std::max(best, kSteps / (Now() - begin));
  }
  return best;
}

std::vector<std::byte> MakePayload(const PayloadFormat& format, const Layout& layout, Rng& rng) {
  const std::vector<uint32_t> sizes = layout.TileSizes(0);
  const auto form = PayloadLayout::Create(format, sizes);
  LONGWAVE_CHECK(form.ok());
  std::vector<std::byte> payload(form->bytes());
  BeginPayload(*form, payload);
  std::vector<float> dense(kTileSizeMax);
  for (uint32_t tile = 0; tile < sizes.size(); ++tile) {
    // Heavy tails, as those of momentum: the product of three uniform numbers.
    for (float& v : dense) {
      v = static_cast<float>((rng.Uniform() - 0.5) * rng.Uniform() * rng.Uniform());
    }
    std::vector<uint16_t> indices(form->sent_count(tile));
    SelectIndices(format.selection, std::span(dense).first(sizes[tile]), 0, indices);
    std::vector<float> sent;
    sent.reserve(indices.size());
    for (const uint16_t i : indices) sent.push_back(dense[i]);
    std::vector<uint32_t> codes(sent.size());
    const uint16_t scale = QuantizeTile(format.codec, sent, codes);
    WriteTile(*form, tile, indices, codes, scale, payload);
  }
  return payload;
}

struct Times {
  double pushes_s = 0;  // of Steps that close nothing
  double closes_s = 0;
  uint64_t rounds = 0;
};

// Rounds on the given pushes; the merged payloads of the first `kept` ones are appended.
Times Drive(const Setting& setting, const Layout& layout, const std::vector<Buffer>& payloads,
            uint32_t rounds, std::vector<Buffer>* merged, size_t kept) {
  AggregatorOptions options;
  options.run = kRun;
  options.up = setting.up;
  options.rho = 0.25;
  options.down = setting.down;
  auto aggregator = Aggregator::Create(options, layout);
  LONGWAVE_CHECK(aggregator.ok());
  Membership membership{1, {}};
  for (uint32_t w = 0; w < setting.workers; ++w) membership.members.push_back({w, "", 0});
  aggregator->Step(MembershipChanged{membership}, absl::UnixEpoch());

  Times times;
  for (uint32_t round = 0; round < rounds; ++round) {
    double begin = Now();
    for (uint32_t w = 0; w < setting.workers; ++w) {
      PushFrame header;
      header.run = kRun;
      header.round = round;
      header.worker = w;
      header.weight = 61440;
      const bool closes = w + 1 == setting.workers;
      if (closes) times.pushes_s += Now() - begin;
      if (closes) begin = Now();
      const auto effects = aggregator->Step(PushArrived{header, payloads[w]}, absl::UnixEpoch());
      if (closes) {
        times.closes_s += Now() - begin;
        LONGWAVE_CHECK(effects.size() == 2);
        if (merged->size() < kept) merged->push_back(Sent<MergedFrame>(effects[1]).payload);
      }
    }
    ++times.rounds;
  }
  return times;
}

bool Measure(const Setting& setting, double frequency, bool quick) {
  const uint32_t tiles = quick ? 8 : 256;
  const auto layout = Layout::Create({{{"w", {64, int64_t{64} * tiles}}}}, {});
  LONGWAVE_CHECK(layout.ok());
  Rng rng(setting.workers);
  std::vector<Buffer> payloads;
  for (uint32_t w = 0; w < setting.workers; ++w) {
    payloads.emplace_back(MakePayload(setting.up, *layout, rng));
  }
  constexpr size_t kKept = 3;
  const uint64_t sent = uint64_t{setting.workers} * tiles * SentCount(setting.up, kTileSizeMax);
  // Some quarter of a second's worth at 400 M coefficients/s.
  const auto rounds = static_cast<uint32_t>(quick ? kKept : 5 + 100'000'000 / sent);
  const double pushes = static_cast<double>(setting.workers - 1) / setting.workers;
  std::vector<Buffer> wanted;
  double generic_per_second = 0;
  bool equal = true;
  for (const Isa isa : SupportedIsas()) {
    const ScopedIsa scope(isa);
    std::vector<Buffer> merged;
    const Times times = Drive(setting, *layout, payloads, rounds, &merged, kKept);
    if (isa == Isa::kGeneric) wanted = merged;
    bool same = true;
    for (size_t i = 0; i < kKept; ++i) {
      same = same && std::ranges::equal(merged[i].bytes(), wanted[i].bytes());
    }
    const double coefficients = static_cast<double>(sent) * static_cast<double>(times.rounds);
    const double seconds = times.pushes_s + times.closes_s;
    const double per_second = coefficients / seconds;
    if (isa == Isa::kGeneric) generic_per_second = per_second;
    std::printf("%4u, %-16s, %-16s, %-7s, %8.1f, %6.2f, %6.2f, %9.0f, %9.2f, %s\n", setting.workers,
                Describe(setting.up).c_str(), Describe(setting.down).c_str(),
                std::string(Name(isa)).c_str(), per_second / 1e6,
                seconds * frequency / coefficients,
                times.pushes_s * frequency / (coefficients * pushes),
                times.closes_s * frequency / static_cast<double>(times.rounds * tiles),
                per_second / generic_per_second, same ? "equal" : "DIFFERS");
    std::fflush(stdout);
    equal = equal && same;
  }
  return equal;
}

int Main(bool quick, uint32_t only) {
  const double frequency = MeasureFrequency();
  std::printf("# one core at %.2f GHz; tiles of 4096\n", frequency / 1e9);
  std::printf(
      "workers, up, down, isa, Mcoef/s, cyc/coef, validate, cyc/close, x generic, result\n");
  constexpr PayloadFormat kDown{Selection::kTopK, ValueCodec::kInt2, 256};
  constexpr PayloadFormat kDense{Selection::kAll, ValueCodec::kFp32, 0};
  std::vector<Setting> settings;
  for (const uint32_t workers : {2u, 8u, 64u, 512u}) {
    settings.push_back({workers, {Selection::kTopK, ValueCodec::kSign, 64}, kDown});
  }
  for (const ValueCodec codec : {ValueCodec::kInt2, ValueCodec::kInt8, ValueCodec::kFp32}) {
    settings.push_back({8, {Selection::kTopK, codec, 64}, kDown});
    settings.push_back({64, {Selection::kTopK, codec, 64}, kDown});
  }
  settings.push_back({8, kDense, kDense});
  bool equal = true;
  for (const Setting& setting : settings) {
    if (quick && setting.workers > 8) continue;
    if (only > 0 && setting.workers != only) continue;
    equal = Measure(setting, frequency, quick) && equal;
  }
  return equal ? 0 : 1;
}

}  // namespace
}  // namespace longwave

// bench_merge [--quick | WORKERS]: few rounds, or the settings of so many workers alone.
int main(int argc, char** argv) {
  const bool quick = argc == 2 && std::string_view(argv[1]) == "--quick";
  const long only = argc == 2 && !quick ? std::strtol(argv[1], nullptr, 10) : 0;
  if (argc > 2 || only < 0 || (argc == 2 && !quick && only == 0)) {
    std::fprintf(stderr, "usage: %s [--quick | WORKERS]\n", argv[0]);
    return 2;
  }
  return longwave::Main(quick, static_cast<uint32_t>(only));
}
