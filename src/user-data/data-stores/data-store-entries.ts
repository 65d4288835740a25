import { notFound } from '#identity/permissions.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { ExpectedBytes } from '#lib/expected-bytes.ts';
import { bytesText, countText } from '#lib/units.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store } from '#storage/store.ts';
import type { ValueChange } from './change-value.ts';
import { entriesPerOwnerMax, valueBytesMax } from './data-store-limits.ts';
import { type EntryWrite, type EntryWriteResult, writeEntries } from './write-entries.ts';

/** Values that are longer are expected to be so at their next change; of so many that is known. */
const largeValueBytes = 16 * 1024;
const largeValuesMax = 10_000;

/** Where an entry is; a store of another owner is as unknown as one that is not there. */
export interface EntryPlace {
  storeId: string;
  ownerId: string;
  key: string;
}

/** The one door for changes of entries, for the API and for user code. */
export class DataStoreEntries {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #write: BatchWrite<EntryWrite, EntryWriteResult>;
  readonly #bytesPerOwnerMax: number;
  /** How long values are that are changed by what they are, by store and key: each change brings the whole value back. */
  readonly #changed = new ExpectedBytes({ much: largeValueBytes, kindsMax: largeValuesMax });

  /** `bytesPerOwnerMax`: keys and values in all stores of an owner. */
  constructor(options: { store: Store; clock: Clock; bytesPerOwnerMax: number }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#bytesPerOwnerMax = options.bytesPerOwnerMax;
    this.#write = writeEntries(options.store, options);
  }

  /** On disk when it resolves. Throws CallerError `not_found` or `data_store_full`. */
  async set(place: EntryPlace, entry: { value: string; expiresAtMs: number | null }): Promise<void> {
    await this.#do({ kind: 'set', ...place, nowMs: this.#clock.now(), ...entry });
  }

  /** Changes the expiry of an entry. True when there was one. */
  async setTtl(place: EntryPlace, expiresAtMs: number | null): Promise<boolean> {
    return this.#do({ kind: 'set_ttl', ...place, nowMs: this.#clock.now(), expiresAtMs });
  }

  /** Deletes an entry. True when there was one. */
  async delete(place: EntryPlace): Promise<boolean> {
    return this.#do({ kind: 'delete', ...place, nowMs: this.#clock.now() });
  }

  /**
   * Changes a value by what it is; of changes at the same moment, on any node, none is lost. Returns JSON text of the new value. Throws
   * CallerError `not_found`, `data_store_full`, or `invalid_parameter` for a value that cannot be changed so.
   */
  async change(place: EntryPlace, change: ValueChange): Promise<string> {
    const entry = `${place.storeId} ${place.key}`;
    const expected = this.#changed.of(entry);
    const nowMs = this.#clock.now();
    const { value = 'null' } = await this.#submit({
      ...{ kind: 'change', ...place, nowMs, change, expectedBytes: expected },
    });
    this.#changed.saw(entry, { moved: value.length, expected });
    return value;
  }

  async #do(write: EntryWrite): Promise<boolean> {
    return (await this.#submit(write)).existed;
  }

  async #submit(write: EntryWrite): Promise<Extract<EntryWriteResult, { written: true }>> {
    const result = await this.#store.writes.submit(this.#write, write);
    if (result.written) return result;
    if (result.reason === 'unfit')
      throw new CallerError(
        'invalid_parameter',
        `${write.key}: found ${result.found}, expected ${result.expected}`,
        { parameter: 'key' },
      );
    if (result.reason === 'value_too_large')
      throw new CallerError(
        'invalid_parameter',
        `value: a value may have ${bytesText(valueBytesMax)} of JSON`,
        {
          parameter: 'value',
        },
      );
    if (result.reason === 'unknown') throw notFound('data store', write.storeId, 'store');
    const most =
      result.reason === 'too_many'
        ? `${countText(entriesPerOwnerMax)} entries`
        : `${bytesText(this.#bytesPerOwnerMax)} of keys and values`;
    throw new CallerError('data_store_full', `the data stores of an owner hold ${most} at most`, {
      parameter: 'key',
    });
  }
}
