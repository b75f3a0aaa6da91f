// Valid inputs of the wire's fuzz targets.

#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/wire/crc32c.h"
#include "common/wire/frame.h"
#include "common/wire/snapshot_payload.h"
#include "tests/fuzz/payload_input.h"
#include "tests/fuzz/seeds.h"
#include "tests/unit/wire/wire_testing.h"

namespace longwave {
namespace {

bool WriteFrames(const std::filesystem::path& folder) {
  constexpr uint64_t kRun = 0x0123456789abcdef;
  const std::pair<const char*, FrameHeader> kinds[] = {
      {"hello",
       HelloFrame{.run = kRun, .connection = 1, .frames_sent = 17, .worker = 3, .node = {1, 4}}},
      {"welcome", WelcomeFrame{.run = kRun, .frames_sent = 17, .worker = 3, .incarnation = 7}},
      {"push",
       PushFrame{.run = kRun, .epoch = 1, .round = 17, .worker = 3, .segment = 2, .weight = 61440}},
      {"answer",
       AnswerFrame{
           .outcome = Outcome::kRejected, .run = kRun, .epoch = 1, .round = 17, .worker = 3}},
      {"duplicate",
       AnswerFrame{.outcome = Outcome::kDuplicate, .run = kRun, .open_round = 18, .held_crc = 9}},
      {"merged", MergedFrame{.run = kRun, .epoch = 1, .norm = 0.5f, .contributions = 4}},
      {"pull", PullFrame{.run = kRun, .epoch = 1, .round = 17, .worker = 3, .segment = 2}},
      {"fetch", FetchFrame{.run = kRun, .round = 17, .worker = 3, .segment = 2}},
      {"snapshot", SnapshotFrame{.run = kRun, .round = 17, .worker = 3, .segment = 2}},
      {"request",
       RequestFrame{.run = kRun, .epoch = 1, .round = 17, .worker = 3, .open_round = 16}},
  };
  bool good = true;
  for (const auto& [name, kind] : kinds) {
    for (const bool with_payload : {false, true}) {
      std::vector<std::byte> payload;
      if (with_payload) payload = Bytes({'w', 'h', 'y'});
      FrameHeader header = kind;
      if (!SetPayload(payload, header).ok()) continue;
      std::array<std::byte, kFrameHeaderBytes> head;
      EncodeFrameHeader(header, head);
      std::vector<std::byte> frame(head.begin(), head.end());
      frame.insert(frame.end(), payload.begin(), payload.end());
      good &= WriteSeed(folder / (std::string("seed-") + name + (with_payload ? "-payload" : "")),
                        frame);
    }
  }
  return good;
}

bool WritePayloads(const std::filesystem::path& folder) {
  // Tiles of one size; many sizes, a full one among them.
  constexpr std::array<std::array<uint8_t, 2>, 2> kTilings = {{{2, 0}, {7, 0x10}}};
  bool good = true;
  for (int selection = 0; selection <= 3; ++selection) {
    for (int codec = 0; codec <= 5; ++codec) {
      for (size_t t = 0; t < kTilings.size(); ++t) {
        const auto [count, pick] = kTilings[t];
        const auto value_codec = static_cast<ValueCodec>(codec);
        // A full tile in wide values would be most of the corpus, without new cases.
        if (selection == 0 && t == 1 && ValueBits(value_codec) > 2) continue;
        const PayloadLayout layout = LayoutOf(static_cast<Selection>(selection), value_codec,
                                              selection == 0 ? 0 : 9, TileSizesOf(count, pick));
        std::vector<std::byte> input = Bytes({count, pick});
        const std::vector<std::byte> payload =
            BuildRandomPayload(layout, 1.0f, 1000 + static_cast<uint64_t>(codec)).bytes;
        input.insert(input.end(), payload.begin(), payload.end());
        good &= WriteSeed(folder / ("seed-" + std::string(Name(layout.format().selection)) + "-" +
                                    std::string(Name(value_codec)) + "-" + std::to_string(t)),
                          input);
      }
    }
  }
  return good;
}

bool WriteSnapshotPayloads(const std::filesystem::path& folder) {
  bool good = true;
  for (const size_t count : {1, 2}) {
    for (const size_t elements : {1, 64, 600}) {
      Rng rng(elements);
      const std::vector<float> values = RandomValues(elements, 0.02f, rng);
      const std::vector<std::span<const float>> arrays(count, values);
      std::vector<std::byte> input =
          Bytes({static_cast<int>(count) - 1, static_cast<int>(elements & 255),
                 static_cast<int>(elements >> 8)});
      const Buffer payload = EncodeSnapshotPayload(arrays);
      input.insert(input.end(), payload.bytes().begin(), payload.bytes().end());
      good &= WriteSeed(folder / ("seed-" + std::to_string(count) + "-" + std::to_string(elements)),
                        input);
    }
  }
  return good;
}

}  // namespace

bool WriteWireSeeds(const std::filesystem::path& corpora) {
  return WriteFrames(corpora / "frame_decode_fuzz") &&
         WritePayloads(corpora / "payload_decode_fuzz") &&
         WriteSnapshotPayloads(corpora / "snapshot_payload_fuzz");
}

}  // namespace longwave
