import { execFile, execFileSync, spawn } from 'node:child_process';
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { createGunzip } from 'node:zlib';
import { CertificateAuthority } from './certificates.ts';
import { createTempFolder } from './temp-folder.ts';

const run = promisify(execFile);

/** Nothing of the user's own configuration. */
const environment = {
  ...{ PATH: process.env.PATH, HOME: '/nonexistent', LC_ALL: 'C' },
  ...{ GIT_CONFIG_NOSYSTEM: '1', GIT_CONFIG_GLOBAL: '/dev/null', GIT_TERMINAL_PROMPT: '0' },
  ...{ GIT_AUTHOR_NAME: 'Author', GIT_AUTHOR_EMAIL: 'author@example.com' },
  ...{ GIT_COMMITTER_NAME: 'Author', GIT_COMMITTER_EMAIL: 'author@example.com' },
};

/** Why tests with real repositories are skipped; false: they are not. */
export function gitSkip(): string | false {
  try {
    execFileSync('git', ['--version'], { stdio: 'ignore', env: environment });
    return false;
  } catch {
    return 'git is not installed';
  }
}

/** A real repository with a work tree, made by Git itself. */
export class GitRepository implements AsyncDisposable {
  readonly path: string;
  readonly #dispose: () => Promise<void>;
  #commits = 0;

  static async create(): Promise<GitRepository> {
    const folder = await createTempFolder('repository');
    const repository = new GitRepository(folder.path, () => folder[Symbol.asyncDispose]());
    await repository.git('init', '-q', '-b', 'main');
    await repository.git('config', 'uploadpack.allowFilter', 'true');
    return repository;
  }

  private constructor(path: string, dispose: () => Promise<void>) {
    this.path = path;
    this.#dispose = dispose;
  }

  async git(...args: string[]): Promise<string> {
    // An hour between commits, so that their order does not depend on the clock.
    const at = `${1_600_000_000 + this.#commits * 3600} +0000`;
    const dated = { ...environment, GIT_AUTHOR_DATE: at, GIT_COMMITTER_DATE: at };
    const { stdout } = await run('git', ['-C', this.path, ...args], {
      env: dated,
      maxBuffer: 64 * 1024 * 1024,
    });
    return stdout.trim();
  }

  /** Commits these files; null removes one, and `-> target` makes a link. Answers the commit. */
  async commit(files: Record<string, string | Buffer | null>): Promise<string> {
    for (const [name, content] of Object.entries(files)) {
      const path = join(this.path, name);
      await rm(path, { recursive: true, force: true });
      if (content === null) continue;
      await mkdir(dirname(path), { recursive: true });
      if (typeof content === 'string' && content.startsWith('-> ')) await symlink(content.slice(3), path);
      else await writeFile(path, content);
    }
    this.#commits += 1;
    await this.git('add', '-A');
    await this.git('commit', '-q', '--allow-empty', '-m', `commit ${this.#commits}`);
    return this.git('rev-parse', 'HEAD');
  }

  /** Stores a tree as it is given, which Git itself would refuse: mode, name and object of each entry. Answers its name. */
  async tree(entries: readonly (readonly [mode: string, name: string, oid: string])[]): Promise<string> {
    const bytes = entries.map(([mode, name, oid]) =>
      Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(oid, 'hex')]),
    );
    const file = join(this.path, '.git', 'hostile-tree');
    await writeFile(file, Buffer.concat(bytes));
    return this.git('hash-object', '-t', 'tree', '--literally', '-w', file);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#dispose();
  }
}

type Respond = (status: number, body: string | Buffer, headers?: Record<string, string>) => void;

/** Serves repositories over https on 127.0.0.1 as a host of repositories does, by Git's own `upload-pack`. */
export class GitServer implements AsyncDisposable {
  readonly authority: string;
  readonly requests: { path: string; body: string }[] = [];
  /** Answers in the place of Git, where it returns true. */
  intercept: (path: string, respond: Respond) => boolean = () => false;
  readonly #server: Server;

  static async start(
    repositories: Record<string, string>,
    authority = new CertificateAuthority(),
  ): Promise<GitServer> {
    const server = createServer(authority.issue(['127.0.0.1']));
    const git = new GitServer(server, authority.pem, repositories);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return git;
  }

  private constructor(server: Server, authority: string, repositories: Record<string, string>) {
    this.#server = server;
    this.authority = authority;
    server.on('request', (request, response) => {
      const url = new URL(request.url ?? '/', 'https://127.0.0.1');
      const [, name = '', rest = ''] = /^\/([^/]+)\/(.*)$/.exec(url.pathname) ?? [];
      const folder = repositories[name];
      const respond: Respond = (status, body, headers) => void response.writeHead(status, headers).end(body);
      const recorded = { path: `${url.pathname}${url.search}`, body: '' };
      this.requests.push(recorded);
      if (this.intercept(recorded.path, respond)) return;
      if (folder === undefined) return respond(404, 'not found');
      const isAdvertisement = rest === 'info/refs';
      if (!isAdvertisement && rest !== 'git-upload-pack') return respond(404, 'not found');
      const child = spawn(
        'git',
        ['upload-pack', '--stateless-rpc', ...(isAdvertisement ? ['--advertise-refs'] : []), folder],
        {
          env: { ...environment, GIT_PROTOCOL: String(request.headers['git-protocol'] ?? '') },
          stdio: ['pipe', 'pipe', 'ignore'],
        },
      );
      response.on('close', () => child.kill('SIGKILL'));
      response.writeHead(200, {
        'content-type': isAdvertisement
          ? 'application/x-git-upload-pack-advertisement'
          : 'application/x-git-upload-pack-result',
      });
      if (isAdvertisement) response.write('001e# service=git-upload-pack\n0000');
      const body = request.headers['content-encoding'] === 'gzip' ? request.pipe(createGunzip()) : request;
      body.on('data', (chunk: Buffer) => {
        recorded.body += chunk.toString('latin1');
      });
      child.stdin.on('error', () => {});
      body.pipe(child.stdin);
      child.stdout.pipe(response);
    });
  }

  urlOf(name: string): string {
    const { port } = this.#server.address() as AddressInfo;
    return `https://127.0.0.1:${port}/${name}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
