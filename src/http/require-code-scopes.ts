import { isRecord } from '#components/chosen-value.ts';
import { requireScope } from '#identity/key-scopes.ts';
import type { Caller } from '#identity/permissions.ts';
import { isComponentUrl } from '#registry/check-component-url.ts';

/** What a request runs beyond what is deployed or registered. */
export interface BroughtCode {
  /** Key, key@version, sc_… or URL of a component. */
  component?: string | undefined;
  /** True when the request holds code, or a step that may have expressions in its props. */
  hasOwnCode?: boolean;
  props?: Readonly<Record<string, unknown>> | undefined;
}

/**
 * For operations that need the scope `run`. Code that comes with the request can change data and read variables and the accounts it is given,
 * as deployed code can, so it needs `write` too; a component at a URL is such code. An account named in the props needs `credentials`, because an
 * action may send what it is given to any address. Throws CallerError `insufficient_scope`.
 */
export function requireCodeScopes(
  { scopes }: Caller,
  { component, hasOwnCode, props = {} }: BroughtCode,
): void {
  if (hasOwnCode === true || isComponentUrl(component ?? '')) requireScope(scopes, 'write');
  const namesAccount = Object.values(props).some(
    (value) => isRecord(value) && typeof value.authProvisionId === 'string',
  );
  if (namesAccount) requireScope(scopes, 'credentials');
}
