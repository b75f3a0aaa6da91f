#ifndef LONGWAVE_TESTS_UNIT_WORKER_CHECKPOINT_CHECKPOINT_TESTING_H_
#define LONGWAVE_TESTS_UNIT_WORKER_CHECKPOINT_CHECKPOINT_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "common/base/check.h"
#include "worker/checkpoint/checkpoint.h"

namespace longwave {

inline Buffer BytesOf(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (int value : values) bytes.push_back(static_cast<std::byte>(value));
  return Buffer(std::move(bytes));
}

inline CheckpointShape TestShape() {
  return {.layout_hash = 0xabcd, .coefficient_count = 7, .segment_count = 4};
}

// With parts whose lengths are no multiples of 8 and one that is empty.
inline Checkpoint TestCheckpoint() {
  return {.run = 77,
          .layout_hash = TestShape().layout_hash,
          .name = "worker-3",
          .worker = 3,
          .round = 12,
          .fragment = 1,
          .step = 390,
          .tokens = 123456,
          .seconds_computing = 1.5,
          .seconds_syncing = 0.25,
          .bytes = {.pushed = 1, .pulled = 2, .payload_pushed = 3, .payload_pulled = 4},
          .blobs = {{.name = "adamw.m", .bytes = BytesOf({1, 2, 3, 4, 5})},
                    {.name = "none", .bytes = Buffer()},
                    {.name = "powers", .bytes = BytesOf({6, 7, 8, 9, 10, 11, 12, 13})}},
          .momentum = {0, -1, 1, 0, 2, 0, -3},
          .accounted = {12, 12, 0, 7},
          .pushes = {{.segment = 1, .norm = 2.5f, .weight = 9, .payload = BytesOf({1, 2, 3})},
                     {.segment = 3, .norm = 0, .weight = 1, .payload = Buffer()}}};
}

// The bytes of its file.
inline std::vector<std::byte> FileOf(const Checkpoint& checkpoint) {
  const auto encoded = EncodeCheckpoint(checkpoint);
  LONGWAVE_CHECK(encoded.ok());
  std::vector<std::byte> file;
  for (const auto piece : encoded->pieces) file.insert(file.end(), piece.begin(), piece.end());
  LONGWAVE_CHECK(file.size() == encoded->bytes);
  return file;
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_WORKER_CHECKPOINT_CHECKPOINT_TESTING_H_
