#include "cli/live/live_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <list>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cli/live/page_access.h"
#include "cli/live/reader.h"
#include "common/base/errors.h"
#include "common/base/listener.h"
#include "common/base/status_macros.h"
#include "common/security/certificates.h"
#include "common/security/credentials.h"
#include "common/security/security_mode.h"

namespace longwave {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;

constexpr std::chrono::milliseconds kAcceptPause(100);
constexpr std::chrono::milliseconds kEndPatience(300);

struct Tls {
  asio::ssl::context context{asio::ssl::context::tls_server};
  std::string token;
  std::vector<std::string> hosts;  // of the certificate
};

absl::StatusOr<std::unique_ptr<Tls>> LoadTls(const std::string& folder) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::string certificate,
                            ReadTextFile(FileIn(folder, kCertificateFile)));
  LONGWAVE_ASSIGN_OR_RETURN(const std::string key, ReadTextFile(FileIn(folder, kKeyFile)));
  LONGWAVE_ASSIGN_OR_RETURN(const CertificateInfo info, ReadCertificate(certificate));
  LONGWAVE_RETURN_IF_ERROR(CheckPair(certificate, key));
  auto tls = std::make_unique<Tls>();
  tls->hosts = info.hosts;
  tls->token = Hex(Sha256(absl::StrCat("longwave's live page\n", key))).substr(0, 32);
  WebError error;
  tls->context.set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                           asio::ssl::context::no_tlsv1_1);
  tls->context.use_certificate_chain(asio::buffer(certificate), error);
  if (!error) tls->context.use_private_key(asio::buffer(key), asio::ssl::context::pem, error);
  if (error) return InvalidArgument(folder, ": ", error.message());
  return tls;
}

// The names and addresses by which the server is reached; the first is the link's.
std::vector<std::string> HostsOf(const Listener& listener, const Tls* tls) {
  std::vector<std::string> hosts;
  const std::string host = HostAlone(listener.host());
  if (host != "0.0.0.0" && host != "::") hosts.push_back(host);
  const std::vector<std::string> loopback = {"localhost", "127.0.0.1", "::1"};
  for (const std::string& more : tls != nullptr ? tls->hosts : loopback)
    hosts.push_back(absl::AsciiStrToLower(more));
  return hosts;
}

class LiveServerImpl final : public LiveServer, private ReaderHost {
 public:
  LiveServerImpl(Listener listener, std::unique_ptr<Tls> tls, std::vector<std::string> hosts,
                 std::function<std::string()> whole)
      : listener_(std::move(listener)),
        tls_(std::move(tls)),
        access_(tls_ != nullptr ? tls_->token : "", hosts),
        link_host_(hosts.front().find(':') == std::string::npos
                       ? hosts.front()
                       : absl::StrCat("[", hosts.front(), "]")),
        whole_of_(std::move(whole)),
        door_(io_, fcntl(listener_.fd(), F_DUPFD_CLOEXEC, 0)) {
    Accept();
    thread_ = std::thread([this] { io_.run(); });
  }

  ~LiveServerImpl() override {
    asio::post(io_, [this] {
      door_.close();
      for (Reader* page : pages_) page->Finish();
      end_.expires_after(kEndPatience);
      end_.async_wait([this](WebError) { io_.stop(); });
      AwaitPages();
    });
    thread_.join();
  }

  std::string link() const override {
    return absl::StrCat(tls_ != nullptr ? "https://" : "http://", link_host_, ":", listener_.port(),
                        access_.path());
  }

  void Publish(const std::string& news) override {
    asio::post(io_, [this, text = Event("news", news)] {
      whole_ = nullptr;
      for (Reader* page : pages_) page->Send(text);
    });
  }

 private:
  static WebText Event(const char* name, const std::string& data) {
    return std::make_shared<std::string>(absl::StrCat("event: ", name, "\ndata: ", data, "\n\n"));
  }

  const PageAccess& access() const override { return access_; }

  bool AddPage(Reader* reader) override {
    if (pages_.size() >= kPagesMax) return false;
    callers_.remove(reader);
    pages_.push_back(reader);
    if (whole_ == nullptr) whole_ = Event("whole", whole_of_());
    reader->Send(whole_);
    return true;
  }

  void Remove(Reader* reader) override {
    callers_.remove(reader);
    pages_.remove(reader);
  }

  void Accept() {
    door_.async_wait(asio::posix::stream_descriptor::wait_read, [this](WebError error) {
      if (error) return;
      const int fd = accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd >= 0) {
        Greet(fd);
      } else if (errno == EMFILE || errno == ENFILE) {
        // No file descriptor is left, and the next wait would return at once.
        if (!callers_.empty()) callers_.front()->Close();
        pause_.expires_after(kAcceptPause);
        return pause_.async_wait([this](WebError) { Accept(); });
      }
      Accept();
    });
  }

  void Greet(int fd) {
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
    asio::ip::tcp::socket socket(io_);
    WebError error;
    socket.assign(bound.ss_family == AF_INET6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), fd,
                  error);
    if (error) {
      close(fd);
      return;
    }
    if (callers_.size() >= kCallersMax) {
      callers_.front()->Close();
      callers_.pop_front();
    }
    if (tls_ != nullptr) {
      Begin<beast::ssl_stream<beast::tcp_stream>>(std::move(socket), tls_->context);
    } else {
      Begin<beast::tcp_stream>(std::move(socket));
    }
  }

  template <typename Stream, typename... Arguments>
  void Begin(Arguments&&... arguments) {
    auto reader = std::make_shared<StreamReader<Stream>>(static_cast<ReaderHost*>(this),
                                                         std::forward<Arguments>(arguments)...);
    callers_.push_back(reader.get());
    reader->Begin();
  }

  // Until every page has its last event.
  void AwaitPages() {
    if (pages_.empty()) return io_.stop();
    pause_.expires_after(std::chrono::milliseconds(10));
    pause_.async_wait([this](WebError) { AwaitPages(); });
  }

  const Listener listener_;
  const std::unique_ptr<Tls> tls_;
  const PageAccess access_;
  const std::string link_host_;
  const std::function<std::string()> whole_of_;
  WebText whole_;  // null: made anew for the next page
  // The oldest first. The io_context's handlers own them.
  std::list<Reader*> callers_, pages_;
  asio::io_context io_{1};
  asio::posix::stream_descriptor door_;
  asio::steady_timer pause_{io_};
  asio::steady_timer end_{io_};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LiveServer>> LiveServer::Start(const WebOptions& options,
                                                              std::function<std::string()> whole) {
  std::unique_ptr<Tls> tls;
  if (!options.tls.empty()) {
    absl::StatusOr<std::unique_ptr<Tls>> loaded = LoadTls(options.tls);
    if (!loaded.ok()) return Prefixed("--web-tls", loaded.status());
    tls = *std::move(loaded);
  } else if (!IsLoopback(options.address)) {
    return InvalidArgument(
        "--web: got ", options.address,
        ", which is not loopback, without --web-tls, wanted the folder of a certificate and its key"
        " (tls.crt and tls.key), as `longwave certificate make` writes one");
  }
  absl::StatusOr<Listener> listener = Listener::Open(options.address);
  if (!listener.ok()) return Prefixed("--web", listener.status());
  fcntl(listener->fd(), F_SETFL, fcntl(listener->fd(), F_GETFL) | O_NONBLOCK);
  std::vector<std::string> hosts = HostsOf(*listener, tls.get());
  if (hosts.empty()) {
    return InvalidArgument("--web-tls: the certificate in ", options.tls,
                           " names no host, wanted one, or an address other than ", options.address,
                           " for --web");
  }
  return std::make_unique<LiveServerImpl>(*std::move(listener), std::move(tls), std::move(hosts),
                                          std::move(whole));
}

}  // namespace longwave
