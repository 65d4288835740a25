import { execFile } from 'node:child_process';
import { chmod, cp, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { installationFolder } from '#lib/installation.ts';
import { makePackage } from './make-package.ts';

/**
 * Makes the Debian package: `node scripts/package/make-debian-package.ts FOLDER`. It has the npm package with its
 * dependencies and the Node of this machine's architecture, the unit for systemd, and one file of settings that upgrades keep. Needs `dpkg-deb`.
 */

const run = promisify(execFile);
/** The oldest C library that the Node of the package runs with. */
const libcVersion = '2.28';

/** Makes `millrace_<version>_<architecture>.deb` in `folder`, and returns its path. `version` is that of the project unless it is given. */
export async function makeDebianPackage(folder: string, options: { version?: string } = {}): Promise<string> {
  const project = JSON.parse(await readFile(join(installationFolder, 'package.json'), 'utf8'));
  const version = options.version ?? project.version;
  const architecture = (await run('dpkg', ['--print-architecture'])).stdout.trim();
  const tree = join(folder, 'tree');
  await rm(tree, { recursive: true, force: true });
  await installPackage(folder, join(tree, 'usr', 'lib', 'millrace'));
  const ops = join(installationFolder, 'ops');
  for (const [from, to, mode] of [
    ['debian/millrace', 'usr/bin/millrace', 0o755],
    ['debian/millrace.env', 'etc/millrace/millrace.env', 0o644],
    ['systemd/millrace.service', 'lib/systemd/system/millrace.service', 0o644],
    ['debian/postinst', 'DEBIAN/postinst', 0o755],
    ['debian/prerm', 'DEBIAN/prerm', 0o755],
    ['debian/postrm', 'DEBIAN/postrm', 0o755],
  ] as const) {
    await mkdir(join(tree, dirname(to)), { recursive: true });
    await cp(join(ops, from), join(tree, to));
    await chmod(join(tree, to), mode);
  }
  await mkdir(join(tree, 'usr/share/doc/millrace'), { recursive: true });
  await cp(join(installationFolder, 'LICENSE'), join(tree, 'usr/share/doc/millrace/copyright'));
  const { stdout: parts } = await run('npm', ['sbom', '--sbom-format', 'cyclonedx'], {
    cwd: join(tree, 'usr/lib/millrace/lib/node_modules/millrace'),
    maxBuffer: 64 * 1024 * 1024,
  });
  await writeFile(join(tree, 'usr/share/doc/millrace/sbom.cdx.json'), parts);
  const kilobytes = Number((await run('du', ['-sk', '--exclude=DEBIAN', tree])).stdout.split('\t')[0]);
  await writeFile(join(tree, 'DEBIAN', 'conffiles'), '/etc/millrace/millrace.env\n');
  await writeFile(join(tree, 'DEBIAN', 'control'), control({ version, architecture, kilobytes }));
  const file = join(folder, `millrace_${version}_${architecture}.deb`);
  await run('dpkg-deb', ['--build', '--root-owner-group', '-Zxz', tree, file]);
  await rm(tree, { recursive: true });
  return file;
}

/** Installs the npm package with its dependencies into `prefix`, with `bin/millrace` there. */
async function installPackage(folder: string, prefix: string): Promise<void> {
  const unpacked = join(folder, 'package');
  await makePackage(unpacked);
  const packed = (
    await run('npm', ['pack', '--silent', '--pack-destination', folder, unpacked])
  ).stdout.trim();
  const options = ['--no-audit', '--no-fund', '--prefer-offline'];
  await run('npm', ['install', '--global', '--prefix', prefix, join(folder, packed), ...options]);
  await rm(join(folder, packed));
  // The link that npm makes is relative, as it has to be in a package.
  const [bin] = await readdir(join(prefix, 'bin'));
  if (bin !== 'millrace') {
    await mkdir(join(prefix, 'bin'), { recursive: true });
    await symlink('../lib/node_modules/millrace/bin/millrace', join(prefix, 'bin', 'millrace'));
  }
}

function control(fields: { version: string; architecture: string; kilobytes: number }): string {
  return `Package: millrace
Version: ${fields.version}
Architecture: ${fields.architecture}
Maintainer: The Millrace project <millrace@localhost>
Installed-Size: ${fields.kilobytes}
Depends: libc6 (>= ${libcVersion}), libatomic1, libstdc++6, adduser, bubblewrap, ca-certificates, util-linux
Section: net
Priority: optional
Description: self-hosted service for event sources and workflows
 Runs components as event sources, routes their events to workflows and
 webhooks, and keeps them. Everything is in /var/lib/millrace, or in a
 PostgreSQL database that the settings name.
`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const folder = resolve(process.argv[2] ?? join(installationFolder, 'dist'));
  await mkdir(folder, { recursive: true });
  const file = await makeDebianPackage(folder);
  process.stdout.write(`${file}\nInstall it: apt-get install ${file}\n`);
}
