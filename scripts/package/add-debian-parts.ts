import { readFile, writeFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';

/**
 * Adds the Debian packages of an image to its list of parts: `node scripts/package/add-debian-parts.ts SBOM STATUS RELEASE`, with a file
 * of CycloneDX, and `/var/lib/dpkg/status` and `/etc/os-release` of the image.
 */

interface Part {
  type: string;
  'bom-ref': string;
  name: string;
  version: string;
  purl: string;
}

/** Pure: the installed packages of a `status` file of dpkg. `distribution` is `debian-12`, or empty. */
export function debianParts(status: string, distribution: string): Part[] {
  return status.split('\n\n').flatMap((paragraph) => {
    const fields = new Map(
      [...paragraph.matchAll(/^([A-Za-z-]+): (.*)$/gm)].map(([, name = '', value = '']) => [name, value]),
    );
    const name = fields.get('Package');
    const version = fields.get('Version');
    if (name === undefined || version === undefined) return [];
    // A package that was removed and not purged is listed too.
    if (!/ installed$/.test(fields.get('Status') ?? '')) return [];
    const qualifiers = new URLSearchParams({ arch: fields.get('Architecture') ?? 'all' });
    if (distribution !== '') qualifiers.set('distro', distribution);
    const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?${qualifiers}`;
    return [{ type: 'library', 'bom-ref': purl, name, version, purl }];
  });
}

/** `debian-12` of the text of `/etc/os-release`. */
export function distributionOf(release: string): string {
  const value = (name: string) => new RegExp(`^${name}="?([^"\n]+)"?$`, 'm').exec(release)?.[1];
  const id = value('ID');
  const version = value('VERSION_ID');
  return id === undefined || version === undefined ? '' : `${id}-${version}`;
}

async function main([file, statusFile, releaseFile]: readonly string[]): Promise<void> {
  if (file === undefined || statusFile === undefined || releaseFile === undefined)
    throw new Error('expected three files: the list of parts, the status of dpkg, the os-release');
  const list = JSON.parse(await readFile(file, 'utf8')) as { components: object[] };
  const distribution = distributionOf(await readFile(releaseFile, 'utf8'));
  const parts = debianParts(await readFile(statusFile, 'utf8'), distribution);
  if (parts.length === 0) throw new Error(`${statusFile}: found no installed package`);
  list.components.push(...parts);
  await writeFile(file, `${JSON.stringify(list, undefined, 1)}\n`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main(process.argv.slice(2));
