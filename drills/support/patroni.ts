import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { endWithProcess } from '../../test/support/end-with-process.ts';
import { freePort } from '../../test/support/guarded-process.ts';
import { until } from './event-of-a-person.ts';
import { run } from './programs.ts';

/** Seconds after which a primary that is gone is replaced; Patroni's own default is 30. */
const ttlSeconds = 20;
const password = 'drill-password';

interface Member {
  name: string;
  port: number;
  restPort: number;
  folder: string;
  process: ChildProcess | undefined;
}

/** Three PostgreSQL servers of Debian under Patroni, with one of them as a synchronous standby, and etcd; all on the loopback. */
export class PatroniCluster {
  readonly #folder: string;
  readonly #members: Member[] = [];
  #etcd: ChildProcess | undefined;
  #etcdPort = 0;
  #user = { uid: 0, gid: 0 };

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** All hosts, as the setting of Millrace takes them. */
  get url(): string {
    const hosts = this.#members.map(({ port }) => `127.0.0.1:${port}`).join(',');
    return `postgres://postgres:${password}@${hosts}/postgres?target_session_attrs=read-write`;
  }

  async start(): Promise<void> {
    const [uid, gid] = await Promise.all([run('id', ['-u', 'postgres']), run('id', ['-g', 'postgres'])]);
    this.#user = { uid: Number(uid), gid: Number(gid) };
    await chmod(this.#folder, 0o755);
    await this.#startEtcd();
    for (const name of ['one', 'two', 'three']) {
      const folder = join(this.#folder, name);
      await mkdir(folder, { mode: 0o700 });
      await chown(folder, this.#user.uid, this.#user.gid);
      const member = { name, folder, port: await freePort(), restPort: await freePort(), process: undefined };
      this.#members.push(member);
    }
    for (const member of this.#members) await this.#startMember(member);
    await until('a primary with a synchronous standby', async () =>
      (await this.roles()).includes('sync_standby'),
    );
  }

  /** What each member is now; those that do not answer are left out. */
  async roles(): Promise<string[]> {
    const found = await this.#cluster();
    return found.filter(({ state }) => state === 'running' || state === 'streaming').map(({ role }) => role);
  }

  async primary(): Promise<string | undefined> {
    const found = await this.#cluster();
    return found.find(({ role, state }) => role === 'leader' && state === 'running')?.name;
  }

  /** SIGKILL for Patroni and all processes of its PostgreSQL, as if its machine had died. */
  async kill(name: string): Promise<void> {
    const member = this.#member(name);
    const postmaster = (await readFile(join(member.folder, 'data', 'postmaster.pid'), 'utf8')).split('\n')[0];
    const exited = member.process === undefined ? undefined : once(member.process, 'exit');
    member.process?.kill('SIGKILL');
    process.kill(Number(postmaster), 'SIGKILL');
    await exited;
    member.process = undefined;
  }

  async restart(name: string): Promise<void> {
    await this.#startMember(this.#member(name));
  }

  /** One statement on the primary, and its first row. */
  async query(statement: string): Promise<string> {
    const name = await this.primary();
    const { port } = this.#member(name ?? '');
    const url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
    return run('psql', ['--no-psqlrc', '--tuples-only', '--no-align', '--command', statement, url]);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#members.map(({ process: child }) => end(child, 'SIGTERM')));
    await end(this.#etcd, 'SIGKILL');
  }

  async #cluster(): Promise<{ name: string; role: string; state: string }[]> {
    for (const { restPort } of this.#members) {
      const answer = await fetch(`http://127.0.0.1:${restPort}/cluster`).catch(() => undefined);
      if (answer?.ok === true)
        return ((await answer.json()) as { members: { name: string; role: string; state: string }[] })
          .members;
    }
    return [];
  }

  #member(name: string): Member {
    const member = this.#members.find((one) => one.name === name);
    if (member === undefined) throw new Error(`no member ${JSON.stringify(name)}`);
    return member;
  }

  async #startEtcd(): Promise<void> {
    const [client, peer] = [await freePort(), await freePort()];
    const [clientUrl, peerUrl] = [`http://127.0.0.1:${client}`, `http://127.0.0.1:${peer}`];
    this.#etcdPort = client;
    this.#etcd = spawn(
      'etcd',
      [
        ...['--name', 'drill', '--data-dir', join(this.#folder, 'etcd'), '--log-level', 'error'],
        ...['--listen-client-urls', clientUrl, '--advertise-client-urls', clientUrl],
        ...['--listen-peer-urls', peerUrl, '--initial-advertise-peer-urls', peerUrl],
        ...['--initial-cluster', `drill=${peerUrl}`],
      ],
      { stdio: 'ignore' },
    );
    endWithProcess(this.#etcd);
    await until('etcd', async () => (await fetch(`${clientUrl}/health`)).ok);
  }

  async #startMember(member: Member): Promise<void> {
    const file = join(this.#folder, `${member.name}.yaml`);
    await writeFile(file, stringify(this.#settings(member)), { mode: 0o644 });
    member.process = spawn('patroni', [file], { ...this.#user, cwd: member.folder, stdio: 'ignore' });
    endWithProcess(member.process);
    await until(`the member ${member.name}`, async () =>
      (await this.#cluster()).some(
        ({ name, state }) => name === member.name && (state === 'running' || state === 'streaming'),
      ),
    );
  }

  #settings(member: Member): object {
    const address = `127.0.0.1:${member.port}`;
    const rest = `127.0.0.1:${member.restPort}`;
    return {
      scope: 'drill',
      name: member.name,
      restapi: { listen: rest, connect_address: rest },
      etcd3: { host: `127.0.0.1:${this.#etcdPort}` },
      bootstrap: {
        dcs: {
          ttl: ttlSeconds,
          loop_wait: 2,
          retry_timeout: 5,
          synchronous_mode: true,
          synchronous_mode_strict: true,
          postgresql: { use_pg_rewind: true, parameters: { max_connections: 200, wal_log_hints: 'on' } },
        },
        initdb: [{ encoding: 'UTF8' }, 'data-checksums'],
        pg_hba: [
          'host all all 127.0.0.1/32 scram-sha-256',
          'host replication all 127.0.0.1/32 scram-sha-256',
        ],
      },
      postgresql: {
        listen: address,
        connect_address: address,
        data_dir: join(member.folder, 'data'),
        bin_dir: '/usr/lib/postgresql/15/bin',
        pgpass: join(member.folder, 'pgpass'),
        authentication: {
          superuser: { username: 'postgres', password },
          replication: { username: 'replicator', password },
          rewind: { username: 'rewind', password },
        },
        parameters: { unix_socket_directories: '' },
      },
    };
  }
}

async function end(child: ChildProcess | undefined, signal: NodeJS.Signals): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill(signal);
  await exited;
}
