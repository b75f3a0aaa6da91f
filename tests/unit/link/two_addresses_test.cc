// Listening on a name of which the machine has only the second address: "localhost" where the hosts
// file gives ::1 first and the machine has no IPv6, as in most containers.
#include <dlfcn.h>
#include <netdb.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/listener.h"
#include "common/link/link.h"
#include "gtest/gtest.h"

namespace {

constexpr char kName[] = "two-addresses.test";
constexpr char kElsewhere[] = "2001:db8::1";  // of the range for documentation (RFC 3849)

}  // namespace

// The program's resolver, in place of the C library's.
extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  static const auto resolve =
      reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  if (name == nullptr || std::strcmp(name, kName) != 0) return resolve(name, service, hints, found);
  if (const int error = resolve(kElsewhere, service, hints, found); error != 0) return error;
  return resolve("127.0.0.1", service, hints, &(*found)->ai_next);
}

namespace longwave {
namespace {

TEST(TwoAddresses, AListenerTakesTheOneThatThisMachineHas) {
  const absl::StatusOr<Listener> first = Listener::Open(absl::StrCat(kName, ":0"));
  ASSERT_TRUE(first.ok()) << first.status();
  // A port in use there is no reason for another address.
  const absl::Status second = Listener::Open(absl::StrCat(kName, ":", first->port())).status();
  EXPECT_TRUE(absl::IsUnavailable(second)) << second;
}

TEST(TwoAddresses, ARouterTakesTheOneThatThisMachineHas) {
  const auto router = Router::Bind(absl::StrCat("tcp://", kName, ":0"));
  ASSERT_TRUE(router.ok()) << router.status();
  EXPECT_TRUE((*router)->endpoint().starts_with("tcp://127.0.0.1:")) << (*router)->endpoint();
}

TEST(TwoAddresses, ANameOfNoAddressHereIsRefused) {
  const std::string address = absl::StrCat("[", kElsewhere, "]:0");
  EXPECT_TRUE(absl::IsInvalidArgument(Listener::Open(address).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Router::Bind(absl::StrCat("tcp://", address)).status()));
}

}  // namespace
}  // namespace longwave
