import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defineAction, defineApp, defineSource } from './pipedream-types.ts';

test('defineApp, defineSource and defineAction return the very object they are given', () => {
  const app = { type: 'app', app: 'x' } as const;
  const source = { name: 's', run() {} };
  const action = { type: 'action', run() {} } as const;
  assert.equal(defineApp(app), app);
  assert.equal(defineSource(source), source);
  assert.equal(defineAction(action), action);
});
