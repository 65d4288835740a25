import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ItemPlaces } from './item-places.ts';
import { together } from './run-together.ts';

const live = { abort: new AbortController(), deployment: { id: 'd_1' } } as Parameters<typeof together>[0];
const itemsMax = 1_000;

/** Items that end when they are told to. */
class Items {
  readonly #ends: (() => void)[] = [];
  begun = 0;

  run = (): Promise<{ kind: 'left' }> => {
    this.begun += 1;
    return new Promise((resolve) => {
      this.#ends.push(() => resolve({ kind: 'left' }));
    });
  };

  endOne(): void {
    this.#ends.shift()?.();
  }
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

test('the maps of all runs of a workflow have a thousand items under way, and one of each map', async () => {
  const places = new ItemPlaces();
  const large = new Items();
  const small = new Items();
  const ofLarge = together(live, { count: 1_500, limit: 1_200, places }, large.run);
  const ofSmall = together(live, { count: 3, limit: 3, places }, small.run);
  assert.equal(large.begun, itemsMax + 1);
  assert.equal(small.begun, 1);
  // The place of an item that has ended is for whichever map asks next.
  small.endOne();
  await turn();
  assert.equal(small.begun, 2);
  for (let n = 0; n < 1_500; n += 1) {
    large.endOne();
    if (n % 100 === 0) await turn();
  }
  await turn();
  for (let n = 0; n < 500; n += 1) large.endOne();
  assert.equal(((await ofLarge) as unknown[]).length, 1_500);
  small.endOne();
  await turn();
  small.endOne();
  assert.equal(((await ofSmall) as unknown[]).length, 3);
  // All places were given back.
  const again = new Items();
  void together(live, { count: 2_000, limit: 2_000, places }, again.run);
  assert.equal(again.begun, itemsMax + 1);
});

test('other workflows have places of their own', () => {
  const places = new ItemPlaces();
  for (let n = 0; n < itemsMax; n += 1) assert.ok(places.take('d_1'));
  assert.ok(!places.take('d_1'));
  assert.ok(places.take('d_2'));
  places.leave('d_1');
  assert.ok(places.take('d_1'));
});
