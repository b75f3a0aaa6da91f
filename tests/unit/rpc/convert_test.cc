#include "common/rpc/convert.h"

#include <cmath>
#include <limits>
#include <string>

#include "common/wire/frame.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace longwave {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::Reflection;
using ::testing::HasSubstr;

constexpr int kSegmentsMax = 1 << 20;  // where limits.proto names no other
constexpr int kMembersMax = 1 << 16, kRoundsMax = 1 << 14, kTensorRankMax = 16;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Sets every field of a message, each to a value of its own; repeated ones get two elements. So a
// field that a conversion forgets shows, also one that is added to the proto later.
class Filler {
 public:
  void Fill(Message* message) {
    const auto* const descriptor = message->GetDescriptor();
    for (int i = 0; i < descriptor->field_count(); ++i) {
      const FieldDescriptor* const field = descriptor->field(i);
      const int times = field->is_repeated() ? 2 : 1;
      for (int n = 0; n < times; ++n) Set(message, field);
    }
    if (auto* const manifest = dynamic_cast<v1::Manifest*>(message)) SetHash(manifest);
  }

 private:
  void Set(Message* message, const FieldDescriptor* field) {
    const Reflection& reflection = *message->GetReflection();
    ++next_;
    const auto set = [&](auto setter, auto adder, auto value) {
      if (field->is_repeated()) {
        (reflection.*adder)(message, field, value);
      } else {
        (reflection.*setter)(message, field, value);
      }
    };
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_UINT32:
        return set(&Reflection::SetUInt32, &Reflection::AddUInt32, uint32_t{next_});
      case FieldDescriptor::CPPTYPE_UINT64:
        return set(&Reflection::SetUInt64, &Reflection::AddUInt64, uint64_t{next_} << 33);
      case FieldDescriptor::CPPTYPE_INT64:
        return set(&Reflection::SetInt64, &Reflection::AddInt64, int64_t{next_});
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return set(&Reflection::SetDouble, &Reflection::AddDouble, next_ + 0.25);
      case FieldDescriptor::CPPTYPE_BOOL:
        return set(&Reflection::SetBool, &Reflection::AddBool, true);
      case FieldDescriptor::CPPTYPE_STRING:
        // The only bytes fields are public keys of 32 bytes.
        return set(&Reflection::SetString, &Reflection::AddString,
                   field->type() == FieldDescriptor::TYPE_BYTES
                       ? std::string(32, static_cast<char>(next_))
                       : "text " + std::to_string(next_));
      case FieldDescriptor::CPPTYPE_ENUM:
        return set(&Reflection::SetEnumValue, &Reflection::AddEnumValue, 2);
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return Fill(field->is_repeated() ? reflection.AddMessage(message, field)
                                         : reflection.MutableMessage(message, field));
      default:
        ADD_FAILURE() << "a field of a type that no proto of ours has: " << field->full_name();
    }
  }

  // The one field that follows from others.
  static void SetHash(v1::Manifest* manifest) {
    Manifest value;
    for (const v1::TensorSpec& tensor : manifest->tensors()) {
      value.tensors.push_back({tensor.name(), {tensor.shape().begin(), tensor.shape().end()}});
    }
    manifest->set_hash(HashOf(value));
  }

  uint32_t next_ = 0;
};

template <typename MessageType>
class RoundTrip : public ::testing::Test {};
using Messages =
    ::testing::Types<v1::Manifest, v1::RegisterWorkerRequest, v1::RegisterShardRequest,
                     v1::RegisterShardResponse, v1::WorkerHeartbeatRequest,
                     v1::WorkerHeartbeatResponse, v1::ShardHeartbeatRequest,
                     v1::ShardHeartbeatResponse, v1::GetStatusResponse, v1::GetShardStatusResponse,
                     v1::ListTokensResponse, v1::ExpelResponse>;
TYPED_TEST_SUITE(RoundTrip, Messages);

TYPED_TEST(RoundTrip, KeepsEveryField) {
  TypeParam message;
  Filler().Fill(&message);
  const auto value = FromProto(message);
  ASSERT_TRUE(value.ok()) << value.status();
  const auto again = WriteMessage<TypeParam>(*value);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(message, again))
      << "before:\n"
      << message.DebugString() << "after:\n"
      << again.DebugString();
}

template <typename MessageType>
MessageType Filled() {
  MessageType message;
  Filler().Fill(&message);
  return message;
}

template <typename MessageType>
void ExpectRefused(const MessageType& message, const char* why) {
  const auto value = FromProto(message);
  EXPECT_EQ(value.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(value.status().message()), HasSubstr(why));
}

TEST(FromProto, LeavesOptionalFieldsUnset) {
  auto heartbeat = Filled<v1::WorkerHeartbeatRequest>();
  heartbeat.clear_final();
  heartbeat.mutable_rounds(0)->clear_validation_loss();
  const auto value = FromProto(heartbeat);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_FALSE(value->final.has_value());
  EXPECT_FALSE(value->rounds[0].validation_loss.has_value());
  EXPECT_TRUE(value->rounds[1].validation_loss.has_value());

  auto reply = Filled<v1::ShardHeartbeatResponse>();
  reply.clear_membership();
  reply.clear_manifest();
  const auto shard_reply = FromProto(reply);
  ASSERT_TRUE(shard_reply.ok());
  EXPECT_FALSE(shard_reply->membership.has_value());
  EXPECT_FALSE(shard_reply->manifest.has_value());
}

TEST(FromProto, KeepsALossThatIsNotANumber) {
  auto heartbeat = Filled<v1::WorkerHeartbeatRequest>();
  heartbeat.mutable_state()->set_train_loss(kNaN);
  const auto value = FromProto(heartbeat);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_TRUE(std::isnan(value->state.train_loss.value_or(0)));
}

TEST(FromProto, RefusesDurationsThatAreNone) {
  auto heartbeat = Filled<v1::WorkerHeartbeatRequest>();
  heartbeat.mutable_state()->set_seconds_computing(kNaN);
  ExpectRefused(heartbeat, "seconds_computing: got nan");
  heartbeat = Filled<v1::WorkerHeartbeatRequest>();
  heartbeat.mutable_rounds(1)->set_seconds_syncing(-1);
  ExpectRefused(heartbeat, "seconds_syncing: got -1");
  auto status = Filled<v1::GetStatusResponse>();
  status.mutable_records(0)->set_tokens_per_second(std::numeric_limits<double>::infinity());
  ExpectRefused(status, "tokens_per_second: got inf");
}

TEST(FromProto, RefusesUnknownEnums) {
  auto heartbeat = Filled<v1::WorkerHeartbeatRequest>();
  heartbeat.mutable_state()->set_phase(static_cast<v1::WorkerPhase>(10));
  ExpectRefused(heartbeat, "phase: got 10, wanted 1 to 6");
  heartbeat.mutable_state()->clear_phase();
  ExpectRefused(heartbeat, "phase: got 0");
  auto reply = Filled<v1::ShardHeartbeatResponse>();
  reply.set_instruction(static_cast<v1::Instruction>(3));
  ExpectRefused(reply, "instruction: got 3");
  auto status = Filled<v1::GetStatusResponse>();
  status.set_phase(static_cast<v1::RunPhase>(-1));
  ExpectRefused(status, "phase: got -1");
}

TEST(FromProto, OnlyTheCoordinatorSaysThatAWorkerIsLostJoinsOrWasExpelled) {
  auto heartbeat = Filled<v1::WorkerHeartbeatRequest>();
  heartbeat.mutable_state()->set_phase(v1::WORKER_PHASE_LOST);
  ExpectRefused(heartbeat, "phase: got 7, wanted 1 to 6");
  heartbeat.mutable_state()->set_phase(v1::WORKER_PHASE_JOINING);
  ExpectRefused(heartbeat, "phase: got 8, wanted 1 to 6");
  heartbeat.mutable_state()->set_phase(v1::WORKER_PHASE_EXPELLED);
  ExpectRefused(heartbeat, "phase: got 9, wanted 1 to 6");
  auto status = Filled<v1::GetStatusResponse>();
  for (const WorkerPhase phase :
       {WorkerPhase::kLost, WorkerPhase::kJoining, WorkerPhase::kExpelled}) {
    status.mutable_members(0)->mutable_state()->set_phase(static_cast<v1::WorkerPhase>(phase));
    const auto value = FromProto(status);
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(value->members[0].state.phase, phase);
  }
}

TEST(FromProto, AWorkerThatNamesNoReadyRoundHasNone) {
  auto heartbeat = Filled<v1::WorkerHeartbeatRequest>();
  heartbeat.set_ready_round(0);
  EXPECT_EQ(FromProto(heartbeat)->ready_round, 0u);
  heartbeat.clear_ready_round();
  EXPECT_EQ(FromProto(heartbeat)->ready_round, std::nullopt);
  EXPECT_FALSE(WriteMessage<v1::WorkerHeartbeatRequest>(WorkerHeartbeat{}).has_ready_round());
}

// Traffic is converted by numbers, the other records by names.
TEST(WriteMessage, CountsEachKindOfFrameUnderItsName) {
  ShardReport report;
  const FrameKind kinds[] = {FrameKind::kHello,    FrameKind::kPush,   FrameKind::kAnswer,
                             FrameKind::kMerged,   FrameKind::kPull,   FrameKind::kFetch,
                             FrameKind::kSnapshot, FrameKind::kRequest};
  for (uint64_t i = 0; i < std::size(kinds); ++i) report.traffic.sent[kinds[i]].frames = i + 1;
  const auto message = WriteMessage<v1::GetShardStatusResponse>(report);
  const v1::TrafficByKind& sent = message.traffic().sent();
  const std::vector<uint64_t> frames = {sent.hello().frames(),    sent.push().frames(),
                                        sent.answer().frames(),   sent.merged().frames(),
                                        sent.pull().frames(),     sent.fetch().frames(),
                                        sent.snapshot().frames(), sent.request().frames()};
  EXPECT_THAT(frames, ::testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(WriteMessage, ClipsAndMendsSentences) {
  WorkerHeartbeat heartbeat;
  heartbeat.failure = "a path \xff" + std::string(1 << 20, 'x');
  heartbeat.final = FinalReport{.model_file = "runs/\xff/model"};
  const auto message = WriteMessage<v1::WorkerHeartbeatRequest>(heartbeat);
  EXPECT_EQ(message.failure().size(), static_cast<size_t>(v1::SENTENCE));
  EXPECT_THAT(message.failure(), ::testing::StartsWith("a path ?xx"));
  EXPECT_EQ(message.final().model_file(), "runs/?/model");
  v1::WorkerHeartbeatRequest received;
  EXPECT_TRUE(received.ParseFromString(message.SerializeAsString()));
}

TEST(FromProto, RefusesNamesAndAddressesThatATerminalWouldObey) {
  for (const char* const name : {"a\nb", "\x1b[2J", "a\x7f", "a\r"}) {
    v1::JoinRequest join;
    join.set_worker(name);
    ExpectRefused(join, "without control characters");
    v1::CreateTokenRequest token;
    token.set_worker(name);
    ExpectRefused(token, "without control characters");
  }
  v1::JoinRequest plain;
  plain.set_worker("a plain näme");
  EXPECT_TRUE(FromProto(plain).ok());
  const std::string control = "a\x1b[2J", turned = "a\xe2\x80\xae";
  auto worker = Filled<v1::RegisterWorkerRequest>();
  worker.set_name(control);
  ExpectRefused(worker, "name: got a\\x1b[2J, wanted one without control characters");
  worker.set_name(turned);
  ExpectRefused(worker, "name: got a\\xe2\\x80\\xae, wanted one without control characters");
  auto shard = Filled<v1::RegisterShardRequest>();
  shard.set_data_endpoint("tcp://h:1\nerror: forged");
  ExpectRefused(
      shard, "data_endpoint: got tcp://h:1\\nerror: forged, wanted one without control characters");
  shard = Filled<v1::RegisterShardRequest>();
  shard.set_control_endpoint(control);
  ExpectRefused(shard, "control_endpoint: got a\\x1b[2J");
}

TEST(FromProto, RefusesSentencesThatFillALog) {
  const std::string much(v1::SENTENCE + 1, 'x');
  auto heartbeat = Filled<v1::WorkerHeartbeatRequest>();
  heartbeat.set_failure(much);
  ExpectRefused(heartbeat, "failure: got 2049 bytes, wanted at most 2048");
  heartbeat = Filled<v1::WorkerHeartbeatRequest>();
  heartbeat.mutable_final()->set_model_file(std::string(v1::PATH + 1, 'x'));
  ExpectRefused(heartbeat, "model_file: got 4097 bytes, wanted at most 4096");
  auto shard = Filled<v1::ShardHeartbeatRequest>();
  shard.set_trouble(much);
  ExpectRefused(shard, "trouble: got 2049 bytes");
}

TEST(FromProto, RefusesMoreThanTheLimits) {
  auto heartbeat = Filled<v1::WorkerHeartbeatRequest>();
  for (int i = 0; i < kRoundsMax; ++i) heartbeat.add_rounds();
  ExpectRefused(heartbeat, "rounds: got 16386, wanted at most 16384");

  heartbeat = Filled<v1::WorkerHeartbeatRequest>();
  heartbeat.mutable_rounds(0)->mutable_segment_hashes()->Resize(kSegmentsMax + 1, 0);
  ExpectRefused(heartbeat, "segment_hashes: got 1048577");

  auto reply = Filled<v1::WorkerHeartbeatResponse>();
  for (int i = 0; i < kMembersMax; ++i) reply.mutable_membership()->add_members();
  ExpectRefused(reply, "members: got 65538");

  auto shard = Filled<v1::GetShardStatusResponse>();
  for (int i = 0; i < kMembersMax; ++i) shard.add_workers();
  ExpectRefused(shard, "workers: got 65538");

  auto beat = Filled<v1::ShardHeartbeatRequest>();
  for (int i = 0; i < kSegmentsMax; ++i) beat.add_snapshots();
  ExpectRefused(beat, "snapshots: got 1048578");

  auto manifest = Filled<v1::Manifest>();
  for (int i = 0; i < kTensorRankMax; ++i) manifest.mutable_tensors(0)->add_shape(1);
  ExpectRefused(manifest, "shape: got 18, wanted at most 16");
}

TEST(FromProto, RefusesAManifestThatIsNotWhatItsHashSays) {
  auto request = Filled<v1::RegisterWorkerRequest>();
  request.mutable_manifest()->mutable_tensors(0)->set_shape(0, 1000);
  ExpectRefused(request, "manifest: says hash");
}

TEST(FromProto, RefusesAManifestWithoutTensors) {
  auto request = Filled<v1::RegisterWorkerRequest>();
  request.clear_manifest();
  ExpectRefused(request, "");
}

}  // namespace
}  // namespace longwave
