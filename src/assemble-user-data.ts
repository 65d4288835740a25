import { createGuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import type { ObjectStorage } from '#egress/object-storage.ts';
import { Observers } from '#lib/observers.ts';
import type { RunningParts } from '#lib/running-parts.ts';
import { DataStoreEntries } from '#user-data/data-stores/data-store-entries.ts';
import { dataStoreHostCalls } from '#user-data/data-stores/data-store-host-calls.ts';
import { fileHostCalls } from '#user-data/files/file-host-calls.ts';
import { FileUrls } from '#user-data/files/file-urls.ts';
import { openContents } from '#user-data/files/open-contents.ts';
import { StoredFiles } from '#user-data/files/stored-files.ts';
import { Variables } from '#user-data/variables/variables.ts';
import type { Platform } from './assemble-platform.ts';

export type UserData = Awaited<ReturnType<typeof assembleUserData>>;

/** What users keep: data stores, files and variables, and the calls by which their code gets at them. */
export async function assembleUserData(platform: Platform, parts: RunningParts) {
  const { settings, store, clock, logger, vault, quotas, publicUrl } = platform;
  const dataStores = new DataStoreEntries({
    ...{ store, clock },
    bytesPerOwnerMax: settings.dataStoresMaxMb * 1024 * 1024,
  });
  const objectStorage = openObjectStorage(platform, parts);
  const fileContents = await openContents(settings, { store, clock, logger, storage: objectStorage });
  const files = new StoredFiles({
    ...{ store, clock, contents: fileContents.contents },
    bytesPerOwnerMax: settings.filesMaxGb * 1024 ** 3,
    admit: (ownerId) => quotas.requireStorage(ownerId),
  });
  const fileUrls = new FileUrls({ key: vault.keyFor('file urls'), publicUrl, clock });
  const variables = new Variables({ vault, clock });
  const variableChanges = new Observers<[ownerId: string]>();
  const hostCalls = {
    data_store: dataStoreHostCalls({ store, clock, entries: dataStores }),
    file: fileHostCalls({ store: files, clock, urls: fileUrls }),
  };
  return {
    ...{ dataStores, files, fileUrls, variables, variableChanges, hostCalls },
    ...{
      objectStorage,
      fileContents,
      fileBucket: fileContents.bucket,
      unnamedBucket: fileContents.unnamedBucket,
    },
  };
}

/** The object storage of the operator, for files and for `$.send.s3`; undefined: there are no keys for one. */
function openObjectStorage({ settings, egress }: Platform, parts: RunningParts): ObjectStorage | undefined {
  const dispatcher = createGuardedDispatcher({ policy: egress.operatorPolicy, ...egress.trust });
  parts.add('object storage', () => dispatcher.destroy());
  if (settings.s3AccessKey === '') return undefined;
  return {
    endpoint: settings.s3Endpoint,
    region: settings.s3Region,
    accessKey: settings.s3AccessKey,
    secretKey: settings.s3SecretKey,
    dispatcher,
  };
}
