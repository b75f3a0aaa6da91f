#include "tests/sim/checker.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/wire/crc32c.h"
#include "tests/sim/coefficients.h"

namespace longwave::sim {
namespace {

// Tolerance for the rounding of quantized contributions, against units of 60 and more.
constexpr double kQuantizedTolerance = 0.25;

}  // namespace

Checker::Checker(const WorldSettings& world, const Layout* layout, float start)
    : world_(world),
      oracle_(world, layout, start),
      plan_(world.MakeRoundPlan()),
      segments_(world.segments) {}

void Checker::Trained(uint32_t worker, const SyncPoint& point) {
  const auto [known, is_new] = trained_.try_emplace({point.round, point.fragment}, point);
  if (is_new || known->second == point || plan_is_excused_) return;
  Violate(absl::StrCat("worker ", worker, " takes its signal of round ", point.round, ", fragment ",
                       point.fragment, ", of ", point.steps, " steps at step ", point.signal_step,
                       "; another took it of ", known->second.steps, " steps at step ",
                       known->second.signal_step));
}

void Checker::Decided(const Intervals& part, bool is_excused) {
  plan_is_excused_ |= is_excused;
  if (is_excused) plan_ = world_.MakeRoundPlan();
  const absl::Status extended = plan_.Extend(part);
  if (extended.ok()) return;
  Violate(absl::StrCat("the coordinator decides otherwise: ", std::string(extended.message())));
}

void Checker::Violate(std::string what) {
  if (violation_.empty()) violation_ = std::move(what);
}

std::string Checker::Which(uint32_t worker, uint32_t round, uint32_t segment) {
  return absl::StrCat("worker ", worker, "'s push of round ", round, ", segment ", segment);
}

Account Checker::NewAccount() {
  return {.line = ++lines_,
          .owed = std::vector<double>(uint64_t{world_.segments} * kSegmentElements),
          .late = std::vector<bool>(world_.segments),
          .counted = std::vector<std::set<uint32_t>>(world_.segments)};
}

// An account of zero has none of the sent contributions.
void Checker::CountIfNothingIsOwed(Account* account, uint32_t segment) const {
  const auto owed =
      std::span(account->owed).subspan(uint64_t{segment} * kSegmentElements, kSegmentElements);
  const auto sent = counted_.find({account->line, segment});
  if (sent != counted_.end() && std::ranges::all_of(owed, [](double value) { return value == 0; }))
    account->counted[segment] = sent->second;
}

void Checker::Encoded(uint32_t worker, Account* account, uint32_t round, uint32_t segment,
                      std::span<const float> signal, const Buffer& payload) {
  double* const owed = account->owed.data() + uint64_t{segment} * kSegmentElements;
  if (world_.beta == 0 && !account->late[segment]) std::fill_n(owed, signal.size(), 0.0);
  account->late[segment] = false;
  CountIfNothingIsOwed(account, segment);
  for (size_t c = 0; c < signal.size(); ++c) owed[c] += double{signal[c]};
  const uint32_t crc = Crc32c(payload.bytes());
  auto& pushes = segments_[segment].rounds[round].pushes[worker];
  // A round that happens again gets what was taken back from it, possibly in equal bytes.
  std::erase_if(pushes, [&](const Push& push) {
    return push.line == account->line && push.crc == crc && push.fate == Fate::kLate;
  });
  // The copy keeps the encoder from reusing its buffer.
  pushes.push_back({.line = account->line, .crc = crc, .payload = payload, .fate = {}});
}

void Checker::Settled(uint32_t worker, Account* account, uint32_t round, uint32_t segment,
                      Fate fate) {
  Round& in = segments_[segment].rounds[round];
  auto& pushes = in.pushes[worker];
  // The last one, since a process with an old folder may have encoded the round again.
  const auto push = std::find_if(pushes.rbegin(), pushes.rend(),
                                 [&](const Push& one) { return one.line == account->line; });
  if (push == pushes.rend()) {
    return Violate(absl::StrCat(Which(worker, round, segment), " was settled, and never made"));
  }
  push->fate = fate;
  account->late[segment] = fate == Fate::kLate;
  if (fate == Fate::kUnknown) ++unknown_fates_;
  if (fate != Fate::kLate) {
    const Coefficients sent = ReadCoefficients(push->payload.bytes());
    double* const owed = account->owed.data() + uint64_t{segment} * kSegmentElements;
    for (size_t i = 0; i < sent.indices.size(); ++i)
      owed[sent.indices[i]] -= double{sent.values[i]};
  }
  // A push of unknown fate may be in no merge.
  const auto merged = in.contributors.find(worker);
  const bool is_left_out =
      in.merged && (merged == in.contributors.end() || merged->second.crc != push->crc);
  if (fate == Fate::kAccepted || (fate == Fate::kUnknown && !is_left_out))
    CheckCountedOnce(account, round, segment, worker);
  // A shard without its folder may not have said yet that the round happens again: see SettleLoss.
  if (in.merged && !segments_[segment].lost_folder && !segments_[segment].HasLost(round))
    CheckFate(in, worker, *push, Which(worker, round, segment));
}

void Checker::Recovered(Account* account, uint32_t round, std::span<const UnsettledPush> in_flight,
                        std::span<const JournalRecord> records) const {
  std::map<uint32_t, std::pair<uint32_t, Buffer>> open;  // by segment: round and payload
  for (const UnsettledPush& push : in_flight) open[push.segment] = {round, push.payload};
  const auto owed_of = [&](uint32_t segment) {
    return std::span(account->owed).subspan(uint64_t{segment} * kSegmentElements, kSegmentElements);
  };
  const auto accept = [&](uint32_t segment) {
    const auto push = open.extract(segment);
    if (push.empty()) return;
    const Coefficients sent = ReadCoefficients(push.mapped().second.bytes());
    for (size_t i = 0; i < sent.indices.size(); ++i)
      owed_of(segment)[sent.indices[i]] -= double{sent.values[i]};
    account->late[segment] = false;
    account->counted[segment].insert(push.mapped().first);
  };
  for (const JournalRecord& record : records) {
    const std::span<double> owed = owed_of(record.segment);
    const auto push = open.find(record.segment);
    const bool settles = push != open.end() && push->second.first == record.round;
    if (record.kind == JournalKind::kPush) {
      accept(record.segment);
      if (world_.beta == 0 && !account->late[record.segment]) std::ranges::fill(owed, 0.0);
      account->late[record.segment] = false;
      CountIfNothingIsOwed(account, record.segment);
      // Of these coefficients only what was sent is known.
      const Coefficients sent = ReadCoefficients(record.payload.bytes());
      for (size_t i = 0; i < sent.indices.size(); ++i) {
        if (sent.values[i] != 0) owed[sent.indices[i]] = double{sent.values[i]};
      }
      open[record.segment] = {record.round, record.payload};
    } else if (settles && record.kind == JournalKind::kAccepted) {
      accept(record.segment);
    } else if (settles) {
      account->late[record.segment] = record.kind == JournalKind::kReturned;
      if (record.kind == JournalKind::kDropped) std::ranges::fill(owed, 0.0);
      open.erase(push);
    }
  }
}

// A worker that goes on from an older folder owes again the contributions accepted since.
void Checker::CheckCountedOnce(Account* account, uint32_t round, uint32_t segment,
                               uint32_t worker) {
  std::set<uint32_t>& counted = counted_[{account->line, segment}];
  counted.insert(round);
  account->counted[segment].insert(round);
  for (const uint32_t before : counted) {
    if (before >= round || account->counted[segment].contains(before)) continue;
    return Violate(absl::StrCat(Which(worker, round, segment),
                                " is made of a residual from before its contribution to round ",
                                before, ", which counts twice"));
  }
}

// Checks that the fate that the worker learned agrees with the merge.
void Checker::CheckFate(const Round& round, uint32_t worker, const Push& push,
                        const std::string& which) {
  if (!push.fate.has_value() || *push.fate == Fate::kUnknown) return;
  const auto contributor = round.contributors.find(worker);
  const bool counted =
      contributor != round.contributors.end() && contributor->second.line == push.line;
  if (*push.fate == Fate::kAccepted && !counted) {
    if (round.poisons.contains(worker)) return;  // a poisoned push was accepted instead
    if (WasLost(round, worker, push)) {
      ++pushes_lost_;
      return;
    }
    Violate(absl::StrCat(which, " was accepted, and is not in the merge"));
  } else if (*push.fate == Fate::kLate && counted && contributor->second.crc == push.crc) {
    // A process with an old folder may have encoded the round again, in vain.
    Violate(absl::StrCat(which, " is in the merge, and its worker took it back as late"));
  }
}

bool Checker::WasLost(const Round& round, uint32_t worker, const Push& push) {
  const auto lost = round.lost.find(worker);
  return lost != round.lost.end() && lost->second == push.crc && !round.accepted.contains(worker);
}

void Checker::HoldsResidual(uint32_t worker, const Account& account,
                            std::span<const float> residual) {
  const double tolerance = world_.method == Method::kQuantized ? kQuantizedTolerance : 0;
  for (size_t c = 0; c < residual.size(); ++c) {
    if (std::abs(double{residual[c]} - account.owed[c]) <= tolerance) continue;
    // With β = 0 the next signal replaces the value, and a checkpoint may have done so already.
    if (world_.beta == 0 && !account.late[c / kSegmentElements] && residual[c] == 0) continue;
    return Violate(absl::StrCat("worker ", worker, "'s residual of segment ", c / kSegmentElements,
                                ", coefficient ", c % kSegmentElements, " is ", residual[c],
                                ", wanted its signals less what was accepted, ", account.owed[c]));
  }
}

void Checker::HoldsReplica(uint32_t worker, uint32_t segment, uint32_t round,
                           std::span<const float> elements) {
  if (round > oracle_.rounds(segment)) {
    return Violate(absl::StrCat("worker ", worker, " has segment ", segment, " before round ",
                                round, ", of which only ", oracle_.rounds(segment),
                                " rounds were told"));
  }
  const std::vector<float>& wanted = oracle_.Theta(segment, round);
  if (std::memcmp(wanted.data(), elements.data(), elements.size_bytes()) == 0) return;
  for (size_t e = 0; e < elements.size(); ++e) {
    if (wanted[e] == elements[e]) continue;
    return Violate(absl::StrCat("worker ", worker, "'s replica of segment ", segment,
                                " before round ", round, " has ", elements[e], " at ", e,
                                ", wanted ", wanted[e]));
  }
}

void Checker::Answered(const AnswerFrame& header, uint32_t crc) {
  if (header.segment >= segments_.size()) return;
  Segment& segment = segments_[header.segment];
  const uint32_t open_round = header.open_round;
  // 0: not stated, for example while the shard's disk is in trouble.
  if (open_round > 0) {
    if (open_round < segment.open_round_before) {
      Violate(absl::StrCat("segment ", header.segment, " opened round ", segment.open_round_before,
                           ", and now says it is at ", open_round));
    }
    segment.open_round = std::max(segment.open_round, open_round);
  }
  if (crc == 0) return;
  const bool accepted = header.outcome == Outcome::kAccepted;
  if (!accepted && header.outcome != Outcome::kLate) return;
  Round& round = segment.rounds[header.round];
  if (accepted) {
    SettleLoss(header.segment, header.round);
    round.accepted[header.worker] = crc;
  }
  // After a lost folder the round may be another one of that number. Its update was never sent,
  // since the log's sync failed with it, but was read from the log after all. The answer `late` and
  // the following update show that.
  if (!round.merged || segment.lost_folder || segment.HasLost(header.round)) return;
  const bool counted = round.contributors.contains(header.worker);
  if (accepted != counted) {
    Violate(absl::StrCat(Which(header.worker, header.round, header.segment), " is answered ",
                         std::string(Name(header.outcome)), ", and is ", counted ? "" : "not ",
                         "in the merge"));
  }
}

void Checker::Poisoned(const PushFrame& header, const Buffer& payload) {
  poisoners_.insert(header.worker);
  segments_[header.segment].rounds[header.round].poisons[header.worker].push_back(
      {.crc = header.payload_crc, .payload = payload});
}

std::vector<Contributor> Checker::Contributors(const Round& round,
                                               const std::vector<Contributor>* logged) {
  if (logged != nullptr) return *logged;
  // Without a log no answer is lost between a push and its merge.
  std::vector<Contributor> contributors;
  for (const auto& [worker, crc] : round.accepted) contributors.push_back({.worker = worker});
  return contributors;
}

const Checker::Push* Checker::PushOf(const Round& round, uint32_t worker,
                                     const AcceptedCrc& accepted_crc) const {
  const auto found = round.pushes.find(worker);
  if (found == round.pushes.end()) return nullptr;
  if (found->second.size() == 1) return &found->second.front();
  const auto answered = round.accepted.find(worker);
  const std::optional<uint32_t> crc =
      answered != round.accepted.end() ? std::optional(answered->second) : accepted_crc(worker);
  if (!crc.has_value()) return nullptr;
  // For equal bytes of two lines, the later line's push, whose worker is there to learn its fate.
  const Push* match = nullptr;
  for (const Push& push : found->second) {
    if (push.crc == *crc) match = &push;
  }
  return match;
}

void Checker::Merged(const MergedFrame& header, const Buffer& payload,
                     const std::vector<Contributor>* contributors,
                     const AcceptedCrc& accepted_crc) {
  const std::string what =
      absl::StrCat("the update of round ", header.round, ", segment ", header.segment);
  Segment& segment = segments_[header.segment];
  Round& round = segment.rounds[header.round];
  const uint32_t crc = Crc32c(payload.bytes());
  SettleLoss(header.segment, header.round);
  if (segment.HasLost(header.round)) {
    // The same pushes make the same update. Others make another one, if no replica has the first.
    const bool is_same = round.merged && round.merged_crc == crc;
    segment.lost_from.reset();
    if (is_same) segment.lost_from = header.round + 1;
    if (round.merged && !is_same) Rewind(header.segment, header.round, /*keeps_residual=*/true);
  }
  if (round.merged) {
    if (round.merged_crc != crc) Violate(absl::StrCat(what, " was told with other bytes"));
    return;
  }
  if (header.round != oracle_.rounds(header.segment)) {
    return Violate(
        absl::StrCat(what, " is told, wanted that of round ", oracle_.rounds(header.segment)));
  }
  round.merged = true;
  round.merged_crc = crc;
  std::vector<Buffer> merged, left_out;
  for (const auto& [worker, weight, factor, kept_crc] : Contributors(round, contributors)) {
    if (factor == 0) {
      const auto crc = accepted_crc(worker);
      for (const Push& poison : round.poisons[worker]) {
        if (poison.crc == crc) left_out.assign(1, poison.payload);
      }
      if (left_out.empty()) Violate(absl::StrCat(what, " is without an honest push"));
      continue;
    }
    const Push* const push = PushOf(round, worker, accepted_crc);
    if (push == nullptr) {
      return Violate(absl::StrCat(Which(worker, header.round, header.segment),
                                  " is in the merge, and nobody made it"));
    }
    round.contributors[worker] = {.line = push->line, .crc = push->crc};
    merged.push_back(push->payload);
  }
  pushes_merged_ += merged.size();
  if (merged.size() + left_out.size() != header.contributions) {
    return Violate(absl::StrCat(what, " says that it is of ", header.contributions, " pushes, of ",
                                merged.size() + left_out.size(), " in the log"));
  }
  for (const auto& [worker, accepted] : round.accepted) {
    if (round.contributors.contains(worker)) continue;
    Violate(absl::StrCat(Which(worker, header.round, header.segment),
                         " was answered accepted, and is not in the merge"));
  }
  if (const std::string wrong = oracle_.Merge(header.segment, merged, left_out, payload);
      !wrong.empty()) {
    return Violate(absl::StrCat(what, ": ", wrong));
  }
  CheckFates(round, header.round, header.segment);
}

void Checker::CheckFates(const Round& round, uint32_t number, uint32_t segment) {
  for (const auto& [worker, pushes] : round.pushes) {
    for (const Push& push : pushes) CheckFate(round, worker, push, Which(worker, number, segment));
  }
}

void Checker::Committed() {
  for (Segment& segment : segments_) segment.open_round_before = segment.open_round;
}

void Checker::LostFolder(uint32_t first_segment, uint32_t segment_count) {
  for (uint32_t s = first_segment; s < first_segment + segment_count; ++s) {
    segments_[s].lost_folder = true;
    segments_[s].open_round = segments_[s].open_round_before = 0;
    segments_[s].lost_from.reset();
    oracle_.ForgetResidual(s);
    ForgetAccepted(s, 0);
  }
}

void Checker::ForgetAccepted(uint32_t segment, uint32_t first_round) {
  for (auto& [number, round] : segments_[segment].rounds) {
    if (number < first_round) continue;
    round.lost.insert(round.accepted.begin(), round.accepted.end());
    round.accepted.clear();
  }
}

void Checker::LostTail(uint32_t index, uint32_t open_round) {
  Segment& segment = segments_[index];
  if (segment.lost_folder) return;
  segment.lost_from = std::min(segment.lost_from.value_or(open_round), open_round);
  segment.open_round = segment.open_round_before = open_round;
  ForgetAccepted(index, open_round);
}

void Checker::Restored(uint32_t index, uint32_t round) {
  Segment& segment = segments_[index];
  if (!segment.lost_from.has_value()) return;
  ForgetAccepted(index, *segment.lost_from);
  segment.lost_from.reset();
  if (round < oracle_.rounds(index)) return Rewind(index, round);
  oracle_.ForgetResidual(index);
}

// The first push that a shard accepts, or update that it sends, after a lost folder shows its open
// round. Later rounds happen again, and violations are no longer excused.
void Checker::SettleLoss(uint32_t index, uint32_t round) {
  Segment& segment = segments_[index];
  if (!std::exchange(segment.lost_folder, false)) return;
  if (segment.rounds[round].merged) Rewind(index, round);
  for (const auto& [number, kept] : segment.rounds) {
    if (kept.merged) CheckFates(kept, number, index);
  }
}

// No living member has the rounds from first_round on, which happen again.
void Checker::Rewind(uint32_t index, uint32_t first_round, bool keeps_residual) {
  Segment& segment = segments_[index];
  oracle_.Rewind(index, first_round, keeps_residual);
  for (auto& [line_and_segment, rounds] : counted_) {
    if (line_and_segment.second == index)
      rounds.erase(rounds.lower_bound(first_round), rounds.end());
  }
  for (auto& [number, round] : segment.rounds) {
    if (number < first_round) continue;
    round.merged = false;
    round.contributors.clear();
    for (auto& [worker, pushes] : round.pushes) {
      for (Push& push : pushes) push.fate.reset();
    }
  }
}

}  // namespace longwave::sim
