// Products of queries with the keys they selected, without a copy of those keys. Three operations, of which each
// is the gradient of the others: with rows q[r, h], s[j, h] of width D and one number w for each selected pair,
//   sum:     out[r, h] = sum over k of w[h, r, k] * s[index[h, r, k], h]
//   dot:     out[h, r, k] = q[r, h] . s[index[h, r, k], h]
//   scatter: out[index[h, r, k], h] += w[h, r, k] * q[r, h]
#include <algorithm>

#include "vector.h"

extern "C" struct Selected {
  int64_t heads, queries, columns, width;  // H, R, K, D
  const int64_t* index;                    // [H, R, K]
};

namespace {

template <typename T> void sum(const Selected& p, const T* numbers, const T* keys, T* out, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t job = 0; job < p.heads * p.queries; ++job) {
    const int64_t head = job / p.queries, row = job % p.queries;
    T* to = out + (row * p.heads + head) * p.width;
    std::fill(to, to + p.width, T(0));
    for (int64_t pair = job * p.columns; pair < (job + 1) * p.columns; ++pair) {
      const T* key = keys + (p.index[pair] * p.heads + head) * p.width;
      for (int64_t d = 0; d < p.width; ++d) to[d] += numbers[pair] * key[d];
    }
  }
}

template <typename T> void dot(const Selected& p, const T* queries, const T* keys, T* out, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t job = 0; job < p.heads * p.queries; ++job) {
    const int64_t head = job / p.queries, row = job % p.queries;
    const T* query = queries + (row * p.heads + head) * p.width;
    for (int64_t pair = job * p.columns; pair < (job + 1) * p.columns; ++pair) {
      const T* key = keys + (p.index[pair] * p.heads + head) * p.width;
      T total = 0;
      for (int64_t d = 0; d < p.width; ++d) total += query[d] * key[d];
      out[pair] = total;
    }
  }
}

// `out` is zero on entry. Each job adds up its own columns of all pairs of a head: no two write to one place, and
// the order of the sums does not depend on the number of threads.
template <typename T> void scatter(const Selected& p, const T* numbers, const T* queries, T* out, int threads) {
  const int64_t parts = std::min<int64_t>(p.width, (threads + p.heads - 1) / p.heads);
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t job = 0; job < p.heads * parts; ++job) {
    const int64_t head = job / parts, from = p.width * (job % parts) / parts, to = p.width * (job % parts + 1) / parts;
    for (int64_t row = 0; row < p.queries; ++row) {
      const T* query = queries + (row * p.heads + head) * p.width;
      const int64_t first = (head * p.queries + row) * p.columns;
      for (int64_t pair = first; pair < first + p.columns; ++pair) {
        T* add = out + (p.index[pair] * p.heads + head) * p.width;
        for (int64_t d = from; d < to; ++d) add[d] += numbers[pair] * query[d];
      }
    }
  }
}

}  // namespace

extern "C" {
void nacre_sum_f32(const Selected* p, const float* a, const float* b, float* o, int n) { sum(*p, a, b, o, n); }
void nacre_sum_f64(const Selected* p, const double* a, const double* b, double* o, int n) { sum(*p, a, b, o, n); }
void nacre_dot_f32(const Selected* p, const float* a, const float* b, float* o, int n) { dot(*p, a, b, o, n); }
void nacre_dot_f64(const Selected* p, const double* a, const double* b, double* o, int n) { dot(*p, a, b, o, n); }
void nacre_scatter_f32(const Selected* p, const float* a, const float* b, float* o, int n) { scatter(*p, a, b, o, n); }
void nacre_scatter_f64(const Selected* p, const double* a, const double* b, double* o, int n) {
  scatter(*p, a, b, o, n);
}
}
