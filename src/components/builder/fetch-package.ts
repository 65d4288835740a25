import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { bytesText, countText } from '#lib/units.ts';
import type { FetchRequest, PackageFile } from './build-messages.ts';
import { InstallRefusal, registriesOf } from './install-rules.ts';
import { loadNpm } from './load-npm.ts';
import { assetBytesMax, withNamedAssets } from './named-assets.ts';
import { npmOptions, publicRegistry } from './npm-options.ts';
import { packagePath } from './package-path.ts';
import { contentOf, type FileContent } from './text-of.ts';

interface Manifest {
  name: string;
  version: string;
  _integrity?: string;
  _resolved?: string;
}

interface TarEntry extends NodeJS.ReadableStream {
  path: string;
  type: string;
}

interface TarParser extends NodeJS.WritableStream {
  abort(error: Error): void;
}

const pacote = loadNpm('pacote') as {
  manifest(spec: string, options: Record<string, unknown>): Promise<Manifest>;
  tarball: {
    stream<T>(
      spec: string,
      read: (stream: NodeJS.ReadableStream) => Promise<T>,
      options: Record<string, unknown>,
    ): Promise<T>;
  };
};
const { Parser } = loadNpm('tar') as {
  Parser: new (options: { strict: boolean; onReadEntry: (entry: TarEntry) => void }) => TarParser;
};

/** One package of the registry without its dependencies: its exact version, its integrity (checked), its files. */
export async function fetchPackage(
  request: FetchRequest,
): Promise<{ name: string; version: string; integrity: string; files: PackageFile[] }> {
  const [spec] = request.specifiers;
  if (spec === undefined) throw new Error('assertion failed: nothing to fetch');
  const options = npmOptions(request);
  const manifest = await findManifest(spec, options);
  const { name, version, _integrity: integrity, _resolved: resolved } = manifest;
  const details = { package: `${name}@${version}` };
  if (integrity === undefined || integrity === '')
    throw new InstallRefusal('package_refused', `the registry gives no integrity for ${name}`, details);
  const hosts = new Set([...registriesOf(request.npm).map((url) => new URL(url).host), publicRegistry]);
  if (resolved === undefined || !URL.canParse(resolved) || !hosts.has(new URL(resolved).host)) {
    throw new InstallRefusal(
      'package_refused',
      `${name} does not come from the configured registry`,
      details,
    );
  }
  // May be called again by npm, when its cache turns out to be damaged.
  const files = await pacote.tarball.stream(`${name}@${version}`, (stream) => readTarball(stream, request), {
    ...options,
    integrity,
    resolved,
  });
  return { name, version, integrity, files };
}

/**
 * npm answers from its cache when the registry does not, and then an old version would pass for the newest: what is no exact
 * version is looked up with a cache of its own.
 */
async function findManifest(spec: string, options: ReturnType<typeof npmOptions>): Promise<Manifest> {
  if (options.preferOffline) return pacote.manifest(spec, options);
  const folder = join(options.cache, 'tmp');
  await mkdir(folder, { recursive: true });
  const cache = await mkdtemp(join(folder, 'newest-'));
  try {
    return await pacote.manifest(spec, { ...options, cache });
  } finally {
    await rm(cache, { recursive: true, force: true, maxRetries: 3 });
  }
}

/**
 * Unpacks in memory: nothing of the package touches the disk but npm's cache. Links and the like are ignored; of files
 * with one path the last counts, as it would on a disk.
 */
function readTarball(stream: NodeJS.ReadableStream, bounds: FetchRequest): Promise<PackageFile[]> {
  const { promise, resolve, reject } = Promise.withResolvers<PackageFile[]>();
  const files = new Map<string, FileContent>();
  let entries = 0;
  let bytes = 0;
  const refuse = (): void => {
    const message = `the package has more than ${countText(bounds.filesMax)} files or ${bytesText(bounds.bytesMax)}`;
    const error = new InstallRefusal('component_too_large', message, {});
    reject(error);
    parser.abort(error);
  };
  const parser = new Parser({
    strict: true,
    onReadEntry: (entry) => {
      entries += 1;
      if (entries > bounds.filesMax) refuse();
      const chunks: Buffer[] = [];
      entry.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > bounds.bytesMax) refuse();
        else chunks.push(chunk);
      });
      entry.on('end', () => {
        // All of a package lies in one folder, whatever that is called.
        const [, ...parts] = entry.path.split('/').filter((part) => part !== '' && part !== '.');
        const path = packagePath(parts);
        if ((entry.type !== 'File' && entry.type !== 'OldFile') || path === null) return;
        const content = contentOf(Buffer.concat(chunks));
        if (content.encoding === undefined || content.text.length <= assetBytesMax) files.set(path, content);
      });
    },
  });
  parser.on('error', (error: Error) => {
    // Refused already, or not a readable archive, or one that unpacks to a thousand times its size.
    reject(
      new InstallRefusal(
        'package_refused',
        `the package cannot be unpacked: ${error.message.slice(0, 200)}`,
        {},
      ),
    );
  });
  parser.on('end', () =>
    resolve(withNamedAssets([...files].map(([path, content]) => ({ path, ...content })))),
  );
  stream.on('error', reject);
  stream.pipe(parser);
  return promise;
}
