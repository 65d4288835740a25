import { createHmac } from 'node:crypto';
import { type ActionRun, badInput, textOf } from '../../action.ts';
import { algorithmOf, algorithmProp, encodingOf, encodingProp } from '../hashing.ts';

export default {
  key: 'crypto-hmac',
  name: 'Sign Text with HMAC',
  version: '0.0.1',
  description:
    'Returns the HMAC of a text, as many services sign requests. Example: with the secret of a webhook it gives the signature that the request should have',
  type: 'action',
  props: {
    input: { type: 'string', label: 'Input', description: 'Text to sign' },
    secret: { type: 'string', label: 'Secret', description: 'Key of the signature', secret: true },
    secretEncoding: {
      type: 'string',
      label: 'Encoding of the secret',
      description: 'How the secret is written',
      optional: true,
      default: 'utf8',
      options: ['utf8', 'hex', 'base64'],
    },
    algorithm: algorithmProp,
    encoding: encodingProp,
  },
  async run(
    this: { input: string; secret: string; secretEncoding?: string; algorithm?: string; encoding?: string },
    { $ }: ActionRun,
  ) {
    const { secretEncoding = 'utf8' } = this;
    if (secretEncoding !== 'utf8' && secretEncoding !== 'hex' && secretEncoding !== 'base64')
      throw badInput('secretEncoding', secretEncoding, 'one of utf8, hex, base64');
    const algorithm = algorithmOf(this.algorithm);
    const key = Buffer.from(String(this.secret ?? ''), secretEncoding);
    // An empty key signs as anyone could.
    if (key.length === 0) throw badInput('secret', '', `a secret in ${secretEncoding}`);
    const hmac = createHmac(algorithm, key).update(textOf('input', this.input));
    const result = hmac.digest(encodingOf(this.encoding));
    $.export('$summary', `Signed the text with HMAC and ${algorithm}`);
    return result;
  },
};
