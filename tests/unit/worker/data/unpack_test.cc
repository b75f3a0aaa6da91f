#include "worker/data/unpack.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/worker/data/packed.h"

namespace longwave {
namespace {

constexpr uint64_t kMax = 1 << 24;

// Of sizes around the decoders' steps.
std::string Text(size_t size) {
  std::string text;
  for (size_t i = 0; text.size() < size; ++i) text += std::to_string(i * i) + "\n";
  text.resize(size);
  return text;
}

TEST(Unpacked, GivesTheContentOfAllMembers) {
  for (const size_t size : {0, 1, 1000, (1 << 18) - 1, 1 << 18, (1 << 18) + 1, 1 << 20}) {
    const std::string text = Text(size);
    EXPECT_EQ(*Unpacked(text, kMax), text);
    EXPECT_EQ(*Unpacked(Gzipped(text), kMax), text) << size;
    EXPECT_EQ(*Unpacked(Zstded(text), kMax), text) << size;
    EXPECT_EQ(*Unpacked(Gzipped(text) + Gzipped("more"), kMax), text + "more") << size;
    EXPECT_EQ(*Unpacked(Zstded(text) + Zstded("more"), kMax), text + "more") << size;
  }
}

TEST(Unpacked, FindsDamageAndACutAnywhere) {
  for (const std::string& packed : {Gzipped(Text(5000)), Zstded(Text(5000))}) {
    // Of fewer bytes the form is not known.
    for (size_t size = 4; size < packed.size(); size += 13) {
      EXPECT_EQ(Unpacked(packed.substr(0, size), kMax).status().code(), absl::StatusCode::kDataLoss)
          << size;
    }
    std::string damaged = packed;
    for (size_t at = packed.size() / 2; at < packed.size() / 2 + 40; ++at) damaged[at] = '\xaa';
    EXPECT_EQ(Unpacked(damaged, kMax).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(Unpacked(packed + "behind", kMax).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST(Unpacked, EndsAtTheLimit) {
  const std::string zeros(1 << 22, '0');
  for (const std::string& packed : {Gzipped(zeros), Zstded(zeros)}) {
    EXPECT_TRUE(Unpacked(packed, zeros.size()).ok());
    EXPECT_EQ(Unpacked(packed, zeros.size() - 1).status().code(),
              absl::StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace longwave
