import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CompiledQuery } from 'kysely';
import { forEachStore } from '../../test/support/stores.ts';
import { rowsByName } from './named-statements.ts';

const select = (text: string) =>
  CompiledQuery.raw(`select '${text}' as text`) as CompiledQuery<{ text: string }>;

test('where no statement is left the store is not asked', async () => {
  const rows = await rowsByName<{ one: object }>({ one: undefined }, () => assert.fail('it was asked'));
  assert.deepEqual(rows, { one: [] });
});

forEachStore((fixture) => {
  test('each statement has its rows under its name, also when one before it does not run', async () => {
    const { store } = fixture;
    const rows = await store.transaction((tx) =>
      store.ask(tx, {
        first: select('a'),
        none: undefined as CompiledQuery<object> | undefined,
        last: select('b'),
      }),
    );
    assert.deepEqual(rows, { first: [{ text: 'a' }], none: [], last: [{ text: 'b' }] });
  });

  test('statements run in the order of their names', async () => {
    const { store } = fixture;
    const count = CompiledQuery.raw('select count(*) as emitters from emitters') as CompiledQuery<{
      emitters: number;
    }>;
    const insert = CompiledQuery.raw(
      "insert into emitters (id, owner_id, last_ms, last_seq, dedupe) values ('dc_1', 'o_1', 0, 0, '{}') returning id",
    ) as CompiledQuery<{ id: string }>;
    const { before, inserted, after } = await store.transaction((tx) =>
      store.ask(tx, { before: count, inserted: insert, after: count }),
    );
    assert.deepEqual(
      [Number(before[0]?.emitters), inserted[0]?.id, Number(after[0]?.emitters)],
      [0, 'dc_1', 1],
    );
  });
});
