import type { ActionRun } from '../../action.ts';
import { type Extract, extract, extractProps } from '../extract.ts';

/** Bounded on both sides of the @, so that long texts without an address are searched in linear time. */
const pattern = /[\w.!#$%&'*+/=?^`{|}~-]{1,64}@(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,10}[a-z]{2,63}/gi;

export default {
  key: 'formatting-extract-email-address',
  name: '[Text] Extract Email Address',
  version: '0.0.1',
  description:
    'Finds the first email address in a text, or all of them. Example: `"Ada <ada@example.com>"` gives `"ada@example.com"`',
  type: 'action',
  props: extractProps('an email address'),
  async run(this: Extract, step: ActionRun) {
    return extract(this, step, { noun: 'email address', pattern });
  },
};
