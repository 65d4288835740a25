import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, test } from 'node:test';
import { Deferred } from '#lib/deferred.ts';
import { UnavailableError } from '#lib/errors.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { type BatchWrite, GroupCommit, type WriteShares } from './group-commit.ts';
import type { Store, Tx } from './store.ts';
import { type QueuedWrite, WriteQueue } from './write-queue.ts';

interface Emitter {
  id: string;
  fail?: string;
}

const batches: string[][] = [];

/** Inserts emitters and answers each with its id in capitals; an item may ask to fail. */
const insertEmitters: BatchWrite<Emitter, string> = {
  name: 'insert-emitters',
  async run(tx, items) {
    batches.push(items.map(({ id }) => id));
    await tx
      .insertInto('emitters')
      .values(items.map(({ id }) => ({ id, owner_id: 'o_1', last_ms: 0, last_seq: 0, dedupe: '{}' })))
      .execute();
    const bad = items.find(({ fail }) => fail !== undefined);
    if (bad !== undefined) throw new Error(bad.fail);
    return items.map(({ id }) => id.toUpperCase());
  },
};

async function emitterIds(store: Store): Promise<string[]> {
  const rows = await store.read.selectFrom('emitters').select('id').orderBy('id').execute();
  return rows.map(({ id }) => id);
}

describe('group commit', () => {
  forEachStore((fixture) => {
    test('writes of one turn share one transaction, keep their order, and each gets its own result', async () => {
      batches.length = 0;
      const before = fixture.store.writes.counts();
      const ids = Array.from({ length: 20 }, (_, index) => `e${index}`);
      const results = await Promise.all(ids.map((id) => fixture.store.writes.submit(insertEmitters, { id })));
      assert.deepEqual(
        results,
        ids.map((id) => id.toUpperCase()),
      );
      assert.deepEqual(batches, [ids]);
      const after = fixture.store.writes.counts();
      assert.deepEqual(
        {
          commits: after.commits - before.commits,
          items: after.items - before.items,
          pending: after.pending,
        },
        { commits: 1, items: 20, pending: 0 },
      );
    });

    test('a batch runs in the context of none of those whose writes it has, and each continues in its own', async () => {
      const context = new AsyncLocalStorage<string>();
      const seen: (string | undefined)[] = [];
      const look: BatchWrite<string, string | undefined> = {
        name: 'look',
        async run(_tx, items) {
          seen.push(context.getStore());
          return items.map(() => context.getStore());
        },
      };
      const submit = (name: string) =>
        context.run(name, async () => {
          await fixture.store.writes.submit(look, name);
          return context.getStore();
        });
      assert.deepEqual(await Promise.all([submit('a'), submit('b')]), ['a', 'b']);
      assert.deepEqual(seen, [undefined]);
    });

    test('a write that no caller waits for goes with the next batch, and alone when none comes; drain waits for it', async () => {
      batches.length = 0;
      const { writes } = fixture.store;
      const patient = writes.submitLazily(insertEmitters, { id: 'patient' });
      // Longer than a batch takes to begin: it has not begun.
      for (let turn = 0; turn < 3; turn += 1) await new Promise(setImmediate);
      assert.deepEqual(batches, []);
      const urgent = writes.submit(insertEmitters, { id: 'urgent' });
      assert.deepEqual(await Promise.all([patient, urgent]), ['PATIENT', 'URGENT']);
      assert.deepEqual(batches, [['patient', 'urgent']]);
      assert.equal(await writes.submitLazily(insertEmitters, { id: 'alone' }), 'ALONE');
      let last = '';
      const drained = writes.submitLazily(insertEmitters, { id: 'drained' }).then((id) => {
        last = id;
      });
      await writes.drain();
      await drained;
      assert.equal(last, 'DRAINED');
      assert.equal(writes.counts().pending, 0);
    });

    test('a bad item fails alone, with its own reason, and leaves nothing', async () => {
      const outcomes = await Promise.allSettled(
        ['a', 'b', 'c', 'd'].map((id) =>
          fixture.store.writes.submit(insertEmitters, id === 'c' ? { id, fail: 'c is bad' } : { id }),
        ),
      );
      assert.deepEqual(
        outcomes.map((outcome) =>
          outcome.status === 'fulfilled' ? outcome.value : (outcome.reason as Error).message,
        ),
        ['A', 'B', 'c is bad', 'D'],
      );
      assert.deepEqual(await emitterIds(fixture.store), ['a', 'b', 'd']);
    });

    test('an item that breaks a constraint fails alone', async () => {
      await fixture.store.writes.submit(insertEmitters, { id: 'there' });
      const outcomes = await Promise.allSettled(
        ['x', 'there', 'y'].map((id) => fixture.store.writes.submit(insertEmitters, { id })),
      );
      assert.deepEqual(
        outcomes.map(({ status }) => status),
        ['fulfilled', 'rejected', 'fulfilled'],
      );
      assert.deepEqual(await emitterIds(fixture.store), ['there', 'x', 'y']);
    });

    test('nothing is lost and nothing doubled when many callers submit simultaneously and keep submitting', async () => {
      const callers = 64;
      const each = 25;
      await Promise.all(
        Array.from({ length: callers }, async (_, caller) => {
          for (let round = 0; round < each; round += 1) {
            const id = `c${caller}-${round}`;
            assert.equal(await fixture.store.writes.submit(insertEmitters, { id }), id.toUpperCase());
          }
        }),
      );
      assert.equal((await emitterIds(fixture.store)).length, callers * each);
    });

    test('different kinds of writes in one turn share the transaction too', async () => {
      const other: BatchWrite<string, number> = {
        name: 'count',
        run: async (_tx, items) => items.map((text) => text.length),
      };
      const before = fixture.store.writes.counts().commits;
      const [id, length] = await Promise.all([
        fixture.store.writes.submit(insertEmitters, { id: 'one' }),
        fixture.store.writes.submit(other, 'four'),
      ]);
      assert.deepEqual([id, length], ['ONE', 4]);
      assert.equal(fixture.store.writes.counts().commits, before + 1);
    });

    test('while an owner floods the store, the write of another is in the next batch', async () => {
      batches.length = 0;
      const { writes } = fixture.store;
      const write: BatchWrite<Emitter, string> = {
        ...insertEmitters,
        ownerOf: ({ id }) => id.slice(0, 1),
      };
      const flood = Array.from({ length: 2_000 }, (_, index) => writes.submit(write, { id: `a${index}` }));
      await flood[0];
      const begun = batches.length;
      assert.equal(await writes.submit(write, { id: 'b1' }), 'B1');
      // A batch may have been taken before it was submitted.
      assert.ok(
        batches.slice(0, begun + 2).some((batch) => batch.includes('b1')),
        `${batches.length} batches`,
      );
      await Promise.all(flood);
      assert.deepEqual(
        batches.flat().filter((id) => id !== 'b1'),
        Array.from({ length: 2_000 }, (_, index) => `a${index}`),
      );
      assert.equal((await emitterIds(fixture.store)).length, 2_001);
    });

    test('drain waits for everything that was submitted', async () => {
      let answered = false;
      const write = fixture.store.writes.submit(insertEmitters, { id: 'last' }).then(() => {
        answered = true;
      });
      await fixture.store.writes.drain();
      await write;
      assert.equal(answered, true);
      assert.deepEqual(await emitterIds(fixture.store), ['last']);
    });
  });

  const nothing: BatchWrite<number, number> = { name: 'nothing', run: async (_tx, items) => items };

  /** Commits nothing until `gate` is opened; `begun` resolves when the first batch was taken. */
  function gatedCommits(options: { shares?: WriteShares } = {}) {
    const gate = new Deferred<void>();
    const begun = new Deferred<void>();
    const commits = new GroupCommit(async (work) => {
      begun.resolve();
      await gate.promise;
      return work({} as Tx);
    }, options);
    return { gate, begun, commits };
  }

  interface Owned {
    ownerId: string;
    number: number;
    bytes?: number;
  }

  /** Notes the batches that it gets, as `<owner><number>`. */
  function ownedWrite(taken: string[][] = []): BatchWrite<Owned, number> {
    return {
      name: 'owned',
      ownerOf: ({ ownerId }) => ownerId,
      bytes: ({ bytes = 0 }) => bytes,
      run: async (_tx, items) => {
        taken.push(items.map(({ ownerId, number }) => `${ownerId}${number}`));
        return items.map(({ number }) => number);
      },
    };
  }

  const ofTheOwner = { code: 'overloaded', message: /of the same owner/ };
  const ofAll = { code: 'overloaded', message: /^too many writes are waiting/ };

  test('one owner may have three quarters of the queue waiting, and is refused beyond it as overloaded; others are not', async () => {
    const refused: string[] = [];
    const shares = {
      refused: (ownerId: string, resource: string) => void refused.push(`${ownerId} ${resource}`),
    };
    const { gate, begun, commits } = gatedCommits({ shares });
    const write = ownedWrite();
    const first = commits.submit(write, { ownerId: 'a', number: -1 });
    await begun.promise;
    const flood = Array.from({ length: 15_000 }, (_, number) =>
      commits.submit(write, { ownerId: 'a', number }),
    );
    await assert.rejects(commits.submit(write, { ownerId: 'a', number: 0 }), ofTheOwner);
    await assert.rejects(commits.submit(write, { ownerId: 'a', number: 0 }), ofTheOwner);
    const other = commits.submit(write, { ownerId: 'b', number: 7 });
    // What ends admitted work is not refused for the share of its owner.
    const end = commits.submit({ ...write, endsWork: true }, { ownerId: 'a', number: 8 });
    assert.deepEqual(refused, ['a writes', 'a writes']);
    gate.resolve();
    assert.deepEqual(await Promise.all([first, other, end]), [-1, 7, 8]);
    assert.equal((await Promise.all(flood)).length, 15_000);
    assert.equal(await commits.submit(write, { ownerId: 'a', number: 9 }), 9);
  });

  test('however many owners flood the queue, one that has nothing waiting has room', async () => {
    const { gate, begun, commits } = gatedCommits();
    const write = ownedWrite();
    const first = commits.submit(nothing, 1);
    await begun.promise;
    const accepted: Promise<number>[] = [];
    const counts = ['a', 'b', 'c', 'd', 'e'].map((ownerId) => {
      for (let count = 0; ; count += 1) {
        const submitted = commits.submit(write, { ownerId, number: count });
        if (commits.counts().pending === accepted.length) {
          submitted.catch(() => {});
          return count;
        }
        accepted.push(submitted);
      }
    });
    assert.deepEqual(counts, [15_000, 3_750, 937, 234, 59]);
    const late = commits.submit(write, { ownerId: 'late', number: 7 });
    gate.resolve();
    assert.equal(await late, 7);
    await Promise.all([first, ...accepted]);
  });

  test('when the whole queue is full, writes are refused as overloaded, and owners with little waiting have a reserve', async () => {
    const { gate, begun, commits } = gatedCommits();
    const write = { ...ownedWrite(), endsWork: true };
    const first = commits.submit(nothing, 1);
    await begun.promise;
    const accepted = Array.from({ length: 20_000 }, (_, number) =>
      commits.submit(write, { ownerId: 'a', number }),
    );
    await assert.rejects(commits.submit(write, { ownerId: 'a', number: -1 }), ofAll);
    const b = Array.from({ length: 8 }, (_, number) => commits.submit(write, { ownerId: 'b', number }));
    await assert.rejects(commits.submit(write, { ownerId: 'b', number: -1 }), ofAll);
    const others = Array.from({ length: 1_992 }, (_, number) =>
      commits.submit(write, { ownerId: `o_${number}`, number }),
    );
    await assert.rejects(commits.submit(write, { ownerId: 'c', number: -1 }), ofAll);
    gate.resolve();
    assert.equal((await Promise.all([first, ...accepted, ...b, ...others])).length, 22_001);
    assert.equal(await commits.submit(nothing, 7), 7);
  });

  test('owners take turns at a batch, and each keeps its order', async () => {
    const taken: string[][] = [];
    const { gate, begun, commits } = gatedCommits();
    const write = ownedWrite(taken);
    const first = commits.submit(nothing, 1);
    await begun.promise;
    const numbers = Array.from({ length: 1_000 }, (_, number) => number);
    const flood = numbers.map((number) => commits.submit(write, { ownerId: 'a', number }));
    const others = [0, 1, 2].map((number) => commits.submit(write, { ownerId: 'b', number }));
    gate.resolve();
    await Promise.all([first, ...flood, ...others]);
    // Those of an owner with little are not in one transaction with those of an owner with much.
    assert.deepEqual(taken[0], ['b0', 'b1', 'b2']);
    assert.equal(taken[1]?.length, 32, 'others do not wait for 256 writes of one owner');
    const order = (ownerId: string) => taken.flat().filter((name) => name.startsWith(ownerId));
    assert.deepEqual(
      order('a'),
      numbers.map((number) => `a${number}`),
    );
    assert.deepEqual(order('b'), ['b0', 'b1', 'b2']);
  });

  test('an owner has whole batches from two seconds after the last write of another', () => {
    let nowMs = 0;
    const queue = new WriteQueue<QueuedWrite>({ nowMs: () => nowMs });
    const add = (ownerId: string, count: number) => {
      for (let n = 0; n < count; n += 1)
        queue.add({ ...{ ownerId, bytes: 0, isUrgent: true, endsWork: false }, state: 'waiting', number: 0 });
    };
    add('a', 300);
    assert.equal(queue.takeBatch().length, 256);
    queue.takeAll();
    add('b', 1);
    add('a', 300);
    assert.equal(queue.takeBatch().length, 1);
    assert.equal(queue.takeBatch().length, 32);
    nowMs = 1_999;
    assert.equal(queue.takeBatch().length, 32);
    nowMs = 2_000;
    assert.equal(queue.takeBatch().length, 236);
  });

  test('while owners with little keep writing, those with much have every second batch, and the order of each is kept', () => {
    const queue = new WriteQueue<QueuedWrite & { name: string }>();
    const add = (ownerId: string, numbers: number[], bytes = 0) => {
      for (const n of numbers)
        queue.add({
          ...{ name: `${ownerId}${n}`, ownerId, bytes, isUrgent: true, endsWork: false },
          ...{ state: 'waiting', number: 0 },
        });
    };
    const batch = () => queue.takeBatch().map(({ name }) => name);
    const numbers = Array.from({ length: 64 }, (_, n) => n);
    add('much', numbers);
    add('large', [0, 1], 50_000);
    for (let n = 0; n < 3; n += 1) {
      add('little', [2 * n, 2 * n + 1]);
      assert.deepEqual(batch(), [`little${2 * n}`, `little${2 * n + 1}`]);
      const others = n === 0 ? ['large0', 'large1'] : [];
      assert.deepEqual(
        batch(),
        n < 2 ? [...numbers.slice(32 * n, 32 * n + 32).map((each) => `much${each}`), ...others] : [],
      );
    }
  });

  test('the turns of a batch continue where those of the batch before ended', async () => {
    const taken: string[][] = [];
    const { gate, begun, commits } = gatedCommits();
    const write = ownedWrite(taken);
    const first = commits.submit(nothing, 1);
    await begun.promise;
    const owners = Array.from({ length: 300 }, (_, index) => `o${index}-`);
    const writes = [0, 1].flatMap((number) =>
      owners.map((ownerId) => commits.submit(write, { ownerId, number })),
    );
    gate.resolve();
    await Promise.all([first, ...writes]);
    assert.deepEqual(
      taken.slice(0, 2).map((batch) => batch.filter((name) => name.endsWith('-0')).length),
      [256, 44],
    );
  });

  test('an owner with large writes has a megabyte of a batch while others write', async () => {
    const taken: string[][] = [];
    const { gate, begun, commits } = gatedCommits();
    const write = ownedWrite(taken);
    const first = commits.submit(nothing, 1);
    await begun.promise;
    const large = Array.from({ length: 20 }, (_, number) =>
      commits.submit(write, { ownerId: 'a', number, bytes: 1024 * 1024 }),
    );
    const small = Array.from({ length: 300 }, (_, number) =>
      commits.submit(write, { ownerId: 'b', number, bytes: 10 }),
    );
    gate.resolve();
    await Promise.all([first, ...large, ...small]);
    const share = (ownerId: string) =>
      taken.map((batch) => batch.filter((name) => name.startsWith(ownerId)).length);
    assert.deepEqual(
      [share('a'), share('b')],
      [
        Array.from({ length: 20 }, () => 1),
        [...Array.from({ length: 9 }, () => 32), 12, ...Array.from({ length: 10 }, () => 0)],
      ],
    );
  });

  /** An item is its own size, in MB. */
  const heavy: BatchWrite<number, number> = {
    name: 'heavy',
    bytes: (megabytes) => megabytes * 1024 * 1024,
    run: async (_tx, items) => items,
  };

  test('a batch ends when it has 16 MB, so that a message to the store stays small', async () => {
    const sizes: number[][] = [];
    const commits = new GroupCommit((work) => work({} as Tx));
    const write: BatchWrite<number, number> = {
      ...heavy,
      run: async (_tx, items) => {
        sizes.push([...items]);
        return items;
      },
    };
    const items = [6, 6, 6, 6, 1, 1, 40, 1];
    assert.deepEqual(await Promise.all(items.map((item) => commits.submit(write, item))), items);
    assert.deepEqual(sizes, [[6, 6, 6], [6, 1, 1, 40], [1]]);
  });

  test('writes wait with 256 MB at most, and those of one owner with 192 MB; then one is refused as overloaded, and taken again when they are stored', async () => {
    const { gate, begun, commits } = gatedCommits();
    const first = commits.submit(heavy, 300);
    await begun.promise;
    const waiting = [commits.submit(heavy, 150), commits.submit(heavy, 40)];
    await assert.rejects(commits.submit(heavy, 3), ofTheOwner);
    waiting.push(commits.submit(heavy, 2));
    const ofOther = { ...heavy, ownerOf: () => 'b' };
    waiting.push(commits.submit(ofOther, 60));
    await assert.rejects(commits.submit({ ...heavy, ownerOf: () => 'c' }, 5), ofAll);
    gate.resolve();
    assert.deepEqual(await Promise.all([first, ...waiting]), [300, 150, 40, 2, 60]);
    assert.equal(await commits.submit(heavy, 250), 250);
  });

  test('a write can be taken back until its batch begins, and not after', async () => {
    const gate = new Deferred<void>();
    const begun = new Deferred<void>();
    const done: number[] = [];
    const note: BatchWrite<number, number> = {
      name: 'note',
      run: async (_tx, items) => {
        done.push(...items);
        return items;
      },
    };
    const commits = new GroupCommit(async (work) => {
      begun.resolve();
      await gate.promise;
      return work({} as Tx);
    });
    const first = commits.place(note, 1);
    await begun.promise;
    const second = commits.place(note, 2);
    const third = commits.submit(note, 3);
    assert.deepEqual([first.cancelWrite(), second.cancelWrite()], [false, true]);
    gate.resolve();
    await Promise.all([first.done, third]);
    assert.deepEqual(done, [1, 3]);
  });

  test('is unhealthy from a batch that failed until one that was committed', async () => {
    let away = true;
    const commits = new GroupCommit((work) =>
      away ? Promise.reject(new UnavailableError('storage_full', 'full')) : work({} as Tx),
    );
    assert.equal(commits.healthy, true);
    await assert.rejects(commits.submit(nothing, 1));
    assert.equal(commits.healthy, false);
    away = false;
    await commits.submit(nothing, 2);
    assert.equal(commits.healthy, true);
  });

  test('when the store is away the whole batch learns it at once, without a try for each item', async () => {
    let tries = 0;
    const commits = new GroupCommit(() => {
      tries += 1;
      return Promise.reject(new UnavailableError('store_unavailable', 'gone'));
    });
    const outcomes = await Promise.allSettled([1, 2, 3].map((item) => commits.submit(nothing, item)));
    assert.equal(tries, 1);
    for (const outcome of outcomes) {
      assert.equal(outcome.status, 'rejected');
      assert.equal((outcome.reason as UnavailableError).code, 'store_unavailable');
    }
  });

  test('when the store takes long to fail, those who wait behind it learn it too, and later ones are tried', async () => {
    let tries = 0;
    const failing = new Deferred<void>();
    const begun = new Deferred<void>();
    const commits = new GroupCommit(
      async (work) => {
        tries += 1;
        if (tries > 1) return work({} as Tx);
        begun.resolve();
        await failing.promise;
        throw new UnavailableError('store_unavailable', 'no word from it');
      },
      { slowFailureMs: -1 },
    );
    const first = commits.submit(nothing, 1);
    await begun.promise;
    const waiting = commits.submit(nothing, 2);
    failing.resolve();
    await assert.rejects(first, { code: 'store_unavailable' });
    await assert.rejects(waiting, { code: 'store_unavailable' });
    assert.equal(tries, 1);
    assert.equal(await commits.submit(nothing, 3), 3);
  });

  test('a write that answers too few results is our bug: it fails, and is never answered with nothing', async () => {
    const commits = new GroupCommit((work) => work({} as Tx));
    const short: BatchWrite<number, number> = { name: 'short', run: async () => [] };
    await assert.rejects(commits.submit(short, 1), /one result for each item/);
  });
});
