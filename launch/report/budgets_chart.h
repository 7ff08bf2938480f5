// Time against memory budget as a picture for the page (html_page.h): curves of the modes that plan, a mark for each
// named mode. One SVG in the colours of the page, without a script.
#pragma once

#include <string>

#include "launch/program/compare_budgets.h"

namespace recollect {

// A section of the page.
std::string budgets_chart(const BudgetComparison& budgets);

}  // namespace recollect
