// Strangers at the data ports, members that lie there, and floods at every port.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/descriptor.h"
#include "common/wire/frame.h"
#include "tests/intruder/member.h"
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

class DataIntruder : public InRun {
 protected:
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
    const std::string token = run_->NewToken();
    const std::string folder = run_->NewFolder(), name = run_->NewName("outcast");
    ASSERT_TRUE(run_->Join(token, name, folder).ok());
    EXPECT_FALSE(run_->Join(token, "late").ok());
    // By the shard too, once it has heard of it.
    const auto shard = run_->ShardAs(0, folder);
    ASSERT_TRUE(run_->as_operator().Expel(name, false).ok());
    EXPECT_FALSE(Answer([&] { return run_->As(folder)->GetStatus(0).status(); }).ok());
    EXPECT_TRUE(Eventually("the shard hears of it",
                           [&] { return absl::IsPermissionDenied(shard->GetStatus().status()); }));

    ConnectWithAStrangersKey();
    EndConnection(ZmtpGreeting("NULL"));
    const auto member = GuestMember::Join(run_, run_->NewName("liar"));
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
  const auto member = GuestMember::Join(run_, run_->NewName("liar"));
  ASSERT_NE(member, nullptr);
  const auto dealer = member->DialAndGreet();
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
  const auto owner = GuestMember::Join(run_, run_->NewName("owner"));
  const auto thief = GuestMember::Join(run_, run_->NewName("thief"));
  ASSERT_TRUE(owner != nullptr && thief != nullptr);
  const auto status = thief->client().GetStatus(0);
  ASSERT_TRUE(status.ok()) << status.status();
  for (const MemberStatus& member : status->members)
    EXPECT_EQ(member.member.data_key, "") << member.member.name;
  const absl::Status refused = thief->RegisterWithKey(owner->data_key());
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  owner->DialAndGreet();  // as before
}

TEST_F(DataIntruder, AnExpelledMembersOpenConnectionIsWorthNothing) {
  const std::string name = run_->NewName("outlaw");
  const auto member = GuestMember::Join(run_, name);
  ASSERT_NE(member, nullptr);
  const auto dealer = member->DialAndGreet();
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
  const auto member = GuestMember::Join(run_, run_->NewName("poisoner"));
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
  const auto member = GuestMember::Join(run_, run_->NewName("poisoner"));
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
  const auto member = GuestMember::Join(run_, run_->NewName("babbler"));
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
  const auto member = GuestMember::Join(run_, run_->NewName("recorded"));
  ASSERT_NE(member, nullptr);
  const std::string endpoint = run_->DataEndpoint(1);
  Relay relay(endpoint);
  // Through the relay all is well.
  const auto dealer = member->DialAndGreet(relay.endpoint() + endpoint.substr(endpoint.find('?')));
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
