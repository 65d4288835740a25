import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RunTable } from '#storage/tables/workflow-tables.ts';
import { linkPath } from '#workflows/runs/run-link.ts';
import { runView, withoutLinks } from './run-shapes.ts';

const run = { id: '00VcOzwRn000enCHqnb1tgCTSd2', token: 'a token' };
const links = (['resume', 'cancel'] as const).flatMap((action) =>
  ['', '3-17'].map((iteration) => linkPath(run, { position: 12, iteration, try: 3 }, action)),
);

test('no link of a run can be used in a text that is shown without links', () => {
  const token = /[0-9a-f]{40}/;
  for (const link of links) {
    const text = withoutLinks(JSON.stringify({ url: `https://millrace.example/in/${link}`, other: 'kept' }));
    assert.doesNotMatch(text, token);
    assert.deepEqual(Object.keys(JSON.parse(text)), ['url', 'other']);
    const row = { error: JSON.stringify({ msg: `see ${link}` }), reason: `until ${link}` };
    const view = runView({
      ...run,
      ...row,
      created_at_ms: 0,
      started_at_ms: null,
      ended_at_ms: null,
    } as RunTable);
    assert.match(view.error?.msg ?? '', /^see (resume|cancel)\/.*\/hidden$/);
    assert.doesNotMatch(view.reason ?? '', token);
  }
});
