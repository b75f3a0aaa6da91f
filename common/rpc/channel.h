#ifndef LONGWAVE_COMMON_RPC_CHANNEL_H_
#define LONGWAVE_COMMON_RPC_CHANNEL_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"

namespace longwave {

// Private to this folder: the common part of gRPC's clients and servers.

// The largest message carries a manifest: 2^16 tensors with their names fit.
inline constexpr int kMessageBytesMax = 64 << 20;
// The metadata key of Join's token.
inline constexpr char kTokenKey[] = "longwave-token";

absl::Status FromGrpc(const grpc::Status& status);
// Adds details by which Channel tells a handler's answer from gRPC's own errors.
grpc::Status ToGrpc(const absl::Status& status);

// A channel to "host:port". Calls on it end within a deadline.
class Channel {
 public:
  // who: the other end, for error sentences: "the coordinator".
  Channel(std::string who, std::string address, absl::Duration deadline,
          const std::shared_ptr<grpc::ChannelCredentials>& credentials =
              grpc::InsecureChannelCredentials());

  const std::shared_ptr<grpc::Channel>& grpc() const { return channel_; }

  // call(context) makes the call. Its request's `bytes` extend the deadline, as if the link had
  // 1 Mbit/s. Errors: Unavailable (no answer within the deadline).
  template <typename Call>
  absl::Status Invoke(const Call& call, size_t bytes = 0) const {
    grpc::ClientContext context;
    const absl::Duration deadline = deadline_ + absl::Seconds(static_cast<double>(bytes) / 125'000);
    context.set_deadline(
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                     gpr_time_from_nanos(absl::ToInt64Nanoseconds(deadline), GPR_TIMESPAN)));
    HelpReconnect();
    return Explain(call(&context), deadline);
  }

 private:
  // After a failed connection: lends gRPC this thread for a while, until it has reconnected.
  void HelpReconnect() const;
  absl::Status Explain(const grpc::Status& status, absl::Duration deadline) const;

  const std::string who_;
  const std::string address_;
  const absl::Duration deadline_;
  const std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_CHANNEL_H_
