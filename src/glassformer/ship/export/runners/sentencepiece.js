/**
 * The segmentation of SentencePiece (Kudo and Richardson 2018), as in glassformer/text: rules of normalization, white
 * space folded to one "▁", then a unigram model (Viterbi) or BPE. Sums of scores are rounded to float32 where the
 * library does. A text is an array of its characters here, and positions count characters.
 */

const SPACE = '▁';
const LANGUAGE_CODE = /^>>.*?<</s;
const UNKNOWN_PENALTY = 10; // an unknown character is that much less probable than any piece
const USER_DEFINED_PENALTY = 0.1;
const SMALLEST = 2 ** -126; // the smallest float32, from which the library searches for the highest score

const encoder = new TextEncoder();

/** Every beginning of the words -> whether it is a whole word. */
function trieOf(words) {
  const trie = new Map();
  for (const word of words) {
    const letters = [...word];
    for (let end = 1; end < letters.length; end += 1) {
      const start = letters.slice(0, end).join('');
      if (!trie.has(start)) trie.set(start, false);
    }
    trie.set(word, true);
  }
  return trie;
}

/** The longest word of the trie that the text has at `start`, or "". */
function longestMatch(trie, letters, start) {
  let [found, word] = ['', ''];
  for (let end = start; trie.size && end < letters.length; end += 1) {
    word += letters[end];
    const isWord = trie.get(word);
    if (isWord === undefined) break;
    if (isWord) found = word;
  }
  return found;
}

/** Cuts texts. The fields are those of SentencePieceModel in glassformer/text/sentencepiece.py. */
export class Cutter {
  constructor(model) {
    const { pieces, scores, user_defined: userDefined, unused, rules } = model;
    this.model = model;
    this.space = model.escape_spaces ? SPACE : ' ';
    this.userDefined = new Set(userDefined.map((index) => pieces[index]));
    this.unused = new Set(unused.map((index) => pieces[index]));
    this.scores = new Map(pieces.map((piece, index) => [piece, Math.fround(scores[index])]));
    let [lowest, highest] = [Infinity, SMALLEST];
    for (const [piece, score] of this.scores) {
      if (this.userDefined.has(piece) || this.unused.has(piece)) continue;
      lowest = Math.min(lowest, score);
      highest = Math.max(highest, score);
    }
    this.unknownScore = Math.fround((lowest === Infinity ? 0 : lowest) - UNKNOWN_PENALTY);
    this.highest = highest;
    this.trie = trieOf([...this.scores.keys()].filter((piece) => !this.unused.has(piece)));
    this.frozen = trieOf(this.userDefined);
    this.rules = rules ? new Rules(rules) : null;
  }

  /** The pieces of a text, and the start and end of each. Unknown characters next to each other are one piece. */
  cut(text) {
    const cuts = [];
    const code = LANGUAGE_CODE.exec(text)?.[0] ?? '';
    const start = [...code].length;
    if (code) cuts.push({ piece: code, start: 0, end: start });
    const { letters, origins } = this.normalize([...text.slice(code.length)]);
    let [end, afterUnknown] = [0, false];
    const parts = this.model.algorithm === 'bpe' ? this.bpe(letters) : this.unigram(letters);
    for (const [piece, isKnown] of parts) {
      const begin = end;
      end += [...piece].length;
      const last = cuts.at(-1);
      if (afterUnknown && !isKnown) Object.assign(last, { piece: last.piece + piece, end: start + origins[end] });
      else cuts.push({ piece, start: start + origins[begin], end: start + origins[end] });
      afterUnknown = !isKnown;
    }
    return cuts;
  }

  /** Apply the rules and fold white space; `origins` are the positions in the text of each character and of the end. */
  normalize(text) {
    const { fold_spaces: folds, dummy_prefix: hasPrefix } = this.model;
    const parts = this.normalizedParts(text);
    let position = 0;
    while (folds && position < parts.length && parts[position][0] === ' ') position += 1;
    if (position === parts.length) return { letters: [], origins: [text.length] };
    const [letters, origins] = hasPrefix ? [[this.space], [parts[position][1]]] : [[], []];
    let afterSpace = folds;
    for (const [part, origin] of parts.slice(position)) {
      const kept = [...(afterSpace ? part.replace(/^ +/, '') : part)];
      for (const letter of kept) {
        letters.push(letter === ' ' ? this.space : letter);
        origins.push(origin);
      }
      if (kept.length) afterSpace = kept.at(-1) === ' ';
      afterSpace &&= folds;
    }
    let end = text.length;
    while (folds && letters.at(-1) === this.space) {
      letters.pop();
      end = origins.pop();
    }
    return { letters, origins: [...origins, end] };
  }

  /** The normalized form of each part that a rule, or none, is for, and its start. */
  normalizedParts(text) {
    const parts = [];
    for (let position = 0; position < text.length;) {
      const frozen = longestMatch(this.frozen, text, position);
      const [part, length] = frozen
        ? [frozen, [...frozen].length]
        : (this.rules?.match(text, position) ?? [text[position], 1]);
      parts.push([part, position]);
      position += length;
    }
    return parts;
  }

  /** The most probable segmentation: pieces, and whether each is known. Of equals the first is kept. */
  unigram(letters) {
    const best = [{ score: 0, start: 0, isKnown: true }];
    const reach = (end, total, start, isKnown) => {
      if (!best[end] || total > best[end].score) best[end] = { score: Math.fround(total), start, isKnown };
    };
    for (let start = 0; start < letters.length; start += 1) {
      const { score: before } = best[start];
      let [piece, hasSingle] = ['', false];
      for (let end = start + 1; end <= letters.length; end += 1) {
        piece += letters[end - 1];
        const isPiece = this.trie.get(piece);
        if (isPiece === undefined) break;
        if (!isPiece) continue;
        hasSingle ||= end === start + 1;
        const total = this.userDefined.has(piece)
          ? encoder.encode(piece).length * this.highest - USER_DEFINED_PENALTY + before
          : Math.fround(this.scores.get(piece) + before);
        reach(end, total, start, true);
      }
      if (!hasSingle) reach(start + 1, Math.fround(this.unknownScore + before), start, false);
    }
    const pieces = [];
    for (let end = letters.length; end > 0; end = best[end].start)
      pieces.push([letters.slice(best[end].start, end).join(''), best[end].isKnown]);
    return pieces.reverse();
  }

  /** Merge the pair of the highest score, the leftmost of equals, until no pair is a piece. */
  bpe(letters) {
    const { symbols, isFrozen } = this.symbols(letters);
    const before = symbols.map((_, i) => i - 1);
    const after = symbols.map((_, i) => (i + 1 < symbols.length ? i + 1 : -1));
    const merged = new Map();
    const queue = new Queue();
    const consider = (left, right) => {
      if (left < 0 || right < 0 || isFrozen[left] || isFrozen[right]) return;
      const piece = symbols[left] + symbols[right];
      if (!this.scores.has(piece)) return;
      queue.push([-this.scores.get(piece), left, right, piece.length]);
      if (this.unused.has(piece)) merged.set(piece, [symbols[left], symbols[right]]);
    };
    for (let left = 0; left + 1 < symbols.length; left += 1) consider(left, left + 1);
    while (queue.size) {
      const [, left, right, length] = queue.pop();
      const isStale = !symbols[left] || !symbols[right] || symbols[left].length + symbols[right].length !== length;
      if (isStale) continue; // one of the two was merged with another
      symbols[left] += symbols[right];
      symbols[right] = '';
      after[left] = after[right];
      if (after[right] >= 0) before[after[right]] = left;
      consider(before[left], left);
      consider(left, after[left]);
    }
    const unmerged = (piece) => (merged.has(piece) ? merged.get(piece).flatMap(unmerged) : [piece]);
    return symbols
      .filter(Boolean)
      .flatMap(unmerged)
      .map((piece) => [piece, this.scores.has(piece)]);
  }

  /** The characters of a text, and user-defined pieces, which are never merged. */
  symbols(letters) {
    const [symbols, isFrozen] = [[], []];
    for (let position = 0; position < letters.length;) {
      const piece = longestMatch(this.frozen, letters, position);
      symbols.push(piece || letters[position]);
      isFrozen.push(Boolean(piece));
      position += piece ? [...piece].length : 1;
    }
    return { symbols, isFrozen };
  }
}

/** A heap of lists of numbers, the smallest first. */
class Queue {
  constructor() {
    this.items = [];
  }

  get size() {
    return this.items.length;
  }

  isLess(one, other) {
    const [left, right] = [this.items[one], this.items[other]];
    const at = left.findIndex((number, i) => number !== right[i]);
    return at >= 0 && left[at] < right[at];
  }

  swap(one, other) {
    [this.items[one], this.items[other]] = [this.items[other], this.items[one]];
  }

  push(item) {
    this.items.push(item);
    let at = this.size - 1;
    for (let above = (at - 1) >> 1; at && this.isLess(at, above); above = (at - 1) >> 1) {
      this.swap(at, above);
      at = above;
    }
  }

  pop() {
    this.swap(0, this.size - 1);
    const item = this.items.pop();
    for (let at = 0; ;) {
      let least = at;
      for (const below of [2 * at + 1, 2 * at + 2]) if (below < this.size && this.isLess(below, least)) least = below;
      if (least === at) return item;
      this.swap(at, least);
      at = least;
    }
  }
}

/** Rules of normalization as the library compiles them: a double array over bytes (Darts-clone), and replacements. */
class Rules {
  constructor(encoded) {
    const compiled = Uint8Array.from(atob(encoded), (letter) => letter.charCodeAt(0));
    const view = new DataView(compiled.buffer);
    const size = view.getUint32(0, true);
    this.units = Uint32Array.from({ length: size / 4 }, (_, i) => view.getUint32(4 + 4 * i, true));
    this.replacements = new Map();
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
    for (let start = 4 + size; start < compiled.length;) {
      const end = compiled.indexOf(0, start);
      this.replacements.set(start - 4 - size, decoder.decode(compiled.subarray(start, end)));
      start = end + 1;
    }
    this.bytes = new Map(); // of a character
  }

  /** The replacement of what the text has at `start`, and its length; without a rule one character. */
  match(letters, start) {
    const { units } = this;
    let [found, length, index] = [letters[start], 1, this.firstChild(0)];
    for (let end = start; end < letters.length; end += 1) {
      let hasValue = false;
      for (const byte of this.bytesOf(letters[end])) {
        index ^= byte;
        if (index >= units.length || (units[index] & 0x800000ff) >>> 0 !== byte) return [found, length];
        hasValue = Boolean((units[index] >>> 8) & 1);
        index = this.firstChild(index);
      }
      if (hasValue && index < units.length) {
        found = this.replacements.get(units[index] & 0x7fffffff);
        length = end + 1 - start;
      }
    }
    return [found, length];
  }

  firstChild(index) {
    const unit = this.units[index];
    return index ^ ((unit >>> 10) << ((unit & 512) >>> 6));
  }

  bytesOf(letter) {
    if (!this.bytes.has(letter)) this.bytes.set(letter, encoder.encode(letter));
    return this.bytes.get(letter);
  }
}
