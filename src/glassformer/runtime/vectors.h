/* Vectors of eight float32 numbers, for GCC and Clang, with AVX2 or NEON. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#define FAST __attribute__((target("avx2,fma")))
#elif defined(__aarch64__)
#define FAST
#else
#error "NumPy and PyTorch are faster than what this would be compiled to"
#endif
#define INLINE static inline __attribute__((always_inline)) FAST

typedef float Floats __attribute__((vector_size(32)));
typedef int32_t Ints __attribute__((vector_size(32)));
typedef uint32_t Bits __attribute__((vector_size(32)));
#define LANES 8

/* Loops with constant bounds are unrolled, which keeps all sums of a product in registers. */
#ifdef __clang__
#define EACH _Pragma("unroll") for
#define SHUFFLED(v, ...) __builtin_shufflevector(v, v, __VA_ARGS__)
#else
#define EACH _Pragma("GCC unroll 8") for
#define SHUFFLED(v, ...) __builtin_shuffle(v, (Ints){__VA_ARGS__})
#endif

INLINE Floats load(const float *from) {
    Floats values;
    memcpy(&values, from, sizeof values);
    return values;
}

INLINE void store(float *to, Floats values) { memcpy(to, &values, sizeof values); }

INLINE Floats all(float value) { return (Floats){0} + value; }

/* For each lane a where the mask is set, else b. */
INLINE Floats choose(Ints mask, Floats a, Floats b) { return (Floats)((mask & (Ints)a) | (~mask & (Ints)b)); }

INLINE float sum_of(Floats v) {
    v += SHUFFLED(v, 4, 5, 6, 7, 0, 1, 2, 3);
    v += SHUFFLED(v, 2, 3, 0, 1, 6, 7, 4, 5);
    return v[0] + v[1];
}

INLINE Floats larger(Floats a, Floats b) { return choose(a > b, a, b); }

INLINE float largest_of(Floats v) {
    v = larger(v, SHUFFLED(v, 4, 5, 6, 7, 0, 1, 2, 3));
    v = larger(v, SHUFFLED(v, 2, 3, 0, 1, 6, 7, 4, 5));
    return v[0] > v[1] ? v[0] : v[1];
}

/* exp(x) for x <= 88, to two units in the last place; below -87 it is 0. NaN stays NaN. */
INLINE Floats exp_of(Floats x) {
    Ints is_zero = x < -87.0f;
    x = choose(is_zero, all(0), x);
    x = choose(x > 88.0f, all(88.0f), x);
    Floats n = (x * 1.44269504f + 12582912.0f) - 12582912.0f; /* rounded to an integer */
    Floats r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    Floats p = 1.9875691500e-4f * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    Ints power = (__builtin_convertvector(n, Ints) + 127) << 23; /* the bits of 2^n */
    return choose(is_zero, all(0), (p * (r * r) + r + 1.0f) * (Floats)power);
}

/* Replaces n scores by their softmax, and those after them by 0, up to a multiple of LANES. */
INLINE void softmax(float *scores, int64_t n) {
    Ints lanes = {0, 1, 2, 3, 4, 5, 6, 7};
    Floats most = all(-INFINITY), sums = {0};
    for (int64_t i = 0; i < n; i += LANES) {
        Floats score = choose(lanes < (int32_t)(n - i), load(scores + i), all(-INFINITY));
        store(scores + i, score);
        most = larger(score, most);
    }
    float largest = largest_of(most);
    for (int64_t i = 0; i < n; i += LANES) {
        Floats powers = exp_of(load(scores + i) - largest);
        store(scores + i, powers);
        sums += powers;
    }
    float scale = 1.0f / sum_of(sums);
    for (int64_t i = 0; i < n; i += LANES) store(scores + i, load(scores + i) * scale);
}

#define INTERFACE 4 /* of compiled.py: another one for each change of the structures or arguments of a C file */
#if defined(__x86_64__)
int glassformer_interface(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? INTERFACE : 0; }
#else
int glassformer_interface(void) { return INTERFACE; }
#endif
