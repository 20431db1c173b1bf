// The recurrence of a closed-form continuous-time layer (CfC), forward and backward.
//
//   a_t = drive_t + h_{t-1} recurrent;  p_t = tanh(a_t) weight + bias, or p_t = a_t where there is no hidden layer
//   s = sigmoid(p_t[2] elapsed_t + p_t[3]);  h_t = (1 - s) tanh(p_t[0]) + s tanh(p_t[1]), without gate: (1 - s) -> 1
//
// Time is sequential, so speed comes from the products. Weights are packed into panels of four vectors, a few rows of
// the batch go through time together and share every panel while it is in the nearest cache, and a panel of heads has
// the four heads of the same units, so that the state is made from registers. Each row is summed in one fixed order:
// results do not depend on threads or on other rows.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "vector.h"

extern "C" struct CfcLayer {
  int64_t rows, length, units, hidden;  // B, T, n, m; hidden is 0 where there is no hidden layer
  int32_t gated;
  const void *drive, *elapsed;              // [B, T, m or 4 n], [B, T]
  const void *recurrent, *weight, *bias;    // [n, m or 4 n], [m, 4 n], [4 n]; the last two only with a hidden layer
};

namespace {

constexpr int64_t kGroup = 8;  // rows that go through time together, at most

// Rows of a group, so that all threads have equally many groups.
inline int64_t group_size(int64_t rows, int64_t threads) {
  const int64_t rounds = (rows + threads * kGroup - 1) / (threads * kGroup);
  return (rows + threads * rounds - 1) / (threads * rounds);
}

// The first `count` numbers at p, and zeros.
template <typename T> inline Vec<T> load_part(const T* p, int64_t count) {
  if (count >= kWidth<T>) return load(p);
  Vec<T> v = {};
  for (int64_t i = 0; i < count; ++i) v[i] = p[i];
  return v;
}
template <typename T> inline void store_part(T* p, Vec<T> v, int64_t count) {
  if (count >= kWidth<T>) return store(p, v);
  for (int64_t i = 0; i < count; ++i) p[i] = v[i];
}

enum class Columns { kInOrder, kFourBlocks };  // kFourBlocks: a panel has one vector of each quarter of the columns

// A matrix [rows, columns] in panels of four vectors: [panels, rows, 4], padded with zeros.
template <typename T> struct Matrix {
  int64_t rows, columns, step, stride, panels;
  std::vector<Vec<T>> packed;

  Matrix(const void* from, int64_t rows, int64_t columns, Columns order, bool transposed = false)
      : rows(rows), columns(columns) {
    const bool blocks = order == Columns::kFourBlocks;
    step = blocks ? kWidth<T> : 4 * kWidth<T>;
    stride = blocks ? columns / 4 : kWidth<T>;
    panels = ((blocks ? columns / 4 : columns) + step - 1) / step;
    packed.resize(panels * rows * 4);
    const T* numbers = static_cast<const T*>(from);
    for (int64_t panel = 0; panel < panels; ++panel)
      for (int64_t row = 0; row < rows; ++row)
        for (int q = 0; q < 4; ++q)
          for (int64_t i = 0; i < count(panel, q); ++i) {
            const int64_t at = column(panel, q) + i;
            packed[(panel * rows + row) * 4 + q][i] = numbers[transposed ? at * rows + row : row * columns + at];
          }
  }
  int64_t column(int64_t panel, int q) const { return panel * step + q * stride; }
  int64_t count(int64_t panel, int q) const {  // of columns that vector q of a panel has, at most
    return std::min<int64_t>(kWidth<T>, step == kWidth<T> ? stride - panel * step : columns - column(panel, q));
  }
  int64_t padded() const { return panels * 4 * kWidth<T>; }

  // sum[r] += x[r] times a panel, for R rows.
  template <int R> void multiply(int64_t panel, const T* const* x, Vec<T> (*sum)[4]) const {
    const Vec<T>* w = packed.data() + panel * rows * 4;
    Vec<T> s[R][4];
    for (int r = 0; r < R; ++r)
      for (int q = 0; q < 4; ++q) s[r][q] = sum[r][q];
    for (int64_t row = 0; row < rows; ++row, w += 4)
      for (int r = 0; r < R; ++r)
        for (int q = 0; q < 4; ++q) s[r][q] += x[r][row] * w[q];
    for (int r = 0; r < R; ++r)
      for (int q = 0; q < 4; ++q) sum[r][q] = s[r][q];
  }
};

// Calls f(how many, first) for all rows, two at a time.
template <typename F> inline void in_pairs(int64_t rows, F f) {
  int64_t r = 0;
  for (; r + 2 <= rows; r += 2) f(std::integral_constant<int, 2>{}, r);
  if (r < rows) f(std::integral_constant<int, 1>{}, r);
}

template <typename T> inline Vec<T> next_state(const Vec<T> p[4], T elapsed, bool gated) {
  const Vec<T> first = tanh_of(p[0]), second = tanh_of(p[1]), share = sigmoid_of(p[2] * elapsed + p[3]);
  return first + share * (gated ? second - first : second);
}

// Gradients by the four heads in place of their values, for a state whose gradient is g.
template <typename T> inline void head_gradients(Vec<T> p[4], T elapsed, bool gated, Vec<T> g) {
  const Vec<T> one = Vec<T>{} + T(1);
  const Vec<T> first = tanh_of(p[0]), second = tanh_of(p[1]), share = sigmoid_of(p[2] * elapsed + p[3]);
  p[0] = g * (gated ? one - share : one) * (one - first * first);
  p[1] = g * share * (one - second * second);
  p[3] = g * (gated ? second - first : second) * share * (one - share);
  p[2] = p[3] * elapsed;
}

template <typename T> void forward(const CfcLayer& c, T* out, int threads) {
  const int64_t n = c.units, wide = c.hidden ? c.hidden : 4 * n, group = group_size(c.rows, threads);
  const Matrix<T> recurrent(c.recurrent, n, wide, c.hidden ? Columns::kInOrder : Columns::kFourBlocks);
  const Matrix<T> weight(c.weight, c.hidden, 4 * n, Columns::kFourBlocks);
  const Matrix<T>& heads = c.hidden ? weight : recurrent;
  const T *drives = static_cast<const T*>(c.drive), *elapsed = static_cast<const T*>(c.elapsed);
  const std::vector<T> zeros(n);
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t begin = 0; begin < c.rows; begin += group) {
    const int64_t rows = std::min(group, c.rows - begin), wide_padded = c.hidden ? recurrent.padded() : 0;
    std::vector<T> hidden(rows * wide_padded);
    const T *drive[kGroup], *state[kGroup], *base[kGroup], *source[kGroup];
    for (int64_t t = 0; t < c.length; ++t) {
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t step = (begin + r) * c.length + t;
        drive[r] = drives + step * wide;
        state[r] = t ? out + (step - 1) * n : zeros.data();
        base[r] = c.hidden ? static_cast<const T*>(c.bias) : drive[r];
        source[r] = c.hidden ? hidden.data() + r * wide_padded : state[r];
      }
      for (int64_t panel = 0; c.hidden && panel < recurrent.panels; ++panel)
        in_pairs(rows, [&](auto some, int64_t from) {
          Vec<T> sum[some][4];
          for (int r = 0; r < some; ++r)
            for (int q = 0; q < 4; ++q)
              sum[r][q] = load_part(drive[from + r] + recurrent.column(panel, q), recurrent.count(panel, q));
          recurrent.template multiply<some>(panel, state + from, sum);
          for (int r = 0; r < some; ++r)
            for (int q = 0; q < 4; ++q)
              store(hidden.data() + (from + r) * wide_padded + recurrent.column(panel, q), tanh_of(sum[r][q]));
        });
      for (int64_t panel = 0; panel < heads.panels; ++panel)
        in_pairs(rows, [&](auto some, int64_t from) {
          Vec<T> sum[some][4];
          for (int r = 0; r < some; ++r)
            for (int q = 0; q < 4; ++q)
              sum[r][q] = load_part(base[from + r] + heads.column(panel, q), heads.count(panel, q));
          heads.template multiply<some>(panel, source + from, sum);
          for (int r = 0; r < some; ++r) {
            const int64_t step = (begin + from + r) * c.length + t;
            const Vec<T> made = next_state<T>(sum[r], elapsed[step], c.gated);
            store_part<T>(out + step * n + heads.column(panel, 0), made, heads.count(panel, 0));
          }
        });
    }
  }
}

// On entry heads [B, T, 4 n] has the values p and hidden [B, T, m] has tanh(a); on return heads has the gradients by p
// and drive_grad [B, T, m] those by a. What remains, the gradients of the weights, are products over all steps.
template <typename T>
void backward(const CfcLayer& c, const T* out_grad, const T* hidden, T* heads, T* drive_grad, int threads) {
  const int64_t n = c.units, m = c.hidden, group = group_size(c.rows, threads);
  const Matrix<T> to_hidden(c.weight, 4 * n, m, Columns::kInOrder, true);
  const Matrix<T> to_state(c.recurrent, m ? m : 4 * n, n, Columns::kInOrder, true);
  const T* elapsed = static_cast<const T*>(c.elapsed);
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t begin = 0; begin < c.rows; begin += group) {
    const int64_t rows = std::min(group, c.rows - begin), padded = to_state.padded();
    std::vector<T> carry(rows * padded);  // gradient of the state by the steps after it
    const T *by_heads[kGroup], *by_wide[kGroup];
    for (int64_t t = c.length - 1; t >= 0; --t) {
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t step = (begin + r) * c.length + t;
        T* head = heads + step * 4 * n;
        by_heads[r] = head;
        by_wide[r] = m ? drive_grad + step * m : head;
        for (int64_t j = 0; j < n; j += kWidth<T>) {
          const Vec<T> g = load_part(out_grad + step * n + j, n - j) + load(carry.data() + r * padded + j);
          Vec<T> p[4];
          for (int q = 0; q < 4; ++q) p[q] = load_part(head + q * n + j, n - j);
          head_gradients<T>(p, elapsed[step], c.gated, g);
          for (int q = 0; q < 4; ++q) store_part(head + q * n + j, p[q], n - j);
        }
      }
      for (int64_t panel = 0; panel < to_hidden.panels; ++panel)
        in_pairs(rows, [&](auto some, int64_t from) {
          Vec<T> sum[some][4] = {};
          to_hidden.template multiply<some>(panel, by_heads + from, sum);
          for (int r = 0; r < some; ++r)
            for (int q = 0; q < 4; ++q) {
              const int64_t at = ((begin + from + r) * c.length + t) * m + to_hidden.column(panel, q);
              const Vec<T> z = load_part(hidden + at, to_hidden.count(panel, q));
              store_part<T>(drive_grad + at, sum[r][q] * (T(1) - z * z), to_hidden.count(panel, q));
            }
        });
      for (int64_t panel = 0; panel < to_state.panels; ++panel)
        in_pairs(rows, [&](auto some, int64_t from) {
          Vec<T> sum[some][4] = {};
          to_state.template multiply<some>(panel, by_wide + from, sum);
          for (int r = 0; r < some; ++r)
            for (int q = 0; q < 4; ++q)
              store(carry.data() + (from + r) * padded + to_state.column(panel, q), sum[r][q]);
        });
    }
  }
}

}  // namespace

extern "C" {
void nacre_cfc_f32(const CfcLayer* c, float* out, int threads) { forward(*c, out, threads); }
void nacre_cfc_f64(const CfcLayer* c, double* out, int threads) { forward(*c, out, threads); }
void nacre_cfc_backward_f32(const CfcLayer* c, const float* out_grad, const float* hidden, float* heads,
                            float* drive_grad, int threads) {
  backward(*c, out_grad, hidden, heads, drive_grad, threads);
}
void nacre_cfc_backward_f64(const CfcLayer* c, const double* out_grad, const double* hidden, double* heads,
                            double* drive_grad, int threads) {
  backward(*c, out_grad, hidden, heads, drive_grad, threads);
}
}
