#include "common/rpc/probe.h"

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_services.h"
#include "common/rpc/guarded_service.h"
#include "common/rpc/tls.h"
#include "longwave/v1/probe.grpc.pb.h"

namespace longwave {
namespace {

class ProbeGrpc final : public GuardedService<v1::Probe::Service> {
 public:
  explicit ProbeGrpc(CallGuard guard) : GuardedService(std::move(guard)) {
    Answer<v1::GetTimeRequest, v1::GetTimeResponse>(
        "GetTime", [](const auto&, const auto&) -> absl::StatusOr<v1::GetTimeResponse> {
          v1::GetTimeResponse response;
          response.set_unix_seconds(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()));
          return response;
        });
    Answer<v1::MeasureRequest, v1::MeasureResponse>(
        "Measure", [](const auto&, const auto& request) -> absl::StatusOr<v1::MeasureResponse> {
          const size_t sent = request.payload().size(), wanted = request.answer_bytes();
          if (sent > kProbeBytesMax || wanted > kProbeBytesMax) {
            return InvalidArgument("a measurement: got ", sent, " bytes, and ", wanted,
                                   " wanted in the answer; at most ", kProbeBytesMax, " each");
          }
          v1::MeasureResponse response;
          response.set_payload(std::string(wanted, '\0'));
          return response;
        });
  }
};

class GrpcProbeClient final : public ProbeClient {
 public:
  GrpcProbeClient(const std::string& address, Role server,
                  std::shared_ptr<grpc::ChannelCredentials> credentials, absl::Duration deadline)
      : channel_(server == Role::kShard ? "the shard" : "the coordinator", address, deadline,
                 std::move(credentials)),
        stub_(v1::Probe::NewStub(channel_.grpc())) {}

  absl::StatusOr<TimeAnswer> GetTime() override {
    v1::GetTimeResponse response;
    TimeAnswer answer{.sent = absl::Now()};
    LONGWAVE_ASSIGN_OR_RETURN(answer.took, Timed([&](grpc::ClientContext* context) {
                                return stub_->GetTime(context, v1::GetTimeRequest(), &response);
                              }));
    answer.server_time = absl::UnixEpoch() + absl::Seconds(response.unix_seconds());
    return answer;
  }

  absl::StatusOr<absl::Duration> Measure(size_t payload_bytes, size_t answer_bytes) override {
    v1::MeasureRequest request;
    request.set_payload(std::string(payload_bytes, '\0'));
    request.set_answer_bytes(static_cast<uint32_t>(answer_bytes));
    v1::MeasureResponse response;
    return Timed(
        [&](grpc::ClientContext* context) { return stub_->Measure(context, request, &response); });
  }

 private:
  template <typename Call>
  absl::StatusOr<absl::Duration> Timed(const Call& call) const {
    const absl::Time begin = MonotonicNow();
    LONGWAVE_RETURN_IF_ERROR(channel_.Invoke(call));
    return MonotonicNow() - begin;
  }

  const Channel channel_;
  const std::unique_ptr<v1::Probe::Stub> stub_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeProbeService(CallGuard guard) {
  return std::make_unique<ProbeGrpc>(std::move(guard));
}

std::unique_ptr<ProbeClient> ProbeClient::Connect(const std::string& address, Role server,
                                                  Trust trust, const std::string& credentials,
                                                  absl::Duration deadline) {
  return std::make_unique<GrpcProbeClient>(
      address, server,
      trust == Trust::kNobody
          ? AskingCredentials()
          : ClientCredentials(trust == Trust::kPlain ? "" : credentials, server),
      deadline);
}

}  // namespace longwave
