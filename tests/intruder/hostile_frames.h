#ifndef LONGWAVE_TESTS_INTRUDER_HOSTILE_FRAMES_H_
#define LONGWAVE_TESTS_INTRUDER_HOSTILE_FRAMES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "common/link/link.h"
#include "tests/intruder/guest.h"
#include "tests/intruder/mutation.h"
#include "tests/intruder/raw_dealer.h"

namespace longwave {

// Arbitrary frames of a guest to every shard: all kinds, right except for a field or two and sealed
// with correct CRCs; payloads of every codec, also damaged; false heads; parts that are no frames;
// and bytes that are not ZeroMQ's protocol. Some of its connections never read.
class HostileFrames {
 public:
  // All parameters outlive this object.
  HostileFrames(const Guest* guest, Beliefs* beliefs, Rng* rng);

  // Sends one message, and takes in the received ones.
  void Act();

  // Counts of sent messages and of their answers: "sent push", "push accepted".
  const std::map<std::string, uint64_t>& counts() const { return counts_; }

 private:
  struct Line {
    uint32_t shard = 0;
    bool reads = true;
    std::unique_ptr<Dealer> dealer;
  };

  Line* SomeLine();
  void ReceiveAll(Line& line);
  void SendFrame(Line& line);
  void SendRound(Line& line);  // a push to each segment of the shard, of its open round
  void SendParts(Line& line);
  void SendStrangeBytes(const Line& line);
  // A right one by all that is believed.
  FrameHeader Header(FrameKind kind, uint32_t segment) const;
  void Mutate(std::span<std::byte, kFrameHeaderBytes> head);
  Buffer Payload(uint32_t segment, float* norm);
  Buffer Snapshot(uint32_t segment);
  // Changes so many fields of the header, under right checksums.
  void Send(Line& line, const FrameHeader& header, Buffer payload, uint64_t mutations = 0);
  uint32_t SegmentOf(uint32_t shard);

  const Guest* const guest_;
  Beliefs* const beliefs_;
  Rng* const rng_;
  std::vector<Line> lines_;
  std::map<uint32_t, std::unique_ptr<RawDealer>> raw_;  // by shard
  std::vector<uint32_t> open_rounds_;                   // by segment
  std::map<std::string, uint64_t> counts_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_INTRUDER_HOSTILE_FRAMES_H_
