/** The weights of a model, stored in an arena in the layout of its matrix product. */

/**
 * @param settings  ModelSettings as an object
 * @param {{source: number, target: number}} sizes  of the vocabularies
 * @param {(name: string) => Float32Array|null} read  a tensor by its name in the model file, or null
 * @param {import('./arena.js').Arena} arena
 */
export function loadParameters(settings, sizes, read, arena) {
  const { d_model: d, d_ff: dFf, n_heads: heads, d_k: dK, d_v: dV } = settings;

  function linear(name, inner, width, weight = `${name}.weight`) {
    const matrix = arena.storeMatrix(read(weight), width, inner);
    const bias = arena.storeVector(read(`${name}.bias`) ?? new Float32Array(width));
    return { matrix, bias, inner, width };
  }

  const norm = (name) => ({
    weight: arena.storeVector(read(`${name}.weight`)),
    bias: arena.storeVector(read(`${name}.bias`)),
  });

  const attention = (name) => ({
    query: linear(`${name}.w_q`, d, heads * dK),
    key: linear(`${name}.w_k`, d, heads * dK),
    value: linear(`${name}.w_v`, d, heads * dV),
    output: linear(`${name}.w_o`, heads * dV, d),
    norm: norm(`${name}_norm`),
  });

  const stack = (side, depth) => ({
    layers: Array.from({ length: depth }, (_, i) => ({
      self: attention(`${side}.${i}.self_attention`),
      cross: side === 'decoder' ? attention(`${side}.${i}.cross_attention`) : null,
      first: linear(`${side}.${i}.feed_forward.w_1`, d, dFf),
      second: linear(`${side}.${i}.feed_forward.w_2`, dFf, d),
      norm: norm(`${side}.${i}.feed_forward_norm`),
    })),
    norm: settings.norm === 'pre' ? norm(`${side}_norm`) : null,
  });

  const embedding = (side) => ({
    matrix: arena.storeMatrix(read(`${side}_embedding.weight`), sizes[side], d),
    inner: d,
  });

  const tied = settings.tied_embeddings;
  const matrix = { none: 'output_projection', target: 'target_embedding', all: 'source_embedding' }[tied];
  const output = linear('output_projection', d, sizes.target, `${matrix}.weight`);
  const table = (side) => read(`${side}_positions.table`);
  const name = 'copy_mechanism';
  const copies = settings[name] ? { key: linear(`${name}.w_k`, d, d), ids: read(`${name}.target_ids`) } : null;
  return {
    settings,
    arena,
    output,
    copies,
    target: tied === 'none' ? embedding('target') : output,
    source: tied === 'all' ? output : embedding('source'),
    tables: settings.positions === 'learned' ? { source: table('source'), target: table('target') } : null,
    encoder: stack('encoder', settings.n_encoder_layers),
    decoder: stack('decoder', settings.n_decoder_layers),
  };
}
