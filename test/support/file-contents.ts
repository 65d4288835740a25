import { after, before, beforeEach, describe } from 'node:test';
import { AddressPolicy } from '#egress/address-policy.ts';
import { createGuardedDispatcher, type GuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { silentLogger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { BucketKeeper } from '#user-data/files/bucket-keeper.ts';
import { FileBucket } from '#user-data/files/file-bucket.ts';
import { FileContents, RowContent } from '#user-data/files/file-content.ts';
import { ObjectContent } from '#user-data/files/object-content.ts';
import { S3Server } from './s3-server.ts';
import { forEachStore, type StoreFixture } from './stores.ts';
import { TestClock } from './test-clock.ts';

export interface ContentFixture {
  readonly store: Store;
  /** New files go to the place that the suite is about. */
  readonly contents: FileContents;
  /** Pieces of files that are there. */
  chunkCount(): Promise<number>;
}

export interface BucketFixture extends StoreFixture {
  readonly server: S3Server;
  readonly dispatcher: GuardedDispatcher;
}

/** Runs `suite` for each place of content, beside each kind of store. */
export function forEachContent(suite: (fixture: ContentFixture) => void): void {
  describe('in the store', () => {
    forEachStore((fixture) =>
      suite({
        get store() {
          return fixture.store;
        },
        get contents() {
          return new FileContents(new RowContent(fixture.store));
        },
        chunkCount: async () =>
          (await fixture.store.read.selectFrom('file_chunks').select('owner_id').execute()).length,
      }),
    );
  });
  describe('in a bucket', () => {
    forEachBucket((fixture) =>
      suite({
        get store() {
          return fixture.store;
        },
        get contents() {
          return bucketOf(fixture).contents;
        },
        chunkCount: async () => fixture.server.chunkKeys().length,
      }),
    );
  });
}

/** Runs `suite` beside each kind of store, with object storage that is empty at the start of each test. */
export function forEachBucket(suite: (fixture: BucketFixture) => void): void {
  forEachStore((fixture) => {
    let server: S3Server | undefined;
    let dispatcher: GuardedDispatcher | undefined;
    before(async () => {
      server = await S3Server.start();
      const policy = new AddressPolicy({ allow: ['public', 'local'], deny: () => [] });
      dispatcher = createGuardedDispatcher({ policy });
    });
    beforeEach(() => {
      server?.objects.clear();
      if (server !== undefined) server.fault = () => undefined;
    });
    after(async () => {
      await dispatcher?.destroy();
      await server?.[Symbol.asyncDispose]();
    });
    suite(
      Object.defineProperties(Object.create(fixture), {
        server: { get: () => server },
        dispatcher: { get: () => dispatcher },
      }) as BucketFixture,
    );
  });
}

/** The parts of one node that keeps files in the bucket of the fixture. */
export function bucketOf(
  { store, server, dispatcher }: Pick<BucketFixture, 'store' | 'server' | 'dispatcher'>,
  options: { prefix?: string; timeoutMs?: number; monotonicMs?: () => number; clock?: TestClock } = {},
) {
  const { clock = new TestClock(), monotonicMs, ...ofBucket } = options;
  const storage = { ...server.connection, dispatcher };
  const bucket = new FileBucket({ storage, bucket: server.bucket, prefix: 'millrace/', ...ofBucket });
  const keeper = new BucketKeeper({
    ...{ store, bucket, clock, logger: silentLogger },
    ...(monotonicMs === undefined ? {} : { monotonicMs }),
  });
  const objects = new ObjectContent({ store, bucket, keeper });
  return { bucket, keeper, objects, clock, contents: new FileContents(objects, [new RowContent(store)]) };
}
