// The recurrence of a diagonal state-space model on steps at any distance, forward and backward.
//
//   s_i = s_{i-1} + c_i (s_{i-1} + w u_i),  c_i = exp(z e_i) - 1,  y_i = 2 Re sum over n of s_i
//
// with complex rates z and weights w of each channel. A step that only asks gets its y, but leaves s as it was. Channels
// are independent, so that threads share them; vectors run over states. The backward pass computes the states again.
// Each sum has one fixed order: results do not depend on threads or on other rows.
#include <algorithm>
#include <vector>

#include "vector.h"

extern "C" struct S4Layer {
  int64_t rows, length, width, states;       // B, T, d, n
  const void *u, *elapsed, *rates, *weights;  // [d, B, T], [B, T], [d, n, 2], [d, n, 2]
  const uint8_t* asks;                        // [B, T], or null where no step only asks
};

namespace {

template <typename V> struct Complex {
  V re, im;
};

// a = exp(x + iy), and c = a - 1 without the loss of digits near 0.
template <typename V> struct Power {
  Complex<V> a, c;
};

// Of s = sin(y / 2), c = cos(y / 2): exp(x) (1 - 2 s^2 + 2 i s c), and (exp(x) - 1) (1 - 2 s^2) - 2 s^2 as the real
// part less 1. For float, |y| is at most kFar.
constexpr double kFar = 8192, kTurn = 6.283185307179586;

template <typename V> inline Power<V> power_of(V x, V y) {
  V grown, full, s, c;
  if constexpr (sizeof(Element<V>) == 8) {
    grown = each(x, [](double v) { return std::expm1(v); });
    full = each(x, [](double v) { return std::exp(v); });
    s = each(y, [](double v) { return std::sin(v / 2); });
    c = each(y, [](double v) { return std::cos(v / 2); });
  } else {
    typedef typename Simd<float, sizeof(V)>::Bits Ints;
    constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: the whole part of a sum with it is in the last bits
    // 2^n (e^r - 1) + 2^n - 1 with |r| <= ln(2) / 2.
    x = clamp(x, -87.0f, 88.0f);
    const V shifted = x * 1.44269504f + kShift, whole = shifted - kShift;
    const V r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;  // ln(2) in two parts
    V p = r * (1.0f / 5040) + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r * r + r;
    Ints bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    bits = (bits - 0x4B400000 + 127) << 23;
    V power;
    std::memcpy(&power, &bits, sizeof power);
    grown = p * power + (power - 1.0f);
    full = p * power + power;
    // Whole turns change neither s^2 nor s c; what is left is from -pi / 2 to pi / 2, where the series end early.
    const V turns = (y * float(1 / kTurn) + kShift) - kShift;
    const V half = 0.5f * (((y - turns * 6.28125f) - turns * 1.93500518798828125e-3f) - turns * 3.01991598e-7f);
    const V z = half * half;
    s = z * (1.0f / 6227020800.0f) - 1.0f / 39916800;
    s = s * z + 1.0f / 362880;
    s = s * z - 1.0f / 5040;
    s = s * z + 1.0f / 120;
    s = s * z - 1.0f / 6;
    s = s * z * half + half;
    c = z * (1.0f / 479001600) - 1.0f / 3628800;
    c = c * z + 1.0f / 40320;
    c = c * z - 1.0f / 720;
    c = c * z + 1.0f / 24;
    c = c * z - 0.5f;
    c = c * z + 1.0f;
  }
  const V twice = Element<V>(2) * s, lost = twice * s;  // 1 - cos(y)
  const V im = full * c * twice;
  return {{full - full * lost, im}, {grown - grown * lost - lost, im}};
}

// The rates and weights of one channel, in vectors; missing states have zeros, and stay zero.
template <typename T> struct Channel {
  typedef Wide<T> V;
  std::vector<Complex<V>> rate, weight;
  T fastest = 0;

  Channel(const S4Layer& l, int64_t channel) {
    const int64_t blocks = (l.states + kLength<V> - 1) / kLength<V>;
    rate.assign(blocks, {V{}, V{}});
    weight.assign(blocks, {V{}, V{}});
    const T* rates = static_cast<const T*>(l.rates) + channel * l.states * 2;
    const T* weights = static_cast<const T*>(l.weights) + channel * l.states * 2;
    for (int64_t n = 0; n < l.states; ++n) {
      const int64_t block = n / kLength<V>, at = n % kLength<V>;
      rate[block].re[at] = rates[2 * n], rate[block].im[at] = rates[2 * n + 1];
      weight[block].re[at] = weights[2 * n], weight[block].im[at] = weights[2 * n + 1];
      fastest = std::max(fastest, std::abs(rates[2 * n + 1]));
    }
  }

  Power<V> power(int64_t block, T elapsed) const {
    V y = rate[block].im * elapsed;
    if (sizeof(T) == 4 && !(fastest * elapsed < T(kFar)))
      y = each(y, [](T v) { return T(std::remainder(double(v), kTurn)); });
    return power_of<V>(rate[block].re * elapsed, y);
  }
};

// s + c (s + w u)
template <typename V>
inline Complex<V> moved(const Complex<V>& s, const Complex<V>& c, const Complex<V>& w, Element<V> u) {
  const V re = s.re + w.re * u, im = s.im + w.im * u;
  return {s.re + c.re * re - c.im * im, s.im + c.re * im + c.im * re};
}

template <typename T> void forward(const S4Layer& l, T* out, int threads) {
  typedef Wide<T> V;
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t d = 0; d < l.width; ++d) {
    const Channel<T> channel(l, d);
    const int64_t blocks = channel.rate.size();
    std::vector<Complex<V>> state(blocks);
    for (int64_t row = 0; row < l.rows; ++row) {
      const T *u = static_cast<const T*>(l.u) + (d * l.rows + row) * l.length;
      const T *elapsed = static_cast<const T*>(l.elapsed) + row * l.length;
      const uint8_t* asks = l.asks ? l.asks + row * l.length : nullptr;
      T* y = out + (d * l.rows + row) * l.length;
      std::fill(state.begin(), state.end(), Complex<V>{V{}, V{}});
      for (int64_t t = 0; t < l.length; ++t) {
        V total = {};
        for (int64_t k = 0; k < blocks; ++k) {
          const Complex<V> next = moved(state[k], channel.power(k, elapsed[t]).c, channel.weight[k], u[t]);
          total += next.re;
          if (!asks || !asks[t]) state[k] = next;
        }
        y[t] = 2 * sum(total);
      }
    }
  }
}

template <typename T>
void backward(const S4Layer& l, const T* out_grad, T* u_grad, T* rates_grad, T* weights_grad, int threads) {
  typedef Wide<T> V;
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t d = 0; d < l.width; ++d) {
    const Channel<T> channel(l, d);
    const int64_t blocks = channel.rate.size();
    // Of each step c, and a (s + w u), the slope of the state after it by z e.
    std::vector<Complex<V>> change(l.length), slope(l.length), by_rate(blocks, {V{}, V{}}), by_weight = by_rate;
    std::vector<V> by_u(l.length);
    for (int64_t row = 0; row < l.rows; ++row) {
      const int64_t series = (d * l.rows + row) * l.length;
      const T *u = static_cast<const T*>(l.u) + series, *grad = out_grad + series;
      const T* elapsed = static_cast<const T*>(l.elapsed) + row * l.length;
      const uint8_t* asks = l.asks ? l.asks + row * l.length : nullptr;
      std::fill(by_u.begin(), by_u.end(), V{});
      for (int64_t k = 0; k < blocks; ++k) {
        const Complex<V> w = channel.weight[k];
        Complex<V> state = {V{}, V{}}, carry = state, z = by_rate[k], v = by_weight[k];
        for (int64_t t = 0; t < l.length; ++t) {
          const Power<V> power = channel.power(k, elapsed[t]);
          const V re = state.re + w.re * u[t], im = state.im + w.im * u[t];
          change[t] = power.c;
          slope[t] = {power.a.re * re - power.a.im * im, power.a.re * im + power.a.im * re};
          if (!asks || !asks[t]) state = moved(state, power.c, w, u[t]);
        }
        for (int64_t t = l.length - 1; t >= 0; --t) {
          const bool kept = !asks || !asks[t];
          const Complex<V> c = change[t], s = slope[t];
          // The gradient by the state after this step, and its product with conj(c).
          Complex<V> g = kept ? carry : Complex<V>{V{}, V{}};
          g.re += 2 * grad[t];
          const Complex<V> h = {g.re * c.re + g.im * c.im, g.im * c.re - g.re * c.im};
          z.re += elapsed[t] * (g.re * s.re + g.im * s.im);
          z.im += elapsed[t] * (g.im * s.re - g.re * s.im);
          v.re += u[t] * h.re;
          v.im += u[t] * h.im;
          by_u[t] += h.re * w.re + h.im * w.im;
          if (kept) carry = {V{}, V{}};
          carry.re += g.re + h.re;
          carry.im += g.im + h.im;
        }
        by_rate[k] = z;
        by_weight[k] = v;
      }
      for (int64_t t = 0; t < l.length; ++t) u_grad[series + t] = sum(by_u[t]);
    }
    for (int64_t n = 0; n < l.states; ++n) {
      const int64_t block = n / kLength<V>, at = n % kLength<V>, place = (d * l.states + n) * 2;
      rates_grad[place] = by_rate[block].re[at], rates_grad[place + 1] = by_rate[block].im[at];
      weights_grad[place] = by_weight[block].re[at], weights_grad[place + 1] = by_weight[block].im[at];
    }
  }
}

}  // namespace

extern "C" {
#define NACRE_S4(T, suffix)                                                                                          \
  void nacre_s4_##suffix(const S4Layer* l, T* out, int threads) { forward(*l, out, threads); }                       \
  void nacre_s4_backward_##suffix(const S4Layer* l, const T* out_grad, T* u_grad, T* rates_grad, T* weights_grad,    \
                                  int threads) {                                                                     \
    backward(*l, out_grad, u_grad, rates_grad, weights_grad, threads);                                               \
  }
NACRE_S4(float, f32)
NACRE_S4(double, f64)
#undef NACRE_S4
}
