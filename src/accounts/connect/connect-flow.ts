import { createHash } from 'node:crypto';
import type { Account } from '#accounts/account-store.ts';
import type { AppDefinition, CustomField } from '#accounts/apps/app-definition.ts';
import type { Clock } from '#lib/clock.ts';
import type { Db, Tx } from '#storage/store.ts';
import { openObject, sealObject } from '#vault/sealed-values.ts';
import type { Vault } from '#vault/vault.ts';
import { isNeeded, missingFields } from './connect-fields.ts';
import type { ConnectFlow } from './connect-flow-store.ts';

/** The cookie that binds a flow to a browser. */
export interface BrowserCookie {
  name: string;
  value: string;
  maxAgeSeconds: number;
}

/** What the browser gets next. */
export type ConnectStep =
  /** To be agreed to; fields of the app that are needed are filled in on the way. */
  | {
      kind: 'form';
      app: AppDefinition;
      /** A sentence that names the owner of the account. */
      asks: string;
      asked: CustomField[];
      /** What is shown in the inputs; never a secret. */
      values: Record<string, string>;
      problems: Map<string, string>;
      /** Has to come back with the form. */
      formToken: string;
      /** True: the provider comes next. False: the form makes the account. */
      goesOn: boolean;
      cookie: BrowserCookie | undefined;
    }
  | { kind: 'provider'; app: AppDefinition; url: string }
  | { kind: 'connected'; account: Account; isNew: boolean; redirectUrl: string | null }
  /** It ended without an account. */
  | ConnectFailed;

export interface ConnectFailed {
  kind: 'failed';
  failure: ConnectFailure;
  redirectUrl: string | null;
}

export interface ConnectFailure {
  code:
    | 'access_denied'
    | 'provider_refused'
    | 'provider_unavailable'
    | 'other_account'
    | 'not_allowed'
    | 'oauth_client_missing'
    | 'app_missing'
    | 'account_missing';
  /** Shown to users; without secrets. */
  message: string;
}

/** This browser may not use the link: the link is over, or belongs to another browser. */
export class ConnectRefusal extends Error {
  override name = 'ConnectRefusal';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Sealed with the flow. */
export interface FlowSecrets {
  fields: Record<string, string>;
  /** Shown in the form to begin with. */
  suggested: Record<string, string>;
  scopes: string[] | undefined;
  /** From the departure to the provider. */
  keep: Record<string, string>;
}

export function sealSecrets(
  tx: Tx,
  options: { vault: Vault; clock: Clock },
  flow: Pick<ConnectFlow, 'id' | 'owner_id'>,
  secrets: FlowSecrets,
): Promise<string> {
  return sealObject(tx, options, { ownerId: flow.owner_id, id: flow.id, value: { ...secrets } });
}

export async function openSecrets(db: Db, vault: Vault, flow: ConnectFlow): Promise<FlowSecrets> {
  // Authenticated encryption: only `sealSecrets` can have made it.
  return (await openObject(db, vault, { ...flow, ownerId: flow.owner_id })) as unknown as FlowSecrets;
}

/** The redirect URI of a service at this address. */
export function callbackUri(publicUrl: string): string {
  return `${publicUrl}/connect/callback`;
}

/** An app with keys is connected by its form alone; one with OAuth asks for fields only when it has to. */
export function askedFields(app: AppDefinition, fields: Readonly<Record<string, unknown>>): CustomField[] {
  const missing = missingFields(app, fields);
  return app.oauth === undefined || missing.some(isNeeded) ? missing : [];
}

export function withoutSecrets(app: AppDefinition, values: Record<string, string>): Record<string, string> {
  const secret = new Set(app.customFields.filter((field) => field.secret).map(({ name }) => name));
  return Object.fromEntries(Object.entries(values).filter(([name]) => !secret.has(name)));
}

export function cookieNameOf(flow: Pick<ConnectFlow, 'id'>): string {
  return `millrace_${flow.id}`;
}

/** Known only to pages that this browser was given: the cookie itself cannot be read by any page. */
export function formTokenOf(browser: string): string {
  return hashOf('form', browser);
}

export function hashOf(purpose: 'link' | 'browser' | 'form' | 'state', secret: string): string {
  return createHash('sha256').update(`connect ${purpose} ${secret}`).digest('base64url');
}

export function notValid(): ConnectRefusal {
  return new ConnectRefusal(
    404,
    'This link is not valid, or has expired: a link is valid for ten minutes. Ask for a new one where you got it.',
  );
}

export function usedUp(): ConnectRefusal {
  return new ConnectRefusal(
    410,
    'This link was used already. If no account was connected with it, ask for a new one where you got it.',
  );
}

export function otherBrowser(): ConnectRefusal {
  return new ConnectRefusal(
    403,
    'This was started in another browser or a private window, or cookies are turned off. Continue there, or ask for a new link.',
  );
}
