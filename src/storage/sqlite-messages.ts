/** Messages between `sqlite-connection.ts` and its thread. */
export interface SqliteRequest {
  id: number;
  /** At least one; those behind one that fails are not executed. */
  statements: readonly SqliteStatement[];
}

export interface SqliteStatement {
  sql: string;
  parameters: readonly unknown[];
}

export interface StatementResult {
  rows: Record<string, unknown>[];
  changes: number;
}

export type SqliteReply =
  | { id: number; results: StatementResult[] }
  | { id: number; error: { message: string; code: number } };

export interface SqliteThreadData {
  file: string;
  readOnly: boolean;
}
