import { after, before } from 'node:test';
import { borrowTestDatabase, type TestDatabase } from './databases.ts';
import { Millrace } from './millrace.ts';
import { createTempFolder, type TempFolder } from './temp-folder.ts';

/** Services that share a database. Only inside tests and hooks. */
export interface PostgresNodes {
  /** Balancers choose by numbers: a number beyond the last node means the first one again. */
  node(index: number): Millrace;
  /** Starts a node that was stopped or killed again, on its data. */
  restart(index: number): Promise<Millrace>;
}

/** Two services on one PostgreSQL database for a suite. Called at its start, after `postgresSkip`. */
export function usePostgresNodes(options: { leaseSeconds?: number } = {}): PostgresNodes {
  let database: TestDatabase | undefined;
  const folders: TempFolder[] = [];
  const nodes: Millrace[] = [];
  const start = (index: number) =>
    Millrace.start({
      dataFolder: folders[index]?.path ?? '',
      databaseUrl: database?.url ?? '',
      environment: {
        // Nodes read what others sealed.
        MILLRACE_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
        ...(options.leaseSeconds === undefined ? {} : { MILLRACE_NODE_LEASE: String(options.leaseSeconds) }),
      },
    });
  before(async () => {
    database = await borrowTestDatabase();
    for (const name of ['a', 'b']) folders.push(await createTempFolder(name));
    for (const index of folders.keys()) nodes.push(await start(index));
  });
  after(async () => {
    for (const node of nodes) await node.stop();
    for (const folder of folders) await folder.remove();
    await database?.drop();
  });
  return {
    node(index) {
      const node = nodes[index % nodes.length];
      if (node === undefined) throw new Error('the nodes are only there inside tests and hooks');
      return node;
    },
    async restart(index) {
      const node = await start(index);
      nodes[index] = node;
      return node;
    },
  };
}
