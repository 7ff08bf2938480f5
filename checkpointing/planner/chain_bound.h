// What the layers before i add at least: the Lagrangian relaxation of the three budgets (Held and Karp; for knapsacks of
// choices Sinha and Zoltners, 1979), its prices found once for the whole chain and used with some others around them.
// Whatever the prices, a bound is one.
#pragma once

#include <array>
#include <vector>

#include "checkpointing/planner/chain_costs.h"

namespace recollect {

class ChainBound {
 public:
  ChainBound(const ChainCosts& costs, const ChainBudgets& budgets);

  // Of all choices that fit: whole ones, and those that end in option k of layer i and the layers behind as given.
  double whole() const { return whole_; }
  double with(std::size_t i, std::size_t k, double seconds, uint64_t device, uint64_t host,
              uint64_t disk) const;

  // From now on device bytes are counted too, in every layer, and not only priced.
  void tighten();

 private:
  using Prices = std::array<double, 3>;  // seconds a byte: device, host, disk
  struct Point {
    double seconds = 0, priced = 0;  // priced: with all bytes by their prices
    std::array<double, 3> bytes = {};
  };
  struct Table {
    Prices prices;
    std::vector<std::vector<double>> before;  // by layer and option: least of the layers before
  };
  // What the layers before hold together at least, where they take no less; by rising bytes and falling seconds.
  struct Stair {
    uint64_t held = 0;
    Point point;
  };
  struct Counted {
    Prices prices;
    std::vector<std::vector<std::vector<Stair>>> before;  // by layer and option
  };

  Point cheapest(const Prices& prices, double seconds_price, Table* table) const;
  Point cheapest_counted(const Prices& prices, double seconds_price, int cells, Counted* counted) const;
  std::size_t first_like(std::size_t i, std::size_t k) const;
  double counted_before(std::size_t i, std::size_t k, uint64_t device) const;
  double dual(const Prices& prices) const;
  template <typename Cheapest>
  void raise(Prices& prices, int which, const Cheapest& cheapest) const;

  const ChainCosts& costs_;
  uint64_t device_ = 0;
  std::array<double, 3> budgets_ = {};
  std::array<bool, 3> limited_ = {};
  std::vector<Table> tables_;
  Counted counted_;
  double whole_ = 0;
};

}  // namespace recollect
