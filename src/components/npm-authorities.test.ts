import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { getCACertificates } from 'node:tls';
import { silentLogger } from '#lib/logger.ts';
import { CertificateAuthority } from '../../test/support/certificates.ts';
import { startNpmRegistry } from '../../test/support/npm-registry.ts';
import { createTempFolder, type TempFolder } from '../../test/support/temp-folder.ts';
import { createComponentBuilder } from './build-component.ts';
import { readNpmConfig } from './npm-config.ts';
import { PackageFetcher } from './package-fetcher.ts';

describe('a registry whose certificate a private authority signed', () => {
  let folder: TempFolder;
  let registry: Awaited<ReturnType<typeof startNpmRegistry>>;
  let authority: string;
  let other: string;
  let caches = 0;

  before(async () => {
    folder = await createTempFolder('authorities');
    const own = new CertificateAuthority();
    registry = await startNpmRegistry(
      () => [{ name: 'one', version: '1.0.0', files: { 'index.js': 'exports.v = 1' } }],
      { tls: own.issue(['127.0.0.1']) },
    );
    authority = join(folder.path, 'authority.pem');
    other = join(folder.path, 'other.pem');
    const [pem = ''] = getCACertificates('bundled');
    // As such files are: more than one certificate, words between them, and a block that is none.
    const broken = '-----BEGIN CERTIFICATE-----\nbm90IG9uZQ==\n-----END CERTIFICATE-----\n';
    await writeFile(authority, `Ours:\n${pem}${broken}\n${own.pem}`);
    await writeFile(other, pem);
  });

  after(async () => {
    await registry?.close();
    await folder.remove();
  });

  /** Builds with a package of the registry, and fetches that package; what either failed of. */
  async function reach(environment: Record<string, string>, extraCaFile?: string): Promise<unknown[]> {
    const home = join(folder.path, 'no-home');
    const globalconfig = join(home, 'npmrc');
    const from = { npm_config_registry: registry.url, npm_config_globalconfig: globalconfig, ...environment };
    const npmConfig = await readNpmConfig(from, home, extraCaFile);
    caches += 1;
    const shared = {
      cacheFolder: join(folder.path, `cache-${caches}`),
      registry: '',
      npmConfig,
      logger: silentLogger,
    };
    const builder = createComponentBuilder({ ...shared, fetchText: () => assert.fail('nothing is fetched') });
    const fetcher = new PackageFetcher(shared);
    const source = { kind: 'code', code: 'import { v } from "one"; export default { v };' } as const;
    try {
      const both = await Promise.allSettled([
        builder.build(source, { ownerId: 'u_1' }),
        fetcher.download('one'),
      ]);
      return both.map((end) =>
        end.status === 'rejected' ? `${end.reason.code}: ${end.reason.message}` : 'reached',
      );
    } finally {
      await builder.close();
      await fetcher.close();
    }
  }

  test('is reached with that authority in MILLRACE_EXTRA_CA or NODE_EXTRA_CA_CERTS', async () => {
    assert.deepEqual(await reach({}, authority), ['reached', 'reached']);
    assert.deepEqual(await reach({ NODE_EXTRA_CA_CERTS: authority }), ['reached', 'reached']);
    assert.deepEqual(await reach({ NODE_EXTRA_CA_CERTS: authority }, other), ['reached', 'reached']);
  });

  test('is reached with that authority in addition to those that npm is configured with', async () => {
    assert.deepEqual(await reach({ npm_config_cafile: other }, authority), ['reached', 'reached']);
  });

  test('is not reached without it', async () => {
    const ends = await reach({}, other);
    for (const end of ends)
      assert.match(String(end), /^registry_unreachable: the certificate of the npm registry is not trusted/);
  });
});
