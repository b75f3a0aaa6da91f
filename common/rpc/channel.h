#ifndef LONGWAVE_COMMON_RPC_CHANNEL_H_
#define LONGWAVE_COMMON_RPC_CHANNEL_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"

namespace longwave {

// Private to this folder: what clients and servers share of gRPC.

// A message carries a manifest at most: 2^16 tensors with their names fit.
inline constexpr int kMessageBytesMax = 64 << 20;
// Of the call Join: its token.
inline constexpr char kTokenKey[] = "longwave-token";

absl::Status FromGrpc(const grpc::Status& status);
// With details by which Channel knows that a handler has answered, and not gRPC.
grpc::Status ToGrpc(const absl::Status& status);

// A channel to "host:port", and calls on it that end within a deadline.
class Channel {
 public:
  // who: whom it leads to, for sentences: "the coordinator".
  Channel(
      std::string who, std::string address, absl::Duration deadline,
      std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials());

  const std::shared_ptr<grpc::Channel>& grpc() const { return channel_; }

  // call(context, response) makes the call. Unavailable: nobody answered within the deadline.
  template <typename Call>
  absl::Status Invoke(const Call& call) const {
    grpc::ClientContext context;
    context.set_deadline(
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                     gpr_time_from_nanos(absl::ToInt64Nanoseconds(deadline_), GPR_TIMESPAN)));
    HelpReconnect();
    return Explain(call(&context));
  }

 private:
  // After a connection has failed: lends gRPC this thread until there is one again, for a while.
  void HelpReconnect() const;
  absl::Status Explain(const grpc::Status& status) const;

  const std::string who_;
  const std::string address_;
  const absl::Duration deadline_;
  const std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_CHANNEL_H_
