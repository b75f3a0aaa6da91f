#include "common/rpc/channel.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/utf8.h"
#include "common/rpc/convert.h"

namespace longwave {
namespace {

// Of each call, while there is no connection.
constexpr absl::Duration kReconnectWait = absl::Milliseconds(500);
constexpr char kByHandler[] = "longwave";
constexpr char kTimeFormat[] = "%Y-%m-%d %H:%M:%S UTC";

std::shared_ptr<grpc::Channel> NewChannel(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  // A coordinator that comes up late is found within a second, not within two minutes.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // A machine that is gone says nothing: without this a connection to it would last for a quarter
  // of an hour, and an address by which another machine has taken its place would not be tried. So
  // would one on which a changed length makes an end wait for bytes that never come.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 6'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 4'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A cluster's own addresses are not for a proxy that the environment happens to name.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Each client its own connection: one that is stuck does not hold the others.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

// What people can do about it, where gRPC's own words do not say.
std::string_view HintOf(const std::string& message) {
  if (absl::StrContains(message, "wrong version number")) {
    return " (the other side does not speak TLS: is its security.mode off?)";
  }
  if (absl::StrContains(message, "certificate verify failed")) {
    return " (its certificate is not one of the authority in security.folder's ca.crt, or has "
           "expired)";
  }
  if (absl::StrContains(message, "Socket closed") ||
      absl::StrContains(message, "Connection reset by peer")) {
    return " (it hung up: is its security.mode on, and this side's off?)";
  }
  return "";
}

}  // namespace

// The codes of gRPC and absl are the same numbers with the same meanings.
absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

grpc::Status ToGrpc(const absl::Status& status) {
  // The sentence travels in a header, of which gRPC takes some kilobytes.
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      Utf8Prefix(std::string(status.message()), kSentenceBytesMax), kByHandler);
}

Channel::Channel(std::string who, std::string address, absl::Duration deadline,
                 std::shared_ptr<grpc::ChannelCredentials> credentials)
    : who_(std::move(who)),
      address_(std::move(address)),
      deadline_(deadline),
      channel_(NewChannel(address_, credentials)) {}

// A call on a channel whose last attempt to connect has failed fails at once; and only threads in
// calls take the next attempt's handshake further, but for a look every five seconds. A server that
// is there again would be reached by none of the calls in between.
void Channel::HelpReconnect() const {
  if (channel_->GetState(/*try_to_connect=*/true) != GRPC_CHANNEL_TRANSIENT_FAILURE) return;
  const absl::Duration wait = std::min(kReconnectWait, deadline_ / 2);
  channel_->WaitForStateChange(
      GRPC_CHANNEL_TRANSIENT_FAILURE,
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                   gpr_time_from_nanos(absl::ToInt64Nanoseconds(wait), GPR_TIMESPAN)));
}

absl::Status Channel::Explain(const grpc::Status& status) const {
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return absl::UnavailableError(absl::StrCat("no answer from ", who_, " at ", address_,
                                                 " within ", absl::FormatDuration(deadline_)));
    // A server whose memory for messages is full ends calls, whoever has filled it.
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      if (status.error_details() == kByHandler) return FromGrpc(status);
      [[fallthrough]];
    // No handler of ours answers with these three: gRPC does, for a connection that broke under a
    // call or a server that shut down. They are no decision of whoever was asked.
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNAVAILABLE:
      return absl::UnavailableError(absl::StrCat("cannot reach ", who_, " at ", address_, ": ",
                                                 status.error_message(),
                                                 std::string(HintOf(status.error_message()))));
    case grpc::StatusCode::UNAUTHENTICATED:
      return absl::UnauthenticatedError(absl::StrCat(
          who_, " at ", address_, " does not accept the certificate: ", status.error_message(),
          "; here it is ", absl::FormatTime(kTimeFormat, absl::Now(), absl::UTCTimeZone()),
          ". Probable causes: a clock that is wrong, or a certificate or ca.crt to be exchanged"));
    default:
      return FromGrpc(status);
  }
}

}  // namespace longwave
