// Sums of selected values: out[r, h] = sum over k of share[h, r, k] * value[index[h, r, k], h], and its gradients.
#include <algorithm>

#include "vector.h"

extern "C" struct Mix {
  int64_t heads, queries, keys, selected, width;  // H, R, S, K, D
  const void *share, *value;                      // [H, R, K], [S, H, D]
  const int64_t* index;                           // [H, R, K]
};

namespace {

template <typename T> void forward(const Mix& m, T* out, int threads) {
  const T *shares = static_cast<const T*>(m.share), *values = static_cast<const T*>(m.value);
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t job = 0; job < m.heads * m.queries; ++job) {
    const int64_t head = job / m.queries, row = job % m.queries;
    T* to = out + (row * m.heads + head) * m.width;
    std::fill(to, to + m.width, T(0));
    for (int64_t pair = job * m.selected; pair < (job + 1) * m.selected; ++pair) {
      const T* value = values + (m.index[pair] * m.heads + head) * m.width;
      for (int64_t d = 0; d < m.width; ++d) to[d] += shares[pair] * value[d];
    }
  }
}

template <typename T> void backward(const Mix& m, const T* out_grad, T* share_grad, T* value_grad, int threads) {
  const T *shares = static_cast<const T*>(m.share), *values = static_cast<const T*>(m.value);
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t job = 0; job < m.heads * m.queries; ++job) {
    const int64_t head = job / m.queries, row = job % m.queries;
    const T* grad = out_grad + (row * m.heads + head) * m.width;
    for (int64_t pair = job * m.selected; pair < (job + 1) * m.selected; ++pair) {
      const T* value = values + (m.index[pair] * m.heads + head) * m.width;
      T sum = 0;
      for (int64_t d = 0; d < m.width; ++d) sum += grad[d] * value[d];
      share_grad[pair] = sum;
    }
  }
  // Each job adds up its own columns of all pairs of a head: no two write to one place, and the order of the sums
  // does not depend on the number of threads.
  const int64_t parts = std::min<int64_t>(m.width, (threads + m.heads - 1) / m.heads);
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t job = 0; job < m.heads * parts; ++job) {
    const int64_t head = job / parts, from = m.width * (job % parts) / parts, to = m.width * (job % parts + 1) / parts;
    for (int64_t row = 0; row < m.queries; ++row) {
      const T* grad = out_grad + (row * m.heads + head) * m.width;
      const int64_t first = (head * m.queries + row) * m.selected;
      for (int64_t pair = first; pair < first + m.selected; ++pair) {
        T* add = value_grad + (m.index[pair] * m.heads + head) * m.width;
        for (int64_t d = from; d < to; ++d) add[d] += shares[pair] * grad[d];
      }
    }
  }
}

}  // namespace

extern "C" {
void nacre_mix_f32(const Mix* m, float* out, int threads) { forward(*m, out, threads); }
void nacre_mix_f64(const Mix* m, double* out, int threads) { forward(*m, out, threads); }
void nacre_mix_backward_f32(const Mix* m, const float* out_grad, float* share_grad, float* value_grad, int threads) {
  backward(*m, out_grad, share_grad, value_grad, threads);
}
void nacre_mix_backward_f64(const Mix* m, const double* out_grad, double* share_grad, double* value_grad, int threads) {
  backward(*m, out_grad, share_grad, value_grad, threads);
}
}
