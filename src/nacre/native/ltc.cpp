// Liquid time-constant neurons, forward and backward: what neurons hear through their synapses, and the recurrence.
//
// Synapses lie in a table with a line of slots for each neuron; SIMD runs along a line. A slot without a synapse has
// coefficients of 0 and adds nothing. Backward of the recurrence computes the unfolds of a step again from the state
// before it, so that one state a step is all that is kept.
#include <algorithm>
#include <vector>

#include "vector.h"

extern "C" struct Synapses {
  int64_t neurons, slots;        // N, K; K is a multiple of 8
  const int32_t *source, *used;  // [N, K], ascending where there are synapses; [N] slots to visit, a multiple of 8
  const void* coefficient;       // [4, N, K]
};

extern "C" struct Rows {
  int64_t rows, width;  // of x
};

extern "C" struct Recurrence {
  int64_t rows, length, unfolds;         // B, T, M
  const void *drive, *delta, *capacity;  // [B, T, 2, N] current and conductance from outside, [B, T], [N]
};

namespace {

// Gradients of coefficients are summed in this many parts whatever the number of threads, so that it changes no bit.
constexpr int64_t kParts = 16;

// pull = weight * reversal potential; a synapse is open by y = sigmoid(slope * source + offset).
template <typename Pointer> struct Coefficients {
  Pointer pull, weight, slope, offset;
  Coefficients(const Synapses& n, Pointer all) {
    const int64_t size = n.neurons * n.slots;
    pull = all, weight = all + size, slope = all + 2 * size, offset = all + 3 * size;
  }
};

template <typename T> Coefficients<const T*> coefficients(const Synapses& n) {
  return {n, static_cast<const T*>(n.coefficient)};
}

// Whether sources that ascend follow one another, as they do where all are connected to all.
template <typename T> inline bool in_a_row(const int32_t* at) { return at[kWidth<T> - 1] - at[0] == kWidth<T> - 1; }

template <typename T> inline Vec<T> gather(const T* from, const int32_t* at) {
  if (in_a_row<T>(at)) return load(from + at[0]);
  Vec<T> x;
  for (int i = 0; i < kWidth<T>; ++i) x[i] = from[at[i]];
  return x;
}

template <typename T> inline void scatter_add(T* to, const int32_t* at, Vec<T> x) {
  if (in_a_row<T>(at)) return store(to + at[0], load(to + at[0]) + x);
  for (int i = 0; i < kWidth<T>; ++i) to[at[i]] += x[i];
}

// By halves, so that fewer additions wait for one another than in `sum`.
template <typename T> inline T sum_by_halves(Vec<T> v) {
  typename Simd<T, sizeof v / 2>::Vec half[2];
  std::memcpy(half, &v, sizeof v);
  const auto x = half[0] + half[1];
  if constexpr (kWidth<T> == 4) return x[0] + x[1];
  else return (x[0] + x[1]) + (x[2] + x[3]);
}

// total = base + what neurons hear from v: N currents, then N conductances. Keeps y in `open` unless that is null.
template <typename T> void hear(const Synapses& n, const T* v, const T* base, T* total, T* open) {
  const auto c = coefficients<T>(n);
  for (int64_t j = 0; j < n.neurons; ++j) {
    Vec<T> current = {}, conductance = {};
    for (int64_t s = j * n.slots; s < j * n.slots + n.used[j]; s += kWidth<T>) {
      const Vec<T> y = sigmoid_of(load(c.slope + s) * gather(v, n.source + s) + load(c.offset + s));
      if (open) store(open + s, y);
      current += load(c.pull + s) * y;
      conductance += load(c.weight + s) * y;
    }
    total[j] = base[j] + sum_by_halves<T>(current);
    total[n.neurons + j] = base[n.neurons + j] + sum_by_halves<T>(conductance);
  }
}

// Adds to v_grad and to the gradients of the coefficients, from those of `total` and from `open`.
template <typename T>
void hear_back(const Synapses& n, const T* v, const T* open, const T* total_grad, T* v_grad, T* coefficient_grad) {
  const auto c = coefficients<T>(n);
  const Coefficients<T*> g(n, coefficient_grad);
  for (int64_t j = 0; j < n.neurons; ++j) {
    const T by_current = total_grad[j], by_conductance = total_grad[n.neurons + j];
    for (int64_t s = j * n.slots; s < j * n.slots + n.used[j]; s += kWidth<T>) {
      const Vec<T> y = load(open + s);
      const Vec<T> by_y = load(c.pull + s) * by_current + load(c.weight + s) * by_conductance;
      const Vec<T> by_input = by_y * y * (T(1) - y);
      store(g.pull + s, load(g.pull + s) + y * by_current);
      store(g.weight + s, load(g.weight + s) + y * by_conductance);
      store(g.slope + s, load(g.slope + s) + by_input * gather(v, n.source + s));
      store(g.offset + s, load(g.offset + s) + by_input);
      scatter_add<T>(v_grad, n.source + s, by_input * load(c.slope + s));
    }
  }
}

// Adds the parts' gradients [parts, size] to `out`, always in the same order.
template <typename T> void add_parts(const std::vector<T>& held, int64_t parts, int64_t size, T* out, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t i = 0; i < size; ++i)
    for (int64_t part = 0; part < parts; ++part) out[i] += held[part * size + i];
}

// x [rows, width] -> sums [rows, 2, N].
template <typename T> void sums(const Synapses& n, const Rows& r, const T* x, T* out, int threads) {
  const std::vector<T> nothing(2 * n.neurons);
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t row = 0; row < r.rows; ++row)
    hear<T>(n, x + row * r.width, nothing.data(), out + row * 2 * n.neurons, nullptr);
}

// x_grad and coefficient_grad are zero on entry.
template <typename T>
void sums_back(const Synapses& n, const Rows& r, const T* x, const T* out_grad, T* x_grad, T* coefficient_grad,
               int threads) {
  const int64_t table = n.neurons * n.slots, parts = std::min(r.rows, kParts);
  const std::vector<T> nothing(2 * n.neurons);
  std::vector<T> held(parts * 4 * table);
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t part = 0; part < parts; ++part) {
    std::vector<T> open(table), total(2 * n.neurons);
    for (int64_t row = r.rows * part / parts; row < r.rows * (part + 1) / parts; ++row) {
      hear(n, x + row * r.width, nothing.data(), total.data(), open.data());
      hear_back(n, x + row * r.width, open.data(), out_grad + row * 2 * n.neurons, x_grad + row * r.width,
                held.data() + part * 4 * table);
    }
  }
  add_parts(held, parts, 4 * table, coefficient_grad, threads);
}

// v + delta (current - conductance v) / (capacity + delta conductance): exactly v where no time has passed.
template <typename T> void unfold_once(int64_t neurons, const T* total, T delta, const T* capacity, const T* v, T* to) {
  const T* conductance = total + neurons;
  for (int64_t j = 0; j < neurons; ++j)
    to[j] = v[j] + delta * (total[j] - conductance[j] * v[j]) / (capacity[j] + delta * conductance[j]);
}

template <typename T> void forward(const Synapses& n, const Recurrence& r, T* states, int threads) {
  const T *drive = static_cast<const T*>(r.drive), *delta = static_cast<const T*>(r.delta);
  const T* capacity = static_cast<const T*>(r.capacity);
  const int64_t neurons = n.neurons;
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t row = 0; row < r.rows; ++row) {
    std::vector<T> v(neurons), total(2 * neurons);
    for (int64_t step = row * r.length; step < (row + 1) * r.length; ++step) {
      for (int64_t unfold = 0; unfold < r.unfolds; ++unfold) {
        hear<T>(n, v.data(), drive + step * 2 * neurons, total.data(), nullptr);
        unfold_once(neurons, total.data(), delta[step], capacity, v.data(), v.data());
      }
      std::copy(v.begin(), v.end(), states + step * neurons);
    }
  }
}

// What one step of one row needs on the way back.
template <typename T> struct Scratch {
  std::vector<T> path, total, open, total_grad, grad, before;
  Scratch(const Synapses& n, int64_t unfolds)
      : path((unfolds + 1) * n.neurons), total(unfolds * 2 * n.neurons), open(unfolds * n.neurons * n.slots),
        total_grad(2 * n.neurons), grad(n.neurons), before(n.neurons) {}
};

// One unfold. w.grad goes from the gradient of the state after it to that before it; returns the gradient of delta.
template <typename T>
T unfold_back(const Synapses& n, int64_t unfold, T delta, const T* capacity, Scratch<T>& w, T* drive_grad,
              T* capacity_grad, T* coefficient_grad) {
  const int64_t neurons = n.neurons;
  const T *v = w.path.data() + unfold * neurons, *next = v + neurons;
  const T *current = w.total.data() + unfold * 2 * neurons, *conductance = current + neurons;
  T delta_grad = 0;
  for (int64_t j = 0; j < neurons; ++j) {
    const T share = w.grad[j] / (capacity[j] + delta * conductance[j]);
    const T by_current = delta * share, by_conductance = -by_current * next[j];
    w.total_grad[j] = by_current, w.total_grad[neurons + j] = by_conductance;
    drive_grad[j] += by_current, drive_grad[neurons + j] += by_conductance;
    capacity_grad[j] += share * (v[j] - next[j]);
    delta_grad += share * (current[j] - conductance[j] * next[j]);
    w.before[j] = capacity[j] * share;
  }
  hear_back(n, v, w.open.data() + unfold * neurons * n.slots, w.total_grad.data(), w.before.data(), coefficient_grad);
  w.grad.swap(w.before);
  return delta_grad;
}

// All gradients are zero on entry.
template <typename T>
void backward(const Synapses& n, const Recurrence& r, const T* states, const T* out_grad, T* drive_grad, T* delta_grad,
              T* capacity_grad, T* coefficient_grad, int threads) {
  const T *drive = static_cast<const T*>(r.drive), *delta = static_cast<const T*>(r.delta);
  const T* capacity = static_cast<const T*>(r.capacity);
  const int64_t neurons = n.neurons, table = neurons * n.slots, parts = std::min(r.rows, kParts);
  std::vector<T> held(parts * 4 * table), held_capacity(parts * neurons);
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t part = 0; part < parts; ++part) {
    Scratch<T> w(n, r.unfolds);
    for (int64_t row = r.rows * part / parts; row < r.rows * (part + 1) / parts; ++row) {
      std::fill(w.grad.begin(), w.grad.end(), T(0));
      for (int64_t step = (row + 1) * r.length - 1; step >= row * r.length; --step) {
        if (step > row * r.length) std::copy_n(states + (step - 1) * neurons, neurons, w.path.begin());
        else std::fill_n(w.path.begin(), neurons, T(0));
        for (int64_t unfold = 0; unfold < r.unfolds; ++unfold) {
          T *v = w.path.data() + unfold * neurons, *total = w.total.data() + unfold * 2 * neurons;
          hear(n, v, drive + step * 2 * neurons, total, w.open.data() + unfold * table);
          unfold_once(neurons, total, delta[step], capacity, v, v + neurons);
        }
        for (int64_t j = 0; j < neurons; ++j) w.grad[j] += out_grad[step * neurons + j];
        for (int64_t unfold = r.unfolds - 1; unfold >= 0; --unfold)
          delta_grad[step] += unfold_back(n, unfold, delta[step], capacity, w, drive_grad + step * 2 * neurons,
                                          held_capacity.data() + part * neurons, held.data() + part * 4 * table);
      }
    }
  }
  add_parts(held, parts, 4 * table, coefficient_grad, threads);
  add_parts(held_capacity, parts, neurons, capacity_grad, 1);
}

}  // namespace

extern "C" {
#define NACRE_LTC(T, suffix)                                                                                         \
  void nacre_ltc_sums_##suffix(const Synapses* n, const Rows* r, const T* x, T* out, int threads) {                  \
    sums(*n, *r, x, out, threads);                                                                                   \
  }                                                                                                                  \
  void nacre_ltc_sums_backward_##suffix(const Synapses* n, const Rows* r, const T* x, const T* out_grad, T* x_grad,  \
                                        T* coefficient_grad, int threads) {                                          \
    sums_back(*n, *r, x, out_grad, x_grad, coefficient_grad, threads);                                \
  }                                                                                                                  \
  void nacre_ltc_##suffix(const Synapses* n, const Recurrence* r, T* states, int threads) {                          \
    forward(*n, *r, states, threads);                                                                                \
  }                                                                                                                  \
  void nacre_ltc_backward_##suffix(const Synapses* n, const Recurrence* r, const T* states, const T* out_grad,       \
                                   T* drive_grad, T* delta_grad, T* capacity_grad, T* coefficient_grad,              \
                                   int threads) {                                                                    \
    backward(*n, *r, states, out_grad, drive_grad, delta_grad, capacity_grad, coefficient_grad, threads);            \
  }
NACRE_LTC(float, f32)
NACRE_LTC(double, f64)
#undef NACRE_LTC
}
