/** The panels in their groups, in the order of their tabs. */

import { alignment } from 'glassbox/panels/alignment.js';
import { attention } from 'glassbox/panels/attention.js';
import { embedding } from 'glassbox/panels/embedding.js';
import { errors } from 'glassbox/panels/errors.js';
import { heads } from 'glassbox/panels/heads.js';
import { logits } from 'glassbox/panels/logits.js';
import { norm } from 'glassbox/panels/norm.js';
import { qkv } from 'glassbox/panels/qkv.js';
import { searching } from 'glassbox/panels/searching.js';
import { space } from 'glassbox/panels/space.js';
import { story } from 'glassbox/panels/story.js';
import { tokens } from 'glassbox/panels/tokens.js';
import { training } from 'glassbox/panels/training.js';
import { whatif } from 'glassbox/panels/whatif.js';

/** @type {Object<string, Object<string, {title: string, draw: (app: import('../app.js').App) => any}>>} */
export const groups = {
  Story: { story: { title: 'Story', draw: story } },
  Model: {
    tokens: { title: 'Tokens', draw: tokens },
    embedding: { title: 'Embedding and position', draw: embedding },
    qkv: { title: 'Q, K, V', draw: qkv },
    attention: { title: 'Attention', draw: attention },
    norm: { title: 'Add & norm, feed-forward', draw: norm },
  },
  Answer: {
    logits: { title: 'Logits', draw: logits },
    search: { title: 'Search', draw: searching },
    alignment: { title: 'Alignment', draw: alignment },
  },
  Experiments: {
    whatif: { title: 'What if', draw: whatif },
    heads: { title: 'Heads', draw: heads },
  },
  More: {
    space: { title: 'Embedding map', draw: space },
    training: { title: 'Training', draw: training },
    errors: { title: 'Errors', draw: errors },
  },
};

export const panels = Object.assign({}, ...Object.values(groups));
