#include "launch/report/budgets_chart.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "launch/program/units.h"

namespace recollect {

namespace {

// One picture for each range of screen widths; style.css shows the right one. So its text has the size of the
// page's text and is not scaled.
struct Picture {
  int width;
  double height;
  int marks;  // approximate number on an axis
};
constexpr std::array<Picture, 4> kPictures{{{360, 330, 4}, {560, 360, 5}, {780, 390, 6}, {1080, 420, 7}}};
constexpr double kLeft = 58, kTop = 34, kBelow = 50, kBeside = 20;
constexpr double kLetter = 7.4;  // approximate width
// A mode whose step is longer than this factor times that of mode none or of the slowest plan is named below
// the chart.
constexpr double kOffTheChart = 1.5;
constexpr std::array<const char*, 3> kColours = {"accent", "wait", "communication"};

struct Axis {
  double low = 0, high = 1, step = 1;
  double from = 0, to = 1;  // on the picture
  double operator()(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

// An axis with marks at round numbers.
Axis make_axis(double least, double most, double from, double to, int marks) {
  const double room = std::max(most - least, 1e-3 * most);
  const double power = std::pow(10.0, std::floor(std::log10(room / (marks - 1))));
  double step = power;
  for (const double times : {2.0, 5.0, 10.0})
    if (room / step > marks) step = times * power;
  Axis axis{.low = step * std::floor(least / step), .high = step * std::ceil(most / step), .step = step};
  if (axis.high <= axis.low) axis.high = axis.low + step;
  axis.from = from, axis.to = to;
  return axis;
}

// The text of a mark on an axis, with as many decimals as its steps need.
std::string mark_text(const Axis& axis, double value) {
  const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(axis.step) - 1e-9)));
  return fmt::format("{:.{}f}", value, decimals);
}

struct Mark {
  std::string names;
  double bytes = 0, ms = 0;
};

// Modes with equal memory and time share a mark.
std::vector<Mark> marks_of(const std::vector<NamedMode>& named) {
  std::vector<Mark> marks;
  for (const NamedMode& one : named) {
    const auto bytes = static_cast<double>(one.arena_bytes), ms = 1e3 * one.step_seconds;
    const auto same = std::find_if(marks.begin(), marks.end(),
                                   [&](const Mark& m) { return m.bytes == bytes && m.ms == ms; });
    if (same == marks.end())
      marks.push_back({one.mode, bytes, ms});
    else
      same->names += ", " + one.mode;
  }
  return marks;
}

class Chart {
 public:
  Chart(const BudgetComparison& budgets, const Picture& picture)
      : curves_(budgets.curves),
        unit_(unit_for(budgets.curves.front().points.back().budget)),
        picture_(picture),
        right_(picture.width - kBeside),
        bottom_(picture.height - kBelow) {
    double none = 0, slowest = 0;
    for (const NamedMode& one : budgets.named)
      if (none == 0 || one.step_seconds < none) none = one.step_seconds;
    for (const BudgetCurve& curve : curves_)
      for (const BudgetPoint& p : curve.points)
        if (p.arena_bytes > 0) slowest = std::max(slowest, p.step_seconds);
    const double most = 1e3 * std::max(kOffTheChart * none, slowest);
    for (const Mark& mark : marks_of(budgets.named)) (mark.ms > most ? beneath_ : marks_).push_back(mark);
    set_axes();
  }

  std::string text() {
    std::string svg = fmt::format(
        "<svg class=\"w{}\" viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-label=\"Time of a step against "
        "memory "
        "budget\" font-size=\"12.5\">\n",
        picture_.width, picture_.width, picture_.height);
    svg += frame();
    for (std::size_t i = 0; i < curves_.size(); ++i) svg += curve(curves_[i], colour(i));
    for (const Mark& mark : marks_) boxes_.push_back({x(mark.bytes) - 5, y_(mark.ms) - 5, 10, 10});
    for (const Mark& mark : marks_) svg += named(mark);
    return svg + "</svg>\n";
  }
  std::string legend() const {
    std::string keys;
    const auto key = [&](const char* form, const char* colour, const std::string& words) {
      keys += fmt::format("<span class=\"key\"><i style=\"{} background: var(--{})\"></i>{}</span>\n", form,
                          colour, words);
    };
    for (std::size_t i = 0; i < curves_.size(); ++i)
      key("width: 22px; height: 2px; border-radius: 0;", colour(i),
          fmt::format("mode {} within a budget", curves_[i].mode));
    key("width: 9px; height: 9px; border-radius: 0;", "ink", "named modes, switches off");
    return "<div class=\"legend\">\n" + keys + "</div>\n";
  }
  std::string beneath() const {
    std::string text;
    for (const Mark& mark : beneath_)
      text += fmt::format("{}{}, {:.2f} {} in {:.1f} ms", text.empty() ? "Off the chart: " : "; ", mark.names,
                          mark.bytes / unit_.bytes, unit_.name, mark.ms);
    return text.empty() ? "" : "<p class=\"hint soft\">" + text + ".</p>\n";
  }

 private:
  static const char* colour(std::size_t curve) { return kColours[curve % kColours.size()]; }

  void set_axes() {
    std::vector<double> bytes, ms;
    for (const BudgetCurve& curve : curves_)
      for (const BudgetPoint& p : curve.points) {
        bytes.push_back(static_cast<double>(p.budget));
        if (p.arena_bytes > 0) ms.push_back(1e3 * p.step_seconds);
      }
    for (const Mark& mark : marks_) bytes.push_back(mark.bytes), ms.push_back(mark.ms);
    const auto [b0, b1] = std::minmax_element(bytes.begin(), bytes.end());
    const auto [t0, t1] = std::minmax_element(ms.begin(), ms.end());
    x_ = make_axis(*b0 / unit_.bytes, *b1 / unit_.bytes, kLeft, right_, picture_.marks);
    y_ = make_axis(*t0, *t1, bottom_, kTop, picture_.marks);
  }
  double x(double bytes) const { return x_(bytes / unit_.bytes); }

  std::string frame() const {
    std::string svg;
    const auto line = [&](double x1, double y1, double x2, double y2, const char* colour) {
      svg += fmt::format(
          "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" style=\"stroke: var(--{})\"/>\n", x1,
          y1, x2, y2, colour);
    };
    const auto words = [&](double at, double y, const char* anchor, const std::string& text) {
      svg +=
          fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", at, y, anchor, text);
    };
    for (double t = y_.low; t < y_.high + y_.step / 2; t += y_.step) {
      line(kLeft, y_(t), right_, y_(t), "line");
      words(kLeft - 8, y_(t) + 4, "end", mark_text(y_, t));
    }
    for (double b = x_.low; b < x_.high + x_.step / 2; b += x_.step) {
      line(x_(b), bottom_, x_(b), bottom_ + 5, "soft");
      words(x_(b), bottom_ + 20, "middle", mark_text(x_, b));
    }
    words(right_, picture_.height - 8, "end", fmt::format("memory budget of a rank, {}", unit_.name));
    words(4, kTop - 16, "start", "step, ms");
    return svg;
  }

  // A staircase: each plan also fits every larger budget, and the curve drops where a faster plan is known.
  std::string curve(const BudgetCurve& curve, const char* colour) {
    std::string line, dots;
    double last_x = 0, last_y = 0;
    for (const BudgetPoint& p : curve.points) {
      if (p.arena_bytes == 0) continue;
      const double at = x(static_cast<double>(p.budget)), y = y_(1e3 * p.step_seconds);
      if (!line.empty()) {
        line += fmt::format(" {:.1f},{:.1f} ", at, last_y);
        boxes_.push_back({last_x, last_y - 1, at - last_x, 2});
        boxes_.push_back({at - 1, std::min(y, last_y), 2, std::abs(y - last_y)});
      }
      line += fmt::format("{:.1f},{:.1f}", at, y);
      dots += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" style=\"fill: var(--{})\">"
          "<title>{}: {} {} of {}, {:.3f} ms</title></circle>\n",
          at, y, colour, curve.mode, unit_(p.arena_bytes), unit_.name, unit_(p.budget), 1e3 * p.step_seconds);
      last_x = at, last_y = y;
    }
    return fmt::format("<polyline points=\"{}\" style=\"fill: none; stroke: var(--{}); stroke-width: 2\"/>\n",
                       line, colour) +
           dots;
  }

  struct Box {
    double x = 0, y = 0, width = 0, height = 0;
    bool meets(const Box& o) const {
      return x < o.x + o.width && o.x < x + width && y < o.y + o.height && o.y < y + height;
    }
  };

  // Places the name near its mark where it covers nothing, if there is such a place.
  std::string named(const Mark& mark) {
    const double at = x(mark.bytes), y = y_(mark.ms),
                 width = kLetter * static_cast<double>(mark.names.size());
    const double edge = picture_.width - width - 4;
    Box chosen{std::max(kLeft, at + 9 > edge ? std::min(edge, at - 9 - width) : at + 9), y - 8, width, 16};
    for (const auto& [dx, dy] : {std::pair{9.0, -8.0},
                                 {-width / 2, -26.0},
                                 {9.0, -24.0},
                                 {-9 - width, -8.0},
                                 {-9 - width, 8.0},
                                 {-width / 2, 10.0},
                                 {9.0, 8.0},
                                 {-9 - width, -24.0},
                                 {9.0, -42.0},
                                 {-9 - width, 26.0},
                                 {-9 - width, -42.0},
                                 {9.0, 26.0}}) {
      const Box box{at + dx, y + dy, width, 16};
      if (box.x < kLeft || box.x > edge || box.y < kTop - 10 || box.y + 16 > bottom_) continue;
      if (std::any_of(boxes_.begin(), boxes_.end(), [&](const Box& b) { return b.meets(box); })) continue;
      chosen = box;
      break;
    }
    boxes_.push_back(chosen);
    return fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"9\" height=\"9\" style=\"fill: var(--ink)\"><title>{}: {} "
        "{}, "
        "{:.3f} ms</title></rect>\n<text x=\"{:.1f}\" y=\"{:.1f}\" style=\"fill: var(--ink)\">{}</text>\n",
        at - 4.5, y - 4.5, mark.names, unit_(static_cast<uint64_t>(mark.bytes)), unit_.name, mark.ms,
        chosen.x, chosen.y + 12.5, mark.names);
  }

  const std::vector<BudgetCurve>& curves_;
  const ByteUnit& unit_;
  const Picture& picture_;
  const double right_, bottom_;
  std::vector<Mark> marks_, beneath_;
  Axis x_, y_;
  std::vector<Box> boxes_;  // already occupied
};

}  // namespace

std::string budgets_chart(const BudgetComparison& budgets) {
  std::string svgs;
  for (const Picture& picture : kPictures) svgs += Chart(budgets, picture).text();
  const Chart words(budgets, kPictures.front());
  return "<section aria-labelledby=\"budgets-heading\">\n"
         "<h2 id=\"budgets-heading\">Time against memory budget</h2>\n"
         "<p class=\"soft\">What a step is predicted to take in the memory that a rank may have of its "
         "device.</p>\n"
         "<div class=\"wide budgets\" style=\"padding: 10px 12px\">\n" +
         words.legend() + svgs + words.beneath() + "</div>\n</section>";
}

}  // namespace recollect
