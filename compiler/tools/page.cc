#include "compiler/tools/page.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/tools/page_parts.inc"

namespace kiln {
namespace {

std::string EscapeHtml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<' || c == '>' || c == '&' || c == '"') {
      absl::StrAppendFormat(&out, "&#%d;", static_cast<int>(c));
    } else {
      out.push_back(c);
    }
  }
  return out;
}

// JSON that may stand inside of a script element.
class Json {
 public:
  void String(std::string_view text) {
    out_ += '"';
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        out_ += '\\';
        out_ += c;
      } else if (c == '\n') {
        out_ += "\\n";
      } else if (byte < ' ' || c == '<' || c == '>' || c == '&' || byte == 0x7f) {
        absl::StrAppendFormat(&out_, "\\u%04x", static_cast<unsigned>(byte));
      } else {
        out_ += c;
      }
    }
    out_ += '"';
  }
  // -1 for none.
  void Number(uint32_t number) {
    if (number == loop::kNone) {
      out_ += "-1";
    } else {
      absl::StrAppend(&out_, number);
    }
  }
  void Key(std::string_view name) {
    out_ += out_.ends_with('{') ? "" : ",";
    String(name);
    out_ += ':';
  }
  template <typename Items, typename F>
  void List(const Items& items, F&& item) {
    out_ += '[';
    const char* separator = "";
    for (const auto& i : items) {
      out_ += separator;
      separator = ",";
      item(i);
    }
    out_ += ']';
  }
  void Numbers(std::string_view key, const std::vector<uint32_t>& numbers) {
    Key(key);
    List(numbers, [this](uint32_t number) { Number(number); });
  }
  void Text(std::string_view key, std::string_view text) {
    Key(key);
    String(text);
  }
  void Open() { out_ += '{'; }
  void Close() { out_ += '}'; }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

std::string DataOf(const Listing& listing) {
  Json json;
  json.Open();
  json.Key("graphs");
  json.List(listing.graphs, [&](const ListedGraph& graph) {
    json.Open();
    json.Text("name", graph.name);
    json.Text("text", graph.text);
    json.Numbers("nodes", graph.nodes);
    json.Numbers("origins", graph.origins);
    json.Key("steps");
    json.List(graph.steps, [&](const ListedStep& step) {
      json.Open();
      json.Key("kernel");
      json.Number(step.kernel);
      json.Text("schedule", step.schedule);
      json.Numbers("nodes", step.nodes);
      json.Numbers("origins", step.origins);
      json.Close();
    });
    json.Close();
  });
  json.Key("kernels");
  json.List(listing.kernels, [&](const ListedKernel& kernel) {
    json.Open();
    json.Text("loop", kernel.loop);
    json.Text("llvm", kernel.code.llvm.text);
    json.Numbers("llvmOrigins", kernel.code.llvm.origins);
    json.Text("asm", kernel.code.assembly.text);
    json.Numbers("asmOrigins", kernel.code.assembly.origins);
    json.Close();
  });
  json.Close();
  return json.Take();
}

std::string Column(std::string_view id, std::string_view title) {
  return absl::StrCat("<section><h2 id=\"", std::string(id), "-title\">", std::string(title), "</h2><div id=\"",
                      std::string(id), "\" class=\"lines\" role=\"listbox\" tabindex=\"0\" aria-labelledby=\"",
                      std::string(id), "-title\"></div></section>\n");
}

}  // namespace

std::string HtmlPage(const Listing& listing, std::string_view title) {
  const std::string name = EscapeHtml(title);
  return absl::StrCat(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>",
      name, "</title>\n<style>\n", kPageCss, "</style>\n</head>\n<body>\n<header><h1>", name, "</h1><p>",
      EscapeHtml(listing.target),
      "</p><label>step <select id=\"step\"></select></label><output id=\"status\"></output></header>\n"
      "<noscript>This page is drawn by a script of its own.</noscript>\n<main>\n",
      Column("graph", "graph"), Column("loop", "loop nest"), Column("llvm", "LLVM IR"), Column("asm", "assembly"),
      "</main>\n<script type=\"application/json\" id=\"data\">", DataOf(listing), "</script>\n<script>\n", kPageJs,
      "</script>\n</body>\n</html>\n");
}

}  // namespace kiln
