#include "tests/intruder/hostile_calls.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/convert.h"
#include "common/rpc/tls.h"
#include "grpcpp/impl/codegen/client_unary_call.h"
#include "longwave/v1/coordinator.pb.h"
#include "longwave/v1/limits.pb.h"
#include "longwave/v1/probe.pb.h"
#include "longwave/v1/shard.pb.h"

namespace longwave {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::MessageFactory;

constexpr auto kDeadline = std::chrono::seconds(10);
constexpr char kCoordinator[] = "longwave.v1.Coordinator";

// Whether a call is for operators or shards only.
bool IsForOthers(const std::string& service, const std::string& method) {
  const auto* const found = DescriptorPool::generated_pool()->FindServiceByName(service);
  const v1::Caller caller =
      found->FindMethodByName(method)->options().GetExtension(v1::call).caller();
  return caller == v1::SHARD || caller == v1::OPERATOR;
}

std::string NameOf(grpc::StatusCode code) {
  return code == grpc::StatusCode::OK ? "ok" : absl::StrCat("code ", static_cast<int>(code));
}

}  // namespace

HostileCalls::HostileCalls(const std::string& coordinator, const Guest* guest, bool may_register,
                           Beliefs* beliefs, Rng* rng)
    : guest_(guest),
      may_register_(may_register),
      beliefs_(beliefs),
      rng_(rng),
      coordinator_(
          grpc::CreateChannel(coordinator, ClientCredentials(guest->folder, Role::kCoordinator))) {}

void HostileCalls::Act() {
  // The services' descriptors are there once their messages were used.
  (void)v1::MeasureRequest::descriptor(), (void)v1::GetShardStatusRequest::descriptor();
  if (beliefs_->shards.empty() || OneIn(*rng_, 20)) return ReadStatus();
  if (OneIn(*rng_, 6)) return CallAnything();
  if (OneIn(*rng_, 15)) return CallShard();
  if (!may_register_) return CallAnything();
  if (!beliefs_->registered || OneIn(*rng_, 60)) return Register();
  Beat();
}

void HostileCalls::Register() {
  RegisterWorker own = guest_->Registration(rng_->Next() | 1);
  if (OneIn(*rng_, 3)) own.incarnation = beliefs_->incarnation;
  if (OneIn(*rng_, 3)) own.identity = rng_->Next() | 1;
  if (OneIn(*rng_, 4)) own.process = Odd64(*rng_, *beliefs_);
  // Another member's key, which a status may show.
  if (!beliefs_->members.empty() && OneIn(*rng_, 6))
    own.data_key = OneOf(*rng_, beliefs_->members).data_key;
  auto request = WriteMessage<v1::RegisterWorkerRequest>(own);
  v1::RegisterWorkerResponse response;
  if (!Call(kCoordinator, "RegisterWorker", &request, &response, OneIn(*rng_, 2)).ok()) return;
  if (request.name() != guest_->name)
    breaches_.push_back(absl::StrCat("registered as ", request.name()));
  beliefs_->registered = true;
  beliefs_->worker = response.worker();
  beliefs_->incarnation = request.incarnation();
  beliefs_->epoch = 0;
  beliefs_->first_round = kRoundNever;
}

void HostileCalls::Beat() {
  const uint32_t round = beliefs_->round;
  WorkerHeartbeat own{.worker = beliefs_->worker,
                      .incarnation = beliefs_->incarnation,
                      .known_epoch = beliefs_->epoch};
  own.state.phase = static_cast<WorkerPhase>(1 + rng_->Below(8));
  own.state.round = round;
  own.state.step = uint64_t{round} * guest_->config.sync.inner_steps;
  own.state.train_loss = 3;
  if (beliefs_->first_round == kRoundNever) {
    own.ready_round = OneIn(*rng_, 3) ? Number() : round;
  } else if (beliefs_->next_report < round || OneIn(*rng_, 8)) {
    for (uint64_t i = 1 + rng_->Below(3); i > 0; --i) {
      RoundReport& report = own.rounds.emplace_back();
      report.round = beliefs_->next_report++;
      report.step = (uint64_t{report.round} + 1) * guest_->config.sync.inner_steps;
      report.train_loss = 3;
      report.tokens = 1000;
      const size_t segments = OneIn(*rng_, 6) ? rng_->Below(30) : guest_->layout.segments().size();
      for (size_t s = 0; s < segments; ++s) report.segment_hashes.push_back(rng_->Next());
      if (OneIn(*rng_, 6)) report.validation_loss = OddDouble(*rng_);
    }
  }
  own.leaving = OneIn(*rng_, 60);
  auto request = WriteMessage<v1::WorkerHeartbeatRequest>(own);
  if (OneIn(*rng_, 40)) request.set_failure(OddText(*rng_));
  if (OneIn(*rng_, 30)) {
    request.mutable_final()->set_model_file(OddText(*rng_));
    if (OneIn(*rng_, 2)) request.mutable_final()->set_validation_loss(OddDouble(*rng_));
  }
  v1::WorkerHeartbeatResponse response;
  const grpc::Status status =
      Call(kCoordinator, "WorkerHeartbeat", &request, &response, OneIn(*rng_, 3));
  if (!status.ok()) {
    const auto code = status.error_code();
    if (code == grpc::StatusCode::ABORTED || code == grpc::StatusCode::NOT_FOUND)
      beliefs_->registered = false;
    // Rounds that were refused are not reported again, or again and again for ever.
    if (code == grpc::StatusCode::INVALID_ARGUMENT)
      beliefs_->next_report = OneIn(*rng_, 2) ? Number() : round;
    return;
  }
  // A heartbeat for an unused index must be told to stop.
  if (request.worker() != beliefs_->worker && response.instruction() != v1::INSTRUCTION_STOP)
    breaches_.push_back(absl::StrCat("a heartbeat for worker ", request.worker(), " was taken"));
  if (response.instruction() == v1::INSTRUCTION_STOP) beliefs_->registered = false;
  beliefs_->run = response.run();
  if (!response.has_membership()) return;
  beliefs_->epoch = response.membership().epoch();
  for (const auto& member : response.membership().members()) {
    if (member.worker() != beliefs_->worker) continue;
    if (beliefs_->first_round == kRoundNever) beliefs_->next_report = member.first_round();
    beliefs_->first_round = member.first_round();
  }
}

void HostileCalls::ReadStatus() {
  v1::GetStatusRequest request;
  request.set_round_records_from(OneIn(*rng_, 10) ? Odd64(*rng_, *beliefs_) : ~uint64_t{0});
  v1::GetStatusResponse response;
  if (!Call(kCoordinator, "GetStatus", &request, &response, OneIn(*rng_, 5)).ok()) return;
  const auto status = FromProto(response);
  if (!status.ok())
    return breaches_.push_back(absl::StrCat("a status: ", status.status().message()));
  beliefs_->members.clear();
  for (const MemberStatus& member : status->members) beliefs_->members.push_back(member.member);
  beliefs_->shards.clear();
  for (const ShardStatus& shard : status->shards) {
    beliefs_->shards.push_back(shard.shard);
    beliefs_->round = std::max(beliefs_->round, shard.state.newest_round);
  }
}

void HostileCalls::CallAnything() {
  const auto* const pool = DescriptorPool::generated_pool();
  static const std::vector<std::string> kServices = {kCoordinator, kCoordinator, kCoordinator,
                                                     "longwave.v1.Probe"};
  const std::string& name = OneOf(*rng_, kServices);
  const auto* const service = pool->FindServiceByName(name);
  const auto* const method = service->method(
      static_cast<int>(rng_->Below(static_cast<uint64_t>(service->method_count()))));
  if (!may_register_ && method->name() == "RegisterWorker") return;
  const auto make = [](const google::protobuf::Descriptor* type) {
    return std::unique_ptr<Message>(MessageFactory::generated_factory()->GetPrototype(type)->New());
  };
  const std::unique_ptr<Message> request = make(method->input_type());
  const std::unique_ptr<Message> response = make(method->output_type());
  for (uint64_t i = rng_->Below(8); i > 0; --i) Mutate(request.get(), *rng_, *beliefs_);
  // In another's name, whose identity is checked first.
  if (auto* beat = dynamic_cast<v1::ShardHeartbeatRequest*>(request.get()); beat != nullptr)
    beat->set_shard(static_cast<uint32_t>(rng_->Below(3)));
  if (auto* shard = dynamic_cast<v1::RegisterShardRequest*>(request.get()); shard != nullptr)
    shard->set_shard(static_cast<uint32_t>(rng_->Below(3)));
  Call(name, method->name(), request.get(), response.get(), false).ok();
}

void HostileCalls::CallShard() {
  const ShardAddress& shard = OneOf(*rng_, beliefs_->shards);
  auto& channel = shards_[shard.control_endpoint];
  if (channel == nullptr || OneIn(*rng_, 50)) {
    channel = grpc::CreateChannel(shard.control_endpoint,
                                  ClientCredentials(guest_->folder, Role::kShard));
  }
  static const std::vector<std::string> kPaths = {
      "/longwave.v1.ShardService/GetShardStatus", "/longwave.v1.Probe/Measure",
      "/longwave.v1.Coordinator/StopRun", "/grpc.health.v1.Health/Check",
      "/longwave.v1.ShardService/NoSuchMethod"};
  const std::string& path = OneOf(*rng_, kPaths);
  std::string request = OneIn(*rng_, 2) ? "" : OddText(*rng_), response;
  const grpc::Status status = CallRaw(*channel, path, request, &response);
  ++answers_[absl::StrCat("at a shard ", NameOf(status.error_code()))];
}

grpc::Status HostileCalls::Call(const std::string& service, const std::string& method,
                                Message* request, Message* response, bool mutates) {
  if (mutates) {
    for (uint64_t i = 1 + rng_->Below(3); i > 0; --i) Mutate(request, *rng_, *beliefs_);
  }
  std::string bytes, answer;
  request->SerializeToString(&bytes);
  if (OneIn(*rng_, 50)) {
    Damage(&bytes, *rng_);
    // The server's reading of the bytes, if any.
    if (!request->ParseFromString(bytes)) request->Clear();
  }
  if (OneIn(*rng_, 500)) bytes.append(4 << 20, '\0');
  const grpc::Status status =
      CallRaw(*coordinator_, absl::StrCat("/", service, "/", method), bytes, &answer);
  ++answers_[absl::StrCat(method, " ", NameOf(status.error_code()))];
  if (!status.ok()) return status;
  if (IsForOthers(service, method)) breaches_.push_back(absl::StrCat(method, " was served"));
  response->ParseFromString(answer);
  return status;
}

grpc::Status HostileCalls::CallRaw(grpc::Channel& channel, const std::string& path,
                                   const std::string& request, std::string* response) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kDeadline);
  grpc::Slice slice(request);
  const grpc::ByteBuffer sent(&slice, 1);
  grpc::ByteBuffer received;
  const grpc::Status status = grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
      &channel, grpc::internal::RpcMethod(path.c_str(), grpc::internal::RpcMethod::NORMAL_RPC),
      &context, sent, &received);
  std::vector<grpc::Slice> slices;
  if (!status.ok() || !received.Dump(&slices).ok()) return status;
  for (const grpc::Slice& part : slices)
    response->append(reinterpret_cast<const char*>(part.begin()), part.size());
  return status;
}

}  // namespace longwave
