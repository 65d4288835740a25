import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import type { ServerCertificate } from './certificates.ts';
import { HttpReceiver } from './http-receiver.ts';

export interface FakePackage {
  name: string;
  version: string;
  /** Merged into the manifest, in the registry's answer and in the tarball. */
  manifest?: Record<string, unknown>;
  /** Content by path; a text that starts with `-> ` makes a symbolic link. */
  files?: Record<string, string | Buffer>;
  /** Further files of the tarball, after those: a path may come again. */
  moreFiles?: readonly (readonly [path: string, text: string])[];
  hasIntegrity?: boolean;
  /** ISO 8601; long ago when it is not said. */
  publishedAt?: string;
  /** The mode of its files in the tarball, as tar writes it: seven octal digits. */
  mode?: string;
  /** Instead of the registry's own address of the tarball. */
  tarball?: string;
  /** A request for its tarball waits for ever. */
  neverComes?: boolean;
}

/** An npm registry on 127.0.0.1 that holds what a test says, also what no real registry would. */
export async function startNpmRegistry(
  packages: (registry: { url: string }) => FakePackage[],
  options: { tls?: ServerCertificate } = {},
): Promise<{
  url: string;
  /** Adds versions to those it holds. */
  publish: (packages: readonly FakePackage[]) => void;
  requests: () => string[];
  close: () => Promise<void>;
}> {
  const server = await HttpReceiver.start(options);
  const url = `${server.url}/`;
  const held: { held: FakePackage; tarball: Buffer }[] = [];
  const publish = (added: readonly FakePackage[]): void => {
    for (const one of added) held.push({ held: one, tarball: makeTarball(one) });
  };
  publish(packages({ url }));
  server.answerAlways((request) => {
    const path = decodeURIComponent(request.url.slice(1));
    const asked = held.find((it) => path === `${it.held.name}/-/${it.held.version}.tgz`);
    if (asked?.held.neverComes === true) return undefined;
    if (asked !== undefined) return { body: asked.tarball };
    const versions = held.filter((it) => it.held.name === path);
    if (versions.length === 0) return { status: 404, body: { error: 'Not found' } };
    return {
      body: {
        name: path,
        'dist-tags': { latest: versions.at(-1)?.held.version },
        time: Object.fromEntries(
          versions.map(({ held: it }) => [it.version, it.publishedAt ?? '2020-01-01T00:00:00.000Z']),
        ),
        versions: Object.fromEntries(
          versions.map(({ held: it, tarball: bytes }) => [
            it.version,
            {
              name: it.name,
              version: it.version,
              ...it.manifest,
              dist: {
                tarball: it.tarball ?? `${url}${it.name}/-/${it.version}.tgz`,
                ...(it.hasIntegrity === false
                  ? {}
                  : { integrity: `sha512-${createHash('sha512').update(bytes).digest('base64')}` }),
              },
            },
          ]),
        ),
      },
    };
  });
  return {
    ...{ url, publish },
    requests: () => server.requests.map((request) => request.url),
    close: () => server.close(),
  };
}

function makeTarball(it: FakePackage): Buffer {
  const manifest = JSON.stringify({ name: it.name, version: it.version, ...it.manifest });
  const entries = [...Object.entries({ 'package.json': manifest, ...it.files }), ...(it.moreFiles ?? [])];
  return gzipSync(
    Buffer.concat([
      ...entries.map(([path, text]) => tarEntry(`package/${path}`, text, it.mode)),
      Buffer.alloc(1024),
    ]),
  );
}

function tarEntry(path: string, content: string | Buffer, mode = '0000644'): Buffer {
  const link = typeof content === 'string' && content.startsWith('-> ') ? content.slice(3) : '';
  const data = link === '' ? Buffer.from(content as string) : Buffer.alloc(0);
  const header = Buffer.alloc(512);
  header.write(path, 0);
  header.write(`${mode}\0`, 100);
  header.write('0000000\0', 108);
  header.write('0000000\0', 116);
  header.write(`${data.length.toString(8).padStart(11, '0')}\0`, 124);
  header.write('00000000000\0', 136);
  header.fill(' ', 148, 156);
  header.write(link === '' ? '0' : '2', 156);
  header.write(link, 157);
  header.write('ustar\x0000', 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return Buffer.concat([header, data, Buffer.alloc((512 - (data.length % 512)) % 512)]);
}
