import { CallerError } from '#lib/errors.ts';
import { type KeyScope, keyScopes } from '#storage/tables/identity-tables.ts';

/** The scopes of a key; null: all of them. */
export type Scopes = readonly KeyScope[] | null;

export function hasScope(scopes: Scopes | undefined, scope: KeyScope): boolean {
  return scopes === null || scopes === undefined || scopes.includes(scope);
}

/** True when `inner` has no scope that `outer` does not have. */
export function isWithin(inner: Scopes, outer: Scopes | undefined): boolean {
  if (outer === null || outer === undefined) return true;
  return inner?.every((scope) => outer.includes(scope)) ?? false;
}

/** Throws CallerError `insufficient_scope`. */
export function requireScope(scopes: Scopes | undefined, scope: KeyScope): void {
  if (hasScope(scopes, scope)) return;
  throw new CallerError(
    'insufficient_scope',
    `this API key has the ${scopesInWords(scopes)}, and this operation needs ${scope}`,
    { scope },
  );
}

/** Throws CallerError `insufficient_scope` for a key with scopes, also when it has all of them. */
export function requireEveryScope(scopes: Scopes | undefined): void {
  if (scopes === null || scopes === undefined) return;
  throw new CallerError(
    'insufficient_scope',
    `this API key has the ${scopesInWords(scopes)}, and this operation needs a key without scopes, because it gives out access without scopes`,
    { scope: '*' },
  );
}

function scopesInWords(scopes: Scopes | undefined): string {
  const list = scopes ?? [];
  return `${list.length === 1 ? 'scope' : 'scopes'} ${list.join(', ')}`;
}

/** In the order of the list, so that equal sets are equal texts. */
export function encodeScopes(scopes: Scopes): string | null {
  return scopes === null ? null : keyScopes.filter((scope) => scopes.includes(scope)).join(',');
}

/** A scope that this version does not know gives nothing. */
export function decodeScopes(text: string | null): Scopes {
  if (text === null) return null;
  const names = text.split(',');
  return keyScopes.filter((scope) => names.includes(scope));
}
