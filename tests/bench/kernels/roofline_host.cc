#include <algorithm>
#include <barrier>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/bench/kernels/roofline.h"

namespace longwave::bench {
namespace {

// Threads that are there before the clock starts: each takes one contiguous part of the arrays.
class Team {
 public:
  explicit Team(int size) : size_(size), barrier_(size) {
    for (int i = 1; i < size; ++i) threads_.emplace_back([this, i] { Serve(i); });
  }
  ~Team() {
    body_ = nullptr;
    barrier_.arrive_and_wait();
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  static Team& Of(int size) {
    static std::unique_ptr<Team> team;
    if (team == nullptr || team->size_ != size) team = std::make_unique<Team>(size);
    return *team;
  }

  // body(begin, end) over parts of 0 … n in multiples of a cache line.
  void Split(uint64_t n, const std::function<void(uint64_t, uint64_t)>& body) {
    if (size_ == 1) return body(0, n);
    n_ = n;
    body_ = &body;
    barrier_.arrive_and_wait();
    Part(0);
    barrier_.arrive_and_wait();
  }

 private:
  void Part(int index) {
    const uint64_t step = (n_ / static_cast<uint64_t>(size_) + 15) / 16 * 16;
    const uint64_t begin = std::min(n_, step * static_cast<uint64_t>(index));
    (*body_)(begin, index + 1 == size_ ? n_ : std::min(n_, begin + step));
  }
  void Serve(int index) {
    while (true) {
      barrier_.arrive_and_wait();
      if (body_ == nullptr) return;
      Part(index);
      barrier_.arrive_and_wait();
    }
  }

  const int size_;
  std::barrier<> barrier_;
  uint64_t n_ = 0;
  const std::function<void(uint64_t, uint64_t)>* body_ = nullptr;
  std::vector<std::jthread> threads_;  // last: joined first
};

[[gnu::always_inline]] inline void PassLoop(float* __restrict m, const float* __restrict g, float b,
                                            uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) m[i] = b * m[i] + g[i];
}
[[gnu::always_inline]] inline void ScaleLoop(float* x, float c, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) x[i] = c * x[i];
}

void PassPlain(float* m, const float* g, float b, uint64_t n) { PassLoop(m, g, b, n); }
void ScalePlain(float* x, float c, uint64_t n) { ScaleLoop(x, c, n); }

// Wider vectors than AVX2's gain nothing here: the memory is the limit.
#ifdef __x86_64__
[[gnu::target("avx2,fma")]] void PassAvx2(float* m, const float* g, float b, uint64_t n) {
  PassLoop(m, g, b, n);
}
[[gnu::target("avx2,fma")]] void ScaleAvx2(float* x, float c, uint64_t n) { ScaleLoop(x, c, n); }
const bool kHasAvx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
const auto kPass = kHasAvx2 ? PassAvx2 : PassPlain;
const auto kScale = kHasAvx2 ? ScaleAvx2 : ScalePlain;
#else
const auto kPass = PassPlain;
const auto kScale = ScalePlain;
#endif

absl::Status Copy(const Exec& exec, float* to, const float* from, uint64_t n) {
  Team::Of(exec.threads).Split(n, [=](uint64_t begin, uint64_t end) {
    std::memcpy(to + begin, from + begin, (end - begin) * sizeof(float));
  });
  return absl::OkStatus();
}

absl::Status Pass(const Exec& exec, float* m, const float* g, float b, uint64_t n) {
  Team::Of(exec.threads).Split(n, [=](uint64_t begin, uint64_t end) {
    kPass(m + begin, g + begin, b, end - begin);
  });
  return absl::OkStatus();
}

absl::Status ReadWrite(const Exec& exec, float* x, float c, uint64_t n) {
  Team::Of(exec.threads).Split(n, [=](uint64_t begin, uint64_t end) {
    kScale(x + begin, c, end - begin);
  });
  return absl::OkStatus();
}

}  // namespace

const Roofline& HostRoofline() {
  static constexpr Roofline kRoofline = {.copy = Copy, .pass = Pass, .read_write = ReadWrite};
  return kRoofline;
}

}  // namespace longwave::bench
