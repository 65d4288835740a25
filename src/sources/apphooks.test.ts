import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apphooksIn, isNamed, lookupOf, lookupsFor } from './apphooks.ts';

const slack = { name: 'slack', type: 'app', app: 'slack' };
const asIs = (text: string) => text;

/** An apphook prop. */
function hook(attributes: Record<string, unknown> = {}) {
  return { name: 'hook', type: '$.interface.apphook', appProp: 'slack', ...attributes };
}

function namesOf(attributes: Record<string, unknown>, answered?: unknown): string[] | undefined {
  return apphooksIn([slack, hook(attributes)], { hook: answered }, asIs)[0]?.names;
}

test('a source listens to its eventNames and static ones, and without either to all events of its app', () => {
  assert.deepEqual(namesOf({ eventNames: ['a', 'b', 'a'] }), ['a', 'b']);
  assert.deepEqual(namesOf({}, ['C1', 7, { label: 'general', value: 'C2' }]), ['C1', '7', 'C2']);
  assert.deepEqual(namesOf({}, 'message'), ['message']);
  assert.deepEqual(namesOf({ static: ['s'] }, ['a']), ['s', 'a']);
  assert.deepEqual(namesOf({ static: ['s'] }, null), ['s']);
  assert.deepEqual(namesOf({ static: [] }, null), ['*']);
  assert.deepEqual(namesOf({}, []), [], 'who answers with nothing listens to nothing');
});

test('the app is that of the prop which appProp names, or of the slug, or the only one there is', () => {
  const other = { name: 'other', type: 'app', app: 'shopify' };
  const appOf = (appProp: string | undefined, ...apps: { name: string; type: string; app: string }[]) =>
    apphooksIn([...apps, hook({ appProp, eventNames: ['a'] })], {}, asIs)[0]?.app;
  assert.equal(appOf('other', slack, other), 'shopify');
  assert.equal(appOf('shopify', slack, other), 'shopify');
  assert.equal(appOf('zoom', slack), 'slack');
  assert.equal(appOf(undefined, slack), 'slack');
  for (const apps of [[], [slack, other]])
    assert.throws(() => appOf('zoom', ...apps), {
      code: 'invalid_component',
      message: /^prop "hook": appProp/,
    });
});

test('names that are none, too many or too long, or that hold a secret, are refused by the name of the prop', () => {
  const refused = { code: 'invalid_component', message: /^prop "hook": / };
  for (const answered of [[{}], [''], ['x'.repeat(256)], ['a\0'], ['\ud800'], ['*a'.repeat(11)], [true], {}])
    assert.throws(() => namesOf({}, answered), refused);
  const many = Array.from({ length: 1_001 }, (_, at) => `C${at}`);
  assert.throws(() => namesOf({}, many), refused);
  assert.equal(namesOf({}, many.slice(1))?.length, 1_000);
  assert.deepEqual(namesOf({}, ['*a'.repeat(10)]), ['*a'.repeat(10)]);
  for (const app of ['x'.repeat(101), 'a\0', '\udfff'])
    assert.throws(() => apphooksIn([{ ...slack, app }, hook({ eventNames: ['a'] })], {}, asIs), refused);
  const redact = (text: string) => text.replace('xoxp-secret', '[redacted]');
  assert.throws(() => apphooksIn([slack, hook({ eventNames: ['xoxp-secret:C1'] })], {}, redact), refused);
});

test('an event goes to who listens to its name, to one that it is in the scope of, or to a pattern', () => {
  const cases: [name: string, pushed: string, is: boolean][] = [
    ['message', 'message', true],
    ['message', 'message.im', false],
    ['message', 'messages', false],
    ['reaction_added', 'reaction_added:C1', true],
    ['reaction_added:C1', 'reaction_added', false],
    ['interaction_events:C1', 'interaction_events:C1:A1', true],
    ['interaction_events:A1', 'interaction_events:C1:A1', false],
    ['message.*', 'message.im', true],
    ['message.*', 'message', false],
    ['*', 'anything:at all', true],
    ['*.by_me', 'meeting.created.by_me', true],
    ['*.by_me', 'meeting.created.by_me.not', false],
    ['a*b*c', 'a.b.b.c', true],
    ['a*b*c', 'a.c.b', false],
    ['a.c', 'abc', false],
    ['aba*ba', 'aba', false],
    ['aba*ba', 'ababa', true],
    ['a*b*', 'ab', true],
    ['a**b', 'ab', true],
    ['*ab*b', 'aab', false],
    ['*ab*b', 'aabb', true],
  ];
  for (const [name, pushed, is] of cases) {
    assert.equal(isNamed(name, pushed), is, `${name} ${pushed}`);
    if (is) assert.ok(lookupsFor(pushed).includes(lookupOf(name)), `${name} is found for ${pushed}`);
  }
});

test('patterns take little time, however an event is named', () => {
  // As many as a source may have, against as many names as an event may have: seconds, when matched step by step.
  const pushed = Array.from({ length: 10 }, (_, at) => 'a'.repeat(255 - at));
  const patterns = Array.from({ length: 1_000 }, (_, at) => `*${'a'.repeat(122)}b${at}*a*a*a*a*a*a*a*b`);
  const begun = process.cpuUsage();
  for (const pattern of patterns) assert.ok(!pushed.some((name) => isNamed(pattern, name)));
  const { user } = process.cpuUsage(begun);
  assert.ok(user < 500_000, `${user} µs`);
});
