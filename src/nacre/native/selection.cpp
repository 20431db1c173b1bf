// Best keys in the best blocks (Algorithm 2 of the paper): keys side by side in SIMD lanes, queries one by one.
//
// Queries are visited in the order of their best block, so that a block of keys is read from memory once for many
// queries, however long the sequence is.
#include <algorithm>
#include <limits>
#include <vector>

#include "vector.h"

extern "C" struct Search {
  int64_t series, heads, queries, keys, width;  // series = B * H sequences of T queries and S keys
  int64_t blocks, block, selected, wanted;      // n blocks of nominal size `block`; K keys from `wanted` blocks
  int32_t causal;
  const void *query, *key;      // [B * H, T, D], [B * H, S, D]
  const uint8_t *skip, *padding;  // [B, T] queries that get no key, [B, S] keys that nobody gets
  const int64_t* edges;         // [n + 1] first key of each block
  int64_t* index;               // [B * H, T, K], zero on entry
  uint8_t* valid;               // [B * H, T, K], zero on entry
};

namespace {

constexpr int64_t kMostQueries = 16384, kFewestQueries = 256;  // sorted by block at a time
constexpr int64_t kBlocksPerJob = 64;  // a multiple of all vector widths: threads never share a vector of centroids

// An integer that orders like the score.
template <typename T> inline Bits<T> ordered(Vec<T> score) {
  Bits<T> bits;
  score += T(0);  // turns -0 into 0
  std::memcpy(&bits, &score, sizeof bits);
  return bits ^ ((bits >> (8 * sizeof(T) - 1)) & std::numeric_limits<Int<T>>::max());
}

// Columns of keys or centroids: [columns / width of a vector, D] vectors, and which of them count.
template <typename T> struct Columns {
  int64_t depth;
  std::vector<Vec<T>> value;
  std::vector<Bits<T>> usable;  // all ones or zero

  void resize(int64_t count, int64_t d) {
    const int64_t vecs = (count + kWidth<T> - 1) / kWidth<T>;
    depth = d;
    value.assign(vecs * d, Vec<T>{});
    usable.assign(vecs, Bits<T>{});
  }
  void set(int64_t column, int64_t d, T x) { value[column / kWidth<T> * depth + d][column % kWidth<T>] = x; }
  void allow(int64_t column) { usable[column / kWidth<T>][column % kWidth<T>] = -1; }

  // Ordered scores of the first `count` columns against one query; what may not be chosen gets the lowest.
  void score(const T* q, int64_t count, Bits<T>* out) const {
    const Bits<T> lowest = Bits<T>{} + std::numeric_limits<Int<T>>::min();
    const int64_t end = (count + kWidth<T> - 1) / kWidth<T>;
    int64_t v = 0;
    for (; v + 4 <= end; v += 4) {  // four at a time hide the latency of additions
      Vec<T> s[4] = {};
      for (int64_t d = 0; d < depth; ++d)
        for (int i = 0; i < 4; ++i) s[i] += q[d] * value[(v + i) * depth + d];
      for (int i = 0; i < 4; ++i) out[v + i] = usable[v + i] ? ordered<T>(s[i]) : lowest;
    }
    for (; v < end; ++v) {
      Vec<T> s = {};
      for (int64_t d = 0; d < depth; ++d) s += q[d] * value[v * depth + d];
      out[v] = usable[v] ? ordered<T>(s) : lowest;
    }
  }
};

// The best of many candidates, offered in ascending order of position; of equal scores the later wins.
template <typename T> struct Best {
  static constexpr Int<T> kLowest = std::numeric_limits<Int<T>>::min();  // marks what may not be chosen
  const int64_t room;
  int64_t found = 0;
  Int<T> bar = kLowest + 1;                      // scores below it are of no use
  std::vector<std::pair<Int<T>, int64_t>> item;  // score and position, best first

  explicit Best(int64_t count) : room(count), item(count) {}

  void clear() { found = 0, bar = kLowest + 1; }

  void offer(Int<T> score, int64_t position) {
    int64_t at = found < room ? found++ : room - 1;
    for (; at > 0 && item[at - 1].first <= score; --at) item[at] = item[at - 1];
    item[at] = {score, position};
    if (found == room) bar = item.back().first;
  }

  // Offer the scores of columns [0, count), the first of which is at `position`.
  void offer_all(const Bits<T>* score, int64_t count, int64_t position) {
    constexpr int w = kWidth<T>;
    for (int64_t v = 0; v * w < count; ++v) {
      const Bits<T> hit = score[v] >= (Bits<T>{} + bar);
      uint64_t words[4], any = 0;
      std::memcpy(words, &hit, sizeof hit);
      for (uint64_t word : words) any |= word;
      if (!any) continue;
      for (int i = 0; i < w && v * w + i < count; ++i)
        if (score[v][i] >= bar) offer(score[v][i], position + v * w + i);
    }
  }

  void sort_by_position() {
    std::sort(item.begin(), item.begin() + found, [](const auto& a, const auto& b) { return a.second < b.second; });
  }
};

// The keys of one series, cut into blocks.
template <typename T> struct Series {
  std::vector<Columns<T>> block;
  Columns<T> centroid;

  void cut_block(const Search& s, const T* key, const uint8_t* padding, int64_t b) {
    const int64_t first = s.edges[b], count = s.edges[b + 1] - first;
    std::vector<T> mean(s.width);
    int64_t used = 0;
    block[b].resize(count, s.width);
    for (int64_t i = 0; i < count; ++i) {
      if (padding[first + i]) continue;  // its values are never looked at: they may be NaN
      ++used;
      block[b].allow(i);
      for (int64_t d = 0; d < s.width; ++d) {
        const T x = key[(first + i) * s.width + d];
        block[b].set(i, d, x);
        mean[d] += x;
      }
    }
    if (!used) return;
    centroid.allow(b);
    for (int64_t d = 0; d < s.width; ++d) centroid.set(b, d, mean[d] / T(used));
  }
};

template <typename T>
void select_queries(const Search& s, int64_t number, const Series<T>& series, int64_t from, int64_t to) {
  const T* query = static_cast<const T*>(s.query) + number * s.queries * s.width;
  const uint8_t* skip = s.skip + number / s.heads * s.queries;
  int64_t widest = s.blocks;
  for (int64_t b = 0; b < s.blocks; ++b) widest = std::max(widest, s.edges[b + 1] - s.edges[b]);
  std::vector<Bits<T>> score(widest / kWidth<T> + 1);
  std::vector<int64_t> chosen((to - from) * s.wanted, s.blocks);  // ascending; `blocks` where there are fewer
  std::vector<int64_t> order;
  Best<T> blocks(s.wanted), keys(s.selected);
  for (int64_t t = from; t < to; ++t) {
    if (skip[t]) continue;
    order.push_back(t);
    const int64_t limit = s.causal ? t / s.block : s.blocks;  // causal: blocks that ended before its own
    series.centroid.score(query + t * s.width, limit, score.data());
    blocks.clear();
    blocks.offer_all(score.data(), limit, 0);
    blocks.sort_by_position();
    for (int64_t i = 0; i < blocks.found; ++i) chosen[(t - from) * s.wanted + i] = blocks.item[i].second;
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return chosen[(a - from) * s.wanted] < chosen[(b - from) * s.wanted];
  });
  for (int64_t t : order) {
    const auto offer = [&](int64_t b, int64_t end) {
      series.block[b].score(query + t * s.width, end - s.edges[b], score.data());
      keys.offer_all(score.data(), end - s.edges[b], s.edges[b]);
    };
    keys.clear();
    for (int64_t i = 0; i < s.wanted; ++i) {
      const int64_t b = chosen[(t - from) * s.wanted + i];
      if (b < s.blocks) offer(b, s.edges[b + 1]);
    }
    if (s.causal) offer(t / s.block, t + 1);
    keys.sort_by_position();
    for (int64_t i = 0; i < keys.found; ++i) {
      s.index[(number * s.queries + t) * s.selected + i] = keys.item[i].second;
      s.valid[(number * s.queries + t) * s.selected + i] = 1;
    }
  }
}

template <typename T> void search(const Search& s, int threads) {
  const int64_t groups = (s.blocks + kBlocksPerJob - 1) / kBlocksPerJob;
  const int64_t chunk = std::clamp(s.series * s.queries / (4 * threads), kFewestQueries, kMostQueries);
  const int64_t chunks = (s.queries + chunk - 1) / chunk;
  std::vector<Series<T>> series(s.series);
  for (Series<T>& one : series) {
    one.block.resize(s.blocks);
    one.centroid.resize(s.blocks, s.width);
  }
#pragma omp parallel num_threads(threads)
  {
#pragma omp for schedule(dynamic)
    for (int64_t job = 0; job < s.series * groups; ++job) {
      const int64_t number = job / groups, first = job % groups * kBlocksPerJob;
      const T* key = static_cast<const T*>(s.key) + number * s.keys * s.width;
      for (int64_t b = first; b < std::min(first + kBlocksPerJob, s.blocks); ++b)
        series[number].cut_block(s, key, s.padding + number / s.heads * s.keys, b);
    }
#pragma omp for schedule(dynamic)
    for (int64_t job = 0; job < s.series * chunks; ++job) {
      const int64_t number = job / chunks, from = job % chunks * chunk;
      select_queries(s, number, series[number], from, std::min(from + chunk, s.queries));
    }
  }
}

}  // namespace

extern "C" {
void nacre_select_f32(const Search* s, int threads) { search<float>(*s, threads); }
void nacre_select_f64(const Search* s, int threads) { search<double>(*s, threads); }
}
