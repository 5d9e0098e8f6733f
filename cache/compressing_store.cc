#include "cache/compressing_store.h"

#include <zstd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/forwarding_store.h"

namespace kiln {
namespace {

// The first stored byte says how the rest is to be read.
constexpr char kPlain = 'p';
constexpr char kZstd = 'z';

struct FreeContext {
  void operator()(ZSTD_CCtx* ctx) const { ZSTD_freeCCtx(ctx); }
};

std::string Plain(const std::string& content) { return kPlain + content; }

// Empty if it is not worth it.
std::string Zstd(const std::string& content, int level) {
  const std::unique_ptr<ZSTD_CCtx, FreeContext> ctx(ZSTD_createCCtx());
  std::string out(1 + ZSTD_compressBound(content.size()), kZstd);
  const size_t size =
      ZSTD_compressCCtx(ctx.get(), out.data() + 1, out.size() - 1, content.data(), content.size(), level);
  if (ZSTD_isError(size) || size > content.size() - content.size() / 8) return "";
  out.resize(1 + size);
  out.shrink_to_fit();
  return out;
}

absl::Status Garbled(const Digest& digest, const std::string& why) {
  return absl::DataLossError(absl::StrCat("blob ", digest.ToString(), ": ", why));
}

class CompressingStore final : public ForwardingStore {
 public:
  CompressingStore(std::unique_ptr<Store> inner, const CompressionOptions& options)
      : ForwardingStore(std::move(inner)), options_(options) {}

  absl::StatusOr<std::string> GetBlob(const RequestContext& ctx, const Digest& digest) override {
    absl::StatusOr<std::string> stored = inner().GetBlob(ctx, digest);
    if (!stored.ok()) return stored;
    return Decode(digest, *std::move(stored));
  }

  absl::Status Publish(const RequestContext& ctx, const Publication& publication) override {
    Publication encoded;
    encoded.records = publication.records;
    for (const Blob& blob : publication.blobs) {
      if (blob.bytes.size() > options_.max_size) {
        return absl::InvalidArgumentError(
            absl::StrCat("publish: a blob of ", blob.bytes.size(), " bytes, the bound is ", options_.max_size));
      }
      encoded.blobs.push_back({blob.digest, Encode(blob.bytes)});
    }
    return inner().Publish(ctx, encoded);
  }

 private:
  std::string Encode(const std::string& content) const {
    if (options_.level == 0 || content.size() < options_.min_size) return Plain(content);
    std::string out = Zstd(content, options_.level);
    return out.empty() ? Plain(content) : out;
  }

  absl::StatusOr<std::string> Decode(const Digest& digest, std::string stored) const {
    if (digest.size > options_.max_size) return Garbled(digest, "larger than the bound");
    if (stored.empty()) return Garbled(digest, "no encoding");
    const char encoding = stored[0];
    if (encoding == kPlain) {
      stored.erase(0, 1);
      if (stored.size() != digest.size) return Garbled(digest, "of another size");
      return stored;
    }
    if (encoding != kZstd) return Garbled(digest, "of unknown encoding");
    // The digest, not what the stored frame says of itself, decides how much is allocated.
    std::string content(digest.size, '\0');
    const size_t size = ZSTD_decompress(content.data(), content.size(), stored.data() + 1, stored.size() - 1);
    if (ZSTD_isError(size)) return Garbled(digest, ZSTD_getErrorName(size));
    if (size != digest.size) return Garbled(digest, "of another size");
    return content;
  }

  const CompressionOptions options_;
};

}  // namespace

std::unique_ptr<Store> NewCompressingStore(std::unique_ptr<Store> inner, const CompressionOptions& options) {
  return std::make_unique<CompressingStore>(std::move(inner), options);
}

}  // namespace kiln
