#include "common/rpc/channel.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/errors.h"
#include "common/base/utf8.h"
#include "longwave/v1/limits.pb.h"

namespace longwave {
namespace {

// The wait of each call without a connection.
constexpr absl::Duration kReconnectWait = absl::Milliseconds(500);
constexpr char kByHandler[] = "longwave";
constexpr char kTimeFormat[] = "%Y-%m-%d %H:%M:%S UTC";

std::shared_ptr<grpc::Channel> NewChannel(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  // Finds a coordinator that starts late within a second instead of two minutes.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // Without keepalive a connection to a crashed machine lasts for a quarter of an hour, and gRPC
  // does not try an address that another machine has taken over. A connection on which a changed
  // length makes one end wait forever would last as long.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 6'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 4'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A cluster's own addresses must not go through a proxy that the environment names.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A connection for each client, so that a stuck one does not block the others.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

std::string Here() { return absl::FormatTime(kTimeFormat, absl::Now(), absl::UTCTimeZone()); }

// Advice for people, where gRPC's own words give none.
std::string HintOf(const std::string& message) {
  if (absl::StrContains(message, "wrong version number")) {
    return " (the other side does not speak TLS: is its security.mode off?)";
  }
  if (absl::StrContains(message, "certificate verify failed")) {
    return absl::StrCat(
        " (its certificate is not one of the authority in security.folder's ca.crt, has expired, "
        "or is not valid yet by this machine's clock, ",
        Here(), ")");
  }
  if (absl::StrContains(message, "Socket closed") ||
      absl::StrContains(message, "Connection reset by peer")) {
    return " (it hung up: it ended, or its security.mode is on and this side's off)";
  }
  return "";
}

}  // namespace

// The codes of gRPC and absl are the same numbers with the same meanings.
absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

grpc::Status ToGrpc(const absl::Status& status) {
  // The sentence travels in a header, which gRPC limits to some kilobytes.
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      Utf8Prefix(std::string(status.message()), v1::SENTENCE), kByHandler);
}

Channel::Channel(std::string who, std::string address, absl::Duration deadline,
                 const std::shared_ptr<grpc::ChannelCredentials>& credentials)
    : who_(std::move(who)),
      address_(std::move(address)),
      deadline_(deadline),
      channel_(NewChannel(address_, credentials)) {}

// A call on a channel whose last attempt to connect failed fails at once. Only threads in calls
// advance the next attempt's handshake, apart from a check every five seconds. Without help, none
// of the calls in between would reach a server that has restarted.
void Channel::HelpReconnect() const {
  if (channel_->GetState(/*try_to_connect=*/true) != GRPC_CHANNEL_TRANSIENT_FAILURE) return;
  const absl::Duration wait = std::min(kReconnectWait, deadline_ / 2);
  channel_->WaitForStateChange(
      GRPC_CHANNEL_TRANSIENT_FAILURE,
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                   gpr_time_from_nanos(absl::ToInt64Nanoseconds(wait), GPR_TIMESPAN)));
}

absl::Status Channel::Explain(const grpc::Status& status, absl::Duration deadline) const {
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Unavailable("no answer from ", who_, " at ", address_, " within ",
                         absl::FormatDuration(deadline));
    // A server whose memory for messages is full ends calls of any client.
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      if (status.error_details() == kByHandler) return FromGrpc(status);
      [[fallthrough]];
    // Our handlers never answer with these three codes. gRPC does, for a connection that broke
    // during a call or a server that shut down, so they decide nothing about the request.
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNAVAILABLE:
      return Unavailable("cannot reach ", who_, " at ", address_, ": ", status.error_message(),
                         HintOf(status.error_message()));
    case grpc::StatusCode::UNAUTHENTICATED:
      return Unauthenticated(
          who_, " at ", address_, " does not accept the certificate: ", status.error_message(),
          "; here it is ", Here(),
          ". Probable causes: a clock that is wrong, or a certificate or ca.crt to be exchanged");
    default:
      return FromGrpc(status);
  }
}

}  // namespace longwave
