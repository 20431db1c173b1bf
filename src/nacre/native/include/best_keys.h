// The keys with the best scores, for one query or for as many as there are SIMD lanes.
#pragma once
#include <algorithm>
#include <limits>
#include <vector>

#include "vector.h"

namespace {

// An integer that orders like the score.
template <typename V> inline typename Simd<Element<V>, sizeof(V)>::Bits ordered(V score) {
  typedef Element<V> T;
  typename Simd<T, sizeof(V)>::Bits bits;
  score += T(0);  // turns -0 into 0
  std::memcpy(&bits, &score, sizeof bits);
  return bits ^ ((bits >> (8 * sizeof(T) - 1)) & std::numeric_limits<Int<T>>::max());
}

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
      if (!any(score[v] >= (Bits<T>{} + bar))) continue;
      for (int i = 0; i < w && v * w + i < count; ++i)
        if (score[v][i] >= bar) offer(score[v][i], position + v * w + i);
    }
  }

  void sort_by_position() {
    std::sort(item.begin(), item.begin() + found, [](const auto& a, const auto& b) { return a.second < b.second; });
  }
};

// The best keys of as many queries as there are lanes, offered in ascending order of rank; of equal scores the later wins.
template <typename T> class BestInLanes {
  typedef WideBits<T> Ints;
  static constexpr Int<T> kNone = std::numeric_limits<Int<T>>::min(), kLast = std::numeric_limits<Int<T>>::max();
  std::vector<Ints> score, rank;  // [room] best first

 public:
  explicit BestInLanes(int64_t room) : score(room), rank(room) {}

  void clear() { std::fill(score.begin(), score.end(), Ints{} + kNone); }

  void offer(Ints candidate, Int<T> place, Ints usable) {
    int64_t i = score.size() - 1;
    Ints here = usable & (candidate >= score[i]);
    if (!any(here)) return;
    for (; i > 0; --i) {  // from the worst on: what is better than its neighbour moves up, until none is
      const Ints up = usable & (candidate >= score[i - 1]);
      score[i] = up ? score[i - 1] : here ? candidate : score[i];
      rank[i] = up ? rank[i - 1] : here ? Ints{} + place : rank[i];
      if (!any(up)) return;
      here = up;
    }
    score[0] = here ? candidate : score[0];
    rank[0] = here ? Ints{} + place : rank[0];
  }

  // Ranks in ascending order, one vector a column; what no key was found for is `kLast`, at the end.
  const std::vector<Ints>& sorted() {
    const int64_t room = rank.size();
    for (int64_t i = 0; i < room; ++i) rank[i] = score[i] == Ints{} + kNone ? Ints{} + kLast : rank[i];
    for (int64_t end = room - 1; end > 0; --end)
      for (int64_t i = 0; i < end; ++i) {
        const Ints a = rank[i], b = rank[i + 1];
        rank[i] = a < b ? a : b;
        rank[i + 1] = a < b ? b : a;
      }
    return rank;
  }

  static bool holds(Int<T> found) { return found != kLast; }
};

}  // namespace
