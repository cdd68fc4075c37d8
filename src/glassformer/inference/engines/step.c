/* The Transformer for search, compiled: what numpy_cached.py computes, for few rows in a fifth of the time.

   Each row is computed by itself, with the same operations in the same order whatever rows are beside it, and there is
   no padding: an answer is the same, bit for bit, alone and in any batch.

   Weights are in panels of 16 columns, [n / 16][k][16], the last one filled up with zeros, so that a product reads them
   from one end to the other. Rows of products are therefore `n` wide, a multiple of 16.

   Axes: R rows · K inputs · N outputs · S source positions · T target positions · D d_model · V vocabulary. */

#include "../../runtime/vectors.h"

#define PANEL 16

typedef struct {
    const float *panels, *bias; /* no bias: NULL */
    int64_t k, n;
} Product;

typedef struct {
    const float *gain, *bias; /* pre-norm: NULL, the mean of its input is 0 and the product after it has both */
} Norm;

typedef struct {
    Norm norm, cross_norm, feed_norm;
    Product project, w_o, query, cross_out, w_1, w_2;
} Layer;

typedef struct {
    int64_t d_model, n_heads, d_k, d_v, is_pre_norm, activation, n_encoder_layers, n_decoder_layers, n_words;
    int64_t wide; /* the largest width of a product in a layer */
    double eps;
    const float *source_embedding, *target_embedding; /* [V D] */
    const Layer *encoder, *decoder;
    Norm encoder_norm, decoder_norm;
    Product read_memory, output;
    const float *copied_ids; /* of the copy mechanism: the target id of each source token, -1 for none; without: NULL */
} Model;

enum { RELU, GELU, SWISH };

INLINE float dot(const float *a, const float *b, int64_t n) {
    Floats sums = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) sums += load(a + i) * load(b + i);
    float sum = sum_of(sums);
    for (; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Some rows of x Wᵀ + b in some panels. */
#define TILE(ROWS, PANELS)                                                                                             \
    INLINE void tile_##ROWS##_##PANELS(const Product *w, int64_t first, const float *x, int64_t x_width, float *y) {   \
        Floats sums[2 * PANELS][ROWS];                                                                                 \
        const float *weights = w->panels + first * PANEL * w->k;                                                       \
        EACH (int c = 0; c < 2 * PANELS; c++)                                                                          \
            EACH (int r = 0; r < ROWS; r++)                                                                            \
                sums[c][r] = w->bias ? load(w->bias + first * PANEL + c * LANES) : (Floats){0};                        \
        for (int64_t k = 0; k < w->k; k++)                                                                             \
            EACH (int c = 0; c < 2 * PANELS; c++) {                                                                    \
                Floats weight = load(weights + (c / 2) * PANEL * w->k + k * PANEL + (c % 2) * LANES);                  \
                EACH (int r = 0; r < ROWS; r++) sums[c][r] += x[r * x_width + k] * weight;                             \
            }                                                                                                          \
        EACH (int c = 0; c < 2 * PANELS; c++)                                                                          \
            EACH (int r = 0; r < ROWS; r++) store(y + r * w->n + first * PANEL + c * LANES, sums[c][r]);               \
    }
TILE(1, 1)
TILE(1, 4)
TILE(2, 1)
TILE(2, 3)
TILE(3, 1)
TILE(3, 2)
TILE(4, 1)
TILE(5, 1)

#define ROWS_OF_PANELS(rows, panels)                                                             \
    do {                                                                                         \
        int64_t p = 0;                                                                           \
        for (; p + panels <= n_panels; p += panels) tile_##rows##_##panels(w, p, x, x_width, y); \
        for (; p < n_panels; p++) tile_##rows##_1(w, p, x, x_width, y);                          \
    } while (0)

/* y [R N] = x Wᵀ + b */
FAST static void multiply(const Product *w, const float *x, int64_t x_width, int64_t rows, float *y) {
    int64_t n_panels = w->n / PANEL, whole = rows - rows % 5;
    for (int64_t p = 0; whole && p < n_panels; p++)
        for (int64_t r = 0; r < whole; r += 5) tile_5_1(w, p, x + r * x_width, x_width, y + r * w->n);
    x += whole * x_width;
    y += whole * w->n;
    switch (rows - whole) {
        case 1: ROWS_OF_PANELS(1, 4); break;
        case 2: ROWS_OF_PANELS(2, 3); break;
        case 3: ROWS_OF_PANELS(3, 2); break;
        case 4: ROWS_OF_PANELS(4, 1); break;
    }
}

INLINE void normalize(const Model *m, const Norm *norm, const float *x, float *y, int64_t rows) {
    int64_t d = m->d_model;
    for (int64_t r = 0; r < rows; r++, x += d, y += d) {
        float mean = 0;
        if (norm->gain) {
            for (int64_t i = 0; i < d; i++) mean += x[i];
            mean /= (float)d;
        }
        for (int64_t i = 0; i < d; i++) y[i] = x[i] - mean;
        float scale = 1.0f / sqrtf(dot(y, y, d) / (float)d + (float)m->eps);
        for (int64_t i = 0; i < d; i++) y[i] *= scale;
        if (norm->gain)
            for (int64_t i = 0; i < d; i++) y[i] = y[i] * norm->gain[i] + norm->bias[i];
    }
}

/* What a sublayer reads: with pre-norm, x normalized into y. */
INLINE const float *input_of(const Model *m, const Norm *norm, const float *x, float *y, int64_t rows) {
    if (!m->is_pre_norm) return x;
    normalize(m, norm, x, y, rows);
    return y;
}

/* Adds the output of a sublayer, [R width], to x; with post-norm, normalizes the sum. */
INLINE void add(const Model *m, const Norm *norm, float *x, const float *output, int64_t width, int64_t rows) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < m->d_model; i++) x[r * m->d_model + i] += output[r * width + i];
    if (!m->is_pre_norm) normalize(m, norm, x, x, rows);
}

/* One query of each head over n positions: keys[h] is at keys + h d_k of each, values[h] at values + h d_v. */
#define ATTEND(POSITION, KEYS, VALUES)                                                                      \
    for (int64_t h = 0; h < m->n_heads; h++) {                                                              \
        for (int64_t t = 0; t < n; t++) scores[t] = dot(query + h * m->d_k, POSITION + (KEYS) + h * m->d_k, m->d_k); \
        softmax(scores, n);                                                                                 \
        float *head = heads + h * m->d_v;                                                                   \
        int64_t i = 0;                                                                                      \
        for (; i + 4 * LANES <= m->d_v; i += 4 * LANES) {                                                   \
            Floats sums[4] = {{0}};                                                                         \
            for (int64_t t = 0; t < n; t++)                                                                 \
                for (int c = 0; c < 4; c++)                                                                 \
                    sums[c] += scores[t] * load(POSITION + (VALUES) + h * m->d_v + i + c * LANES);          \
            for (int c = 0; c < 4; c++) store(head + i + c * LANES, sums[c]);                               \
        }                                                                                                   \
        for (; i < m->d_v; i++) {                                                                           \
            head[i] = 0;                                                                                    \
            for (int64_t t = 0; t < n; t++) head[i] += scores[t] * (POSITION + (VALUES) + h * m->d_v)[i];   \
        }                                                                                                   \
    }

/* Positions that are `width` apart. */
INLINE void attend_rows(const Model *m, const float *query, const float *rows, int64_t width, int64_t keys,
                        int64_t values, int64_t n, float *scores, float *heads) {
    ATTEND(rows + t * width, keys, values)
}

/* Positions that are anywhere. */
INLINE void attend_past(const Model *m, const float *query, float *const *past, int64_t keys, int64_t values,
                        int64_t n, float *scores, float *heads) {
    ATTEND(past[t], keys, values)
}

INLINE void activate(const Model *m, float *x, int64_t n) {
    if (m->activation == RELU)
        for (int64_t i = 0; i < n; i++) x[i] = x[i] < 0 ? 0 : x[i];
    else if (m->activation == GELU)
        for (int64_t i = 0; i < n; i++) x[i] *= (1 + erff(x[i] * 0.707106781f)) / 2;
    else
        for (int64_t i = 0; i < n; i += LANES) store(x + i, load(x + i) / (1.0f + exp_of(-load(x + i))));
}

INLINE void feed(const Model *m, const Layer *layer, float *x, float *y, float *wide, float *output, int64_t rows) {
    multiply(&layer->w_1, input_of(m, &layer->feed_norm, x, y, rows), m->d_model, rows, wide);
    activate(m, wide, rows * layer->w_1.n);
    multiply(&layer->w_2, wide, layer->w_1.n, rows, output);
    add(m, &layer->feed_norm, x, output, layer->w_2.n, rows);
}

/* The numbers of some rows. */
typedef struct {
    float *x, *y, *wide, *output, *heads, *scores;
} Room;

INLINE Room divide(const Model *m, float *room, int64_t rows) {
    float *y = room + rows * m->d_model, *wide = y + rows * m->d_model, *output = wide + rows * m->wide;
    float *heads = output + rows * (m->d_model + PANEL);
    return (Room){room, y, wide, output, heads, heads + rows * m->n_heads * m->d_v};
}

INLINE void embed(const Model *m, const float *table, int64_t id, const float *position, float *x) {
    for (int64_t i = 0; i < m->d_model; i++) x[i] = table[id * m->d_model + i] + position[i];
}

/* Where a row of the memory has the key of copying its token, [D], and after it the target id of the token. */
INLINE int64_t copy_key(const Model *m) { return m->n_decoder_layers * m->n_heads * (m->d_k + m->d_v); }

/* Departure (Gu et al. 2016): each logit z becomes log(exp z + Σ exp score) over the source positions of its token. The
   query is behind the logits. */
INLINE void add_copies(const Model *m, float *logits, const float *memory, int64_t length) {
    const float *row = memory + copy_key(m);
    for (int64_t s = 0; s < length; s++, row += m->read_memory.n) {
        if (row[m->d_model] < 0) continue;
        float *logit = logits + (int64_t)row[m->d_model], score = dot(logits + m->n_words, row, m->d_model);
        float smaller = *logit > score ? score : *logit, larger = *logit > score ? *logit : score;
        *logit = larger + log1pf(expf(smaller - larger));
    }
}

/* Encodes n sources, one after another in `ids`, the last position of each in front of ends[i]; writes the keys and
   values of all decoder layers for each position, [positions, read_memory.n]. There is room for
   the numbers of all rows, and for the scores of the longest source. */
FAST void glassformer_encode(const Model *m, const int64_t *ids, const int64_t *ends, int64_t n_sources,
                                      const float *positions, float *memory, float *numbers) {
    int64_t d = m->d_model, rows = ends[n_sources - 1], keys = m->n_heads * m->d_k, values = m->n_heads * m->d_v;
    Room room = divide(m, numbers, rows);
    for (int64_t i = 0, r = 0; i < n_sources; i++)
        for (int64_t first = r; r < ends[i]; r++)
            embed(m, m->source_embedding, ids[r], positions + (r - first) * d, room.x + r * d);
    for (int64_t l = 0; l < m->n_encoder_layers; l++) {
        const Layer *layer = m->encoder + l;
        int64_t width = layer->project.n;
        multiply(&layer->project, input_of(m, &layer->norm, room.x, room.y, rows), d, rows, room.wide);
        for (int64_t i = 0, r = 0; i < n_sources; i++)
            for (int64_t first = r; r < ends[i]; r++)
                attend_rows(m, room.wide + r * width, room.wide + first * width, width, keys, 2 * keys,
                            ends[i] - first, room.scores, room.heads + r * values);
        multiply(&layer->w_o, room.heads, values, rows, room.output);
        add(m, &layer->norm, room.x, room.output, layer->w_o.n, rows);
        feed(m, layer, room.x, room.y, room.wide, room.output, rows);
    }
    multiply(&m->read_memory, input_of(m, &m->encoder_norm, room.x, room.y, rows), d, rows, memory);
    for (int64_t r = 0; m->copied_ids && r < rows; r++)
        memory[r * m->read_memory.n + copy_key(m) + d] = m->copied_ids[ids[r]];
}

/* Feeds the last token of each row, at the next position. past[r * past_width + t] is where row r has the keys and
   values of position t, for each decoder layer; the last of n_past is written. Writes the log-probabilities of the next
   token, [R, output.n]. */
FAST void glassformer_step(const Model *m, const int64_t *last, int64_t rows, const float *position,
                                    float *const *past, int64_t past_width, int64_t n_past, const float *const *memory,
                                    const int64_t *lengths, float *log_probs, float *numbers) {
    int64_t d = m->d_model, keys = m->n_heads * m->d_k, values = m->n_heads * m->d_v;
    Room room = divide(m, numbers, rows);
    for (int64_t r = 0; r < rows; r++) embed(m, m->target_embedding, last[r], position, room.x + r * d);
    for (int64_t l = 0; l < m->n_decoder_layers; l++) {
        const Layer *layer = m->decoder + l;
        int64_t at = l * (keys + values), width = layer->project.n;
        multiply(&layer->project, input_of(m, &layer->norm, room.x, room.y, rows), d, rows, room.wide);
        for (int64_t r = 0; r < rows; r++) {
            float *const *row = past + r * past_width;
            memcpy(row[n_past - 1] + at, room.wide + r * width + keys, (size_t)(keys + values) * sizeof(float));
            attend_past(m, room.wide + r * width, row, at, at + keys, n_past, room.scores, room.heads + r * values);
        }
        multiply(&layer->w_o, room.heads, values, rows, room.output);
        add(m, &layer->norm, room.x, room.output, layer->w_o.n, rows);

        multiply(&layer->query, input_of(m, &layer->cross_norm, room.x, room.y, rows), d, rows, room.wide);
        for (int64_t r = 0; r < rows; r++)
            attend_rows(m, room.wide + r * layer->query.n, memory[r], m->read_memory.n, l * keys,
                        m->n_decoder_layers * keys + l * values, lengths[r], room.scores, room.heads + r * values);
        multiply(&layer->cross_out, room.heads, values, rows, room.output);
        add(m, &layer->cross_norm, room.x, room.output, layer->cross_out.n, rows);

        feed(m, layer, room.x, room.y, room.wide, room.output, rows);
    }
    int64_t n = m->output.n;
    multiply(&m->output, input_of(m, &m->decoder_norm, room.x, room.y, rows), d, rows, log_probs);
    for (int64_t r = 0; r < rows; r++) {
        float *logits = log_probs + r * n;
        if (m->copied_ids) add_copies(m, logits, memory[r], lengths[r]);
        float largest = logits[0];
        for (int64_t i = 1; i < m->n_words; i++) largest = logits[i] > largest ? logits[i] : largest;
        for (int64_t i = m->n_words; i < n; i++) logits[i] = -INFINITY;
        Floats sums = {0};
        for (int64_t i = 0; i < n; i += LANES) sums += exp_of(load(logits + i) - largest);
        float log_sum = logf(sum_of(sums)); /* subtracted by itself: largest + log_sum would round it */
        for (int64_t i = 0; i < m->n_words; i++) logits[i] = (logits[i] - largest) - log_sum;
    }
}

/* The n best of K V extensions of each of N sentences, whose rows are `width` apart, best first; NaN is first. Ties:
   the lowest row, then the lowest token. Behind their sums, [N n], are the newest log-probabilities, and behind their parents the
   tokens. */
FAST void glassformer_best(const float *values, const float *scores, int64_t n_sentences, int64_t n_rows,
                           int64_t n_words, int64_t width, int64_t n, float *sums, int64_t *parents) {
    float *newest = sums + n_sentences * n;
    int64_t *tokens = parents + n_sentences * n;
    for (int64_t i = 0; i < n_sentences; i++, sums += n, newest += n, parents += n, tokens += n) {
        int64_t found = 0;
        for (int64_t row = 0; row < n_rows; row++, values += width)
            for (int64_t word = 0; word < n_words; word++) {
                float sum = scores[i * n_rows + row] + values[word];
                if (found == n && (sum <= sums[n - 1] || sums[n - 1] != sums[n - 1])) continue;
                int64_t at = found < n ? found++ : n - 1;
                for (; at > 0 && !(sum <= sums[at - 1] || sums[at - 1] != sums[at - 1]); at--) {
                    sums[at] = sums[at - 1], newest[at] = newest[at - 1];
                    parents[at] = parents[at - 1], tokens[at] = tokens[at - 1];
                }
                sums[at] = sum, newest[at] = values[word], parents[at] = row, tokens[at] = word;
            }
    }
}
