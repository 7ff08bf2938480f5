#include "checkpointing/planner/chain_bound.h"

#include <algorithm>
#include <limits>

namespace recollect {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr int kCoarseCells = 32, kFineCells = 128;  // of the device's bytes

}  // namespace

ChainBound::ChainBound(const ChainCosts& costs, const ChainBudgets& budgets)
    : costs_(costs),
      device_(budgets.device),
      budgets_{double(budgets.device), double(budgets.host), double(budgets.disk)} {
  const std::array<uint64_t, 3> limits = {budgets.device, budgets.host, budgets.disk};
  for (int which = 0; which < 3; ++which) limited_[which] = limits[which] != ChainBudgets::kAny;
  Prices prices = {};
  const auto priced_only = [&](const Prices& p, double seconds_price) {
    return cheapest(p, seconds_price, nullptr);
  };
  const int rounds = limited_[1] || limited_[2] ? 4 : 1;
  for (int round = 0; round < rounds; ++round)
    for (int which = 0; which < 3; ++which)
      if (limited_[which]) raise(prices, which, priced_only);
  whole_ = std::max(dual(prices), dual({}));
  for (const double factor : {1.0, 0.0, 0.5, 0.8, 1.25, 2.0}) {
    if (factor != 1 && prices[0] == 0) continue;
    Table table{.prices = {prices[0] * factor, prices[1], prices[2]}, .before = {}};
    cheapest(table.prices, 1, &table);
    tables_.push_back(std::move(table));
  }
}

double ChainBound::with(std::size_t i, std::size_t k, double seconds, uint64_t device, uint64_t host,
                        uint64_t disk) const {
  const std::array<double, 3> bytes = {double(device), double(host), double(disk)};
  double best = 0;
  for (const Table& table : tables_) {
    double bound = seconds + table.before[i][k];
    for (int which = 0; which < 3; ++which)
      if (limited_[which]) bound += table.prices[which] * (bytes[which] - budgets_[which]);
    best = std::max(best, bound);
  }
  if (counted_.before.empty()) return best;
  double bound = seconds + counted_before(i, k, device);
  for (int which = 1; which < 3; ++which)
    if (limited_[which]) bound += counted_.prices[which] * (bytes[which] - budgets_[which]);
  return std::max(best, bound);
}

// Of the layers before, beside `device` bytes.
double ChainBound::counted_before(std::size_t i, std::size_t k, uint64_t device) const {
  if (device > device_) return kInfinite;
  const std::vector<Stair>& stairs = counted_.before[i][k];
  const auto above = std::upper_bound(stairs.begin(), stairs.end(), device_ - device,
                                      [](uint64_t room, const Stair& stair) { return room < stair.held; });
  return above == stairs.begin() ? kInfinite : std::prev(above)->point.priced;
}

void ChainBound::tighten() {
  Prices prices = {0, tables_.front().prices[1], tables_.front().prices[2]};
  const auto roughly = [&](const Prices& p, double seconds_price) {
    return cheapest_counted(p, seconds_price, kCoarseCells, nullptr);
  };
  for (int round = 0; round < 2; ++round)
    for (int which = 1; which < 3; ++which)
      if (limited_[which]) raise(prices, which, roughly);
  counted_.prices = prices;
  cheapest_counted(prices, 1, kFineCells, &counted_);
}

// The first option of layer i that treats the layer before as option k does.
std::size_t ChainBound::first_like(std::size_t i, std::size_t k) const {
  const auto& options = costs_.layers[i];
  const auto alike = [&](std::size_t other) {
    if (options[other].back != options[k].back) return false;
    for (std::size_t before = 0; before < costs_.layers[i - 1].size(); ++before)
      if (costs_.stall(i - 1, before, other) != costs_.stall(i - 1, before, k)) return false;
    return true;
  };
  std::size_t first = 0;
  while (first < k && !alike(first)) ++first;
  return first;
}

// As cheapest(), of the choices that fit the device, whose bytes have no price. What the layers before hold is counted to
// a cell: of two choices in one, what the one holds and what the other takes.
ChainBound::Point ChainBound::cheapest_counted(const Prices& prices, double seconds_price, int cells,
                                               Counted* counted) const {
  const double scale = cells / (double(device_) + 1);
  std::vector<std::vector<Stair>> before(costs_.layers.front().size(), {Stair{}}), here;
  std::vector<Stair> by_cell(cells);
  for (std::size_t i = 0;; ++i) {
    const auto& options = costs_.layers[i];
    if (counted) counted->before.push_back(before);
    const bool last = i + 1 == costs_.layers.size();
    here.assign(last ? 1 : costs_.layers[i + 1].size(), {});
    for (std::size_t next = 0; next < here.size(); ++next) {
      if (const std::size_t like = last ? next : first_like(i + 1, next); like < next) {
        here[next] = here[like];
        continue;
      }
      std::fill(by_cell.begin(), by_cell.end(), Stair{.point = {.priced = kInfinite}});
      for (std::size_t k = 0; k < options.size(); ++k) {
        const ChainCosts::Option& o = options[k];
        uint64_t needs = o.alone;
        double seconds = o.seconds;
        if (!last) {
          const uint64_t back = add_bytes(costs_.layers[i + 1][next].back, o.ahead);
          needs = std::max(needs, add_bytes(o.held, std::max(o.next, back)));
          seconds += costs_.stall(i, k, next);
        }
        const double priced =
            seconds_price * seconds + prices[1] * double(o.host) + prices[2] * double(o.disk);
        for (const Stair& from : before[k]) {
          if (add_bytes(from.held, needs) > device_) break;
          const uint64_t held = from.held + o.held;
          Stair& cell = by_cell[std::min(by_cell.size() - 1, static_cast<std::size_t>(double(held) * scale))];
          cell.held = cell.point.priced == kInfinite ? held : std::min(cell.held, held);
          if (from.point.priced + priced >= cell.point.priced) continue;
          cell.point = from.point;
          cell.point.priced += priced;
          cell.point.seconds += seconds;
          cell.point.bytes[1] += double(o.host);
          cell.point.bytes[2] += double(o.disk);
        }
      }
      double least = kInfinite;
      for (const Stair& cell : by_cell)
        if (cell.point.priced < least) here[next].push_back(cell), least = cell.point.priced;
    }
    if (last) break;
    before = std::move(here);
  }
  return here[0].empty() ? Point{.priced = kInfinite} : here[0].back().point;
}

// The whole choice that is least where a byte costs its price and a second `seconds_price`. Of device bytes only those
// at the chain's end are counted.
ChainBound::Point ChainBound::cheapest(const Prices& prices, double seconds_price, Table* table) const {
  std::vector<Point> before(costs_.layers.front().size()), here;
  for (std::size_t i = 0;; ++i) {
    const auto& options = costs_.layers[i];
    if (table) {
      std::vector<double>& row = table->before.emplace_back();
      for (const Point& point : before) row.push_back(point.priced);
    }
    const bool last = i + 1 == costs_.layers.size();
    here = before;
    for (std::size_t k = 0; k < options.size(); ++k) {
      const std::array<double, 3> bytes = {double(last ? options[k].alone : options[k].held),
                                           double(options[k].host), double(options[k].disk)};
      here[k].seconds += options[k].seconds;
      here[k].priced += seconds_price * options[k].seconds;
      for (int which = 0; which < 3; ++which) {
        here[k].bytes[which] += bytes[which];
        here[k].priced += prices[which] * bytes[which];
      }
    }
    if (last) break;
    before.assign(costs_.layers[i + 1].size(), Point{.priced = kInfinite});
    for (std::size_t next = 0; next < before.size(); ++next)
      for (std::size_t k = 0; k < options.size(); ++k) {
        const double stall = costs_.stall(i, k, next);
        const double priced = here[k].priced + seconds_price * stall;
        if (priced >= before[next].priced) continue;
        before[next] = here[k];
        before[next].priced = priced;
        before[next].seconds += stall;
      }
  }
  return *std::min_element(here.begin(), here.end(),
                           [](const Point& a, const Point& b) { return a.priced < b.priced; });
}

double ChainBound::dual(const Prices& prices) const {
  double value = cheapest(prices, 1, nullptr).priced;
  for (int which = 0; which < 3; ++which)
    if (limited_[which]) value -= prices[which] * budgets_[which];
  return value;
}

// One price, the others as they are: between a choice over the budget and one within it, the price at which both cost
// the same, until nothing is cheaper at that price.
template <typename Cheapest>
void ChainBound::raise(Prices& prices, int which, const Cheapest& cheapest) const {
  Prices others = prices;
  others[which] = 0;
  Prices only = {};
  only[which] = 1;
  const auto others_cost = [&](const Point& p) {
    double sum = p.seconds;
    for (int w = 0; w < 3; ++w) sum += others[w] * p.bytes[w];
    return sum;
  };
  Point over = cheapest(others, 1), within = cheapest(only, 0);
  prices[which] = 0;
  if (over.priced == kInfinite) return;
  if (over.bytes[which] <= budgets_[which] || within.bytes[which] >= over.bytes[which]) return;
  for (int step = 0; step < 40; ++step) {
    const double price =
        (others_cost(within) - others_cost(over)) / (over.bytes[which] - within.bytes[which]);
    if (!(price > 0) || price == kInfinite) return;
    prices[which] = price;
    const Point point = cheapest(prices, 1);
    const double line = others_cost(over) + price * over.bytes[which];
    if (point.priced >= line * (1 - 1e-12)) return;
    (point.bytes[which] > budgets_[which] ? over : within) = point;
  }
}

}  // namespace recollect
