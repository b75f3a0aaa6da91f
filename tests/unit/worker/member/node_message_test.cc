#include "worker/member/node_message.h"

#include <gtest/gtest.h>

#include <string>

namespace longwave {
namespace {

NodeMessage Full() {
  NodeMessage message;
  message.meeting = NodeMessage::Meeting::kEvents;
  message.status = absl::DataLossError("a NaN");
  message.stop_requested = true;
  message.newest_open_round = 7;
  message.bytes = {.pushed = 1, .pulled = 2, .payload_pushed = 3, .payload_pulled = 4};
  message.settled = {
      {.round = 3, .segment = 2, .merged = Buffer(), .fate = Fate::kLate, .compacted = true}};
  using enum FetchEvent::Kind;
  message.fetched = {{.kind = kSnapshot, .segment = 1, .round = 4},
                     {.kind = kUpdate, .segment = 1, .round = 5},
                     {.kind = kUpToDate, .segment = 1, .round = 6},
                     {.kind = kRefused, .segment = 8, .round = 1, .reason = "compacted"}};
  message.hashes = {11, 12};
  message.tokens = 64;
  message.loss = 2.5;
  message.figures = {1, 0.5};
  message.warnings = {"no seed"};
  message.now = absl::UnixEpoch() + absl::Seconds(5);
  message.directive = {.epoch = 3,
                       .first_round = 2,
                       .validates = true,
                       .repair = Repair{.round = 1, .segments = {4, 5}},
                       .sealing_round = 6};
  message.ended = absl::AbortedError("lost");
  message.endpoints = {{"tcp://a:1", "tcp://b:2"}};
  message.run = 77;
  message.public_key = "public";
  return message;
}

TEST(NodeMessage, SurvivesTheWay) {
  const std::string bytes = Encode(Full());
  const absl::StatusOr<NodeMessage> decoded = DecodeNodeMessage(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(Encode(*decoded), bytes);
  EXPECT_EQ(decoded->status, Full().status);
  EXPECT_EQ(decoded->settled[0].fate, Fate::kLate);
  EXPECT_EQ(decoded->fetched[0].kind, FetchEvent::Kind::kSnapshot);
  EXPECT_EQ(decoded->fetched[3].reason, "compacted");
  EXPECT_EQ(decoded->directive.repair, Full().directive.repair);
  EXPECT_EQ(decoded->ended, Full().ended);
  EXPECT_EQ(decoded->endpoints, Full().endpoints);
  EXPECT_EQ(decoded->figures, Full().figures);
  EXPECT_EQ(decoded->warnings, Full().warnings);
  EXPECT_EQ(decoded->now, Full().now);
}

TEST(NodeMessage, APartOfOneIsRefused) {
  const std::string bytes = Encode(Full());
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(DecodeNodeMessage(bytes.substr(0, size)).ok()) << size;
  EXPECT_FALSE(DecodeNodeMessage(bytes + '\0').ok());
}

}  // namespace
}  // namespace longwave
