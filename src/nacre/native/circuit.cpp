// The circuit of every query-key pair, forward and backward, with 64 pairs side by side in SIMD lanes.
//
// A circuit is a program of rows. A row is one neuron at one settle step: the activation of a base (a column of the
// input drive, a constant, or another row) plus its synapses, each a weight times an earlier row. Walking synapses
// instead of multiplying dense blocks makes the cost proportional to their number. Backward computes all rows again
// and so needs nothing but the inputs of forward.
#include <algorithm>
#include <vector>

#include "parallel.h"
#include "vector.h"

namespace {

constexpr int kLanes = 64;
constexpr int64_t kTilesPerChunk = 64;  // tiles whose input gradients are held before they are added up

enum Base : int32_t { kDrive = 0, kConstant = 1, kRow = 2 };
enum Activation : int32_t { kTanh = 0, kSigmoid = 1, kRelu = 2, kSoftsign = 3, kIdentity = 4 };

}  // namespace

extern "C" struct Program {
  int32_t rows, outputs, columns, constants, synapses, activation;  // outputs: the last rows
  const int32_t *kind, *base, *active;  // [rows]
  const int32_t *start, *source;        // [rows + 1], [synapses] in the order of their target rows
  const int32_t *out_start, *out_target, *out_synapse;  // the same synapses in the order of their source rows
};

extern "C" struct Pairs {
  int64_t heads, queries, keys, selected;  // H, R, S, K
  int64_t weight_heads;                    // 1 where all heads share one circuit, else H
  const void *query, *key;                 // [H, R, P], [H, S, P]
  const int64_t* index;                    // [H, R, K] rows of key
  const void *weight, *constant;           // [weight_heads, synapses], [weight_heads, constants]
};

namespace {

template <typename T> constexpr int kVecs = kLanes / kWidth<T>;

template <typename T> inline Vec<T> activate(Vec<T> x, int32_t activation) {
  const Vec<T> zero = {}, one = zero + T(1);
  switch (activation) {
    case kTanh: return tanh_of(x);
    case kSigmoid: return sigmoid_of<T>(x);
    case kRelu: return x < zero ? zero : x;
    case kSoftsign: return x / (one + (x < zero ? -x : x));
    default: return x;
  }
}

// Derivative of the activation, from its value.
template <typename T> inline Vec<T> slope(Vec<T> y, int32_t activation) {
  const Vec<T> zero = {}, one = zero + T(1);
  switch (activation) {
    case kTanh: return one - y * y;
    case kSigmoid: return y * (one - y);
    case kRelu: return y > zero ? one : zero;
    case kSoftsign: {
      const Vec<T> rest = one - (y < zero ? -y : y);
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

// Where the pairs of a tile find their query and key; lanes past the end repeat the last pair.
template <typename T> struct Tile {
  const T *query[kLanes], *key[kLanes];
  int64_t first;
  int used;

  Tile(const Pairs& p, int64_t columns, int64_t head, int64_t number) {
    const int64_t count = p.queries * p.selected;
    first = number * kLanes;
    used = int(count - first < kLanes ? count - first : kLanes);
    for (int lane = 0; lane < kLanes; ++lane) {
      const int64_t pair = first + (lane < used ? lane : used - 1);
      query[lane] = static_cast<const T*>(p.query) + (head * p.queries + pair / p.selected) * columns;
      key[lane] = static_cast<const T*>(p.key) + (head * p.keys + p.index[head * count + pair]) * columns;
    }
  }
};

// Input drive of a tile, query plus key, from one row a pair to one row a column: [P, lanes].
template <typename T> void gather(const Tile<T>& tile, int64_t columns, Vec<T>* drive) {
  constexpr int w = kWidth<T>, vecs = kVecs<T>;
  int64_t column = 0;
  for (; column + w <= columns; column += w)
    for (int group = 0; group < vecs; ++group) {
      Vec<T> block[w];
      for (int i = 0; i < w; ++i)
        block[i] = load(tile.query[group * w + i] + column) + load(tile.key[group * w + i] + column);
      transpose(block);
      for (int i = 0; i < w; ++i) drive[(column + i) * vecs + group] = block[i];
    }
  for (; column < columns; ++column)
    for (int lane = 0; lane < kLanes; ++lane)
      drive[column * vecs + lane / w][lane % w] = tile.query[lane][column] + tile.key[lane][column];
}

// The way back, for gradients: [P, lanes] to one row a pair.
template <typename T> void scatter(const Vec<T>* drive, int64_t columns, T* out) {
  constexpr int w = kWidth<T>, vecs = kVecs<T>;
  int64_t column = 0;
  for (; column + w <= columns; column += w)
    for (int group = 0; group < vecs; ++group) {
      Vec<T> block[w];
      for (int i = 0; i < w; ++i) block[i] = drive[(column + i) * vecs + group];
      transpose(block);
      for (int i = 0; i < w; ++i) store(out + (group * w + i) * columns + column, block[i]);
    }
  for (; column < columns; ++column)
    for (int lane = 0; lane < kLanes; ++lane) out[lane * columns + column] = drive[column * vecs + lane / w][lane % w];
}

template <typename T>
void run_rows(const Program& c, const Vec<T>* drive, const T* weight, const T* constant, Vec<T>* x) {
  constexpr int vecs = kVecs<T>;
  for (int32_t row = 0; row < c.rows; ++row) {
    Vec<T> sum[vecs];
    const int32_t base = c.base[row];
    for (int j = 0; j < vecs; ++j)
      sum[j] = c.kind[row] == kDrive ? drive[base * vecs + j]
               : c.kind[row] == kRow ? x[base * vecs + j]
                                     : Vec<T>{} + constant[base];
    for (int32_t s = c.start[row]; s < c.start[row + 1]; ++s) {
      const Vec<T>* from = x + c.source[s] * vecs;
      const T w = weight[s];
      for (int j = 0; j < vecs; ++j) sum[j] += w * from[j];
    }
    if (c.active[row])
      for (int j = 0; j < vecs; ++j) sum[j] = activate<T>(sum[j], c.activation);
    for (int j = 0; j < vecs; ++j) x[row * vecs + j] = sum[j];
  }
}

// Gradients of a tile. On entry g holds the outputs' gradients in its last rows; drive_grad is zero. Rows go
// backwards, so that all rows that hear from one are done before it. weight and weight_grad are in the order of source
// rows, so that memory is read in sequence; weight_grad and constant_grad keep the lanes of a vector apart.
template <typename T>
void run_back(const Program& c, const T* weight, const Vec<T>* x, Vec<T>* g, Vec<T>* drive_grad, Vec<T>* weight_grad,
              Vec<T>* constant_grad) {
  constexpr int vecs = kVecs<T>;
  for (int32_t row = c.rows - 1; row >= 0; --row) {
    Vec<T> sum[vecs];
    const Vec<T>* state = x + row * vecs;
    for (int j = 0; j < vecs; ++j) sum[j] = g[row * vecs + j];
    for (int32_t s = c.out_start[row]; s < c.out_start[row + 1]; ++s) {
      const Vec<T>* to = g + c.out_target[s] * vecs;
      const T w = weight[s];
      Vec<T> product[2] = {};  // two sums at once hide the latency of additions
      for (int j = 0; j < vecs; ++j) {
        sum[j] += w * to[j];
        product[j % 2] += state[j] * to[j];
      }
      weight_grad[s] += product[0] + product[1];
    }
    if (c.active[row])
      for (int j = 0; j < vecs; ++j) sum[j] *= slope<T>(state[j], c.activation);
    const int32_t base = c.base[row];
    for (int j = 0; j < vecs; ++j) {
      g[row * vecs + j] = sum[j];
      if (c.kind[row] == kDrive) drive_grad[base * vecs + j] += sum[j];
      else if (c.kind[row] == kRow) g[base * vecs + j] += sum[j];
      else constant_grad[base] += sum[j];
    }
  }
}

template <typename T> struct Weights {
  const T *weight, *constant;
  Weights(const Program& c, const Pairs& p, int64_t head) {
    const int64_t own = p.weight_heads == 1 ? 0 : head;
    weight = static_cast<const T*>(p.weight) + own * c.synapses;
    constant = static_cast<const T*>(p.constant) + own * c.constants;
  }
};

template <typename T> void forward(const Program& c, const Pairs& p, T* out, int threads) {
  constexpr int vecs = kVecs<T>;
  const int64_t count = p.queries * p.selected, tiles = (count + kLanes - 1) / kLanes;
#pragma omp parallel num_threads(threads)
  {
    std::vector<Vec<T>> drive(c.columns * vecs), x(c.rows * vecs);
#pragma omp for schedule(dynamic, 8)
    for (int64_t job = 0; job < p.heads * tiles; ++job) {
      const int64_t head = job / tiles;
      const Tile<T> tile(p, c.columns, head, job % tiles);
      const Weights<T> own(c, p, head);
      gather(tile, c.columns, drive.data());
      run_rows(c, drive.data(), own.weight, own.constant, x.data());
      const Vec<T>* last = x.data() + (c.rows - c.outputs) * vecs;
      for (int o = 0; o < c.outputs; ++o)
        std::memcpy(out + (o * p.heads + head) * count + tile.first, last + o * vecs, tile.used * sizeof(T));
    }
  }
}

template <typename T>
void backward(const Program& c, const Pairs& p, const T* out_grad, T* query_grad, T* key_grad, T* weight_grad,
              T* constant_grad, int threads) {
  constexpr int vecs = kVecs<T>;
  const int64_t count = p.queries * p.selected, tiles = (count + kLanes - 1) / kLanes, columns = c.columns;
  const int64_t numbers = c.synapses + c.constants;
  std::vector<T> held(kTilesPerChunk * kLanes * columns);  // input gradients of a chunk of pairs
  std::vector<T> sums(threads * numbers);                  // of each thread
#pragma omp parallel num_threads(threads)
  {
    std::vector<Vec<T>> drive(columns * vecs), x(c.rows * vecs), g(c.rows * vecs);
    std::vector<Vec<T>> by_weight(c.synapses), by_constant(c.constants);
    std::vector<T> weight(c.synapses);
    for (int64_t head = 0; head < p.heads; ++head) {
      const Weights<T> own(c, p, head);
      for (int32_t s = 0; s < c.synapses; ++s) weight[s] = own.weight[c.out_synapse[s]];
      by_weight.assign(c.synapses, Vec<T>{});
      by_constant.assign(c.constants, Vec<T>{});
      for (int64_t begin = 0; begin < tiles; begin += kTilesPerChunk) {
        const int64_t end = begin + kTilesPerChunk < tiles ? begin + kTilesPerChunk : tiles;
#pragma omp for schedule(static)
        for (int64_t number = begin; number < end; ++number) {
          const Tile<T> tile(p, columns, head, number);
          gather(tile, columns, drive.data());
          run_rows(c, drive.data(), own.weight, own.constant, x.data());
          g.assign(c.rows * vecs, Vec<T>{});
          Vec<T>* last = g.data() + (c.rows - c.outputs) * vecs;
          for (int o = 0; o < c.outputs; ++o)  // unused lanes keep a gradient of 0
            std::memcpy(last + o * vecs, out_grad + (o * p.heads + head) * count + tile.first, tile.used * sizeof(T));
          drive.assign(columns * vecs, Vec<T>{});
          run_back(c, weight.data(), x.data(), g.data(), drive.data(), by_weight.data(), by_constant.data());
          scatter(drive.data(), columns, held.data() + (number - begin) * kLanes * columns);
        }
        // Each thread adds up its own columns of all pairs: no two write to one place, and the order of the sums
        // does not depend on the number of threads.
        const int64_t first = begin * kLanes, stop = end * kLanes < count ? end * kLanes : count;
#pragma omp for schedule(static)
        for (int part = 0; part < threads; ++part) {
          const int64_t from = columns * part / threads, to = columns * (part + 1) / threads;
          for (int64_t pair = first; pair < stop; ++pair) {
            const T* add = held.data() + (pair - first) * columns;
            T* q = query_grad + (head * p.queries + pair / p.selected) * columns;
            T* k = key_grad + (head * p.keys + p.index[head * count + pair]) * columns;
            for (int64_t column = from; column < to; ++column) q[column] += add[column], k[column] += add[column];
          }
        }
      }
      T* mine = sums.data() + thread_number() * numbers;
      for (int32_t s = 0; s < c.synapses; ++s) mine[c.out_synapse[s]] = sum<T>(by_weight[s]);
      for (int32_t s = 0; s < c.constants; ++s) mine[c.synapses + s] = sum<T>(by_constant[s]);
#pragma omp barrier
#pragma omp single
      {
        const int64_t to = p.weight_heads == 1 ? 0 : head;
        for (int i = 0; i < threads; ++i) {
          T* part = sums.data() + i * numbers;
          for (int32_t s = 0; s < c.synapses; ++s) weight_grad[to * c.synapses + s] += part[s];
          for (int32_t s = 0; s < c.constants; ++s) constant_grad[to * c.constants + s] += part[c.synapses + s];
          std::fill(part, part + numbers, T(0));
        }
      }
    }
  }
}

}  // namespace

extern "C" {
void nacre_forward_f32(const Program* c, const Pairs* p, float* out, int threads) { forward(*c, *p, out, threads); }
void nacre_forward_f64(const Program* c, const Pairs* p, double* out, int threads) { forward(*c, *p, out, threads); }
void nacre_backward_f32(const Program* c, const Pairs* p, const float* out_grad, float* query_grad, float* key_grad,
                        float* weight_grad, float* constant_grad, int threads) {
  backward(*c, *p, out_grad, query_grad, key_grad, weight_grad, constant_grad, threads);
}
void nacre_backward_f64(const Program* c, const Pairs* p, const double* out_grad, double* query_grad, double* key_grad,
                        double* weight_grad, double* constant_grad, int threads) {
  backward(*c, *p, out_grad, query_grad, key_grad, weight_grad, constant_grad, threads);
}
}
