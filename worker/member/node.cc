#include "worker/member/node.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/enum_name.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

// How long a rank waits for events of its own before it meets the others, who may have some.
constexpr absl::Duration kEventPatience = absl::Milliseconds(2);
// Until the run begins, rank 0 waits for other machines, and the others for rank 0. A rank that
// ends breaks the link at once.
constexpr absl::Duration kStartPatience = absl::Hours(24 * 365);

// For the sentence of ranks that are apart: one leaves while another trains, for example.
std::string_view NameOf(NodeMessage::Meeting meeting) {
  return EnumName(meeting, {"the run's beginning", "the end of a step", "a sync", "a checkpoint",
                            "the end of a round", "its end"});
}

// The events that have come, after a wait for the first.
template <typename Event, typename Take>
absl::Status TakeAll(Take take, absl::Duration patience, std::vector<Event>* events) {
  for (;;) {
    LONGWAVE_ASSIGN_OR_RETURN(std::optional<Event> event,
                              take(events->empty() ? patience : absl::ZeroDuration()));
    if (!event.has_value()) return absl::OkStatus();
    events->push_back(*std::move(event));
  }
}

}  // namespace

Node::Node(NodeLink* link, const Layout* layout, const StopSignal* stop, absl::Duration patience,
           Histogram* meeting_seconds)
    : link_(link),
      stop_(stop),
      patience_(patience),
      meeting_seconds_(meeting_seconds),
      rank_(link->node()),
      owned_(SegmentsOfRank(*layout, rank_.rank, rank_.ranks)) {}

void Node::Open(std::unique_ptr<Exchange> exchange, ControlPlane* control, uint64_t process) {
  exchange_ = std::move(exchange);
  control_ = control;
  process_ = process;
}

NodeMessage Node::Message(Meeting meeting, const absl::Status& status) {
  NodeMessage message;
  message.meeting = meeting;
  message.status = status;
  message.stop_requested = stop_->requested();
  {
    const std::lock_guard lock(warnings_mutex_);
    message.warnings = std::exchange(warnings_, {});
  }
  if (exchange_ != nullptr) {
    message.newest_open_round = exchange_->NewestOpenRound();
    message.bytes = exchange_->counts();
    message.renewals = exchange_->renewals();
  }
  if (control_ == nullptr) return message;
  message.now = MonotonicNow();
  message.directive = control_->directive();
  message.stop_requested |= control_->stop_requested();
  message.ended = control_->ended();  // after the stop, which the session's end requests
  message.endpoints = control_->TakeNewEndpoints();
  return message;
}

absl::StatusOr<std::vector<NodeMessage>> Node::Meet(const NodeMessage& mine,
                                                    absl::Duration patience) {
  // Every later meeting fails with the reason of the first that failed.
  LONGWAVE_RETURN_IF_ERROR(failure_);
  const absl::Time began = MonotonicNow();
  absl::StatusOr<std::vector<NodeMessage>> messages = GatherMessages(mine, patience);
  if (meeting_seconds_ != nullptr && exchange_ != nullptr)
    meeting_seconds_->Observe(absl::ToDoubleSeconds(MonotonicNow() - began));
  failure_ = messages.status();
  if (!messages.ok()) return messages;
  stop_requested_ = false;
  newest_open_round_ = 0;
  bytes_ = {};
  renewals_ = 0;
  for (const NodeMessage& message : *messages) {
    stop_requested_ |= message.stop_requested;
    newest_open_round_ = std::max(newest_open_round_, message.newest_open_round);
    bytes_ = bytes_ + message.bytes;
    renewals_ += message.renewals;
    if (rank_.rank != 0) continue;
    for (const std::string& text : message.warnings) Warn(text);
  }
  const NodeMessage& first = messages->front();
  now_ = first.now;
  directive_ = first.directive;
  if (first.endpoints.has_value()) endpoints_ = first.endpoints;
  return messages;
}

absl::StatusOr<std::vector<NodeMessage>> Node::GatherMessages(const NodeMessage& mine,
                                                              absl::Duration patience) {
  const Meeting meeting = mine.meeting;
  const absl::Status own = mine.status;
  absl::StatusOr<std::vector<std::string>> gathered = link_->AllGather(Encode(mine), patience);
  if (!gathered.ok()) return own.ok() ? gathered.status() : own;
  LONGWAVE_CHECK(gathered->size() == rank_.ranks);
  std::vector<NodeMessage> messages;
  for (const std::string& bytes : *gathered) {
    LONGWAVE_ASSIGN_OR_RETURN(messages.emplace_back(), DecodeNodeMessage(bytes));
  }
  ended_ = messages[0].ended;
  LONGWAVE_RETURN_IF_ERROR(own);
  for (uint32_t r = 0; r < messages.size(); ++r) {
    const NodeMessage& message = messages[r];
    if (!message.status.ok()) {
      return absl::Status(message.status.code(),
                          absl::StrCat("rank ", r, " of this node: ", message.status.message()));
    }
    if (message.meeting != meeting) {
      return Unavailable("node: the ranks are not at the same point: rank ", r, " is at ",
                         NameOf(message.meeting), " and rank ", rank_.rank, " at ", NameOf(meeting),
                         ", wanted the same calls of all");
    }
  }
  return messages;
}

absl::StatusOr<RunStart> Node::Share(const absl::StatusOr<RunStart>& mine,
                                     std::optional<absl::Status> ended) {
  NodeMessage message = Message(Meeting::kStart, mine.status());
  message.ended = std::move(ended);
  if (mine.ok()) {
    message.run = mine->run;
    message.worker = mine->worker;
    message.process = mine->process;
    message.endpoints = mine->shard_endpoints;
    message.public_key = mine->keys.public_key;
    message.secret_key = mine->keys.secret_key;
  }
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<NodeMessage> messages, Meet(message, kStartPatience));
  const NodeMessage& first = messages[0];
  endpoints_.reset();
  return RunStart{.run = first.run,
                  .worker = first.worker,
                  .process = first.process,
                  .shard_endpoints = first.endpoints.value_or(std::vector<std::string>()),
                  .keys = {first.public_key, first.secret_key}};
}

absl::StatusOr<std::vector<uint64_t>> Node::Hashes(std::vector<uint64_t> own) {
  NodeMessage message = Message(Meeting::kHashes);
  message.hashes = std::move(own);
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<NodeMessage> messages,
                            Meet(message, exchange_ == nullptr ? kStartPatience : patience_));
  std::vector<uint64_t> all;
  for (const NodeMessage& each : messages)
    all.insert(all.end(), each.hashes.begin(), each.hashes.end());
  return all;
}

absl::Status Node::Agree(const absl::Status& mine, absl::Duration patience) {
  // A failure that the ranks only compare ends nobody.
  NodeMessage message = Message(Meeting::kAgree);
  message.hashes = {mine.ok() ? 0u : 1u};
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<NodeMessage> messages, Meet(message, patience));
  if (!mine.ok()) return mine;
  for (uint32_t r = 0; r < messages.size(); ++r) {
    if (messages[r].hashes != std::vector<uint64_t>{0})
      return Aborted("rank ", r, " of this node could not");
  }
  return absl::OkStatus();
}

absl::StatusOr<Node::Step> Node::StepDone(uint64_t tokens, std::optional<double> loss,
                                          std::vector<double> figures) {
  NodeMessage message = Message(Meeting::kStep);
  message.tokens = tokens;
  message.loss = loss;
  message.figures = std::move(figures);
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<NodeMessage> messages, Meet(message));
  Step step;
  const auto losses = std::ranges::count_if(
      messages, [](const NodeMessage& each) { return each.loss.has_value(); });
  for (const NodeMessage& each : messages) {
    step.tokens += each.tokens;
    if (each.loss) step.loss = step.loss.value_or(0) + *each.loss / static_cast<double>(losses);
    step.figures.resize(each.figures.size());
    std::ranges::transform(step.figures, each.figures, step.figures.begin(), std::plus());
  }
  return step;
}

void Node::Fail(const absl::Status& failure) {
  if (!failure_.ok()) return;
  Meet(Message(Meeting::kEnd, failure)).status().IgnoreError();
}

template <typename Event, typename Take>
absl::StatusOr<std::optional<Event>> Node::NextOf(std::deque<Event>& queue,
                                                  std::vector<Event> NodeMessage::*list, Take take,
                                                  absl::Duration timeout) {
  if (!queue.empty()) return TakeFirst(queue);
  std::vector<Event> own;
  const absl::Status taken = TakeAll(take, std::min(timeout, kEventPatience), &own);
  NodeMessage message = Message(Meeting::kEvents, taken);
  message.*list = own;
  LONGWAVE_ASSIGN_OR_RETURN(std::vector<NodeMessage> messages, Meet(message));
  // The messages have no payloads, which this rank's own events have.
  messages[rank_.rank].*list = std::move(own);
  for (NodeMessage& each : messages) std::ranges::move(each.*list, std::back_inserter(queue));
  return TakeFirst(queue);
}

absl::StatusOr<std::optional<Settled>> Node::Next(absl::Duration timeout) {
  return NextOf(
      settled_, &NodeMessage::settled,
      [this](absl::Duration patience) { return exchange_->Next(patience); }, timeout);
}

absl::StatusOr<std::optional<FetchEvent>> Node::NextFetched(absl::Duration timeout) {
  return NextOf(
      fetched_, &NodeMessage::fetched,
      [this](absl::Duration patience) { return exchange_->NextFetched(patience); }, timeout);
}

void Node::DropFetched(uint32_t segment) {
  std::erase_if(fetched_, [&](const FetchEvent& event) { return event.segment == segment; });
}

absl::Status Node::Post(SegmentPush push) {
  DropFetched(push.segment);
  return owned_.Contains(push.segment) ? exchange_->Post(std::move(push)) : absl::OkStatus();
}

absl::Status Node::Fetch(uint32_t segment, uint32_t from_round, uint32_t until_round) {
  DropFetched(segment);
  if (!owned_.Contains(segment)) return absl::OkStatus();
  return exchange_->Fetch(segment, from_round, until_round);
}

absl::Duration Node::coordinator_silence() const {
  return control_ == nullptr ? absl::ZeroDuration() : control_->coordinator_silence();
}

void Node::Warn(const std::string& text) {
  if (control_ != nullptr) return control_->Warn(text);
  const std::lock_guard lock(warnings_mutex_);
  warnings_.push_back(text);
}

void Node::SetState(const WorkerState& state) {
  if (control_ != nullptr) control_->SetState(state);
}

void Node::Report(RoundReport report) {
  if (control_ != nullptr) control_->Report(std::move(report));
}

void Node::SetReadyRound(uint32_t round) {
  if (control_ != nullptr) control_->SetReadyRound(round);
}

std::optional<std::vector<std::string>> Node::TakeNewEndpoints() {
  return std::exchange(endpoints_, std::nullopt);
}

void Node::Finish(const FinalReport& report) {
  if (control_ != nullptr) control_->Finish(report);
}

absl::StatusOr<bool> Node::AwaitEnd(absl::Duration patience) {
  const absl::StatusOr<bool> own =
      control_ == nullptr ? absl::StatusOr<bool>(false) : control_->AwaitEnd(patience);
  NodeMessage message = Message(Meeting::kEnd, own.status());
  message.hashes = {own.value_or(false) ? 1u : 0u};
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<NodeMessage> messages, Meet(message));
  return messages[0].hashes == std::vector<uint64_t>{1};
}

}  // namespace longwave
