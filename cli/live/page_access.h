#ifndef LONGWAVE_CLI_LIVE_PAGE_ACCESS_H_
#define LONGWAVE_CLI_LIVE_PAGE_ACCESS_H_

#include <string>
#include <string_view>
#include <vector>

namespace longwave {

// A request's head; untrusted.
struct PageRequest {
  std::string_view method;
  std::string_view target;
  std::vector<std::string_view> hosts;  // the values of its Host headers
};

struct PageAnswer {
  const char* status = "200 OK";
  const char* type = "text/plain; charset=utf-8";
  std::string body;
  bool is_stream = false;  // the body is server-sent events, without an end
};

// The live page and its parts, by request: a pure function.
//   /TOKEN/          the page; page.css, page.js and events beside it
// Without a token the page is at /. Whatever else is asked for, in whatever way, gets an answer
// that has nothing of the run.
class PageAccess {
 public:
  // token: of the link, or empty. hosts: names and addresses that a Host header may have, in lower
  // case, without ports: a page of another name, which an attacker points to this address, may not
  // read this one (DNS rebinding).
  PageAccess(std::string token, std::vector<std::string> hosts);

  std::string path() const;  // of the page
  PageAnswer Answer(const PageRequest& request) const;

 private:
  // Takes no longer for a target that begins well.
  bool HasToken(std::string_view target) const;

  const std::string token_;
  const std::vector<std::string> hosts_;
};

// The whole answer, or its head alone.
std::string Written(const PageAnswer& answer, bool with_body);

// The host of a "host:port", "[::1]:80" or "host", in lower case and without brackets.
std::string HostAlone(std::string_view authority);

}  // namespace longwave

#endif  // LONGWAVE_CLI_LIVE_PAGE_ACCESS_H_
