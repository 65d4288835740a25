import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { debianBase } from './debian-base.ts';
import { requirePrograms, run } from './programs.ts';

const root = join(import.meta.dirname, '..', '..');
/** The image that `buildImage` makes. */
export const image = 'localhost/millrace:latest';
/** What containers may have here: more is refused where the machine itself is a container. */
export const limits = ['--ulimit', 'nofile=1024:1024', '--ulimit', 'nproc=4096:4096'];

/** Podman with a storage of a drill's own: that of the machine may be of another kind. */
export class Containers {
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  /** Throws with the Debian packages that are missing; `programs`: those that the drill needs beside Podman. */
  static async create(programs: Readonly<Record<string, string>> = {}): Promise<Containers> {
    requirePrograms({
      podman: 'podman',
      buildah: 'buildah',
      runc: 'runc',
      debootstrap: 'debootstrap',
      ...programs,
    });
    if (!existsSync('/usr/libexec/podman/catatonit') && !existsSync('/usr/bin/catatonit'))
      throw new Error('this drill needs a program: apt-get install --no-install-recommends catatonit');
    // Several GB, which a temporary folder in memory may not hold.
    const folder = await mkdtemp('/var/tmp/millrace-containers-');
    const settings = join(folder, 'containers.conf');
    await writeFile(
      settings,
      '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n[engine]\nruntime = "runc"\n',
    );
    // The plain driver works in every file system.
    const storage = join(folder, 'storage.conf');
    await writeFile(
      storage,
      `[storage]\ndriver = "vfs"\ngraphroot = "${folder}/storage"\nrunroot = "${folder}/running"\n`,
    );
    // For what has no option: Compose, limits of containers that `play kube` makes, and health checks without systemd.
    Object.assign(process.env, {
      CONTAINERS_CONF: settings,
      CONTAINERS_STORAGE_CONF: storage,
      DISABLE_HC_SYSTEMD: 'true',
    });
    return new Containers(folder);
  }

  podman(...args: string[]): Promise<string> {
    return run('podman', args);
  }

  /** Ends the containers and removes everything. */
  async remove(): Promise<void> {
    await this.podman('rm', '--all', '--force');
    await this.podman('volume', 'rm', '--all', '--force');
    await rm(this.folder, { recursive: true, force: true });
  }

  /** Builds `image` from the Containerfile and the last commit. */
  async buildImage(): Promise<void> {
    const tar = join(this.folder, 'base.tar');
    await run('tar', ['-C', await debianBase(), '-cf', tar, '.']);
    await this.podman('import', '--quiet', tar, 'localhost/millrace-drill-base');
    // The image to build in: the same with the Node and npm of this machine, as there is no image of Node to be had.
    await copyNode(join(this.folder, 'node'));
    // Only what is new: an image cannot be made of an archive that has a folder twice.
    const added = ['bin/node', 'bin/npm', 'lib/node_modules'].map((path) => join('usr', 'local', path));
    await run('tar', ['-rf', tar, '-C', join(this.folder, 'node'), ...added]);
    await this.podman('import', '--quiet', tar, 'localhost/millrace-drill-node');
    await rm(tar);
    const context = join(this.folder, 'context');
    await run('sh', ['-c', `mkdir ${context} && git archive HEAD | tar -x -C ${context}`], { cwd: root });
    // The build goes through the same mirrors, and trusts the same authorities, as this machine.
    const authorities = '/etc/ssl/certs/ca-certificates.crt';
    const trusted = existsSync(authorities)
      ? ['--volume', `${authorities}:${authorities}:ro`, '--build-arg', `NPM_CONFIG_CAFILE=${authorities}`]
      : [];
    await this.build(image, context, [
      ...['--build-arg', 'BUILD_IMAGE=localhost/millrace-drill-node'],
      ...['--build-arg', 'BASE_IMAGE=localhost/millrace-drill-base'],
      ...['--build-arg', `NPM_CONFIG_REGISTRY=${await run('npm', ['config', 'get', 'registry'])}`],
      ...trusted,
    ]);
  }

  /** Builds an image of a folder with a Containerfile. */
  async build(tag: string, context: string, options: readonly string[] = []): Promise<void> {
    await run('buildah', [
      // The other format has no health check.
      ...['build', '--isolation', 'chroot', '--format', 'docker', ...options],
      ...['--tag', tag, '--file', join(context, 'Containerfile'), context],
    ]);
  }
}

/** The Node that runs npm here, and that npm, as they are below /usr/local in an image of Node. */
async function copyNode(target: string): Promise<void> {
  const { npm_node_execpath: node = process.execPath, npm_execpath: npm } = process.env;
  if (npm === undefined) throw new Error('start this drill with npm, such as npm run drill -- image');
  const local = join(target, 'usr', 'local');
  await mkdir(join(local, 'bin'), { recursive: true });
  await cp(node, join(local, 'bin', 'node'));
  await cp(join(npm, '..', '..'), join(local, 'lib', 'node_modules', 'npm'), { recursive: true });
  await symlink('../lib/node_modules/npm/bin/npm-cli.js', join(local, 'bin', 'npm'));
}
