// The CPU backend's inner loops against the functions of common/wire that define them, in every
// instruction set of this machine.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/rng.h"
#include "common/wire/tile_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/values.h"
#include "tests/support/reference/tile_codec.h"

namespace longwave::cpu {
namespace {

struct Input {
  std::string name;
  std::vector<float> values;
};

// Values that selection and quantization find hard, n of each kind.
std::vector<Input> Inputs(uint32_t n) {
  Rng rng(n);
  const auto made = [&](const char* name, auto&& value) {
    Input input = {name, std::vector<float>(n)};
    for (uint32_t i = 0; i < n; ++i) input.values[i] = static_cast<float>(value(i));
    return input;
  };
  const auto noise = [&] { return rng.Uniform() + rng.Uniform() - 1; };
  return {
      made("random", [&](uint32_t) { return noise(); }),
      made("few magnitudes", [&](uint32_t) { return (static_cast<int>(rng.Below(7)) - 3) * 0.25; }),
      made("all equal", [](uint32_t i) { return i % 2 == 0 ? 1.5 : -1.5; }),
      made("zeros of either sign", [](uint32_t i) { return i % 3 == 0 ? -0.0 : 0.0; }),
      made("mostly zero", [&](uint32_t i) { return i % 97 == 5 ? noise() : -0.0; }),
      made("one", [&](uint32_t i) { return i == n / 2 ? -3.0 : 0.0; }),
      made("denormal", [&](uint32_t) { return noise() * 1e-42; }),
      made("about 1e-38", [&](uint32_t) { return noise() * 1e-38; }),
      made("huge", [&](uint32_t) { return noise() * 3.3e38; }),
      made("all magnitudes",
           [&](uint32_t) { return std::ldexp(noise(), static_cast<int>(rng.Below(250)) - 125); }),
      made("clustered", [&](uint32_t i) { return noise() / (1 + i % 64 + (i >> 6)); }),
      made("on the borders of levels",
           [&](uint32_t) { return (static_cast<int>(rng.Below(33)) - 16) * 0.125; })};
}

std::vector<uint32_t> Bits(const float* values, size_t n) {
  std::vector<uint32_t> bits(n);
  std::memcpy(bits.data(), values, n * sizeof(float));
  return bits;
}

class CpuTile : public testing::TestWithParam<Isa> {
 protected:
  const TileMath& math() const { return TileMathOf(GetParam()); }
  // Like momentum_, added to zeros, as select_top_k wants it.
  TileSums SumsOf(const std::vector<float>& values) {
    const auto n = static_cast<uint32_t>(values.size());
    momentum_.assign(n, 0.0f);
    const TilePlace place = {0, n, 1, n, 1, n};
    return math().accumulate({place,
                              nullptr,
                              {values.data(), nullptr, 1.0f},
                              0.0f,
                              momentum_.data(),
                              place,
                              momentum_.data()},
                             *work_);
  }
  std::vector<float> momentum_;
  const std::unique_ptr<TileWork> work_ = std::make_unique<TileWork>();
};

TEST_P(CpuTile, SelectsWhatSelectTopKDoes) {
  for (const uint32_t n : {1u, 2u, 17u, 63u, 64u, 65u, 256u, 1000u, 2048u, 4095u, 4096u}) {
    for (const Input& input : Inputs(n)) {
      for (const uint32_t k : {1u, 2u, 8u, 9u, 64u, 100u, 128u, 256u, 700u, 1023u, 3000u, n}) {
        if (k > n) continue;
        SCOPED_TRACE(input.name + ": " + std::to_string(k) + " of " + std::to_string(n));
        ASSERT_TRUE(SumsOf(input.values).finite);
        // Zero times a momentum was added: a zero of either sign may have become positive.
        ASSERT_EQ(momentum_, input.values);
        const std::vector<float> x = momentum_;
        math().select_top_k(n, k, x.data(), *work_);
        std::vector<uint16_t> wanted(k);
        SelectTopK(x, wanted);
        ASSERT_EQ(std::vector<uint16_t>(work_->indices, work_->indices + k), wanted);
        for (uint32_t i = 0; i < k; ++i) ASSERT_EQ(work_->values[i], x[wanted[i]]);
      }
    }
  }
}

TEST_P(CpuTile, QuantizesPacksAndReadsAsTheWireDoes) {
  for (const uint32_t n : {1u, 2u, 7u, 9u, 64u, 100u, 255u, 4096u}) {
    for (const Input& input : Inputs(n)) {
      for (const ValueCodec codec : {ValueCodec::kFp32, ValueCodec::kBf16, ValueCodec::kInt8,
                                     ValueCodec::kInt4, ValueCodec::kInt2, ValueCodec::kSign}) {
        SCOPED_TRACE(input.name + ", " + std::to_string(n) + " in " + std::string(Name(codec)));
        std::vector<float> values = input.values;
        std::vector<uint32_t> codes(n);
        const uint16_t scale = QuantizeTile(codec, values, codes);
        std::copy(input.values.begin(), input.values.end(), work_->values);
        ASSERT_EQ(QuantizeValues(math(), codec, n, *work_), scale);
        ASSERT_EQ(std::vector<uint32_t>(work_->codes, work_->codes + n), codes);
        ASSERT_EQ(Bits(work_->values, n), Bits(values.data(), n));

        const uint32_t sizes[] = {n};
        const PayloadLayout layout = *PayloadLayout::Create({Selection::kAll, codec, 0}, sizes);
        std::vector<std::byte> payload(layout.bytes()), packed;
        BeginPayload(layout, payload);
        packed = payload;
        WriteTile(layout, 0, {}, codes, scale, payload);
        WriteTileHead(layout, 0, {}, scale, packed);
        std::fill(packed.begin() + static_cast<ptrdiff_t>(layout.offsets(0).values), packed.end(),
                  std::byte{0xee});
        math().pack(ValueBits(codec), n, codes.data(),
                    reinterpret_cast<uint8_t*>(packed.data()) + layout.offsets(0).values);
        ASSERT_EQ(packed, payload);
        std::fill_n(work_->values, n, -1.0f);
        ReadValues(math(), layout, 0, payload, *work_);
        ASSERT_EQ(Bits(work_->values, n), Bits(values.data(), n));
      }
    }
  }
}

TEST_P(CpuTile, SumsSquaresThatFp32CouldNotHold) {
  for (const double magnitude : {1e-42, 1e-25, 1.0, 1e25, 3e38}) {
    std::vector<float> values(4096);
    double wanted = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(magnitude * std::sin(static_cast<double>(i)));
      wanted += double{values[i]} * values[i];
    }
    EXPECT_NEAR(math().square_sum(4096, values.data()) / wanted, 1, 1e-5) << magnitude;
    const TileSums sums = SumsOf(values);
    EXPECT_NEAR(sums.signal / wanted, 1, 1e-5) << magnitude;
    EXPECT_NEAR(sums.momentum / wanted, 1, 1e-5) << magnitude;
  }
}

// The encoding of a segment: three separate tiles, the last of which is padded.
struct Encoding {
  explicit Encoding(uint16_t k)
      : form(*PayloadLayout::Create({Selection::kTopK, ValueCodec::kInt2, k}, layout.TileSizes(0))),
        payload(form.bytes()),
        momentum(layout.coefficient_count(), 0.0f) {}

  void Run(Isa isa, Transform transform, const std::vector<float>& signal) {
    EncodeArgs args;
    args.layout = &layout;
    args.signal.a = signal.data();
    args.transform = transform;
    args.beta = 0.9f;
    args.momentum = momentum.data();
    args.payload_layout = &form;
    args.payload = payload;
    args.report = &report;
    ASSERT_TRUE(OpsOf(isa).encode({}, {&args, 1}).ok());
  }
  void ExpectSame(const Encoding& wanted) const {
    EXPECT_EQ(payload, wanted.payload);
    EXPECT_EQ(Bits(momentum.data(), momentum.size()),
              Bits(wanted.momentum.data(), wanted.momentum.size()));
    const auto sums = [](const EncodeReport& r) {
      return std::array{std::bit_cast<uint64_t>(r.signal_square_sum),
                        std::bit_cast<uint64_t>(r.momentum_square_sum),
                        std::bit_cast<uint64_t>(r.sent_square_sum), uint64_t{r.nonfinite_tile}};
    };
    EXPECT_EQ(sums(report), sums(wanted.report));
  }

  const Layout layout = *Layout::Create({.tensors = {{"a", {64, 180}}}}, {});
  const PayloadLayout form;
  std::vector<std::byte> payload;
  std::vector<float> momentum;
  EncodeReport report;
};

// A thread keeps the threshold of the last tile's selection, and begins there.
TEST_P(CpuTile, EncodesTheSameBitsWhateverItsThreadEncodedBefore) {
  const size_t n = Encoding(1).layout.parameter_count();
  std::vector<Input> inputs = Inputs(static_cast<uint32_t>(n));
  inputs.push_back({"not finite", std::vector<float>(n, std::numeric_limits<float>::infinity())});
  for (const uint16_t k : {8, 64, 700, 3500}) {
    for (const Transform transform : {Transform::kNone, Transform::kDct}) {
      for (const Input& input : inputs) {
        Encoding wanted(k);
        std::thread([&] { wanted.Run(GetParam(), transform, input.values); }).join();
        for (const Input& before : inputs) {
          SCOPED_TRACE(std::to_string(k) + " of " + input.name + " after " + before.name);
          Encoding first(k), got(k);
          std::thread([&] {
            first.Run(GetParam(), transform, before.values);
            got.Run(GetParam(), transform, input.values);
          }).join();
          got.ExpectSame(wanted);
          if (HasFailure()) return;
        }
      }
    }
  }
}

// The fault shows only after the tile was written.
TEST_P(CpuTile, PutsBackTheMomentumOfATileThatIsNotFinite) {
  constexpr size_t kTile = 4096;
  const float huge = std::numeric_limits<float>::max();
  for (const Transform transform : {Transform::kNone, Transform::kDct}) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), huge}) {
      Encoding encoding(64);
      const size_t n = encoding.layout.parameter_count();
      encoding.momentum = Inputs(static_cast<uint32_t>(encoding.momentum.size()))[0].values;
      const std::vector<float> before = encoding.momentum;
      std::vector<float> signal = Inputs(static_cast<uint32_t>(n))[10].values;
      // The value is in the second tile; if it is finite, the transform or the sum is not.
      for (size_t i = 0; i < 64; ++i) signal[3 * 180 + 64 + i] = bad;
      encoding.momentum[kTile + 9] = huge;
      encoding.Run(GetParam(), transform, signal);
      SCOPED_TRACE(bad);
      if (bad == huge && transform == Transform::kNone) {
        EXPECT_EQ(encoding.report.nonfinite_tile, EncodeReport::kNone);
        continue;
      }
      EXPECT_EQ(encoding.report.nonfinite_tile, 1u);
      std::vector<float> wanted = before;
      wanted[kTile + 9] = huge;
      EXPECT_EQ(Bits(&encoding.momentum[kTile], kTile), Bits(&wanted[kTile], kTile));
      EXPECT_NE(Bits(&encoding.momentum[0], kTile), Bits(&before[0], kTile));
      EXPECT_NE(Bits(&encoding.momentum[2 * kTile], kTile), Bits(&before[2 * kTile], kTile));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CpuTile, testing::ValuesIn(SupportedIsas()),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST(ParallelFor, CallsEachIndexOnceFromManyCallersAndFromItself) {
  std::vector<std::thread> callers;
  callers.reserve(4);
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([c] {
      for (uint32_t count = 0; count < 60; ++count) {
        std::vector<std::atomic<int>> calls(count * 10);
        ParallelFor(count, c + 1, [&](uint32_t i) {
          ParallelFor(10, 2, [&](uint32_t j) { calls[i * 10 + j].fetch_add(1); });
        });
        for (const auto& n : calls) ASSERT_EQ(n.load(), 1);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// A forked child has none of the helpers, and ends all the same.
TEST(ParallelFor, LetsAForkedChildExit) {
#ifdef __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "to a sanitizer, what the helpers' stacks held is leaked by the child";
#endif
#endif
  ParallelFor(64, 3, [](uint32_t) {});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) std::exit(0);
  int status = -1;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

#ifdef __SSE2__
TEST(ParallelFor, KeepsDenormalsWhateverTheCallerFlushes) {
  const unsigned kept = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(kept | 0x8040u);  // flush to zero, denormals are zero
  std::vector<float> halves(64, 0.0f);
  volatile float denormal = 1e-40f;
  ParallelFor(64, 3, [&](uint32_t i) { halves[i] = denormal * 0.5f; });
  const unsigned after = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(kept);
  EXPECT_THAT(halves, testing::Each(5e-41f));
  EXPECT_EQ(after & 0x8040u, 0x8040u) << "the caller's setting is its own";
}
#endif

}  // namespace
}  // namespace longwave::cpu
