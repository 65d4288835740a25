import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  type Candidate,
  type DedupeState,
  type DedupeStrategy,
  dropDuplicates,
  readDedupeState,
} from './drop-duplicate.ts';

/** One emitter: what passes of each emission, with the state carried along through JSON as the store does. */
function emitter(strategy: DedupeStrategy | undefined) {
  let state: DedupeState = {};
  return (...events: (string | number | undefined | Candidate)[]): unknown[] => {
    const candidates = events.map((event): Candidate => {
      if (typeof event === 'object') return event;
      if (event === undefined) return { channel: '' };
      return { channel: '', id: String(event), idIsNumber: typeof event === 'number' };
    });
    const result = dropDuplicates(strategy, state, candidates);
    state = JSON.parse(JSON.stringify(result.state)) as DedupeState;
    return result.kept.map((kept) => {
      const given = events[candidates.indexOf(kept)];
      return typeof given === 'object' ? `${given.channel}:${given.id}` : given;
    });
  };
}

describe('without a strategy', () => {
  test('everything passes', () => {
    assert.deepEqual(emitter(undefined)('a', 'a', undefined, 1), ['a', 'a', undefined, 1]);
  });
});

describe('unique', () => {
  test('an id passes once, within an emission and across emissions', () => {
    const emit = emitter('unique');
    assert.deepEqual(emit('a', 'b', 'a'), ['a', 'b']);
    assert.deepEqual(emit('b', 'c'), ['c']);
  });

  test('remembers the last 100 ids, first in first out', () => {
    const emit = emitter('unique');
    const ids = Array.from({ length: 100 }, (_, index) => `id${index}`);
    assert.equal(emit(...ids).length, 100);
    assert.deepEqual(emit('id0'), []);
    assert.deepEqual(emit('new'), ['new']);
    assert.deepEqual(emit('id0'), ['id0'], 'id0 was the oldest, and seeing it again did not make it younger');
    assert.deepEqual(emit('id2', 'new'), []);
  });

  test('ids of any length work, and cost the state little', () => {
    const long = 'x'.repeat(100_000);
    const emit = emitter('unique');
    assert.equal(emit(`${long}1`, `${long}2`, `${long}1`).length, 2);
    assert.deepEqual(emit(`${long}2`), []);
    const { state } = dropDuplicates('unique', {}, [{ channel: '', id: long }]);
    assert.ok(JSON.stringify(state).length < 200);
  });

  test('a number and its text are the same id', () => {
    const emit = emitter('unique');
    assert.deepEqual(emit(17), [17]);
    assert.deepEqual(emit('17'), []);
  });

  test('an event without an id passes, and is counted', () => {
    const result = dropDuplicates('unique', {}, [{ channel: '' }, { channel: '', id: 'a' }, { channel: '' }]);
    assert.deepEqual([result.kept.length, result.unidentified], [3, 2]);
  });

  test('channels do not know of each other, whatever they are called', () => {
    const emit = emitter('unique');
    const on = (channel: string) => ({ channel, id: 'a' });
    const all = ['', 'self', '__proto__', 'constructor', '7'].map(on);
    assert.equal(emit(...all).length, all.length);
    assert.equal(emit(...all).length, 0);
  });

  test('a channel for everything does not make the state grow without bound', () => {
    let state: DedupeState = {};
    for (let index = 0; index < 500; index += 1)
      state = dropDuplicates('unique', state, [{ channel: `c${index}`, id: 'a' }]).state;
    assert.equal(state.unique?.length, 100);
    assert.equal(dropDuplicates('unique', state, [{ channel: 'c499', id: 'a' }]).kept.length, 0);
  });

  test('agrees with a list of the last 100 passed ids, whatever comes', () => {
    const id = fc.oneof(fc.nat({ max: 150 }).map(String), fc.constantFrom('x'.repeat(65), 'x'.repeat(66)));
    fc.assert(
      fc.property(fc.array(fc.array(id, { maxLength: 60 }), { maxLength: 12 }), (emissions) => {
        const emit = emitter('unique');
        let model: string[] = [];
        for (const emission of emissions) {
          const expected = emission.filter((one) => {
            if (model.includes(one)) return false;
            model = [...model, one].slice(-100);
            return true;
          });
          assert.deepEqual(emit(...emission), expected);
        }
      }),
    );
  });
});

describe('what is remembered', () => {
  test('is read from its lists, and from the objects of the first stores', () => {
    const state: DedupeState = { unique: [['', ['1']]], greatest: [['a', '5']], last: [['', 'x']] };
    assert.deepEqual(readDedupeState(JSON.stringify(state)), state);
    const old = { unique: { '': ['1'] }, greatest: { a: { id: '5' } }, last: { '': 'x' } };
    assert.deepEqual(readDedupeState(JSON.stringify(old)), state);
    assert.deepEqual(readDedupeState('{}'), {});
  });
});

describe('greatest', () => {
  test('an id that is shown only in part passes and is no mark', () => {
    const emit = emitter('greatest');
    assert.deepEqual(emit({ channel: '', id: '[redacted]12', idHash: 'h' }), [':[redacted]12']);
    assert.deepEqual(emit('5', '4'), ['5']);
  });

  test('only what is greater than the mark passes, and moves it', () => {
    const emit = emitter('greatest');
    assert.deepEqual(emit(5, 3, 5, 9), [5, 9]);
    assert.deepEqual(emit(9, 10), [10]);
  });

  test('numbers in text compare as numbers, also beyond what a double holds exactly', () => {
    assert.deepEqual(emitter('greatest')('9', '10', '2', '10.5'), ['9', '10', '10.5']);
    assert.deepEqual(emitter('greatest')(9, '10'), [9, '10']);
    assert.deepEqual(
      emitter('greatest')('1446880000000000001', '1446880000000000002', '1446880000000000001'),
      ['1446880000000000001', '1446880000000000002'],
    );
    assert.deepEqual(emitter('greatest')('-5', '-10', '-1'), ['-5', '-1']);
  });

  test('dates in ISO form compare as text', () => {
    const emit = emitter('greatest');
    assert.deepEqual(emit('2026-01-09T10:00:00Z', '2025-12-31T23:00:00Z', '2026-01-10T00:00:00Z'), [
      '2026-01-09T10:00:00Z',
      '2026-01-10T00:00:00Z',
    ]);
  });

  test('an event without an id passes and leaves the mark; so does the number NaN', () => {
    const emit = emitter('greatest');
    assert.deepEqual(emit(5, undefined, Number.NaN, 6, 5), [5, undefined, Number.NaN, 6]);
    assert.deepEqual(emitter('greatest')(Number.NaN, 1), [Number.NaN, 1]);
  });

  test('each channel has its own mark', () => {
    const emit = emitter('greatest');
    assert.deepEqual(emit({ channel: 'a', id: '5' }, { channel: 'b', id: '3' }, { channel: 'a', id: '4' }), [
      'a:5',
      'b:3',
    ]);
  });

  test('of any integers exactly the records pass', () => {
    fc.assert(
      fc.property(fc.array(fc.array(fc.integer(), { maxLength: 20 }), { maxLength: 8 }), (emissions) => {
        const emit = emitter('greatest');
        let mark = Number.NEGATIVE_INFINITY;
        for (const emission of emissions) {
          const expected = emission.filter((one) => {
            if (one <= mark) return false;
            mark = one;
            return true;
          });
          assert.deepEqual(emit(...emission), expected);
        }
      }),
    );
  });
});

describe('last', () => {
  test('of an emission, what follows the newest event of the emission before passes', () => {
    const emit = emitter('last');
    assert.deepEqual(emit('a', 'b', 'c'), ['a', 'b', 'c']);
    assert.deepEqual(emit('b', 'c', 'd', 'e'), ['d', 'e']);
    assert.deepEqual(emit('d', 'e'), []);
  });

  test('when none matches, all pass', () => {
    const emit = emitter('last');
    emit('a', 'b');
    assert.deepEqual(emit('x', 'y'), ['x', 'y']);
    assert.deepEqual(emit('b', 'y', 'z'), ['z']);
  });

  test('the last of several matches counts', () => {
    const emit = emitter('last');
    emit('a');
    assert.deepEqual(emit('a', 'b', 'a', 'c'), ['c']);
  });

  test('an event without an id is passed or dropped by its place, and never becomes the mark', () => {
    const emit = emitter('last');
    assert.deepEqual(emit('a', undefined), ['a', undefined]);
    assert.deepEqual(emit(undefined, 'a', undefined), [undefined]);
    assert.deepEqual(emit(undefined), [undefined]);
  });

  test('channels are separate, and what passes keeps its order', () => {
    const emit = emitter('last');
    const on = (channel: string, id: string) => ({ channel, id });
    emit(on('a', '1'), on('b', '1'));
    assert.deepEqual(emit(on('b', '1'), on('a', '2'), on('b', '2'), on('a', '1'), on('a', '3')), [
      'b:2',
      'a:3',
    ]);
  });

  test('long ids match too', () => {
    const emit = emitter('last');
    emit('y'.repeat(5_000));
    assert.deepEqual(emit('y'.repeat(5_000), 'z'), ['z']);
  });
});

test('of too many channels the one used longest ago is forgotten, also when they are called by numbers', () => {
  for (const strategy of ['unique', 'greatest', 'last'] as const) {
    const emit = emitter(strategy);
    const on = (channel: number) => ({ channel: String(channel), id: '5' });
    // From high to low: the order of use is not that of the numbers.
    for (let channel = 200; channel > 100; channel -= 1) emit(on(channel));
    assert.deepEqual(emit(on(200)), [], `${strategy}: used again`);
    emit(on(7));
    assert.deepEqual(emit(on(200), on(7), on(101)), [], `${strategy}: used lately`);
    assert.deepEqual(emit(on(199)), ['199:5'], `${strategy}: used longest ago`);
  }
});

test('ids that are displayed alike are distinguished by the hash of the whole of them', () => {
  for (const strategy of ['unique', 'last'] as const) {
    const emit = emitter(strategy);
    const shown = (idHash: string) => ({ channel: '', id: '[redacted]', idHash });
    assert.equal(emit(shown('a'), shown('b')).length, 2);
    assert.equal(emit(shown('b')).length, 0);
    assert.equal(emit(shown('c')).length, 1);
  }
});

test('one strategy leaves the state of the others alone, so that changing it forgets nothing', () => {
  const first = dropDuplicates('unique', {}, [{ channel: '', id: 'a' }]).state;
  const second = dropDuplicates('greatest', first, [{ channel: '', id: '5' }]).state;
  assert.deepEqual(second.unique, first.unique);
  assert.equal(dropDuplicates('unique', second, [{ channel: '', id: 'a' }]).kept.length, 0);
});
