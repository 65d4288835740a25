import type { OpenedAccount } from '#accounts/account-credentials.ts';
import type { PropDefinition } from '#components/component-shape.ts';
import { CallerError } from '#lib/errors.ts';

/**
 * Credentials of an account of one of `owners`, for `usedBy` (dc_…, p_… or sc_…; null: for setting something up). Throws
 * CallerError `not_found` otherwise, or `account_dead`; UnavailableError while they cannot be had.
 */
export type CredentialsFor = (
  accountId: string,
  owners: readonly string[],
  usedBy: string | null,
) => Promise<Pick<OpenedAccount, 'credentials' | 'freshUntilMs'>>;

/** The accounts of account props. */
export interface OpenedAccounts {
  /** By prop. */
  credentials: Map<string, Record<string, unknown>>;
  /** The time (epoch ms) from which they must be read again; null: they are valid until they are changed. */
  freshUntilMs: number | null;
}

/** Throws as `open` does; the error of an account that is gone, or may no longer be used, names its prop and app. */
export async function openAccounts(
  open: CredentialsFor,
  accounts: readonly { prop: string; accountId: string }[],
  use: { definitions: readonly PropDefinition[]; owners: readonly string[]; usedBy: string | null },
): Promise<OpenedAccounts> {
  const credentials = new Map<string, Record<string, unknown>>();
  let freshUntilMs: number | null = null;
  for (const { prop, accountId } of accounts) {
    const opened = await open(accountId, use.owners, use.usedBy).catch((error: unknown) => {
      if (!(error instanceof CallerError) || error.code !== 'not_found') throw error;
      throw lost(prop, accountId, use.definitions);
    });
    credentials.set(prop, opened.credentials);
    freshUntilMs = soonest(freshUntilMs, opened.freshUntilMs);
  }
  return { credentials, freshUntilMs };
}

function lost(prop: string, accountId: string, definitions: readonly PropDefinition[]): CallerError {
  const app = definitions.find(({ name }) => name === prop)?.app;
  return new CallerError(
    'not_found',
    `no account ${JSON.stringify(accountId)} for prop ${prop}${typeof app === 'string' ? ` (app ${app})` : ''}: it was ` +
      'deleted, or may no longer be used here; choose another account',
    { parameter: `configured_props.${prop}`, account: accountId },
  );
}

/** The earlier of two times, where null is never. */
export function soonest(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : Math.min(one, other);
}
