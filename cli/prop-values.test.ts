import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isNeeded, readPropText } from './prop-values.ts';

const read = (type: string, text: string): unknown => readPropText({ name: 'p', type }, text);

describe('the text of a prop', () => {
  test('is read as its type says', () => {
    assert.equal(read('string', '007'), '007');
    assert.equal(read('integer', '7'), 7);
    assert.equal(read('number', '1.5'), 1.5);
    assert.equal(read('boolean', 'false'), false);
    assert.deepEqual(read('object', '{"a":1}'), { a: 1 });
    assert.deepEqual(read('app', 'apn_1'), { authProvisionId: 'apn_1' });
    assert.deepEqual(read('$.interface.timer', '60'), { intervalSeconds: 60 });
    assert.deepEqual(read('$.interface.timer', '0 9 * * 1'), { cron: '0 9 * * 1' });
    assert.deepEqual(read('$.interface.timer', '{"cron":"0 9 * * *","timezone":"Europe/Berlin"}'), {
      cron: '0 9 * * *',
      timezone: 'Europe/Berlin',
    });
    assert.deepEqual(read('string[]', 'a, b'), ['a', 'b']);
    assert.deepEqual(read('string[]', '["a, b"]'), ['a, b']);
    assert.deepEqual(read('integer[]', '1,2'), [1, 2]);
    assert.deepEqual(read('string[]', ''), []);
    assert.deepEqual(read('any', '[1]'), [1]);
    assert.equal(read('any', 'text'), 'text');
  });

  test('that does not fit is refused with what was expected', () => {
    assert.throws(() => read('integer', '1.5'), /prop p: expected an integer, found "1.5"/);
    assert.throws(() => read('number', ''), /expected a number/);
    assert.throws(() => read('boolean', 'yes'), /expected true or false, found "yes"/);
    assert.throws(() => read('object', '{a'), /expected JSON/);
    assert.throws(() => read('integer[]', '1,x'), /expected an integer, found "x"/);
  });
});

test('only what has no default, and is not set by the service, has to be given', () => {
  assert.equal(isNeeded({ name: 'p', type: 'string' }), true);
  assert.equal(isNeeded({ name: 'p', type: 'string', optional: true }), false);
  assert.equal(isNeeded({ name: 'p', type: 'string', default: '' }), false);
  assert.equal(isNeeded({ name: 'p', type: 'string', hidden: true }), false);
  assert.equal(isNeeded({ name: 'p', type: '$.interface.http' }), false);
  assert.equal(isNeeded({ name: 'p', type: '$.interface.timer', static: { cron: '* * * * *' } }), false);
});
