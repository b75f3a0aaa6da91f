#include "server/shard_state/member_links.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_set.h"
#include "common/base/errors.h"

namespace longwave {

MemberLinks::MemberLinks(uint64_t run, const Layout* layout, uint32_t first_segment,
                         uint32_t segment_count, Encryption encryption)
    : run_(run),
      layout_(*layout),
      first_segment_(first_segment),
      segment_count_(segment_count),
      encryption_(encryption) {}

std::vector<uint32_t> MemberLinks::SetMembers(const std::vector<Member>& members) {
  absl::flat_hash_set<uint32_t> workers;
  for (const Member& member : members) {
    workers.insert(member.worker);
    links_.try_emplace(member.worker, Link{WorkerConnections(segment_count_)});
  }
  std::vector<uint32_t> gone;
  absl::erase_if(links_, [&](const auto& known) {
    if (workers.contains(known.first)) return false;
    gone.push_back(known.first);
    return true;
  });
  return gone;
}

std::optional<uint32_t> MemberLinks::Hear(const PeerFrame& frame) {
  const FrameName name = frame.frame.header;
  Link* const link = Find(name, name.worker);
  if (link == nullptr) return std::nullopt;
  std::optional<size_t> segment;
  const bool wants_segment = name.kind == FrameKind::kPush || name.kind == FrameKind::kPull ||
                             name.kind == FrameKind::kFetch;
  if (wants_segment && name.segment - first_segment_ < segment_count_)
    segment = name.segment - first_segment_;
  std::optional<WorkerConnections::Hello> said;
  if (const auto* const hello = std::get_if<HelloFrame>(&frame.frame.header)) {
    said = HelloOf(*hello);
    link->greeted = true;
  }
  const size_t payload_bytes = frame.frame.payload.size();
  link->traffic.received[name.kind] += {.frames = 1,
                                        .bytes = FrameWireBytes(payload_bytes, encryption_),
                                        .payload_bytes = payload_bytes};
  return link->connections.Hear(frame.peer, segment, said).taken - 1;
}

WorkerConnections::Hello MemberLinks::HelloOf(const HelloFrame& hello) const {
  const auto [begin, end] = SegmentsOfRank(layout_, hello.node.rank, hello.node.ranks);
  return {.number = hello.connection,
          .serves_begin = std::max(begin, first_segment_) - first_segment_,
          .serves_end = std::max(end, first_segment_) - first_segment_};
}

MemberLinks::HelloRequest MemberLinks::TakeHelloRequest(uint32_t worker, absl::Time now) {
  Link& link = links_.at(worker);
  if (link.greeted || now < link.requested_hello + kHelloPatience) return HelloRequest::kNone;
  const absl::Time before = std::exchange(link.requested_hello, now);
  return before == absl::InfinitePast() ? HelloRequest::kFirst : HelloRequest::kAgain;
}

absl::Status MemberLinks::Send(uint32_t worker, SendFrame& send, SendToPeer send_to_peer) {
  const FrameName name = send.frame.header();
  Link* const link = Find(name, worker);
  if (send.cause == SendCause::kAnswer) return SendAnswer(link, send, send_to_peer);
  absl::Status sent = NotFound("no frame of it has come yet");
  while (link != nullptr) {
    const uint32_t segment = name.segment - first_segment_;
    const PeerId* const route = name.kind == FrameKind::kRequest
                                    ? link->connections.Newest(segment)
                                    : link->connections.RouteOf(segment);
    if (route == nullptr) break;
    const PeerId peer = *route;
    sent = send_to_peer(peer, send.frame);
    if (!absl::IsNotFound(sent)) {
      if (!absl::IsUnavailable(sent)) Count(*link, peer, send.frame, sent);
      break;
    }
    link->connections.Remove(peer);  // the loop tries the next connection
  }
  return sent;
}

absl::Status MemberLinks::SendAnswer(Link* link, SendFrame& send, SendToPeer send_to_peer) {
  const auto* const welcome = std::get_if<WelcomeFrame>(&send.frame.header());
  const auto* const counts = link == nullptr ? nullptr : link->connections.CountsOf(send.peer);
  if (welcome != nullptr && counts != nullptr) {
    WelcomeFrame counted = *welcome;
    counted.shard_frames_sent = counts->sent;
    send.frame = SealFitting(counted, send.frame.payload());
  }
  const absl::Status sent = send_to_peer(send.peer, send.frame);
  if (link != nullptr) Count(*link, send.peer, send.frame, sent);
  return sent;
}

void MemberLinks::Count(Link& link, const PeerId& peer, const SealedFrame& frame,
                        const absl::Status& sent) {
  WorkerConnections::Counts* const counts = link.connections.CountsOf(peer);
  if (counts != nullptr) ++counts->sent;  // dropped frames too
  if (!sent.ok()) return;
  link.traffic.sent[frame.header().kind()] += {
      .frames = 1, .bytes = frame.wire_bytes(encryption_), .payload_bytes = frame.payload().size()};
}

void MemberLinks::CountDropped(uint32_t worker, uint32_t segment) {
  const auto link = links_.find(worker);
  if (link == links_.end()) return;
  WorkerConnections& connections = link->second.connections;
  const PeerId* const route = connections.RouteOf(segment - first_segment_);
  if (route != nullptr) ++connections.CountsOf(*route)->sent;
}

std::vector<WorkerLinkReport> MemberLinks::Report() const {
  std::vector<WorkerLinkReport> reports;
  for (const auto& [worker, link] : links_) {
    reports.push_back(
        {.worker = worker, .connections = link.connections.size(), .traffic = link.traffic});
  }
  std::ranges::sort(reports, {}, &WorkerLinkReport::worker);
  return reports;
}

MemberLinks::Link* MemberLinks::Find(const FrameName& frame, uint32_t worker) {
  const auto found = frame.run == run_ ? links_.find(worker) : links_.end();
  return found == links_.end() ? nullptr : &found->second;
}

}  // namespace longwave
