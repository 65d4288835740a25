import assert from 'node:assert/strict';
import { test } from 'node:test';
import { linkPath, readLink } from './run-link.ts';

const run = { id: '0'.repeat(27), token: 'secret' };

test('a link says which wait it is for, and is read as it was made', () => {
  for (const place of [
    { position: 99, iteration: '', try: 12 },
    { position: 499, iteration: '9999-0', try: 1 },
  ]) {
    const [, id = '', wait = '', token = ''] = linkPath(run, place, 'resume').split('/');
    assert.deepEqual(readLink({ run: id, wait, token }), { runId: run.id, ...place, token });
    for (const other of ['1000.1', '-1.1', '1', '1.', '.1', '1.1.', '1.1.-', '1.1.a', '1.1.1.1', ''])
      assert.equal(readLink({ run: id, wait: other, token }), undefined, other);
    assert.equal(readLink({ run: id, wait, token: token.slice(1) }), undefined);
    assert.equal(readLink({ run: '../x', wait, token }), undefined);
  }
});

test('every run, step, item, try and action has a token of its own', () => {
  const waits = [0, 1].flatMap((position) =>
    ['', '1', '1-2'].flatMap((iteration) => [1, 2].map((attempt) => ({ position, iteration, try: attempt }))),
  );
  const runs = [run, { ...run, id: '1'.repeat(27) }, { ...run, token: 'other' }];
  const paths = runs.flatMap((each) =>
    waits.flatMap((wait) => (['resume', 'cancel'] as const).map((action) => linkPath(each, wait, action))),
  );
  assert.equal(new Set(paths.map((path) => path.split('/').at(-1))).size, paths.length);
});
