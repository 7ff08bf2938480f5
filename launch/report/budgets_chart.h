// A chart of step time against memory budget for the page (html_page.h): a curve for each mode that plans,
// and a mark for each named mode. It is SVG in the colours of the page, without a script.
#pragma once

#include <string>

#include "launch/program/compare_budgets.h"

namespace recollect {

// Returns a section of the page as HTML.
std::string budgets_chart(const BudgetComparison& budgets);

}  // namespace recollect
