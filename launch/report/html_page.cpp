#include "launch/report/html_page.h"

#include <map>

#include "checkpointing/device_model.h"
#include "launch/report/page_template.h"
#include "launch/report/rank_report_json.h"
#include "launch/report/timeline_json.h"

namespace recollect {

namespace {

using Json = nlohmann::ordered_json;

// Stores equal parts once, in the order of their first use.
class Pool {
 public:
  std::size_t add(const Json& part) {
    const auto [found, fresh] = indices_.emplace(part.dump(), indices_.size());
    if (fresh) parts_ += (parts_.empty() ? "" : ",") + found->first;
    return found->second;
  }
  std::string text() const { return "[" + parts_ + "]"; }

 private:
  std::map<std::string, std::size_t> indices_;
  std::string parts_;
};

// Escapes text for a script element, so that no name can end the element.
std::string inside_script(const std::string& json) {
  std::string text;
  for (const char c : json)
    if (c == '<')
      text += "\\u003c";
    else
      text += c;
  return text;
}

std::string page_data(std::span<const std::vector<RankReport>> runs, const PageParts& more) {
  Pool programs, times;
  Json list = Json::array();
  for (const std::vector<RankReport>& run : runs) {
    Json ranks = Json::array();
    for (const RankReport& report : run) {
      Json rank = summary_json(report);
      if (!report.timeline.ops.empty() && ranks.size() < kTimelinesInPage) {
        Json timeline = timeline_json(report.timeline);
        Json& parts = rank["timeline"];
        parts["program"] = programs.add(timeline["program"]);
        parts["predicted"] = times.add(timeline["predicted"]);
        if (report.timeline.measured) parts["measured"] = times.add(timeline["measured"]);
        parts["roof"] = std::move(timeline["roof"]);
        parts["step"] = report.timeline.step;
      }
      ranks.push_back(std::move(rank));
    }
    list.push_back({{"ranks", std::move(ranks)}});
    if (list.size() <= more.curves.size())
      list.back()["training"] = curves_json(more.curves[list.size() - 1]);
  }
  const std::string names = names_json().dump();
  return names.substr(0, names.size() - 1) + ",\"runs\":" + list.dump() + ",\"programs\":" + programs.text() +
         ",\"times\":" + times.text() + ",\"presets\":" + Json(device_preset_names()).dump() +
         ",\"live\":" + std::to_string(more.live) + "}";
}

}  // namespace

std::string html_page(std::span<const std::vector<RankReport>> runs, const PageParts& parts) {
  std::string page(kPageTemplate);
  const auto put = [&](std::string_view mark, std::string_view what) {
    const std::size_t at = page.find(mark);
    require(at != std::string::npos, "the page has no place for its parts");
    page.replace(at, mark.size(), what);
  };
  put("@data@",
      inside_script(page_data(runs, parts)));  // the last mark first: names of a run may look like the other
  put("@chart@", parts.chart);
  return page;
}

}  // namespace recollect
