import type { CompiledQuery } from 'kysely';

/** Statements by name, in the order in which they run; one that is undefined does not run. */
export type NamedStatements<R extends Record<string, object>> = {
  readonly [K in keyof R]: CompiledQuery<R[K]> | undefined;
};

/** The rows of each of these statements, by the same names; none of one that did not run. */
export type NamedRows<R extends Record<string, object>> = { [K in keyof R]: R[K][] };

/** Runs the statements that there are with one call of `run`, and none when there are none. */
export async function rowsByName<R extends Record<string, object>>(
  statements: NamedStatements<R>,
  run: (queries: readonly CompiledQuery[]) => Promise<readonly unknown[][]>,
): Promise<NamedRows<R>> {
  const asked: string[] = [];
  const queries: CompiledQuery[] = [];
  const rows: Record<string, unknown[]> = {};
  for (const name of Object.keys(statements)) {
    const query = statements[name];
    rows[name] = [];
    if (query === undefined) continue;
    asked.push(name);
    queries.push(query);
  }
  const results = queries.length === 0 ? [] : await run(queries);
  for (const [index, name] of asked.entries()) rows[name] = results[index] ?? [];
  return rows as NamedRows<R>;
}
