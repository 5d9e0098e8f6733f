// A listing as one HTML page, which needs nothing but a browser: no network, no other file.
#pragma once

#include <string>
#include <string_view>

#include "compiler/tools/listing.h"

namespace kiln {

// The data is JSON in a script element that is not run, with every '<' escaped; page.js writes it as text nodes only.
// So no name of an operator, a symbol or the title is ever markup. Test: page_test.cc.
std::string HtmlPage(const Listing& listing, std::string_view title);

}  // namespace kiln
