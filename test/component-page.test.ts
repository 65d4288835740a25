import assert from 'node:assert/strict';
import { test } from 'node:test';
import { componentPage } from '../scripts/component-page.ts';

test('the page of components lists a prop for an account, and no app that is there for its methods', () => {
  const component = {
    ...{ key: 'mail-send', name: 'Send', version: '0.0.1', description: 'Sends', type: 'action' as const },
    props: {
      account: { type: 'app', description: 'An account of Mail', optional: true },
      helper: { type: 'app' },
    },
  };
  const page = componentPage([component], '');
  assert.match(page, /^\| `account` \| `app` \| none \| An account of Mail \|$/m);
  assert.doesNotMatch(page, /helper/);
});
