// Strangers at the data ports, members that lie there, and floods at every port.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/descriptor.h"
#include "common/link/link.h"
#include "common/rpc/join.h"
#include "common/wire/frame.h"
#include "common/wire/payload.h"
#include "tests/intruder/guest.h"
#include "tests/intruder/secured_run.h"
#include "tests/support/tcp_client.h"

namespace longwave {
namespace {

// A relay between one client and a server that keeps the client's bytes.
class Relay {
 public:
  explicit Relay(const std::string& target)
      : target_(target), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    endpoint_ = absl::StrCat("tcp://127.0.0.1:", ntohs(address.sin_port));
    thread_ = std::thread([this] { Pump(); });
  }
  ~Relay() {
    ending_ = true;
    thread_.join();
    close(listener_);
  }

  const std::string& endpoint() const { return endpoint_; }
  std::string Recorded() {
    const std::lock_guard lock(mutex_);
    return recorded_;
  }

 private:
  void Pump() {
    int client = -1, server = -1;
    while (!ending_) {
      pollfd items[] = {{client < 0 ? listener_ : client, POLLIN, 0}, {server, POLLIN, 0}};
      if (poll(items, client < 0 ? 1 : 2, 50) <= 0) continue;
      if (client < 0) {
        client = accept(listener_, nullptr, nullptr);
        server = ConnectTo(target_);
        continue;
      }
      if (items[0].revents != 0 && !Copy(client, server, true)) break;
      if (items[1].revents != 0 && !Copy(server, client, false)) break;
    }
    if (client >= 0) close(client);
    if (server >= 0) close(server);
  }

  bool Copy(int from, int to, bool keep) {
    char bytes[65536];
    const ssize_t size = read(from, bytes, sizeof bytes);
    if (size <= 0 || write(to, bytes, static_cast<size_t>(size)) != size) return false;
    const std::lock_guard lock(mutex_);
    if (keep) recorded_.append(bytes, static_cast<size_t>(size));
    return true;
  }

  const std::string target_;
  const int listener_;
  std::string endpoint_;
  std::mutex mutex_;
  std::string recorded_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

// A member of the run with a certificate, a key and a place, that this test speaks for.
class Member {
 public:
  static std::unique_ptr<Member> Join(SecuredRun* run, const std::string& name) {
    auto guest = Admit(run, name);
    if (!guest.has_value()) return nullptr;
    auto member = std::make_unique<Member>(run, *std::move(guest));
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
  Member(SecuredRun* run, Guest guest)
      : run_(run), guest_(std::move(guest)), client_(run->As(guest_.folder)) {}
  ~Member() {
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

 private:
  SecuredRun* const run_;
  const Guest guest_;
  const std::unique_ptr<CoordinatorClient> client_;
  WorkerHeartbeat heartbeat_;
  uint64_t run_word_ = 0;
  uint32_t first_round_ = kRoundNever;
};

class DataIntruder : public ::testing::Test {
 protected:
  void SetUp() override {
    run_ = SecuredRun::Get();
    ASSERT_NE(run_, nullptr) << "there is no run to intrude into";
    ASSERT_TRUE(run_->Running()) << "the run has ended";
  }

  // A shard's count for a reason, and how much it has logged.
  struct Mark {
    std::string reason;
    uint32_t shard = 0;
    uint64_t count = 0;
    size_t log = 0;
  };
  Mark Now(const std::string& reason, uint32_t shard = 0) {
    // Lines about refused connections come once a minute, so perhaps earlier.
    const bool is_anonymous = reason == "data_connection";
    const size_t log = is_anonymous ? 0 : run_->LogOf(absl::StrCat("shard-", shard)).size();
    return {reason, shard, run_->ShardRefusals(shard, reason), log};
  }
  // Expects a higher count of the shard for the reason, and a new log line with all parts. Repeats
  // `attack`, which has just been made, until then, since a line about its address is repeated only
  // after a minute.
  template <typename Attack>
  void ExpectCounted(const Mark& before, std::vector<std::string> parts, const Attack& attack) {
    parts.push_back(absl::StrCat("refused (", before.reason, ","));
    EXPECT_TRUE(Eventually(absl::StrCat("a refusal for ", before.reason), [&] {
      return run_->ShardRefusals(before.shard, before.reason) > before.count;
    }));
    const std::string process = absl::StrCat("shard-", before.shard);
    EXPECT_TRUE(Eventually(absl::StrCat(absl::StrJoin(parts, " … "), " in the log"), [&] {
      if (run_->Logged(process, before.log, parts)) return true;
      attack();
      return false;
    }));
  }

  // A shard closes a connection that sends these bytes after the greeting.
  void EndConnection(const std::string& bytes, uint32_t shard = 0) {
    const int fd = ConnectTo(run_->DataEndpoint(shard));
    ASSERT_GE(fd, 0);
    char greeting[10];
    EXPECT_EQ(recv(fd, greeting, sizeof greeting, MSG_WAITALL), ssize_t{sizeof greeting});
    EXPECT_GT(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
    EXPECT_TRUE(HungUp(fd, kPatience));
    close(fd);
  }

  // Connects with an unknown key, until that is counted.
  void ConnectWithAStrangersKey() {
    const Mark before = Now("data_connection");
    const auto dealer = Dealer::Connect(run_->DataEndpoint(0), {.keys = *MakeCurveKeys()});
    ASSERT_TRUE(dealer.ok());
    ASSERT_TRUE((*dealer)->Send(HelloFrame(), Buffer()).ok());
    EXPECT_TRUE(Eventually("a key is refused", [&] {
      return run_->ShardRefusals(0, "data_connection") > before.count;
    }));
    EXPECT_EQ((*dealer)->counts().received, 0u);
  }

  void RefuseOneOfEachKind() {
    EXPECT_FALSE(Answer([&] { return run_->StopWithoutCertificate(); }).ok());
    const auto other = Authority::Make("somebody else", absl::Now());
    ASSERT_TRUE(other.ok());
    const std::string foreign =
        run_->Forge(**other, OperatorIdentity(), {absl::Now(), absl::Hours(1)});
    EXPECT_FALSE(Answer([&] { return run_->As(foreign)->StopRun("by a stranger"); }).ok());
    EXPECT_FALSE(Answer([&] {
                   return run_->As(run_->credentials("worker-0"))->StopRun("by a worker");
                 }).ok());
    const std::string token =
        run_->as_operator()
            .CreateToken({.life = absl::Hours(1), .uses = 1, .subject = "worker/"})
            .value_or(NewToken())
            .token;
    const std::string folder = run_->NewFolder(), name = run_->NewName("outcast");
    const auto join = [&](const std::string& who, const std::string& where) {
      return Answer(
          [&] { return JoinRun(run_->address(), token, WorkerIdentity(who), where).status(); });
    };
    ASSERT_TRUE(join(name, folder).ok());
    EXPECT_FALSE(join("late", run_->NewFolder()).ok());
    // By the shard too, once it has heard of it.
    const auto shard = run_->ShardAs(0, folder);
    ASSERT_TRUE(run_->as_operator().Expel(name, false).ok());
    EXPECT_FALSE(Answer([&] { return run_->As(folder)->GetStatus(0).status(); }).ok());
    EXPECT_TRUE(Eventually("the shard hears of it",
                           [&] { return absl::IsPermissionDenied(shard->GetStatus().status()); }));

    ConnectWithAStrangersKey();
    EndConnection(ZmtpGreeting("NULL"));
    const auto member = Member::Join(run_, run_->NewName("liar"));
    ASSERT_NE(member, nullptr);
    const auto dealer = member->Dial();
    auto lie = member->Header<HelloFrame>();
    lie.worker = member->worker() == 0 ? 1 : 0;
    EXPECT_TRUE(dealer->Send(lie, Buffer()).ok());
    EXPECT_TRUE(Eventually("all of that is counted", [&] {
      return run_->ShardRefusals(0, "data_connection") >= 2 &&
             run_->ShardRefusals(0, "data_worker") > 0;
    }));
  }

  // The run has gone on since, and its replicas are equal.
  void ExpectTheRunGoesOn() {
    const uint64_t rounds = run_->Status().record_count;
    EXPECT_TRUE(
        Eventually("two more rounds", [&] { return run_->Status().record_count >= rounds + 2; }));
    const RunStatus status = run_->Status();
    EXPECT_EQ(status.phase, RunPhase::kTraining);
    EXPECT_TRUE(status.replicas_equal) << status.inequality;
    EXPECT_TRUE(run_->Running());
  }

  SecuredRun* run_ = nullptr;
};

TEST_F(DataIntruder, WithAStrangersKeyIsNotLetIn) {
  const Mark before = Now("data_connection");
  const auto attack = [&] { ConnectWithAStrangersKey(); };
  attack();
  ExpectCounted(before, {"its key is no member's"}, attack);
}

TEST_F(DataIntruder, InPlainTextIsNotLetIn) {
  const Mark before = Now("data_connection");
  const auto attack = [&] { EndConnection(ZmtpGreeting("NULL")); };
  attack();
  ExpectCounted(before, {"does not speak CURVE"}, attack);
  // ZeroMQ's own client may notice by itself, and close first.
  const std::string endpoint = run_->DataEndpoint(0);
  const auto dealer = Dealer::Connect(endpoint.substr(0, endpoint.find('?')));
  ASSERT_TRUE(dealer.ok());
  ASSERT_TRUE((*dealer)->Send(HelloFrame(), Buffer()).ok());
  const auto received = (*dealer)->Receive(absl::Seconds(1));
  EXPECT_FALSE(received.ok() && received->has_value());
}

TEST_F(DataIntruder, AMemberThatNamesAnotherWorkerIsRefused) {
  const auto member = Member::Join(run_, run_->NewName("liar"));
  ASSERT_NE(member, nullptr);
  const auto dealer = member->Dial();
  // The member's own hello has an answer.
  ASSERT_TRUE(dealer->Send(member->Header<HelloFrame>(), Buffer()).ok());
  const auto answer = dealer->Receive(kPatience);
  ASSERT_TRUE(answer.ok() && answer->has_value());
  EXPECT_EQ(std::get<WelcomeFrame>((*answer)->header).outcome, Outcome::kAccepted);

  const Mark before = Now("data_worker");
  auto lie = member->Header<PushFrame>();
  lie.worker = member->worker() == 0 ? 1 : 0;
  const auto attack = [&] { EXPECT_TRUE(dealer->Send(lie, member->Payload(1)).ok()); };
  attack();
  ExpectCounted(before,
                {absl::StrCat("names worker ", lie.worker, " came by a connection of worker ",
                              member->worker())},
                attack);
}

TEST_F(DataIntruder, AMemberLearnsNobodysKeyAndTakesNobodysPlaceWithIt) {
  const auto owner = Member::Join(run_, run_->NewName("owner"));
  const auto thief = Member::Join(run_, run_->NewName("thief"));
  ASSERT_TRUE(owner != nullptr && thief != nullptr);
  const auto status = thief->client().GetStatus(0);
  ASSERT_TRUE(status.ok()) << status.status();
  for (const MemberStatus& member : status->members)
    EXPECT_EQ(member.member.data_key, "") << member.member.name;
  const absl::Status refused = thief->RegisterWithKey(owner->data_key());
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  // The owner's connection is its own as before.
  const auto dealer = owner->Dial();
  ASSERT_TRUE(dealer->Send(owner->Header<HelloFrame>(), Buffer()).ok());
  const auto answer = dealer->Receive(kPatience);
  EXPECT_TRUE(answer.ok() && answer->has_value());
}

TEST_F(DataIntruder, AnExpelledMembersOpenConnectionIsWorthNothing) {
  const std::string name = run_->NewName("outlaw");
  const auto member = Member::Join(run_, name);
  ASSERT_NE(member, nullptr);
  const auto dealer = member->Dial();
  ASSERT_TRUE(dealer->Send(member->Header<HelloFrame>(), Buffer()).ok());
  const auto answer = dealer->Receive(kPatience);
  ASSERT_TRUE(answer.ok() && answer->has_value());
  const Mark before = Now("data_worker");
  ASSERT_TRUE(run_->as_operator().Expel(name, false).ok());
  const auto attack = [&] { dealer->Send(member->Header<HelloFrame>(), Buffer()).IgnoreError(); };
  EXPECT_TRUE(Eventually("its frames are refused", [&] {
    attack();
    return run_->ShardRefusals(0, "data_worker") > before.count;
  }));
  ExpectCounted(before, {"no member any more"}, attack);
}

TEST_F(DataIntruder, NaNsAndOversizedNormsAreRejected) {
  const auto member = Member::Join(run_, run_->NewName("poisoner"));
  ASSERT_NE(member, nullptr);
  const auto dealer = member->Dial();
  auto push = member->Header<PushFrame>();
  push.round = member->BecomeActive();
  const auto send = [&](float value, float norm) {
    push.norm = norm;
    return member->Push(*dealer, &push, member->Payload(value));
  };
  const float size = std::sqrt(static_cast<float>(member->PayloadValues()));
  const ShardState before = run_->ShardStatus(0).state;
  const size_t log = run_->LogOf("shard-0").size();
  EXPECT_EQ(send(std::numeric_limits<float>::quiet_NaN(), size), Outcome::kRejected);
  EXPECT_EQ(send(std::numeric_limits<float>::infinity(), size), Outcome::kRejected);
  EXPECT_EQ(send(1e-6f, 1e30f), Outcome::kRejected) << "a norm that is not its payload's";
  EXPECT_GE(run_->ShardStatus(0).state.pushes_rejected, before.pushes_rejected + 3);
  EXPECT_TRUE(Eventually("that in the log, at the latest when its count has doubled", [&] {
    if (run_->Logged("shard-0", log, {"rejected"})) return true;
    EXPECT_EQ(send(1e-6f, 1e30f), Outcome::kRejected);
    return false;
  }));
}

// A member with a valid certificate and values that are numbers: the honest train on.
TEST_F(DataIntruder, APoisonedUpdateHarmsNobodyAndItsSenderIsNamed) {
  const auto member = Member::Join(run_, run_->NewName("poisoner"));
  ASSERT_NE(member, nullptr);
  const auto dealer = member->Dial();
  const std::string who = absl::StrCat("worker ", member->worker(), ", round ");
  const size_t log = run_->LogOf("shard-0").size();
  auto push = member->Header<PushFrame>();
  push.round = member->BecomeActive();
  push.weight = kWeightMax;
  push.norm = 1e-6f;
  EXPECT_EQ(member->Push(*dealer, &push, member->Payload(1e-6f, true)), Outcome::kRejected);
  push.weight = 100;
  push.norm = 3e38f;
  EXPECT_EQ(member->Push(*dealer, &push, member->Payload(3e38f, true)), Outcome::kRejected);
  const auto names = [&](const std::string& what) {
    return Eventually(absl::StrCat("the status says ", who, "… ", what), [&] {
      for (const auto& shard : run_->Status().shards) {
        if (absl::StrContains(shard.complaint, who) && absl::StrContains(shard.complaint, what))
          return true;
      }
      return false;
    });
  };
  EXPECT_TRUE(names("norm 3e+38"));
  // A possible norm, among those of the others.
  push.norm = 1e9f * std::sqrt(static_cast<float>(member->PayloadValues()));
  EXPECT_EQ(member->Push(*dealer, &push, member->Payload(1e9f)), Outcome::kAccepted);
  EXPECT_TRUE(names("left out of the merge"));
  EXPECT_TRUE(Eventually("that in the shard's log and on its page", [&] {
    return run_->Logged("shard-0", log, {"contribution of ", who, "left out of the merge"}) &&
           run_->MetricOf("shard-0", "longwave_shard_pushes_left_out_total", "").value_or(0) >= 1;
  }));
  ExpectTheRunGoesOn();
  uint32_t training = 0;
  for (const auto& one : run_->Status().members) {
    training += one.member.name.starts_with("worker-") && one.state.phase != WorkerPhase::kFailed &&
                one.state.phase != WorkerPhase::kLost;
    EXPECT_NE(one.state.phase, WorkerPhase::kFailed) << one.member.name;
  }
  EXPECT_EQ(training, 2u);
}

TEST_F(DataIntruder, FramesThatAreNoneAreCounted) {
  const auto member = Member::Join(run_, run_->NewName("babbler"));
  ASSERT_NE(member, nullptr);
  const auto dealer = member->Dial();
  const Mark before = Now("data_frame");
  // A header that promises another payload than comes with it.
  auto frame = Seal(member->Header<PushFrame>(), member->Payload(1));
  ASSERT_TRUE(frame.ok());
  auto& head = const_cast<std::byte&>(frame->head()[8]);
  head ^= std::byte{1};
  const auto attack = [&] { EXPECT_TRUE(dealer->Send(*frame).ok()); };
  attack();
  ExpectCounted(before, {"CRC32C"}, attack);
}

TEST_F(DataIntruder, HugeLengthsAndForgedHellosEndTheirConnection) {
  // A command of 2^62 bytes.
  EndConnection(ZmtpGreeting("CURVE") + std::string("\x06\x40", 2) + std::string(7, '\0'));
  const Mark before = Now("data_connection");
  const auto attack = [&] { EndConnection(ForgedHello()); };
  attack();
  ExpectCounted(before, {"does not speak CURVE with this shard's key"}, attack);
}

TEST_F(DataIntruder, RecordedBytesCannotBePlayedAgain) {
  const auto member = Member::Join(run_, run_->NewName("recorded"));
  ASSERT_NE(member, nullptr);
  const std::string endpoint = run_->DataEndpoint(1);
  Relay relay(endpoint);
  const auto dealer = member->Dial(relay.endpoint() + endpoint.substr(endpoint.find('?')));
  ASSERT_TRUE(dealer->Send(member->Header<HelloFrame>(), Buffer()).ok());
  const auto answer = dealer->Receive(kPatience);
  ASSERT_TRUE(answer.ok() && answer->has_value()) << "through the relay all is well";
  const std::string recorded = relay.Recorded();
  ASSERT_GT(recorded.size(), 64u + 200u);
  const Mark before = Now("data_connection", 1);
  const auto attack = [&] { EndConnection(recorded, 1); };
  attack();
  ExpectCounted(before, {"a connection to the data port"}, attack);
}

TEST_F(DataIntruder, AFloodOfHalfOpenConnectionsIsLetGoWhileTheRunGoesOn) {
  constexpr int kConnections = 400;  // at each port
  RaiseFileLimit();
  std::string control;
  for (const auto& shard : run_->Status().shards) control = shard.shard.control_endpoint;
  std::vector<int> fds;
  for (const std::string& address : {run_->address(), run_->DataEndpoint(0), control}) {
    for (int i = 0; i < kConnections; ++i) {
      const int fd = ConnectTo(address);
      ASSERT_GE(fd, 0) << i << " of " << address;
      // Every other one begins something that it never ends.
      if (i % 2 == 1) {
        EXPECT_EQ(write(fd, "\x16\x03\x01", 3), 3);
      }
      fds.push_back(fd);
    }
  }
  ExpectTheRunGoesOn();
  for (const int fd : fds) {
    EXPECT_TRUE(HungUp(fd, kPatience));
    close(fd);
  }
}

// A joining worker checks whether the data ports are open, and load balancers check repeatedly.
TEST_F(DataIntruder, WhoOnlyLooksWhetherThePortIsOpenIsNone) {
  const Mark before = Now("data_connection", 1);
  for (int i = 0; i < 30; ++i) {
    const int fd = ConnectTo(run_->DataEndpoint(1));
    ASSERT_GE(fd, 0);
    close(fd);
  }
  // A wrong word after them is the only one that is counted.
  EndConnection(ZmtpGreeting("NULL"), 1);
  EXPECT_TRUE(Eventually("the wrong word is counted",
                         [&] { return run_->ShardRefusals(1, "data_connection") > before.count; }));
  EXPECT_EQ(run_->ShardRefusals(1, "data_connection"), before.count + 1);
}

// A refusal of each kind, as Prometheus reads them.
TEST_F(DataIntruder, TheMetricsSayWhatTheStatusesSay) {
  RefuseOneOfEachKind();
  const auto expect = [&](const std::string& process, const std::string& series,
                          const std::string& label, const auto& count) {
    EXPECT_GT(count(), 0u) << series << " of " << label << " has nothing to tell";
    EXPECT_TRUE(Eventually(absl::StrCat(series, " of ", label), [&] {
      const std::optional<double> shown = run_->MetricOf(process, series, label);
      return shown.has_value() && *shown == static_cast<double>(count());
    }));
  };
  for (const char* reason : {"no_certificate", "other_authority", "wrong_name", "expelled"}) {
    expect("coordinator", "longwave_coordinator_peers_refused_total", reason,
           [&] { return run_->CoordinatorRefusals(reason); });
  }
  expect("coordinator", "longwave_coordinator_tokens_refused_total", "",
         [&] { return run_->CoordinatorRefusals("token"); });
  expect("shard-0", "longwave_shard_peers_refused_total", "expelled",
         [&] { return run_->ShardRefusals(0, "expelled"); });
  expect("shard-0", "longwave_shard_connections_refused_total", "",
         [&] { return run_->ShardRefusals(0, "data_connection"); });
  expect("shard-0", "longwave_shard_frames_refused_total", "identity",
         [&] { return run_->ShardRefusals(0, "data_worker"); });
}

TEST_F(DataIntruder, AfterAllThisTheRunGoesOnWithEqualReplicas) { ExpectTheRunGoesOn(); }

}  // namespace
}  // namespace longwave
