#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cli/doctor/measure.h"
#include "common/base/clock.h"
#include "common/base/descriptor.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/link/curve.h"
#include "common/rpc/coordinator_client.h"
#include "common/rpc/probe.h"

namespace longwave {
namespace {

constexpr absl::Duration kConnectPatience = absl::Seconds(5);
constexpr int kTries = 5;
constexpr size_t kRateBytesMin = 64 << 10;
// A transfer of that length is long enough to measure.
constexpr absl::Duration kRateTime = absl::Milliseconds(400);

struct FreeAddresses {
  void operator()(addrinfo* addresses) const { freeaddrinfo(addresses); }
};

// Connects to one address. Returns 0 or errno's value.
int ConnectOnce(const addrinfo& address) {
  const Descriptor socket_fd(
      socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket_fd.get() < 0) return errno;
  if (connect(socket_fd.get(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd writable{.fd = socket_fd.get(), .events = POLLOUT, .revents = 0};
  const int ready =
      poll(&writable, 1, static_cast<int>(absl::ToInt64Milliseconds(kConnectPatience)));
  if (ready == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  if (ready < 0 || getsockopt(socket_fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0)
    return errno;
  return error;
}

std::string ConnectError(int error) {
  switch (error) {
    case ECONNREFUSED:
      return "nobody listens there (connection refused)";
    case ETIMEDOUT:
      return absl::StrCat("no answer within ", absl::FormatDuration(kConnectPatience));
    default:
      return std::strerror(error);
  }
}

absl::StatusOr<ClockReading> MeasureClock(ProbeClient& client) {
  ClockReading best{.precision = absl::InfiniteDuration()};
  for (int i = 0; i < kTries; ++i) {
    LONGWAVE_ASSIGN_OR_RETURN(const TimeAnswer answer, client.GetTime());
    // The server read its clock at some moment of the call.
    if (answer.took / 2 >= best.precision) continue;
    best = {.ahead = answer.sent + answer.took / 2 - answer.server_time,
            .precision = answer.took / 2};
  }
  return best;
}

// Measures one direction: increases the bytes until their time clearly exceeds an empty call's.
absl::StatusOr<double> MeasureRate(ProbeClient& client, bool up, absl::Duration empty) {
  double best = 0;
  for (size_t bytes = kRateBytesMin;; bytes *= 4) {
    LONGWAVE_ASSIGN_OR_RETURN(const absl::Duration transfer,
                              client.Measure(up ? bytes : 0, up ? 0 : bytes));
    const absl::Duration took = std::max(transfer - empty, absl::Microseconds(10));
    best = std::max(best, static_cast<double>(bytes) / absl::ToDoubleSeconds(took));
    if (bytes >= kProbeBytesMax || took > kRateTime) return best;
  }
}

absl::StatusOr<SpeedReading> MeasureSpeed(ProbeClient& client) {
  LONGWAVE_ASSIGN_OR_RETURN(const ClockReading empty, MeasureClock(client));
  SpeedReading speed;
  LONGWAVE_ASSIGN_OR_RETURN(speed.up_bytes_per_second,
                            MeasureRate(client, true, 2 * empty.precision));
  LONGWAVE_ASSIGN_OR_RETURN(speed.down_bytes_per_second,
                            MeasureRate(client, false, 2 * empty.precision));
  return speed;
}

ShardReading MeasureShard(const ShardAddress& shard, ProbeClient::Trust trust,
                          const std::string& credentials) {
  ShardReading reading;
  reading.shard = shard.shard;
  const absl::StatusOr<KeyedEndpoint> data = SplitKey(shard.data_endpoint);
  reading.data.address =
      std::string(absl::StripPrefix(data.ok() ? data->endpoint : shard.data_endpoint, "tcp://"));
  reading.data.round_trip = MeasureConnection(reading.data.address, 1);
  const absl::Status reachable = MeasureConnection(shard.control_endpoint, 1).status();
  if (!reachable.ok()) {
    reading.speed = absl::Status(
        reachable.code(),
        absl::StrCat("control port ", shard.control_endpoint, ": ", reachable.message()));
    return reading;
  }
  reading.speed =
      MeasureSpeed(*ProbeClient::Connect(shard.control_endpoint, Role::kShard, trust, credentials));
  return reading;
}

}  // namespace

absl::StatusOr<absl::Duration> MeasureConnection(const std::string& address, int tries) {
  const size_t colon = address.rfind(':');
  if (colon == address.npos) return InvalidArgument("wanted host:port");
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
      error != 0) {
    return Unavailable("its name is not known: ", gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, FreeAddresses> addresses(found);
  int error = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    absl::Duration best = absl::InfiniteDuration();
    for (int i = 0; i < tries; ++i) {
      const absl::Time begin = MonotonicNow();
      error = ConnectOnce(*one);
      if (error != 0) break;
      best = std::min(best, MonotonicNow() - begin);
    }
    if (error == 0) return best;
  }
  return Unavailable(ConnectError(error));
}

CoordinatorReading MeasureCoordinator(const std::string& address, const std::string& credentials) {
  CoordinatorReading reading;
  reading.control = {.address = address, .round_trip = MeasureConnection(address, kTries)};
  reading.clock = Unavailable("the coordinator is not reached");
  reading.speed = reading.clock.status();
  if (!reading.control.round_trip.ok()) return reading;

  using Trust = ProbeClient::Trust;
  Trust trust = credentials.empty() ? Trust::kPlain : Trust::kCredentials;
  std::unique_ptr<ProbeClient> probe =
      ProbeClient::Connect(address, Role::kCoordinator, trust, credentials);
  reading.clock = MeasureClock(*probe);
  if (trust == Trust::kPlain && absl::IsUnavailable(reading.clock.status())) {
    std::unique_ptr<ProbeClient> secured =
        ProbeClient::Connect(address, Role::kCoordinator, Trust::kNobody);
    absl::StatusOr<ClockReading> clock = MeasureClock(*secured);
    if (clock.ok()) {
      reading.clock = std::move(clock);
      reading.status = Unauthenticated(
          "the run is secured, and its coordinator tells no more without credentials");
      return reading;
    }
  }
  const absl::StatusOr<RunStatus> run =
      CoordinatorClient::Connect(address, absl::Seconds(10), credentials)->GetStatus();
  reading.status = run.status();
  if (!run.ok()) return reading;
  reading.speed = MeasureSpeed(*probe);
  reading.shards_wanted = run->shards_wanted;
  for (const ShardStatus& shard : run->shards) {
    // A shard that has not registered has no address.
    if (shard.shard.data_endpoint.empty()) continue;
    reading.shards.push_back(MeasureShard(shard.shard, trust, credentials));
  }
  return reading;
}

}  // namespace longwave
