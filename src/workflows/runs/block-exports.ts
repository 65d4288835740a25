import type { RunStepTable } from '#storage/tables/workflow-tables.ts';

/** The error of a step, as the block that handles it exports it. */
export interface CaughtError {
  code: string;
  msg: string;
  /** The step that failed. */
  namespace: string;
  /** The item, where the block is a map. */
  index?: number;
}

export function caughtErrorOf({ error, namespace }: Pick<RunStepTable, 'error' | 'namespace'>): CaughtError {
  const { code = 'Error', msg = '' } = JSON.parse(error ?? '{}') as { code?: string; msg?: string };
  return { code, msg, namespace };
}

/** JSON text of what a block decided, with its result. */
export function blockExports(decided: string, result: object): string {
  return JSON.stringify({ ...(JSON.parse(decided) as object), ...result });
}

/** What a step returned, by the JSON text of its exports; null: nothing. */
export function returnValueOf(exports: string): unknown {
  return (JSON.parse(exports) as { $return_value?: unknown }).$return_value ?? null;
}
