import type { AppDefinition, Registration } from '#accounts/apps/app-definition.ts';
import { appIdOf } from '#accounts/apps/app-id.ts';
import { CallerError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Db, Tx } from '#storage/store.ts';
import { openValue, type SealOptions, sealValue } from '#vault/sealed-values.ts';
import type { Vault } from '#vault/vault.ts';
import type { OAuthClient } from './grant.ts';
import {
  changeClient,
  countAccountsOf,
  findClientOf,
  findClientRow,
  insertClient,
  type OAuthClientRow,
  refreshAccountsOf,
  removeClient,
} from './oauth-client-store.ts';

const textCharactersMax = 4_000;
const scopesMax = 200;

/** A client with its secret. Throws UnavailableError `wrong_encryption_key` or `sealed_value_damaged`. */
export async function openClient(db: Db, vault: Vault, id: string): Promise<OAuthClient | undefined> {
  const row = await findClientRow(db, id);
  return row === undefined ? undefined : openClientRow(db, vault, row);
}

export async function openClientRow(db: Db, vault: Vault, row: OAuthClientRow): Promise<OAuthClient> {
  const secret =
    row.sealed_secret === null
      ? undefined
      : await openValue(db, vault, { ownerId: row.owner_id, id: row.id, sealed: row.sealed_secret });
  return {
    id: row.id,
    clientId: row.client_id,
    clientSecret: typeof secret === 'string' ? secret : undefined,
    scopes: row.scopes === null ? undefined : JSON.parse(row.scopes),
  };
}

/**
 * Sets the client that an owner uses for an app. Accounts connected with the previous one continue with this one, and are
 * refreshed immediately. Throws CallerError `invalid_parameter` or `missing_parameter`.
 */
export async function putClient(
  tx: Tx,
  options: SealOptions,
  {
    ownerId,
    userId,
    app,
    ...input
  }: {
    ownerId: string;
    userId: string;
    app: AppDefinition;
    clientId: string;
    /** Undefined: the one that is there stays; null: there is none, for public clients. */
    clientSecret: string | null | undefined;
    /** Undefined: unchanged; null: those of the app. */
    scopes: string[] | null | undefined;
  },
): Promise<OAuthClientRow> {
  const clientId = checkText(input.clientId, 'client_id');
  const scopes = checkScopes(input.scopes);
  const nowMs = options.clock.now();
  const before = await findClientOf(tx, ownerId, app.slug);
  const id = before?.id ?? newId('oa');
  const isSame = before?.client_id === clientId;
  let sealed = isSame && input.clientSecret === undefined ? before.sealed_secret : null;
  if (typeof input.clientSecret === 'string') {
    const value = checkText(input.clientSecret, 'client_secret');
    sealed = await sealValue(tx, options, { ownerId, id, value });
  }
  if (sealed === null && needsSecret(app)) {
    throw new CallerError(
      'missing_parameter',
      `client_secret: ${app.name} asks for the secret of the client`,
      {
        parameter: 'client_secret',
      },
    );
  }
  const row: OAuthClientRow = {
    id,
    owner_id: ownerId,
    user_id: before?.user_id ?? userId,
    app_slug: app.slug,
    client_id: clientId,
    sealed_secret: sealed,
    scopes: scopes === undefined ? (before?.scopes ?? null) : scopes === null ? null : JSON.stringify(scopes),
    created_at_ms: before?.created_at_ms ?? nowMs,
    updated_at_ms: nowMs,
  };
  if (before === undefined) await insertClient(tx, row);
  else {
    await changeClient(tx, id, row);
    await refreshAccountsOf(tx, id, nowMs);
  }
  return row;
}

/** Throws CallerError `not_found`, or `conflict` while accounts use it. With `force` those accounts can no longer be refreshed. */
export async function deleteClient(
  tx: Tx,
  { ownerId, app, force }: { ownerId: string; app: AppDefinition; force: boolean },
): Promise<OAuthClientRow> {
  const row = await findClientOf(tx, ownerId, app.slug);
  if (row === undefined)
    throw new CallerError('not_found', `no OAuth client for ${app.name}`, { parameter: 'id' });
  const accounts = await countAccountsOf(tx, row.id);
  if (accounts > 0 && !force) {
    throw new CallerError(
      'conflict',
      `${accounts} connected accounts use this client and could no longer be refreshed; add force=true to delete it anyway`,
      { accounts },
    );
  }
  await removeClient(tx, row.id);
  return row;
}

/** A client as the API answers it, never with its secret; also when there is none yet, to say what to register. */
export function viewClient(app: AppDefinition, row: OAuthClientRow | undefined, redirectUri: string) {
  return {
    id: row?.id ?? null,
    app: { id: appIdOf(app.slug), name_slug: app.slug, name: app.name },
    client_id: row?.client_id ?? null,
    has_secret: row !== undefined && row.sealed_secret !== null,
    scopes: row === undefined || row.scopes === null ? null : (JSON.parse(row.scopes) as string[]),
    default_scopes: app.oauth?.version === 2 ? app.oauth.scopes : [],
    redirect_uri: redirectUri,
    registration: app.oauth === undefined ? null : registrationOf(app.oauth, redirectUri),
    created_at: row === undefined ? null : new Date(row.created_at_ms).toISOString(),
    updated_at: row === undefined ? null : new Date(row.updated_at_ms).toISOString(),
  };
}

/** How to get a client at the provider. */
export function registrationOf(
  { registration: { url, text } }: { registration: Registration },
  redirectUri: string,
): Registration {
  return { url, text: text.replaceAll('{{redirect_uri}}', redirectUri) };
}

function needsSecret(app: AppDefinition): boolean {
  return app.oauth?.version !== 2 || app.oauth.clientAuth !== 'none';
}

function checkText(text: string, parameter: string): string {
  // The text goes into a header; control characters are never part of an id or secret.
  if (text === '' || text.length > textCharactersMax || /\p{Cc}/u.test(text)) {
    throw new CallerError(
      'invalid_parameter',
      `${parameter}: expected 1 to ${textCharactersMax} characters without control characters`,
      { parameter },
    );
  }
  return text;
}

/** Also for scopes of a single connection. Throws CallerError `invalid_parameter`. */
export function checkScopes(scopes: string[] | null | undefined): string[] | null | undefined {
  if (scopes === null || scopes === undefined) return scopes;
  const isGood = scopes.length <= scopesMax && scopes.every((scope) => /^[\x21-\x7e]{1,500}$/.test(scope));
  if (isGood) return scopes;
  throw new CallerError(
    'invalid_parameter',
    `scopes: expected at most ${scopesMax} scopes of visible ASCII characters, without spaces`,
    { parameter: 'scopes' },
  );
}
