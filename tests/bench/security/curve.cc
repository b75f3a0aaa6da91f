// The cost of encryption for a connection of the data plane: frames of 1 MiB from a dealer to a
// router over loopback, plain and with CURVE, side by side.
//
//   build/bin/bench_curve [frames]        CSV: mode, frames, bytes, seconds, Gbit/s, received,
//   processor seconds
//
// Each received frame is verified (header and payload CRC) as at a shard. One ZeroMQ thread at each
// end encrypts a connection's bytes, so the figure is one connection's limit if each end has a core
// to itself. With fewer cores the two ends share them.
#include "common/link/curve.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/memory.h"
#include "common/base/status_macros.h"
#include "common/link/link.h"
#include "tests/bench/clock.h"

namespace longwave {
namespace {

constexpr size_t kFrameBytes = size_t{1} << 20;
constexpr absl::Duration kWaitMax = absl::Seconds(60);
constexpr uint32_t kWorker = 3;

absl::Status Measure(bool encrypted, int frames) {
  LinkOptions at_router{.receive_queue_frames = 32};
  LinkOptions at_dealer{.send_queue_frames = 32};
  if (encrypted) {
    LONGWAVE_ASSIGN_OR_RETURN(at_router.keys, MakeCurveKeys());
    LONGWAVE_ASSIGN_OR_RETURN(at_dealer.keys, MakeCurveKeys());
  }
  LONGWAVE_ASSIGN_OR_RETURN(const auto router, Router::Bind("tcp://127.0.0.1:0", at_router));
  router->SetAdmitted({{kWorker, at_dealer.keys.public_key}});
  const std::string endpoint = WithKey(router->endpoint(), at_router.keys.public_key);
  LONGWAVE_ASSIGN_OR_RETURN(const auto dealer, Dealer::Connect(endpoint, at_dealer));

  PushFrame header;
  header.worker = kWorker;
  LONGWAVE_ASSIGN_OR_RETURN(const SealedFrame frame,
                            Seal(header, Buffer(std::vector<std::byte>(kFrameBytes))));
  // The first one opens the connection.
  LONGWAVE_RETURN_IF_ERROR(dealer->Send(frame));
  LONGWAVE_ASSIGN_OR_RETURN(const auto first, router->Receive(kWaitMax));
  if (!first.has_value()) return absl::UnavailableError("nothing came: " + router->last_refusal());

  absl::Status sent;
  const double processor = SecondsOf(CLOCK_PROCESS_CPUTIME_ID);
  const double begin = SecondsOf(CLOCK_MONOTONIC);
  std::thread sender([&] {
    for (int i = 0; i < frames && sent.ok(); ++i) {
      do {
        sent = dealer->Send(frame);
        // Full, for some thirty milliseconds of the link: asking all the time would take a
        // processor from those that encrypt.
        if (absl::IsUnavailable(sent)) absl::SleepFor(absl::Milliseconds(1));
      } while (absl::IsUnavailable(sent));
    }
  });
  int received = 0;
  while (received < frames) {
    const auto next = router->Receive(kWaitMax);
    if (!next.ok() || !next->has_value()) break;
    ++received;
  }
  const double seconds = SecondsOf(CLOCK_MONOTONIC) - begin;
  sender.join();
  LONGWAVE_RETURN_IF_ERROR(sent);
  const double bits = static_cast<double>(kFrameBytes) * 8 * received;
  std::printf("%s,%d,%zu,%.3f,%.2f,%d,%.3f\n", encrypted ? "curve" : "plain", frames, kFrameBytes,
              seconds, bits / seconds / 1e9, received,
              SecondsOf(CLOCK_PROCESS_CPUTIME_ID) - processor);
  if (received < frames) return absl::DataLossError("frames went missing");
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  const int frames = argc > 1 ? std::max(1, std::atoi(argv[1])) : 2000;
  std::printf("mode,frames,frame_bytes,seconds,gbit_per_s,received,processor_seconds\n");
  for (const bool encrypted : {false, true}) {
    const absl::Status status = Measure(encrypted, frames);
    if (status.ok()) continue;
    std::fprintf(stderr, "bench_curve: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace longwave

int main(int argc, char** argv) {
  longwave::KeepFreedMemory();
  return longwave::Main(argc, argv);
}
