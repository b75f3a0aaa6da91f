#ifndef LONGWAVE_COMMON_METRICS_METRICS_H_
#define LONGWAVE_COMMON_METRICS_METRICS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/metrics/metric_table.h"

namespace longwave {

// The three kinds of series. Lock-free: any thread may change and read them at any time.

class Counter {
 public:
  void Add(double amount = 1) { value_.fetch_add(amount, std::memory_order_relaxed); }
  // Sets a count that is kept elsewhere and never falls.
  template <typename Number>
  void Show(Number total) {
    value_.store(static_cast<double>(total), std::memory_order_relaxed);
  }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_ = 0;
};

// Not on the page until set.
class Gauge {
 public:
  template <typename Number>
  void Set(Number value) {
    value_.store(static_cast<double>(value), std::memory_order_relaxed);
    is_set_.store(true, std::memory_order_release);
  }
  // No value: not on the page.
  void SetIfAny(std::optional<double> value) {
    if (value.has_value()) Set(*value);
    if (!value.has_value()) Clear();
  }
  void Clear() { is_set_.store(false, std::memory_order_relaxed); }
  bool is_set() const { return is_set_.load(std::memory_order_acquire); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_ = 0;
  std::atomic<bool> is_set_ = false;
};

class Histogram {
 public:
  // bounds: the buckets' upper bounds, ascending.
  explicit Histogram(std::vector<double> bounds);

  void Observe(double value);

  // counts: values at or below each bound, and last of all values.
  struct Snapshot {
    std::vector<uint64_t> counts;
    double sum = 0;
  };
  Snapshot Read() const;
  const std::vector<double>& bounds() const { return bounds_; }

 private:
  const std::vector<double> bounds_;
  std::unique_ptr<std::atomic<uint64_t>[]> counts_;  // of each bucket alone; the last one: above
  std::atomic<double> sum_ = 0;
};

// The series of one process: the rows of its part and those of every process. Counters and
// histograms are on the page from the start, with every value of their labels. Thread-safe. Names
// must be in the table and of this part; any other name ends the process.
class Metrics {
 public:
  // part: not kEvery. backend: "cpu" or "cuda", where the process computes.
  explicit Metrics(MetricPart part, std::string_view backend = "cpu");
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // The series of that name with these label values, in the table's order. Lives as long as this.
  Counter& counter(std::string_view name, std::initializer_list<std::string_view> values = {});
  Gauge& gauge(std::string_view name, std::initializer_list<std::string_view> values = {});
  Histogram& histogram(std::string_view name);

  // Sets a series to 1 with these values of all its labels, for labels whose values the table does
  // not list.
  void ShowInfo(std::string_view name, std::vector<std::string> values);

  // Sets a label of every series on the page, such as "run". Empty values are left out.
  void SetLabel(const std::string& name, std::string value);
  // As SetLabel, unless the label has a value.
  void SetLabelIfNone(const std::string& name, std::string value);

  // Calls `refresh` before each page until the returned object is destroyed, for figures that are
  // kept elsewhere. `refresh` may take locks, and may wait for threads that never wait for a page.
  class Refresher;
  [[nodiscard]] std::unique_ptr<Refresher> OnPage(std::function<void()> refresh);

  // All series in Prometheus' text format, version 0.0.4.
  std::string Page();

 private:
  struct Series;
  using Refreshers = std::list<std::function<void()>>;

  Series& Find(std::string_view name, MetricType type,
               std::initializer_list<std::string_view> values);
  void AddSeries(const MetricRow& row, std::vector<std::string> values);
  void RefreshProcess();

  std::string& LabelOf(const std::string& name);

  std::mutex labels_mutex_;
  std::vector<std::pair<std::string, std::string>> labels_;
  std::mutex pages_mutex_;  // one page at a time
  Refreshers refreshers_;
  // The series are constant after construction, except for ShowInfo.
  std::deque<Series> series_;  // in the table's order: those of one name stand together
  std::unordered_map<std::string_view, size_t> first_of_name_;
};

class Metrics::Refresher {
 public:
  Refresher(Metrics* metrics, Refreshers::iterator place) : metrics_(metrics), place_(place) {}
  // Waits for a page under way.
  ~Refresher();
  Refresher(const Refresher&) = delete;
  Refresher& operator=(const Refresher&) = delete;

 private:
  Metrics* const metrics_;
  const Refreshers::iterator place_;
};

// The spread of a figure over the workers: a gauge for each value of `stat`.
class SpreadGauges {
 public:
  SpreadGauges(Metrics& metrics, std::string_view name);
  // Empty: not on the page. NaN counts as the largest value, so that the maximum shows it.
  void Set(std::vector<double> values);

 private:
  std::vector<Gauge*> gauges_;
};

// Adds its lifetime to a counter of seconds, which may be null.
class PhaseTimer {
 public:
  explicit PhaseTimer(Counter* seconds);
  ~PhaseTimer();
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  Counter* const seconds_;
  const absl::Time begin_;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_METRICS_METRICS_H_
