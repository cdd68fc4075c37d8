/* What takes the most time in training on a CPU, next to the products with weights: dropout, and attention of packed
   sentences, which is computed one sentence and head at a time, whose scores stay in the cache. Nothing is padded.

   Axes: T queries · S keys, both of one sentence · n = S rounded up to LANES · K inner axis of a product. */

#include "../runtime/vectors.h"

/* Dropout (section 5.4) of numbers in one call: it drops the same ones for the same seed. */
typedef struct {
    Bits counter, key;
    Ints limit;
} Chance;

/* From a random seed, and the place of the first number. `dropped` are the dropped ones of 65,536. */
INLINE Chance chance_of(uint64_t seed, uint64_t place, int64_t dropped) {
    uint64_t x = seed + place * 0x9e3779b97f4a7c15u; /* SplitMix (Steele et al. 2014) */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    Bits counter = (Bits){0, 1, 2, 3, 4, 5, 6, 7} + (uint32_t)x, key = (Bits){0} + (uint32_t)(x >> 32);
    return (Chance){counter, key, (Ints){0} + (int32_t)((dropped - 32768) * 65536)};
}

/* Which of the next LANES numbers are kept. */
INLINE Ints next(Chance *chance) {
    Bits x = chance->counter;
    chance->counter += LANES;
    x = (x ^ (x >> 16)) * 0x7feb352du ^ chance->key;
    return (Ints)((x ^ (x >> 15)) * 0x846ca68bu) >= chance->limit; /* whose lower bits are 0 */
}

INLINE Floats kept(Floats x, Chance *chance, float scale) { return x * choose(next(chance), all(scale), all(0)); }

/* Writes x after dropout to y, which may be x: n numbers, those that are kept times the scale. */
FAST void glassformer_drop(const float *x, float *y, int64_t n, int64_t dropped, double scale, int64_t seed) {
    Chance chance = chance_of((uint64_t)seed, 0, dropped);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(y + i, kept(load(x + i), &chance, (float)scale));
    if (i < n) {
        float rest[LANES] = {0};
        memcpy(rest, x + i, (size_t)(n - i) * sizeof(float));
        store(rest, kept(load(rest), &chance, (float)scale));
        memcpy(y + i, rest, (size_t)(n - i) * sizeof(float));
    }
}

typedef uint16_t Halves __attribute__((vector_size(16)));

INLINE Halves kept_halves(Halves x, Chance *chance, float scale) {
    Bits y = (Bits)kept((Floats)(__builtin_convertvector(x, Bits) << 16), chance, scale);
    return __builtin_convertvector((y + 0x7fff + ((y >> 16) & 1)) >> 16, Halves); /* rounded to the nearest, ties to even */
}

/* The same in bfloat16. */
FAST void glassformer_drop_bfloat16(const uint16_t *x, uint16_t *y, int64_t n, int64_t dropped, double scale, int64_t seed) {
    Chance chance = chance_of((uint64_t)seed, 0, dropped);
    for (int64_t i = 0; i < n; i += LANES) {
        size_t bytes = (size_t)(n - i < LANES ? n - i : LANES) * sizeof(uint16_t);
        Halves some = {0};
        memcpy(&some, x + i, bytes);
        some = kept_halves(some, &chance, (float)scale);
        memcpy(y + i, &some, bytes);
    }
}

typedef struct {
    const float *query, *key, *value; /* of the first position and head; those of the next head follow */
    float *weights;                   /* [T n] of each head of each sentence, negative where dropped */
    float *room;                      /* n (max(d_k, d_v) + 2 T) numbers of the longest sentence */
    const int64_t *queries, *keys;    /* where each sentence begins, and where the last one ends */
    int64_t query_width, key_width;   /* numbers from one position to the next, of keys and of values, too */
    int64_t n_sentences, n_heads, d_k, d_v; /* d_k and d_v are multiples of LANES */
    int64_t is_causal, dropped;             /* of 65,536 weights */
    uint64_t seed;
} Attention;

/* y [ROWS 8·VECTORS] = x w, in registers: x is at x[row * x_row + k * x_k], w [K w_row]. */
#define TILE(ROWS, VECTORS)                                                                                       \
    INLINE void tile_##ROWS##_##VECTORS(const float *x, int64_t x_row, int64_t x_k, const float *w, int64_t w_row, \
                                        int64_t n_inner, float *y, int64_t y_row) {                               \
        Floats sums[ROWS][VECTORS];                                                                               \
        EACH (int r = 0; r < ROWS; r++)                                                                           \
            EACH (int c = 0; c < VECTORS; c++) sums[r][c] = (Floats){0};                                          \
        for (int64_t k = 0; k < n_inner; k++)                                                                     \
            EACH (int c = 0; c < VECTORS; c++) {                                                                  \
                Floats weights = load(w + k * w_row + c * LANES);                                                 \
                EACH (int r = 0; r < ROWS; r++) sums[r][c] += x[r * x_row + k * x_k] * weights;                   \
            }                                                                                                     \
        EACH (int r = 0; r < ROWS; r++)                                                                           \
            EACH (int c = 0; c < VECTORS; c++) store(y + r * y_row + c * LANES, sums[r][c]);                      \
    }
TILE(4, 2)
TILE(4, 1)
TILE(2, 2)
TILE(2, 1)
TILE(1, 2)
TILE(1, 1)

#define TILES(ROWS)                                                                                         \
    for (; rows >= ROWS; rows -= ROWS, x += ROWS * x_row, y += ROWS * y_row) {                              \
        int64_t c = 0;                                                                                      \
        for (; c + 2 * LANES <= columns; c += 2 * LANES)                                                    \
            tile_##ROWS##_2(x, x_row, x_k, w + c, w_row, n_inner, y + c, y_row);                            \
        if (c < columns) tile_##ROWS##_1(x, x_row, x_k, w + c, w_row, n_inner, y + c, y_row);               \
    }

/* y [R C] = x [R K] w [K C]; the number of columns is a multiple of LANES. */
FAST static void multiply(int64_t rows, int64_t n_inner, int64_t columns, const float *x, int64_t x_row, int64_t x_k,
                          const float *w, int64_t w_row, float *y, int64_t y_row) {
    TILES(4)
    TILES(2)
    TILES(1)
}

/* to [width LANES·n] = from [rows row]ᵀ, with zeros after the rows. */
INLINE void transpose(const float *from, int64_t rows, int64_t row, int64_t width, float *to, int64_t columns) {
    for (int64_t i = 0; i < width; i++) {
        for (int64_t r = 0; r < rows; r++) to[i * columns + r] = from[r * row + i];
        for (int64_t r = rows; r < columns; r++) to[i * columns + r] = 0;
    }
}

/* The numbers of one head of a sentence. */
typedef struct {
    int64_t n_queries, n_keys, n, query, key, value, output; /* the last four: places from the first position */
    float *weights, *transposed, *kept, *change;
} Head;

INLINE Head head_of(const Attention *a, int64_t i, int64_t h, float *weights) {
    int64_t t = a->queries[i], s = a->keys[i], n_queries = a->queries[i + 1] - t, n_keys = a->keys[i + 1] - s;
    int64_t n = (n_keys + LANES - 1) / LANES * LANES, width = a->d_k > a->d_v ? a->d_k : a->d_v;
    return (Head){
        n_queries, n_keys, n,
        t * a->query_width + h * a->d_k, s * a->key_width + h * a->d_k, s * a->key_width + h * a->d_v,
        (t * a->n_heads + h) * a->d_v,
        weights, a->room, a->room + n * width, a->room + n * (width + n_queries),
    };
}

/* Writes the weights after dropout. */
INLINE void keep_weights(const Attention *a, const Head *head) {
    float scale = 65536.0f / (float)(65536 - a->dropped);
    for (int64_t i = 0; i < head->n_queries * head->n; i += LANES) {
        Floats weights = load(head->weights + i);
        store(head->kept + i, weights * choose(weights > 0.0f, all(scale), all(0))); /* NaN stays NaN */
    }
}

/* Writes the weights, and softmax(Q Kᵀ / sqrt(d_k)) V of each query and head, [positions H·d_v]. */
FAST void glassformer_attention(const Attention *a, float *output) {
    int64_t width = a->n_heads * a->d_v;
    float scale = 1.0f / sqrtf((float)a->d_k);
    float *weights = a->weights;
    for (int64_t i = 0; i < a->n_sentences; i++)
        for (int64_t h = 0; h < a->n_heads; h++) {
            Head head = head_of(a, i, h, weights);
            int64_t n = head.n;
            transpose(a->key + head.key, head.n_keys, a->key_width, a->d_k, head.transposed, n);
            multiply(head.n_queries, a->d_k, n, a->query + head.query, a->query_width, 1, head.transposed, n, head.weights, n);
            for (int64_t t = 0; t < head.n_queries; t++) {
                float *row = weights + t * n;
                int64_t seen = a->is_causal ? t + 1 : head.n_keys;
                for (int64_t s = 0; s < seen; s += LANES) store(row + s, load(row + s) * scale);
                softmax(row, seen);
                for (int64_t s = seen; s < n; s++) row[s] = 0;
                Chance chance = chance_of(a->seed, (uint64_t)(row - a->weights), a->dropped);
                for (int64_t s = 0; a->dropped && s < n; s += LANES)
                    store(row + s, choose(next(&chance), load(row + s), -load(row + s)));
            }
            keep_weights(a, &head);
            multiply(head.n_queries, head.n_keys, a->d_v, head.kept, n, 1, a->value + head.value, a->key_width,
                     output + head.output, width);
            weights += head.n_queries * n;
        }
}

/* Writes the gradients of queries, keys and values, which are as far apart as these; `outward` is that of the output. */
FAST void glassformer_attention_gradient(const Attention *a, const float *outward, float *for_query, float *for_key,
                                         float *for_value) {
    int64_t width = a->n_heads * a->d_v;
    float scale = 1.0f / sqrtf((float)a->d_k);
    float *weights = a->weights;
    for (int64_t i = 0; i < a->n_sentences; i++)
        for (int64_t h = 0; h < a->n_heads; h++) {
            Head head = head_of(a, i, h, weights);
            int64_t n = head.n;
            const float *out = outward + head.output;
            keep_weights(a, &head);
            multiply(head.n_keys, head.n_queries, a->d_v, head.kept, 1, n, out, width, for_value + head.value, a->key_width);
            transpose(a->value + head.value, head.n_keys, a->key_width, a->d_v, head.transposed, n);
            multiply(head.n_queries, a->d_v, n, out, width, 1, head.transposed, n, head.change, n);
            for (int64_t t = 0; t < head.n_queries; t++) { /* from the weights to the scores */
                float *change = head.change + t * n, *kept = head.kept + t * n;
                Floats sums = {0};
                for (int64_t s = 0; s < n; s += LANES) sums += load(kept + s) * load(change + s);
                float mean = sum_of(sums);
                for (int64_t s = 0; s < n; s += LANES) {
                    Floats weight = load(weights + t * n + s);
                    weight = choose(weight > 0.0f, weight, -weight);
                    store(change + s, (load(kept + s) * load(change + s) - weight * mean) * scale);
                }
            }
            multiply(head.n_queries, head.n_keys, a->d_k, head.change, n, 1, a->key + head.key, a->key_width,
                     for_query + head.query, a->query_width);
            multiply(head.n_keys, head.n_queries, a->d_k, head.change, 1, n, a->query + head.query, a->query_width,
                     for_key + head.key, a->key_width);
            weights += head.n_queries * n;
        }
}
