import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { CallerError } from '#lib/errors.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { type PageRequest, pageOf } from './page.ts';
import type { Store } from './store.ts';

/** Seven projects of one workspace, of which four were made in the same millisecond, and one of another. */
const rows = [
  ['proj_g', 'o_1', 1000],
  ['proj_a', 'o_1', 2000],
  ['proj_d', 'o_1', 2000],
  ['proj_b', 'o_1', 2000],
  ['proj_c', 'o_1', 2000],
  ['proj_f', 'o_1', 3000],
  ['proj_e', 'o_1', 4000],
  ['proj_x', 'o_2', 2000],
] as const;
const newestFirst = ['proj_e', 'proj_f', 'proj_d', 'proj_c', 'proj_b', 'proj_a', 'proj_g'];

async function page(store: Store, request: PageRequest): Promise<string[]> {
  const query = store.read.selectFrom('projects').select(['id', 'created_at_ms']).where('org_id', '=', 'o_1');
  const { rows: found, totalCount } = await pageOf(query, request);
  assert.equal(totalCount, newestFirst.length, 'the whole list is counted, whatever the page');
  return found.map(({ id }) => id);
}

forEachStore((fixture) => {
  beforeEach(async () => {
    await fixture.store.transaction(async (tx) => {
      for (const id of ['o_1', 'o_2']) {
        await tx
          .insertInto('workspaces')
          .values({ id, orgname: id, name: id, email: '', created_by: null, created_at_ms: 0 })
          .execute();
      }
      for (const [id, org_id, created_at_ms] of rows) {
        await tx
          .insertInto('projects')
          .values({
            id,
            org_id,
            created_at_ms,
            updated_at_ms: created_at_ms,
            hid: id,
            name: id,
            repository_id: null,
            repository_path: null,
            exceptions: null,
            allow_support: 0,
          })
          .execute();
      }
    });
  });

  test('a list is newest first, and what was made in the same millisecond is in the order of its ids', async () => {
    assert.deepEqual(await page(fixture.store, { limit: 100 }), newestFirst);
  });

  test('every page size walks the list forwards and backwards without a gap or a repetition', async () => {
    for (let limit = 1; limit <= newestFirst.length + 1; limit += 1) {
      const forwards = await page(fixture.store, { limit });
      for (let last = forwards.at(-1); last !== undefined; ) {
        const next = await page(fixture.store, { limit, after: last });
        forwards.push(...next);
        last = next.at(-1);
      }
      assert.deepEqual(forwards, newestFirst, `pages of ${limit}, forwards`);
      const backwards: string[] = [];
      for (let first = newestFirst.at(-1); first !== undefined; ) {
        const previous = await page(fixture.store, { limit, before: first });
        backwards.unshift(...previous);
        first = previous.at(0);
      }
      assert.deepEqual(backwards, newestFirst.slice(0, -1), `pages of ${limit}, backwards`);
    }
  });

  test('a cursor of another list is as unknown as one that was made up', async () => {
    for (const id of ['proj_x', 'proj_nothing', '']) {
      for (const parameter of ['after', 'before'] as const) {
        await assert.rejects(page(fixture.store, { limit: 1, [parameter]: id }), (error) => {
          assert.ok(error instanceof CallerError);
          assert.equal(error.code, 'unknown_cursor');
          assert.deepEqual(error.details, { parameter });
          return true;
        });
      }
    }
  });
});
