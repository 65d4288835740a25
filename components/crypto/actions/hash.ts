import { createHash } from 'node:crypto';
import { type ActionRun, textOf } from '../../action.ts';
import { algorithmOf, algorithmProp, encodingOf, encodingProp } from '../hashing.ts';

export default {
  key: 'crypto-hash',
  name: 'Hash Text',
  version: '0.0.1',
  description:
    'Returns the hash of a text in UTF-8. Example: the `md5` of `"hello"` is `5d41402abc4b2a76b9719d911017c592`',
  type: 'action',
  props: {
    input: { type: 'string', label: 'Input', description: 'Text to hash' },
    algorithm: algorithmProp,
    encoding: encodingProp,
  },
  async run(this: { input: string; algorithm?: string; encoding?: string }, { $ }: ActionRun) {
    const algorithm = algorithmOf(this.algorithm);
    const hash = createHash(algorithm).update(textOf('input', this.input));
    const result = hash.digest(encodingOf(this.encoding));
    $.export('$summary', `Hashed the text with ${algorithm}`);
    return result;
  },
};
