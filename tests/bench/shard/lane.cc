#include "tests/bench/shard/lane.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "tests/bench/shard/router.h"

namespace longwave {
namespace {

// How often a lane that waits looks whether another one has failed.
constexpr int kLookMs = 100;
constexpr std::chrono::milliseconds kBusyBackoff(10);
constexpr int kEventsMax = 64;

static_assert(kRawHeadBytes == kFrameHeaderBytes, "raw messages are as large as frames");

// Counts like common/link (ZMTP 3.1).
uint64_t WireBytes(size_t part_bytes) { return part_bytes + (part_bytes <= 255 ? 2 : 9); }
uint64_t FrameBytes(size_t payload_bytes) {
  return WireBytes(kFrameHeaderBytes) + (payload_bytes > 0 ? WireBytes(payload_bytes) : 0);
}

std::span<const std::byte> BytesOf(const zmq::message_t& message) {
  return {static_cast<const std::byte*>(message.data()), message.size()};
}

// Payloads outlive the context.
void KeepPayload(void*, void*) {}

}  // namespace

LoadLane::LoadLane(const LoadOptions& options, const BenchPushes& pushes, LoadBoard* board,
                   const std::vector<uint32_t>& workers)
    : options_(options), pushes_(pushes), board_(board), context_(1), epoll_fd_(epoll_create1(0)) {
  const size_t count = workers.size() * options.endpoints.size();
  context_.set(zmq::ctxopt::max_sockets, static_cast<int>(count) + 8);
  sockets_.reserve(count);
  for (const uint32_t place : workers) {
    for (uint32_t shard = 0; shard < options.endpoints.size(); ++shard) {
      zmq::socket_t dealer(context_, zmq::socket_type::dealer);
      dealer.set(zmq::sockopt::linger, 0);
      dealer.set(zmq::sockopt::sndhwm, 0);
      dealer.set(zmq::sockopt::rcvhwm, 0);
      dealer.connect(options.endpoints[shard]);
      epoll_event event = {.events = EPOLLIN, .data = {.u64 = sockets_.size()}};
      epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, dealer.get(zmq::sockopt::fd), &event);
      sockets_.push_back({std::move(dealer), static_cast<uint32_t>(workers_.size()), shard});
    }
    workers_.push_back({.place = place, .rounds_done = std::vector<uint64_t>(pushes.segments())});
  }
}

LoadLane::~LoadLane() { close(epoll_fd_); }

void LoadLane::Greet() {
  if (options_.peer != LoadOptions::Peer::kShard) return;
  greetings_missing_ = static_cast<uint32_t>(sockets_.size());
  for (Socket& socket : sockets_) {
    std::array<std::byte, kFrameHeaderBytes> head;
    EncodeFrameHeader(HelloFrame{.run = options_.run,
                                 .connection = options_.epoch,
                                 .worker = options_.workers[workers_[socket.worker].place]},
                      head);
    Send(socket, head, {});
  }
  Serve([this] { return greetings_missing_ == 0; });
}

void LoadLane::Run() {
  figures_ = {};
  times_.clear();
  running_ = static_cast<uint32_t>(workers_.size());
  for (uint32_t worker = 0; worker < workers_.size(); ++worker) Begin(worker);
  Serve([this] { return running_ == 0; });
}

void LoadLane::Begin(uint32_t index) {
  Worker& worker = workers_[index];
  if (!board_->MayBegin(worker.round)) {
    --running_;
    return;
  }
  worker.missing = pushes_.segments();
  const size_t rounds = worker.round - board_->first_round() + 1;
  times_.resize(std::max(times_.size(), rounds * pushes_.segments()));
  figures_.rounds = std::max<uint64_t>(figures_.rounds, rounds);
  for (uint32_t segment = 0; segment < pushes_.segments(); ++segment) Push(index, segment);
}

void LoadLane::Push(uint32_t index, uint32_t segment) {
  const Worker& worker = workers_[index];
  const BenchPush& push = pushes_.Of(worker.place, segment);
  std::array<std::byte, kFrameHeaderBytes> head = {};
  if (options_.peer == LoadOptions::Peer::kShard) {
    EncodeFrameHeader(PushFrame{.run = options_.run,
                                .epoch = options_.epoch,
                                .round = static_cast<uint32_t>(worker.round),
                                .worker = options_.workers[worker.place],
                                .segment = segment,
                                .weight = push.weight,
                                .norm = push.norm,
                                .payload_bytes = static_cast<uint32_t>(push.payload.size()),
                                .payload_crc = push.crc},
                      head);
  } else {
    const RawHead raw = {segment, static_cast<uint32_t>(options_.reply_bytes[segment])};
    std::memcpy(head.data(), &raw, sizeof raw);
  }
  Send(SocketOf(index, options_.shards[segment]), head, push.payload);
  ++figures_.pushes;
  figures_.payload_sent += push.payload.size();
  const size_t row = (worker.round - board_->first_round()) * pushes_.segments() + segment;
  times_[row].last_push = std::max(times_[row].last_push, Clock::now());
}

void LoadLane::Send(Socket& socket, std::span<const std::byte> head,
                    std::span<const std::byte> payload) {
  socket.dealer.send(zmq::const_buffer(head.data(), head.size()),
                     payload.empty() ? zmq::send_flags::none : zmq::send_flags::sndmore);
  if (!payload.empty()) {
    // ZeroMQ never writes to a message that it sends; its C interface just has no const.
    zmq::message_t body(const_cast<std::byte*>(payload.data()), payload.size(), &KeepPayload);
    socket.dealer.send(body, zmq::send_flags::none);
  }
  figures_.frame_bytes_sent += FrameBytes(payload.size());
  // Sending consumes ZeroMQ's pending signals, so the socket must be checked for input.
  MarkDirty(socket);
}

void LoadLane::MarkDirty(Socket& socket) {
  if (std::exchange(socket.dirty, true)) return;
  dirty_.push_back(static_cast<size_t>(&socket - sockets_.data()));
}

template <typename Done>
void LoadLane::Serve(const Done& done) {
  last_frame_ = Clock::now();
  while (!board_->failed()) {
    while (!dirty_.empty()) {
      Socket& socket = sockets_[dirty_.back()];
      dirty_.pop_back();
      socket.dirty = false;
      if (absl::Status status = Drain(socket); !status.ok()) {
        return board_->Fail(std::move(status));
      }
    }
    if (done()) return;
    if (Clock::now() - last_frame_ > absl::ToChronoNanoseconds(options_.patience)) {
      return board_->Fail(Silence());
    }
    Wait();
    PushAgain();
  }
}

void LoadLane::Wait() {
  int timeout_ms = kLookMs;
  if (!retries_.empty()) timeout_ms = static_cast<int>(kBusyBackoff.count());
  std::array<epoll_event, kEventsMax> events;
  const int count = epoll_wait(epoll_fd_, events.data(), kEventsMax, timeout_ms);
  for (int i = 0; i < count; ++i) MarkDirty(sockets_[events[static_cast<size_t>(i)].data.u64]);
}

void LoadLane::PushAgain() {
  while (!retries_.empty() && retries_.front().due <= Clock::now()) {
    const Retry retry = retries_.front();
    retries_.erase(retries_.begin());
    Push(retry.worker, retry.segment);
  }
}

absl::Status LoadLane::Drain(Socket& socket) {
  for (;;) {
    zmq::message_t head, payload;
    if (!socket.dealer.recv(head, zmq::recv_flags::dontwait)) return absl::OkStatus();
    bool more = head.more();
    // The parts of a message arrive together.
    if (more) {
      (void)socket.dealer.recv(payload, zmq::recv_flags::dontwait);
      more = payload.more();
    }
    if (more) return absl::DataLossError("a message of more than two parts");
    figures_.frame_bytes_received += FrameBytes(payload.size());
    last_frame_ = Clock::now();
    LONGWAVE_RETURN_IF_ERROR(Take(socket, head, payload));
  }
}

absl::Status LoadLane::Take(Socket& socket, const zmq::message_t& head,
                            const zmq::message_t& payload) {
  if (options_.peer == LoadOptions::Peer::kRawRouter) {
    RawHead raw;
    if (head.size() != kRawHeadBytes) return absl::DataLossError("a raw head of another size");
    std::memcpy(&raw, head.data(), sizeof raw);
    if (payload.size() != raw.reply_bytes) return absl::DataLossError("a raw reply cut short");
    figures_.payload_received += payload.size();
    return TakeMerged(socket.worker, workers_[socket.worker].round, raw.segment);
  }
  LONGWAVE_ASSIGN_OR_RETURN(const FrameHeader header, DecodeFrameHeader(BytesOf(head)));
  LONGWAVE_RETURN_IF_ERROR(VerifyPayload(header, BytesOf(payload)));
  if (const auto* answer = std::get_if<AnswerFrame>(&header))
    return TakeAnswer(socket, *answer, BytesOf(payload));
  if (const auto* welcome = std::get_if<WelcomeFrame>(&header);
      welcome != nullptr && welcome->outcome == Outcome::kAccepted) {
    if (greetings_missing_ > 0) --greetings_missing_;
    return absl::OkStatus();
  }
  const auto* const merged = std::get_if<MergedFrame>(&header);
  if (merged == nullptr || merged->run != options_.run) {
    return absl::DataLossError(absl::StrCat("got a frame of kind ",
                                            std::string(Name(header.kind())),
                                            ", wanted answers and merged updates of this run"));
  }
  figures_.payload_received += payload.size();
  if (merged->contributions != options_.workers.size()) {
    return absl::DataLossError(absl::StrCat("merged update of round ", merged->round, ", segment ",
                                            merged->segment, ": ", merged->contributions,
                                            " contributions, wanted ", options_.workers.size()));
  }
  LONGWAVE_RETURN_IF_ERROR(TakeMerged(socket.worker, merged->round, merged->segment));
  if (!board_->Agrees(merged->round, merged->segment, merged->payload_crc, BytesOf(payload))) {
    ++figures_.disagreements;
  }
  return absl::OkStatus();
}

absl::Status LoadLane::TakeAnswer(Socket& socket, const AnswerFrame& header,
                                  std::span<const std::byte> payload) {
  switch (header.outcome) {
    case Outcome::kAccepted:
      ++figures_.accepted;
      return absl::OkStatus();
    case Outcome::kBusy:
      ++figures_.busy;
      retries_.push_back({Clock::now() + kBusyBackoff, socket.worker, header.segment});
      return absl::OkStatus();
    case Outcome::kNone:
    case Outcome::kDuplicate:
    case Outcome::kLate:
    case Outcome::kRejected:
    case Outcome::kCompacted:
    case Outcome::kNotMember:
      break;
  }
  ++figures_.refused;
  return absl::FailedPreconditionError(
      absl::StrCat("worker ", header.worker, ", round ", header.round, ", segment ", header.segment,
                   ": ", std::string(Name(header.outcome)), ": ",
                   std::string(reinterpret_cast<const char*>(payload.data()), payload.size())));
}

absl::Status LoadLane::TakeMerged(uint32_t index, uint64_t round, uint32_t segment) {
  Worker& worker = workers_[index];
  if (running_ == 0 || round != worker.round || segment >= worker.rounds_done.size() ||
      worker.rounds_done[segment] != round) {
    return absl::DataLossError(absl::StrCat("worker ", options_.workers[worker.place], " in round ",
                                            worker.round, " got a merged update of round ", round,
                                            ", segment ", segment, " that it does not wait for"));
  }
  ++figures_.merged;
  ++worker.rounds_done[segment];
  Times& times = times_[(round - board_->first_round()) * pushes_.segments() + segment];
  times.first_merged = std::min(times.first_merged, last_frame_);
  if (--worker.missing == 0) {
    ++worker.round;
    Begin(index);
  }
  return absl::OkStatus();
}

absl::Status LoadLane::Silence() const {
  std::string what = "an answer to its greeting";
  uint32_t index = sockets_.front().worker;
  for (uint32_t i = 0; greetings_missing_ == 0 && i < workers_.size(); ++i) {
    const Worker& worker = workers_[i];
    if (worker.missing == 0) continue;
    index = i;
    const auto segment =
        std::find(worker.rounds_done.begin(), worker.rounds_done.end(), worker.round) -
        worker.rounds_done.begin();
    what = absl::StrCat("the merged update of round ", worker.round, ", segment ", segment);
  }
  return absl::DeadlineExceededError(
      absl::StrCat("nothing came for ", absl::FormatDuration(options_.patience), ": worker ",
                   options_.workers[workers_[index].place], " waits for ", what));
}

}  // namespace longwave
