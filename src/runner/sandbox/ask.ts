/**
 * Asks the service on behalf of the call that runs: data stores, files, other workflows. The header is a small object
 * of JSON (64 KB at most), the body at most 1 MB each way. Rejects with an Error that has the message of the service's
 * answer, and its `code` when there is one.
 */
export type AskFunction = (
  kind: string,
  header: object,
  body?: string | Uint8Array,
) => Promise<{ header: Record<string, unknown>; body: Buffer }>;
