#ifndef LONGWAVE_TESTS_INTRUDER_MEMBER_H_
#define LONGWAVE_TESTS_INTRUDER_MEMBER_H_

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/link/link.h"
#include "common/wire/frame.h"
#include "common/wire/payload.h"
#include "tests/intruder/guest.h"
#include "tests/intruder/secured_run.h"

namespace longwave {

// A member of the run with a certificate, a key and a place, that this test speaks for.
class GuestMember {
 public:
  static std::unique_ptr<GuestMember> Join(SecuredRun* run, const std::string& name) {
    auto guest = Admit(run, name);
    if (!guest.has_value()) return nullptr;
    auto member = std::make_unique<GuestMember>(run, *std::move(guest));
    absl::StatusOr<uint32_t> index;
    Answer([&] {
      index = member->client_->Register(member->guest_.Registration(1));
      return index.status();
    }).IgnoreError();
    if (!index.ok()) {
      ADD_FAILURE() << index.status();
      return nullptr;
    }
    member->heartbeat_ = {.worker = *index, .incarnation = 1};
    EXPECT_TRUE(member->BeatUntil([](const auto& reply) { return reply.membership.has_value(); }));
    return member;
  }
  GuestMember(SecuredRun* run, Guest guest)
      : run_(run), guest_(std::move(guest)), client_(run->As(guest_.folder)) {}
  ~GuestMember() {
    heartbeat_.leaving = true;
    client_->Heartbeat(heartbeat_).IgnoreError();
  }

  // Registers as another process of the guest, with that key.
  absl::Status RegisterWithKey(const std::string& data_key) {
    RegisterWorker request = guest_.Registration(2);
    request.data_key = data_key;
    return client_->Register(request).status();
  }
  const std::string& data_key() const { return guest_.keys.public_key; }
  CoordinatorClient& client() { return *client_; }

  template <typename Done>
  bool BeatUntil(const Done& done) {
    return Eventually("an answer to a heartbeat", [&] {
      const auto reply = client_->Heartbeat(heartbeat_);
      if (absl::IsUnavailable(reply.status())) return false;
      EXPECT_TRUE(reply.ok()) << reply.status();
      if (!reply.ok()) return true;
      run_word_ = reply->run;
      if (reply->membership.has_value()) {
        heartbeat_.known_epoch = reply->membership->epoch;
        for (const auto& one : reply->membership->members) {
          if (one.worker == heartbeat_.worker) first_round_ = one.first_round;
          EXPECT_EQ(one.data_key, "") << "that of " << one.name;
        }
      }
      return done(*reply);
    });
  }

  // Takes part from some round on.
  uint32_t BecomeActive() {
    heartbeat_.ready_round = 0;
    EXPECT_TRUE(BeatUntil([this](const auto&) { return first_round_ != kRoundNever; }));
    return first_round_;
  }

  std::unique_ptr<Dealer> Dial(const std::string& endpoint) {
    auto dealer = Dealer::Connect(endpoint, {.keys = guest_.keys});
    EXPECT_TRUE(dealer.ok()) << dealer.status();
    return *std::move(dealer);
  }
  std::unique_ptr<Dealer> Dial() { return Dial(run_->DataEndpoint(0)); }
  // A connection on which the member's hello has been answered.
  std::unique_ptr<Dealer> DialAndGreet(const std::string& endpoint = "") {
    auto dealer = endpoint.empty() ? Dial() : Dial(endpoint);
    EXPECT_TRUE(dealer->Send(Header<HelloFrame>(), Buffer()).ok());
    const auto answer = dealer->Receive(kPatience);
    EXPECT_TRUE(answer.ok() && answer->has_value() &&
                std::get<WelcomeFrame>((*answer)->header).outcome == Outcome::kAccepted);
    return dealer;
  }

  template <typename T>
  T Header() const {
    T header{.run = run_word_};
    header.worker = heartbeat_.worker;
    if constexpr (requires { header.epoch; }) header.epoch = heartbeat_.known_epoch;
    if constexpr (requires { header.weight; }) header.weight = 100;
    return header;
  }

  // Segment 0 of a contribution that is `value` everywhere, in the run's own form (fp32); or in its
  // last coefficient alone.
  Buffer Payload(float value, bool in_one = false) const {
    const auto form = PayloadLayout::Create(guest_.config.sync.up, guest_.layout.TileSizes(0));
    EXPECT_TRUE(form.ok()) << form.status();
    std::vector<std::byte> bytes(form->bytes());
    BeginPayload(*form, bytes);
    // The payload's head stays; fp32 values follow to its end.
    const size_t count = in_one ? 1 : PayloadValues();
    for (size_t i = 0; i < count; ++i)
      std::memcpy(bytes.data() + bytes.size() - (i + 1) * sizeof value, &value, sizeof value);
    return Buffer(std::move(bytes));
  }
  size_t PayloadValues() const {
    size_t count = 0;
    for (const uint32_t size : guest_.layout.TileSizes(0)) count += size;
    return count;
  }

  // The fate of a push to the open round: the other members go on without this one.
  Outcome Push(Dealer& dealer, PushFrame* push, const Buffer& payload) const {
    Outcome outcome = Outcome::kNone;
    EXPECT_TRUE(Eventually("an answer to a push of the open round", [&] {
      EXPECT_TRUE(dealer.Send(*push, payload).ok());
      auto answer = dealer.Receive(kPatience);
      // Each push has one answer; other frames in between are merged updates.
      while (answer.ok() && answer->has_value() &&
             !std::holds_alternative<AnswerFrame>((*answer)->header))
        answer = dealer.Receive(kPatience);
      if (!answer.ok() || !answer->has_value()) return true;
      const auto& header = std::get<AnswerFrame>((*answer)->header);
      outcome = header.outcome;
      if (outcome != Outcome::kLate && outcome != Outcome::kNotMember) return true;
      push->round = header.open_round;
      return false;
    }));
    return outcome;
  }

  uint32_t worker() const { return heartbeat_.worker; }
  const Guest& guest() const { return guest_; }
  const WorkerHeartbeat& heartbeat() const { return heartbeat_; }

 private:
  SecuredRun* const run_;
  const Guest guest_;
  const std::unique_ptr<CoordinatorClient> client_;
  WorkerHeartbeat heartbeat_;
  uint64_t run_word_ = 0;
  uint32_t first_round_ = kRoundNever;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_INTRUDER_MEMBER_H_
