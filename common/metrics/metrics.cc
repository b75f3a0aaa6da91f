#include "common/metrics/metrics.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/metrics/process_figures.h"

namespace longwave {
namespace {

double SecondsSince(absl::Time begin) { return absl::ToDoubleSeconds(MonotonicNow() - begin); }

// By MetricType.
constexpr prometheus::MetricType kTypes[] = {prometheus::MetricType::Counter,
                                             prometheus::MetricType::Gauge,
                                             prometheus::MetricType::Histogram};

prometheus::ClientMetric::Histogram Written(const Histogram& histogram) {
  const Histogram::Snapshot read = histogram.Read();
  prometheus::ClientMetric::Histogram written;
  written.sample_count = read.counts.back();
  written.sample_sum = read.sum;
  for (size_t i = 0; i < read.counts.size(); ++i) {
    const double bound = i < histogram.bounds().size() ? histogram.bounds()[i]
                                                       : std::numeric_limits<double>::infinity();
    written.bucket.push_back({.cumulative_count = read.counts[i], .upper_bound = bound});
  }
  return written;
}

// Every combination of the labels' values.
std::vector<std::vector<std::string>> Combinations(const MetricRow& row) {
  std::vector<std::vector<std::string>> all = {{}};
  for (const MetricLabel& label : row.labels) {
    std::vector<std::vector<std::string>> longer;
    for (const auto& values : all) {
      for (const std::string_view value : label.values) {
        longer.push_back(values);
        longer.back().emplace_back(value);
      }
    }
    all = std::move(longer);
  }
  return all;
}

std::vector<prometheus::ClientMetric::Label> LabelsOf(
    const std::vector<std::pair<std::string, std::string>>& labels) {
  std::vector<prometheus::ClientMetric::Label> written;
  for (const auto& [name, value] : labels) {
    if (!value.empty()) written.push_back({name, value});
  }
  return written;
}

// Whether the table leaves a label's values open.
bool IsInfo(const MetricRow& row) {
  return std::ranges::any_of(row.labels,
                             [](const MetricLabel& label) { return label.values.empty(); });
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)),
      counts_(std::make_unique<std::atomic<uint64_t>[]>(bounds_.size() + 1)) {}

void Histogram::Observe(double value) {
  const auto bucket = std::ranges::lower_bound(bounds_, value);
  counts_[static_cast<size_t>(bucket - bounds_.begin())].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

Histogram::Snapshot Histogram::Read() const {
  Snapshot snapshot;
  uint64_t count = 0;
  for (size_t i = 0; i <= bounds_.size(); ++i) {
    count += counts_[i].load(std::memory_order_relaxed);
    snapshot.counts.push_back(count);
  }
  snapshot.sum = sum_.load(std::memory_order_relaxed);
  return snapshot;
}

// A line of the page, or a histogram's lines. The row's type says which of the three is used.
struct Metrics::Series {
  const MetricRow* row = nullptr;
  std::vector<std::string> values;  // of the row's labels
  Counter counter;
  Gauge gauge;
  std::optional<Histogram> histogram;
};

Metrics::Metrics(MetricPart part, std::string_view backend) {
  LONGWAVE_CHECK(part != MetricPart::kEvery);
  for (const MetricRow& row : MetricTable()) {
    if (row.part != part && row.part != MetricPart::kEvery) continue;
    if (IsInfo(row)) {
      AddSeries(row, std::vector<std::string>(row.labels.size()));
      continue;
    }
    for (auto& values : Combinations(row)) AddSeries(row, std::move(values));
  }
  ShowInfo("longwave_build_info",
           {LONGWAVE_VERSION, std::string(Name(part)), std::string(backend)});
}

Metrics::~Metrics() { LONGWAVE_CHECK(refreshers_.empty()); }

void Metrics::AddSeries(const MetricRow& row, std::vector<std::string> values) {
  first_of_name_.try_emplace(row.name, series_.size());
  Series& series = series_.emplace_back();
  series.row = &row;
  series.values = std::move(values);
  if (row.type == MetricType::kHistogram) series.histogram.emplace(row.buckets);
}

Metrics::Series& Metrics::Find(std::string_view name, MetricType type,
                               std::initializer_list<std::string_view> values) {
  const auto first = first_of_name_.find(name);
  LONGWAVE_CHECK(first != first_of_name_.end());  // no such name in the table
  const MetricRow* const row = series_[first->second].row;
  LONGWAVE_CHECK(row->type == type);
  size_t place = first->second;
  while (!std::ranges::equal(series_[place].values, values)) {
    ++place;
    LONGWAVE_CHECK(place < series_.size() && series_[place].row == row);  // no such value
  }
  return series_[place];
}

void Metrics::ShowInfo(std::string_view name, std::vector<std::string> values) {
  const std::lock_guard lock(pages_mutex_);
  const auto place = first_of_name_.find(name);
  LONGWAVE_CHECK(place != first_of_name_.end());  // no such name in the table
  Series& series = series_[place->second];
  LONGWAVE_CHECK(IsInfo(*series.row) && values.size() == series.row->labels.size());
  series.values = std::move(values);
  series.gauge.Set(1);
}

Counter& Metrics::counter(std::string_view name, std::initializer_list<std::string_view> values) {
  return Find(name, MetricType::kCounter, values).counter;
}

Gauge& Metrics::gauge(std::string_view name, std::initializer_list<std::string_view> values) {
  return Find(name, MetricType::kGauge, values).gauge;
}

Histogram& Metrics::histogram(std::string_view name) {
  return *Find(name, MetricType::kHistogram, {}).histogram;
}

std::string& Metrics::LabelOf(const std::string& name) {
  for (auto& [known, value] : labels_) {
    if (known == name) return value;
  }
  return labels_.emplace_back(name, "").second;
}

void Metrics::SetLabel(const std::string& name, std::string value) {
  const std::lock_guard lock(labels_mutex_);
  LabelOf(name) = std::move(value);
}

void Metrics::SetLabelIfNone(const std::string& name, std::string value) {
  const std::lock_guard lock(labels_mutex_);
  std::string& known = LabelOf(name);
  if (known.empty()) known = std::move(value);
}

std::unique_ptr<Metrics::Refresher> Metrics::OnPage(std::function<void()> refresh) {
  const std::lock_guard lock(pages_mutex_);
  return std::make_unique<Refresher>(this,
                                     refreshers_.insert(refreshers_.end(), std::move(refresh)));
}

Metrics::Refresher::~Refresher() {
  const std::lock_guard lock(metrics_->pages_mutex_);
  metrics_->refreshers_.erase(place_);
}

std::string Metrics::Page() {
  const absl::Time begin = MonotonicNow();
  std::vector<prometheus::MetricFamily> families;
  {
    const std::lock_guard lock(pages_mutex_);
    RefreshProcess();
    for (const auto& refresh : refreshers_) refresh();
    std::vector<prometheus::ClientMetric::Label> labels;
    {
      const std::lock_guard labels_lock(labels_mutex_);
      labels = LabelsOf(labels_);
    }
    const MetricRow* last = nullptr;
    for (const Series& series : series_) {
      const MetricRow& row = *series.row;
      if (row.type == MetricType::kGauge && !series.gauge.is_set()) continue;
      if (&row != last) {
        prometheus::MetricFamily& family = families.emplace_back();
        family.name = std::string(row.name);
        family.help = std::string(row.help);
        family.type = kTypes[static_cast<size_t>(row.type)];
        last = &row;
      }
      prometheus::ClientMetric& metric = families.back().metric.emplace_back();
      metric.label = labels;
      for (size_t i = 0; i < row.labels.size(); ++i) {
        metric.label.push_back({std::string(row.labels[i].name), series.values[i]});
      }
      if (row.type == MetricType::kHistogram) {
        metric.histogram = Written(*series.histogram);
      } else {
        // Counter and gauge are written from different fields.
        metric.counter.value = series.counter.value();
        metric.gauge.value = series.gauge.value();
      }
    }
  }
  std::string page = prometheus::TextSerializer().Serialize(families);
  counter("longwave_scrapes_total").Add();
  counter("longwave_scrape_seconds_total").Add(SecondsSince(begin));
  return page;
}

void Metrics::RefreshProcess() {
  const ProcessFigures figures = ReadProcessFigures();
  const auto set = [this](std::string_view name, const std::optional<double>& value) {
    if (value.has_value()) gauge(name).Set(*value);
  };
  set("process_start_time_seconds", figures.start_time_seconds);
  set("process_resident_memory_bytes", figures.resident_memory_bytes);
  set("process_virtual_memory_bytes", figures.virtual_memory_bytes);
  set("process_open_fds", figures.open_fds);
  set("process_max_fds", figures.max_fds);
  if (figures.cpu_seconds.has_value())
    counter("process_cpu_seconds_total").Show(*figures.cpu_seconds);
}

SpreadGauges::SpreadGauges(Metrics& metrics, std::string_view name) {
  for (const std::string_view stat : kSpreadStats) gauges_.push_back(&metrics.gauge(name, {stat}));
}

void SpreadGauges::Set(std::vector<double> values) {
  if (values.empty()) {
    for (Gauge* const gauge : gauges_) gauge->Clear();
    return;
  }
  // `<` cannot order NaN.
  std::ranges::sort(values,
                    [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; });
  for (size_t i = 0; i < gauges_.size(); ++i) {
    const double last = static_cast<double>(values.size() - 1);
    // The smallest value with that share of all values at or below it.
    const double place = std::ceil(kSpreadShares[i] * static_cast<double>(values.size())) - 1;
    gauges_[i]->Set(values[static_cast<size_t>(std::clamp(place, 0.0, last))]);
  }
}

PhaseTimer::PhaseTimer(Counter* seconds) : seconds_(seconds), begin_(MonotonicNow()) {}

PhaseTimer::~PhaseTimer() {
  if (seconds_ != nullptr) seconds_->Add(SecondsSince(begin_));
}

}  // namespace longwave
