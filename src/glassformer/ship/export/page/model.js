/**
 * The Transformer of glassformer/paper/model.py: the encoder on packed texts, the decoder one token at a time with a cache.
 *
 * Rows are tokens without padding. The caches keep the keys and values of each step; a hypothesis has, for each step,
 * the row of its ancestor there, so that a beam copies no cache. All numbers are offsets in the arena.
 *
 * Axes: P tokens of a batch of texts · R hypotheses · D d_model · V target vocabulary.
 */

import { ACTIVATIONS } from 'translator/activations.js';
import { PANEL, padded } from 'translator/arena.js';
import { logAddExp } from 'translator/search.js';

export class Model {
  /** @param parameters  see parameters.js */
  constructor(parameters) {
    Object.assign(this, parameters);
    const activation = ACTIVATIONS[this.settings.activation];
    if (!activation) throw new Error(`an activation that this page does not have: ${this.settings.activation}`);
    this.activation = activation;
    this.positions = { source: [], target: [] };
    this.weights = new Float64Array(16); // attention weights of one query
  }

  // Parts

  /** Rows of padded width, as many as `rows`. */
  rows(rows, width) {
    return this.arena.take(rows * padded(width));
  }

  project(x, rows, linear) {
    const y = this.rows(rows, linear.width);
    this.arena.multiply(x, rows, linear, y);
    return y;
  }

  /** x [rows, D] of tokens at positions. */
  embed(ids, positions, side) {
    const { d_model: d, scale_embeddings: isScaled } = this.settings;
    const { matrix, inner } = side === 'source' ? this.source : this.target;
    const scale = isScaled ? Math.fround(Math.sqrt(d)) : 1;
    const x = this.rows(ids.length, d);
    const { floats } = this.arena;
    floats.fill(0, x, x + ids.length * padded(d));
    ids.forEach((id, row) => {
      const column = matrix + Math.floor(id / PANEL) * PANEL * inner + (id % PANEL);
      const place = this.position(side, positions[row]);
      const to = x + row * padded(d);
      for (let i = 0; i < d; i += 1) floats[to + i] = Math.fround(floats[column + i * PANEL] * scale) + place[i];
    });
    return x;
  }

  /** The encoding of a position [D]: a row of the learned table, or sinusoids. */
  position(side, position) {
    const { d_model: d, position_base: base } = this.settings;
    const known = this.positions[side];
    known[position] ??= this.tables
      ? this.tables[side].subarray(position * d, (position + 1) * d)
      : Float32Array.from({ length: d }, (_, i) => {
          const angle = position * base ** (-(i - (i % 2)) / d);
          return i % 2 ? Math.cos(angle) : Math.sin(angle);
        });
    return known[position];
  }

  /** y = LayerNorm(x) of each row; y may be x. */
  normalize(x, rows, { weight, bias }, y = this.rows(rows, this.settings.d_model)) {
    const { d_model: d, norm_eps: eps } = this.settings;
    const { floats } = this.arena;
    for (let row = 0; row < rows; row += 1) {
      const [from, to] = [x + row * padded(d), y + row * padded(d)];
      let sum = 0;
      for (let i = 0; i < d; i += 1) sum += floats[from + i];
      const mean = sum / d;
      let squares = 0;
      for (let i = 0; i < d; i += 1) squares += (floats[from + i] - mean) ** 2;
      const rate = 1 / Math.sqrt(squares / d + eps);
      for (let i = 0; i < d; i += 1)
        floats[to + i] = (floats[from + i] - mean) * rate * floats[weight + i] + floats[bias + i];
    }
    return y;
  }

  /** The residual stream around one sublayer (section 3.1): x is replaced. */
  addAndNorm(x, rows, norm, sublayer) {
    const isFirst = this.settings.norm === 'pre';
    const size = rows * padded(this.settings.d_model);
    const change = sublayer(isFirst ? this.normalize(x, rows, norm) : x);
    const { floats } = this.arena;
    for (let i = 0; i < size; i += 1) floats[x + i] += floats[change + i];
    if (!isFirst) this.normalize(x, rows, norm, x);
  }

  feedForward(x, rows, { first, second }) {
    const inner = this.project(x, rows, first);
    const { floats } = this.arena;
    const end = inner + rows * padded(first.width);
    for (let i = inner; i < end; i += 1) floats[i] = this.activation(floats[i]);
    return this.project(inner, rows, second);
  }

  /** Attention of one query over n keys (equation 1), all heads; the rows of keys and values are at these offsets. */
  attend(query, keyAt, valueAt, n, context) {
    const { n_heads: heads, d_k: dK, d_v: dV } = this.settings;
    const { floats } = this.arena;
    if (this.weights.length < n) this.weights = new Float64Array(2 * n);
    const { weights } = this;
    const scale = 1 / Math.sqrt(dK);
    floats.fill(0, context, context + padded(heads * dV));
    for (let head = 0; head < heads; head += 1) {
      const q = query + head * dK;
      let largest = -Infinity;
      for (let key = 0; key < n; key += 1) {
        const k = keyAt[key] + head * dK;
        let score = 0;
        for (let i = 0; i < dK; i += 1) score += floats[q + i] * floats[k + i];
        weights[key] = score * scale;
        if (weights[key] > largest) largest = weights[key];
      }
      let total = 0;
      for (let key = 0; key < n; key += 1) total += weights[key] = Math.exp(weights[key] - largest);
      const out = context + head * dV;
      for (let key = 0; key < n; key += 1) {
        const v = valueAt[key] + head * dV;
        const weight = weights[key] / total;
        for (let i = 0; i < dV; i += 1) floats[out + i] += weight * floats[v + i];
      }
    }
  }

  // The encoder

  /** The memory of framed texts: keys and values of each decoder layer, [P, H·d]. @param {number[][]} sources */
  encode(sources) {
    const ids = sources.flat();
    const rows = ids.length;
    const x = this.embed(
      ids,
      sources.flatMap((source) => [...source.keys()]),
      'source',
    );
    const starts = [];
    sources.reduce((start, source) => (starts.push(start), start + source.length), 0);
    for (const layer of this.encoder.layers) {
      const { used } = this.arena;
      this.addAndNorm(x, rows, layer.self.norm, (y) => this.selfAttention(y, rows, layer.self, sources, starts));
      this.addAndNorm(x, rows, layer.norm, (y) => this.feedForward(y, rows, layer));
      this.arena.release(used);
    }
    if (this.encoder.norm) this.normalize(x, rows, this.encoder.norm, x);
    const layers = this.decoder.layers.map(({ cross }) => ({
      keys: this.project(x, rows, cross.key),
      values: this.project(x, rows, cross.value),
    }));
    const { copies: source } = this;
    const copies = source && { keys: this.project(x, rows, source.key), ids: ids.map((id) => source.ids[id]) };
    return { starts, lengths: sources.map((source) => source.length), layers, copies };
  }

  selfAttention(y, rows, { query, key, value, output }, sources, starts) {
    const [queries, keys, values] = [query, key, value].map((linear) => this.project(y, rows, linear));
    const context = this.rows(rows, value.width);
    sources.forEach(({ length }, i) => {
      const keyAt = offsets(keys, starts[i], length, key.width);
      const valueAt = offsets(values, starts[i], length, value.width);
      for (let row = starts[i]; row < starts[i] + length; row += 1) {
        this.attend(queries + row * padded(query.width), keyAt, valueAt, length, context + row * padded(value.width));
      }
    });
    return this.project(context, rows, output);
  }

  // The decoder

  /** A decoder without tokens over this memory: `step` adds one token for each row. */
  start(memory) {
    const crossAt = this.decoder.layers.map(({ cross }, layer) =>
      memory.lengths.map((length, i) => [
        offsets(memory.layers[layer].keys, memory.starts[i], length, cross.key.width),
        offsets(memory.layers[layer].values, memory.starts[i], length, cross.value.width),
      ]),
    );
    return {
      crossAt,
      memory,
      lengths: memory.lengths,
      keys: this.decoder.layers.map(() => []),
      values: this.decoder.layers.map(() => []),
    };
  }

  /**
   * The logits [R, V] after one more token of each row; they are overwritten by the next step.
   *
   * @param {{ids: number[], texts: number[], ancestors: Int32Array[]}} rows  `ids` the token of each row, `texts` the
   *   text of each row, `ancestors` for each row its row in each step, this one included
   */
  step(state, { ids, texts, ancestors }) {
    const rows = ids.length;
    const time = ancestors[0].length - 1;
    const blocks = this.decoder.layers.map(({ self }) => [
      this.rows(rows, self.key.width),
      this.rows(rows, self.value.width),
    ]);
    const { used } = this.arena;
    const x = this.embed(ids, Array(rows).fill(time), 'target');
    this.decoder.layers.forEach((layer, i) => {
      const inside = this.arena.used;
      this.addAndNorm(x, rows, layer.self.norm, (y) =>
        this.cachedAttention(y, layer.self, blocks[i], state, i, ancestors),
      );
      this.addAndNorm(x, rows, layer.cross.norm, (y) => this.crossAttention(y, layer.cross, state, i, texts));
      this.addAndNorm(x, rows, layer.norm, (y) => this.feedForward(y, rows, layer));
      this.arena.release(inside);
    });
    if (this.decoder.norm) this.normalize(x, rows, this.decoder.norm, x);
    const logits = this.project(x, rows, this.output);
    if (this.copies)
      texts.forEach((text, row) => {
        const [query, to] = [x + row * padded(this.settings.d_model), logits + row * padded(this.output.width)];
        this.addCopies(state.memory, text, query, to);
      });
    this.arena.release(used);
    return { floats: this.arena.floats, offset: logits, stride: padded(this.output.width), width: this.output.width };
  }

  /** Departure (Gu et al. 2016): each logit z becomes log(e^z + Σ e^score) over the source positions of its token. */
  addCopies({ starts, lengths, copies: { keys, ids } }, text, query, logits) {
    const { d_model: d } = this.settings;
    const { floats } = this.arena;
    for (let position = starts[text]; position < starts[text] + lengths[text]; position += 1) {
      if (ids[position] < 0) continue;
      const key = keys + position * padded(d);
      let score = 0;
      for (let i = 0; i < d; i += 1) score += floats[query + i] * floats[key + i];
      floats[logits + ids[position]] = logAddExp(floats[logits + ids[position]], score / Math.sqrt(d));
    }
  }

  cachedAttention(y, { query, key, value, output }, [keys, values], state, layer, ancestors) {
    const rows = ancestors.length;
    this.arena.multiply(y, rows, key, keys);
    this.arena.multiply(y, rows, value, values);
    state.keys[layer].push(keys);
    state.values[layer].push(values);
    const queries = this.project(y, rows, query);
    const context = this.rows(rows, value.width);
    const [keySteps, valueSteps] = [state.keys[layer], state.values[layer]];
    const n = keySteps.length;
    const [keyAt, valueAt] = [new Int32Array(n), new Int32Array(n)];
    for (let row = 0; row < rows; row += 1) {
      for (let time = 0; time < n; time += 1) {
        keyAt[time] = keySteps[time] + ancestors[row][time] * padded(key.width);
        valueAt[time] = valueSteps[time] + ancestors[row][time] * padded(value.width);
      }
      this.attend(queries + row * padded(query.width), keyAt, valueAt, n, context + row * padded(value.width));
    }
    return this.project(context, rows, output);
  }

  crossAttention(y, { query, value, output }, state, layer, texts) {
    const rows = texts.length;
    const queries = this.project(y, rows, query);
    const context = this.rows(rows, value.width);
    texts.forEach((text, row) => {
      const [keyAt, valueAt] = state.crossAt[layer][text];
      const to = context + row * padded(value.width);
      this.attend(queries + row * padded(query.width), keyAt, valueAt, state.lengths[text], to);
    });
    return this.project(context, rows, output);
  }
}

/** The offsets of `length` rows from row `start` of a tensor of this width. */
const offsets = (tensor, start, length, width) =>
  Int32Array.from({ length }, (_, row) => tensor + (start + row) * padded(width));
