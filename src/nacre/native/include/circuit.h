// A circuit as a program of rows, for 64 query-key pairs side by side in SIMD lanes, forward and backward.
//
// A row is one neuron at one settle step: the activation of a base (a column of the input drive, a constant, a clock
// neuron or another row) plus its synapses, each a weight times an earlier row. Walking synapses instead of multiplying
// dense blocks makes the cost proportional to their number.
#pragma once
#include <algorithm>

#include "vector.h"

extern "C" struct Program {
  int32_t rows, columns, constants, synapses, activation;  // the last rows are the motor neurons
  const int32_t *kind, *base, *active;  // [rows]
  const int32_t *start, *source;        // [rows + 1], [synapses] in the order of their target rows
  const int32_t *out_start, *out_target, *out_synapse;  // the same synapses in the order of their source rows
};

namespace {

constexpr int kLanes = 64;
template <typename T> constexpr int kVecs = kLanes * sizeof(T) / kWideBytes;

enum Base : int32_t { kDrive = 0, kConstant = 1, kRow = 2, kClock = 3 };
enum Activation : int32_t { kTanh = 0, kSigmoid = 1, kRelu = 2, kSoftsign = 3, kIdentity = 4 };

template <typename V> inline V activate(V x, int32_t activation) {
  const V zero = {}, one = zero + Element<V>(1);
  switch (activation) {
    case kTanh: return tanh_of(x);
    case kSigmoid: return sigmoid_of(x);
    case kRelu: return x < zero ? zero : x;
    case kSoftsign: return x / (one + (x < zero ? -x : x));
    default: return x;
  }
}

// Derivative of the activation, from its value.
template <typename V> inline V slope(V y, int32_t activation) {
  const V zero = {}, one = zero + Element<V>(1);
  switch (activation) {
    case kTanh: return one - y * y;
    case kSigmoid: return y * (one - y);
    case kRelu: return y > zero ? one : zero;
    case kSoftsign: {
      const V rest = one - (y < zero ? -y : y);
      return rest * rest;
    }
    default: return one;
  }
}

inline void transpose(Vec<float> v[8]) {
  Vec<float> a[8], b[8];
  for (int i = 0; i < 8; i += 2) {
    a[i] = __builtin_shufflevector(v[i], v[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    a[i + 1] = __builtin_shufflevector(v[i], v[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; ++j) {
      b[i + 2 * j] = __builtin_shufflevector(a[i + j], a[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      b[i + 2 * j + 1] = __builtin_shufflevector(a[i + j], a[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int i = 0; i < 4; ++i) {
    v[i] = __builtin_shufflevector(b[i], b[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    v[i + 4] = __builtin_shufflevector(b[i], b[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

inline void transpose(Vec<double> v[4]) {
  const Vec<double> a = __builtin_shufflevector(v[0], v[1], 0, 4, 2, 6), b = __builtin_shufflevector(v[0], v[1], 1, 5, 3, 7);
  const Vec<double> c = __builtin_shufflevector(v[2], v[3], 0, 4, 2, 6), d = __builtin_shufflevector(v[2], v[3], 1, 5, 3, 7);
  v[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  v[1] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  v[2] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  v[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

// Numbers in rows, one row a lane, to one row a column: [columns, lanes]. `read(row, column)` loads a vector of a lane's
// row. Where the width of a vector does not divide the columns, the last vectors overlap.
template <typename T, typename Read> inline void transpose_in(int64_t columns, T* out, Read read) {
  constexpr int w = kWidth<T>;
  for (int64_t next = 0; next < columns; next += w) {
    const int64_t column = std::min(next, columns - w);
    for (int lane = 0; lane < kLanes; lane += w) {
      Vec<T> block[w];
      for (int i = 0; i < w; ++i) block[i] = read(lane + i, column);
      transpose(block);
      for (int i = 0; i < w; ++i) store(out + (column + i) * kLanes + lane, block[i]);
    }
  }
}

// Sums of two rows of numbers a lane, or with no second one the first: from one row a lane to one row a column.
template <typename T> void gather(const T* const* first, const T* const* second, int64_t columns, T* out) {
  if (columns < kWidth<T>) {
    for (int64_t column = 0; column < columns; ++column)
      for (int lane = 0; lane < kLanes; ++lane)
        out[column * kLanes + lane] = first[lane][column] + (second ? second[lane][column] : T(0));
  } else if (second) {
    transpose_in<T>(columns, out, [=](int i, int64_t column) { return load(first[i] + column) + load(second[i] + column); });
  } else {
    transpose_in<T>(columns, out, [=](int i, int64_t column) { return load(first[i] + column); });
  }
}

// Products of two rows of numbers, one pair of rows a lane: out [lanes].
template <typename T> void dot(const T* const* first, const T* const* second, int64_t columns, T* out) {
  constexpr int w = kWidth<T>;
  for (int lane = 0; lane < kLanes; lane += w) {
    Vec<T> total = {};
    int64_t column = 0;
    for (; column + w <= columns; column += w) {
      Vec<T> block[w];
      for (int i = 0; i < w; ++i) block[i] = load(first[lane + i] + column) * load(second[lane + i] + column);
      transpose(block);
      for (int i = 0; i < w; ++i) total += block[i];
    }
    store(out + lane, total);
    for (; column < columns; ++column)
      for (int i = lane; i < lane + w; ++i) out[i] += first[i][column] * second[i][column];
  }
}

// The way back, for gradients: [columns, lanes] to one row a lane, `stride` apart.
template <typename T> void scatter(const T* drive, int64_t columns, int64_t stride, T* out) {
  constexpr int w = kWidth<T>;
  if (columns < w) {
    for (int64_t column = 0; column < columns; ++column)
      for (int lane = 0; lane < kLanes; ++lane) out[lane * stride + column] = drive[column * kLanes + lane];
    return;
  }
  for (int64_t next = 0; next < columns; next += w) {
    const int64_t column = std::min(next, columns - w);
    for (int lane = 0; lane < kLanes; lane += w) {
      Vec<T> block[w];
      for (int i = 0; i < w; ++i) block[i] = load(drive + (column + i) * kLanes + lane);
      transpose(block);
      for (int i = 0; i < w; ++i) store(out + (lane + i) * stride + column, block[i]);
    }
  }
}

// All rows, x [rows, lanes], from the input drive [columns, lanes] and the clock neurons [clocks, lanes].
template <typename T>
void run_rows(const Program& c, const Wide<T>* drive, const Wide<T>* clock, const T* weight, const T* constant,
              Wide<T>* x) {
  constexpr int vecs = kVecs<T>;
  for (int32_t row = 0; row < c.rows; ++row) {
    Wide<T> sum[vecs];
    const int32_t base = c.base[row], kind = c.kind[row];
    const Wide<T>* from = kind == kDrive ? drive : kind == kClock ? clock : x;
    for (int j = 0; j < vecs; ++j) sum[j] = kind == kConstant ? Wide<T>{} + constant[base] : from[base * vecs + j];
    for (int32_t s = c.start[row]; s < c.start[row + 1]; ++s) {
      const Wide<T>* state = x + c.source[s] * vecs;
      const T w = weight[s];
      for (int j = 0; j < vecs; ++j) sum[j] += w * state[j];
    }
    if (c.active[row])
      for (int j = 0; j < vecs; ++j) sum[j] = activate(sum[j], c.activation);
    for (int j = 0; j < vecs; ++j) x[row * vecs + j] = sum[j];
  }
}

// Gradients. On entry g holds the outputs' gradients in its last rows; drive_grad is zero. Rows go backwards, so that
// all rows that hear from one are done before it. weight and weight_grad are in the order of source rows, so that memory
// is read in sequence; weight_grad and constant_grad keep the lanes of a vector apart.
template <typename T>
void run_back(const Program& c, const T* weight, const Wide<T>* x, Wide<T>* g, Wide<T>* drive_grad,
              Wide<T>* weight_grad, Wide<T>* constant_grad) {
  constexpr int vecs = kVecs<T>;
  for (int32_t row = c.rows - 1; row >= 0; --row) {
    Wide<T> sum[vecs];
    const Wide<T>* state = x + row * vecs;
    for (int j = 0; j < vecs; ++j) sum[j] = g[row * vecs + j];
    for (int32_t s = c.out_start[row]; s < c.out_start[row + 1]; ++s) {
      const Wide<T>* to = g + c.out_target[s] * vecs;
      const T w = weight[s];
      Wide<T> product[2] = {};  // two sums at once hide the latency of additions
      for (int j = 0; j < vecs; ++j) {
        sum[j] += w * to[j];
        product[j % 2] += state[j] * to[j];
      }
      weight_grad[s] += product[0] + product[1];
    }
    if (c.active[row])
      for (int j = 0; j < vecs; ++j) sum[j] *= slope(state[j], c.activation);
    const int32_t base = c.base[row], kind = c.kind[row];
    for (int j = 0; j < vecs; ++j) {
      g[row * vecs + j] = sum[j];
      if (kind == kDrive) drive_grad[base * vecs + j] += sum[j];
      else if (kind == kRow) g[base * vecs + j] += sum[j];
      else if (kind == kConstant) constant_grad[base] += sum[j];
    }
  }
}

}  // namespace
