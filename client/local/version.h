// The release, as `kilnd --version`, `kilnctl version` and StatusReply say it. Enters no key: those use the build.
#pragma once

namespace kiln {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace kiln
