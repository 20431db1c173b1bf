// Best keys in the best blocks (Algorithm 2 of the paper): keys side by side in SIMD lanes, queries one by one.
//
// Queries are visited in the order of their best block, so that a block of keys is read from memory once for many
// queries, however long the sequence is.
#include <vector>

#include "best_keys.h"

extern "C" struct Search {
  int64_t series, heads, queries, keys, width;  // series = B * H sequences of T queries and S keys
  int64_t selected, near;                       // K keys for each query, beside those it has already
  int32_t causal, with_near;                    // whether the near keys are written, too
  const void *query, *key;       // [B * H, T, D], [B * H, S, D]
  const int64_t *order, *count;  // [B, S] positions of the valid keys, [B] how many there are
  const int64_t *seen;           // [B, T] how many of the valid keys a query may see
  const int64_t *near_first;     // [B, T] rank of the first of the `near` keys that a query has already
  const int64_t *size, *wanted;  // [B] keys in a block, [B] blocks to search, besides the own one where causal
  int64_t* index;                // [B, H, T, K], or with near keys [H, B, T, K + near]; zero on entry
  uint8_t* valid;                // the same
};

namespace {

constexpr int64_t kMostQueries = 16384, kFewestQueries = 256;  // sorted by block at a time
constexpr int64_t kMostScanned = 64;  // keys of a query: `BestInLanes` keeps them by insertion
constexpr int64_t kBlocksPerJob = 64;  // a multiple of all vector widths: threads never share a vector of centroids

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
      for (int i = 0; i < 4; ++i) out[v + i] = usable[v + i] ? ordered(s[i]) : lowest;
    }
    for (; v < end; ++v) {
      Vec<T> s = {};
      for (int64_t d = 0; d < depth; ++d) s += q[d] * value[v * depth + d];
      out[v] = usable[v] ? ordered(s) : lowest;
    }
  }
};

// The valid keys of one series, cut into blocks.
template <typename T> struct Series {
  const int64_t *order, *seen, *near_first;
  int64_t count, size, blocks, wanted;
  bool causal;
  std::vector<Columns<T>> block;
  Columns<T> centroid;

  void prepare(const Search& s, int64_t number) {
    const int64_t row = number / s.heads;
    order = s.order + row * s.keys, seen = s.seen + row * s.queries;
    near_first = s.near_first + row * s.queries;
    count = s.count[row], size = s.size[row], wanted = s.wanted[row];
    blocks = (count + size - 1) / size;
    causal = s.causal;
    block.resize(blocks);
    centroid.resize(blocks, s.width);
  }

  // Rank of the first key of a block; near-equal blocks, but causal ones are counted from the start.
  int64_t edge(int64_t b) const { return causal ? std::min(b * size, count) : b * count / blocks; }

  // Whether every query looks into all blocks, and for few keys: then blocks are of no use.
  bool scanned(int64_t selected) const { return wanted >= blocks && selected <= kMostScanned; }

  int64_t widest() const { return causal ? size : (count + blocks - 1) / std::max<int64_t>(blocks, 1); }

  void cut_block(const T* key, int64_t width, int64_t b) {
    const int64_t first = edge(b), keys = edge(b + 1) - first;
    std::vector<T> mean(width);
    block[b].resize(keys, width);
    for (int64_t i = 0; i < keys; ++i) {
      const T* x = key + order[first + i] * width;
      block[b].allow(i);
      for (int64_t d = 0; d < width; ++d) {
        block[b].set(i, d, x[d]);
        mean[d] += x[d];
      }
    }
    centroid.allow(b);
    for (int64_t d = 0; d < width; ++d) centroid.set(b, d, mean[d] / T(keys));
  }
};

// Keys of one query at a time, on their way to the result.
class Found {
  const Search& s;
  const int64_t columns, first;  // first row of the result of this series
  std::vector<int64_t> position;
  int64_t count = 0;

 public:
  Found(const Search& s, int64_t number)
      : s(s), columns(s.selected + (s.with_near ? s.near : 0)),
        first((s.with_near ? number % s.heads * (s.series / s.heads) + number / s.heads : number) * s.queries),
        position(columns) {}

  void add(int64_t key) { position[count++] = key; }

  template <typename T> void write(const Series<T>& series, int64_t t) {
    if (s.with_near) {
      const int64_t near = series.near_first[t];
      for (int64_t r = std::max<int64_t>(near, 0); r < std::min(near + s.near, series.seen[t]); ++r) add(series.order[r]);
      std::sort(position.begin(), position.begin() + count);
    }
    std::copy_n(position.begin(), count, s.index + (first + t) * columns);
    std::fill_n(s.valid + (first + t) * columns, count, 1);
    count = 0;
  }
};

template <typename T>
void select_queries(const Search& s, int64_t number, const Series<T>& series, int64_t from, int64_t to) {
  const T* query = static_cast<const T*>(s.query) + number * s.queries * s.width;
  const int64_t wanted = series.wanted, none = series.blocks;
  std::vector<Bits<T>> score(std::max(none, series.widest()) / kWidth<T> + 1);
  std::vector<int64_t> chosen((to - from) * wanted, none);  // ascending; `none` where there are fewer
  std::vector<int64_t> visit;                               // queries in the order of their best block
  Best<T> blocks(wanted), keys(s.selected);
  Found result(s, number);
  const auto own = [&](int64_t t) { return (series.seen[t] - 1) / series.size; };
  for (int64_t t = from; t < to; ++t) {
    if (!series.seen[t]) continue;
    visit.push_back(t);
    const int64_t limit = s.causal ? own(t) : none;  // causal: blocks that ended before its own
    series.centroid.score(query + t * s.width, limit, score.data());
    blocks.clear();
    blocks.offer_all(score.data(), limit, 0);
    blocks.sort_by_position();
    for (int64_t i = 0; i < blocks.found; ++i) chosen[(t - from) * wanted + i] = blocks.item[i].second;
  }
  std::stable_sort(visit.begin(), visit.end(), [&](int64_t a, int64_t b) {
    return chosen[(a - from) * wanted] < chosen[(b - from) * wanted];
  });
  for (int64_t t : visit) {
    const auto offer = [&](int64_t b, int64_t end) {
      const int64_t first = series.edge(b);
      series.block[b].score(query + t * s.width, end - first, score.data());
      const int64_t near = series.near_first[t] - first;  // column of the first near key, if it is in this block
      for (int64_t i = std::max<int64_t>(near, 0); i < std::min(near + s.near, end - first); ++i)
        score[i / kWidth<T>][i % kWidth<T>] = Best<T>::kLowest;
      keys.offer_all(score.data(), end - first, first);
    };
    keys.clear();
    for (int64_t i = 0; i < wanted; ++i) {
      const int64_t b = chosen[(t - from) * wanted + i];
      if (b < none) offer(b, series.edge(b + 1));
    }
    if (s.causal) offer(own(t), series.seen[t]);
    keys.sort_by_position();
    for (int64_t i = 0; i < keys.found; ++i) result.add(series.order[keys.item[i].second]);
    result.write(series, t);
  }
}

// The same for few keys, where every query looks at all: queries side by side in lanes, keys one after the other.
template <typename T>
void scan_queries(const Search& s, int64_t number, const Series<T>& series, int64_t from, int64_t to) {
  typedef WideBits<T> Ints;
  constexpr int lanes = kLength<Wide<T>>, kAtOnce = 4;  // keys: hides the latency of additions
  const T* query = static_cast<const T*>(s.query) + number * s.queries * s.width;
  const T* key = static_cast<const T*>(s.key) + number * s.keys * s.width;
  std::vector<Wide<T>> q(s.width);
  BestInLanes<T> best(s.selected);
  Found result(s, number);
  for (int64_t t = from; t < to; t += lanes) {
    const int64_t count = std::min<int64_t>(lanes, to - t);
    Ints seen = {}, near = {};
    for (int64_t i = 0; i < count; ++i) {
      seen[i] = series.seen[t + i], near[i] = series.near_first[t + i];
      for (int64_t d = 0; d < s.width; ++d) q[d][i] = query[(t + i) * s.width + d];
    }
    const int64_t most = *std::max_element(series.seen + t, series.seen + t + count);
    best.clear();
    for (int64_t first = 0; first < most; first += kAtOnce) {
      const T* k[kAtOnce];
      for (int i = 0; i < kAtOnce; ++i) k[i] = key + series.order[std::min(first + i, most - 1)] * s.width;
      Wide<T> score[kAtOnce] = {};
      for (int64_t d = 0; d < s.width; ++d)
        for (int i = 0; i < kAtOnce; ++i) score[i] += q[d] * k[i][d];
      for (int i = 0; i < kAtOnce; ++i) {
        const Int<T> rank = first + i;
        const Ints ranks = Ints{} + rank, is_near = (ranks >= near) & (ranks < near + Int<T>(s.near));
        best.offer(ordered(score[i]), rank, (ranks < seen) & ~is_near);
      }
    }
    const std::vector<Ints>& found = best.sorted();
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < s.selected && best.holds(found[j][i]); ++j) result.add(series.order[found[j][i]]);
      result.write(series, t + i);
    }
  }
}

template <typename T> void search(const Search& s, int threads) {
  const int64_t chunk = std::clamp(s.series * s.queries / (4 * threads), kFewestQueries, kMostQueries);
  const int64_t chunks = (s.queries + chunk - 1) / chunk;
  std::vector<Series<T>> series(s.series);
  int64_t most = 0;  // blocks of a series
  for (int64_t number = 0; number < s.series; ++number) {
    series[number].prepare(s, number);
    if (!series[number].scanned(s.selected)) most = std::max(most, series[number].blocks);
  }
  const int64_t groups = (most + kBlocksPerJob - 1) / kBlocksPerJob;
#pragma omp parallel num_threads(threads)
  {
#pragma omp for schedule(dynamic)
    for (int64_t job = 0; job < s.series * groups; ++job) {
      const int64_t number = job / groups, first = job % groups * kBlocksPerJob;
      const T* key = static_cast<const T*>(s.key) + number * s.keys * s.width;
      if (series[number].scanned(s.selected)) continue;
      for (int64_t b = first; b < std::min(first + kBlocksPerJob, series[number].blocks); ++b)
        series[number].cut_block(key, s.width, b);
    }
#pragma omp for schedule(dynamic)
    for (int64_t job = 0; job < s.series * chunks; ++job) {
      const int64_t number = job / chunks, from = job % chunks * chunk, to = std::min(from + chunk, s.queries);
      if (series[number].scanned(s.selected)) scan_queries(s, number, series[number], from, to);
      else select_queries(s, number, series[number], from, to);
    }
  }
}

}  // namespace

extern "C" {
void nacre_select_f32(const Search* s, int threads) { search<float>(*s, threads); }
void nacre_select_f64(const Search* s, int threads) { search<double>(*s, threads); }
}
