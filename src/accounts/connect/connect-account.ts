import type { AppDefinition } from '#accounts/apps/app-definition.ts';
import { fieldsOf } from '#accounts/apps/fill-template.ts';
import { keysGrant } from '#accounts/manage-accounts.ts';
import { GrantError, type OAuthClient } from '#accounts/oauth/grant.ts';
import { openClient } from '#accounts/oauth/manage-oauth-clients.ts';
import { accountGrant, oauthCredentials } from '#accounts/oauth-credentials.ts';
import { noteSubject } from '#audit/audit-context.ts';
import { newSecret } from '#lib/ids.ts';
import type { Logger } from '#lib/logger.ts';
import { beginConnect, type ConnectLinkOptions } from './begin-connect.ts';
import { appMissing, clientMissing, grantFailure, refusalFailure } from './connect-failures.ts';
import { readForm } from './connect-fields.ts';
import {
  askedFields,
  type BrowserCookie,
  type ConnectFailed,
  type ConnectFailure,
  ConnectRefusal,
  type ConnectStep,
  callbackUri,
  cookieNameOf,
  type FlowSecrets,
  formTokenOf,
  hashOf,
  notValid,
  openSecrets,
  otherBrowser,
  sealSecrets,
  usedUp,
  withoutSecrets,
} from './connect-flow.ts';
import {
  bindFlow,
  type ConnectFlow,
  changeFlow,
  findFlowByLink,
  findFlowByState,
  takeFlow,
} from './connect-flow-store.ts';
import { type ConnectProvider, type ProviderAnswer, refusalIn, stateOf } from './connect-provider.ts';
import { describeRequester } from './describe-requester.ts';
import { noteMaker } from './note-maker.ts';
import { type Gained, storeConnection } from './store-connection.ts';

const stateCharactersMax = 8_000;

export interface ConnectOptions extends ConnectLinkOptions {
  logger: Logger;
  provider: ConnectProvider;
  /** The credentials of an account changed. */
  onChange(accountId: string): void;
}

/**
 * Connecting an account in a browser. A link is made by the API; the user who opens it sees who asks, fills in what is
 * missing and agrees. The first browser that does owns it, by a cookie, and is sent to the provider; its answer is taken
 * once, from this browser only, and only with the state that was sent. Everything is in the store, so each request may meet another process. Rights
 * are those of the user who made the link, and are looked at again in the transaction that stores the account.
 */
export class AccountConnector {
  readonly #options: ConnectOptions;

  constructor(options: ConnectOptions) {
    this.#options = options;
  }

  /** The exact redirect URI to register at every provider. */
  redirectUri(): string {
    return callbackUri(this.#options.publicUrl());
  }

  /** Makes a link. Throws as `beginConnect` does. */
  begin(request: Parameters<typeof beginConnect>[1]): Promise<{ url: string; expiresAtMs: number }> {
    return beginConnect(this.#options, request);
  }

  /** A browser opens the link. Throws ConnectRefusal. */
  async open(link: string, cookies: ReadonlyMap<string, string>): Promise<ConnectStep> {
    const flow = this.#alive(await findFlowByLink(this.#options.store.read, hashOf('link', link)));
    const { cookie, browser } = this.#browserOf(flow, cookies);
    const prepared = await this.#prepare(flow);
    if ('kind' in prepared) return prepared;
    const { app, secrets } = prepared;
    // Never redirect immediately: a user who was led here by another page has not agreed to anything.
    const asks = await describeRequester(this.#options.store.read, flow);
    return formStep(app, secrets, { asks, browser, cookie, values: secrets.suggested, problems: new Map() });
  }

  /** The form comes back. Throws ConnectRefusal. */
  async submit(
    link: string,
    cookies: ReadonlyMap<string, string>,
    form: URLSearchParams,
  ): Promise<ConnectStep> {
    const { store, vault, clock } = this.#options;
    const flow = this.#alive(await findFlowByLink(store.read, hashOf('link', link)));
    const browser = cookies.get(cookieNameOf(flow));
    if (browser === undefined) throw otherBrowser();
    if (form.get('form_token') !== formTokenOf(browser)) {
      throw new ConnectRefusal(
        403,
        'The form did not come from this page. Open the link again and fill it in there.',
      );
    }
    await noteMaker(store.read, flow);
    await this.#bind(flow, browser);
    const prepared = await this.#prepare(flow);
    if ('kind' in prepared) return prepared;
    const { app, secrets } = prepared;
    const asked = askedFields(app, secrets.fields);
    const { values, problems } = readForm(asked, form);
    if (problems.size > 0) {
      const shown = withoutSecrets(app, values);
      const asks = await describeRequester(store.read, flow);
      return formStep(app, secrets, { asks, browser, cookie: undefined, values: shown, problems });
    }
    const fields = { ...secrets.fields, ...values };
    if (app.oauth === undefined) return this.#finishKeys(flow, app, fields);
    const filled = { ...secrets, fields };
    await store.transaction(async (tx) =>
      changeFlow(tx, flow.id, { sealed: await sealSecrets(tx, { vault, clock }, flow, filled) }),
    );
    return this.#depart(flow, { ...prepared, secrets: filled });
  }

  /** The provider sent the browser back. Throws ConnectRefusal. */
  async callback(answer: ProviderAnswer, cookies: ReadonlyMap<string, string>): Promise<ConnectStep> {
    const { store, clock } = this.#options;
    const state = stateOf(answer) ?? '';
    const found =
      state === '' || state.length > stateCharactersMax
        ? undefined
        : await findFlowByState(store.read, hashOf('state', state));
    const flow = this.#alive(found);
    this.#ownBrowser(flow, cookies);
    await noteMaker(store.read, flow);
    const prepared = await this.#prepare(flow);
    // From here on this answer is used up, whatever the outcome.
    const isOurs = await store.transaction((tx) => takeFlow(tx, flow, clock.now()));
    if (!isOurs) throw usedUp();
    if ('kind' in prepared) return prepared;
    const { app } = prepared;
    const refusal = refusalIn(answer);
    if (refusal !== undefined) return this.#fail(flow, refusalFailure(app, refusal));
    return this.#exchange(flow, prepared, answer);
  }

  async #exchange(flow: ConnectFlow, prepared: Prepared, answer: ProviderAnswer): Promise<ConnectStep> {
    const { app, client, secrets } = prepared;
    if (client === undefined) return this.#fail(flow, clientMissing(app));
    const context = { app, client, fields: secrets.fields };
    try {
      const { grant, type } = await this.#options.provider.arrive(context, secrets.keep, answer);
      const credentials = oauthCredentials(fieldsOf(app, secrets.fields), client, grant);
      const asked = secrets.scopes ?? client.scopes ?? (app.oauth?.version === 2 ? app.oauth.scopes : []);
      return await this.#store(flow, app, {
        credentials,
        grant: accountGrant(type, client, grant, asked, this.#options.clock),
        uid: grant.uid,
      });
    } catch (error) {
      if (!(error instanceof GrantError)) throw error;
      return this.#fail(flow, grantFailure(error));
    }
  }

  async #finishKeys(
    flow: ConnectFlow,
    app: AppDefinition,
    fields: Record<string, string>,
  ): Promise<ConnectStep> {
    const { store, clock } = this.#options;
    if (!(await store.transaction((tx) => takeFlow(tx, flow, clock.now())))) throw usedUp();
    return this.#store(flow, app, { credentials: fields, grant: keysGrant, uid: undefined });
  }

  async #store(flow: ConnectFlow, app: AppDefinition, gained: Gained): Promise<ConnectStep> {
    const { store, clock, logger } = this.#options;
    if (flow.account_id !== null) noteSubject({ kind: 'accounts', id: flow.account_id });
    const outcome = await store.transaction((tx) => storeConnection(tx, this.#options, flow, app, gained));
    if ('code' in outcome) return this.#fail(flow, outcome);
    const isNew = flow.account_id === null;
    const { id, owner_id: owner, app_slug: slug } = outcome;
    if (!isNew) this.#options.onChange(id);
    logger.info(
      { account: id, owner, user: flow.user_id, app: slug, ms: clock.now() - flow.created_at_ms },
      isNew ? 'account.connected' : 'account.reconnected',
    );
    return { kind: 'connected', account: outcome, isNew, redirectUrl: flow.redirect_url };
  }

  async #depart(flow: ConnectFlow, { app, client, secrets }: Prepared): Promise<ConnectStep> {
    const { store, vault, clock, provider } = this.#options;
    if (client === undefined) return this.#fail(flow, clientMissing(app));
    try {
      const context = { app, client, fields: secrets.fields };
      const departure = await provider.depart(context, { state: newSecret(), scopes: secrets.scopes });
      const isWritten = await store.transaction(async (tx) =>
        changeFlow(tx, flow.id, {
          state_hash: hashOf('state', departure.state),
          sealed: await sealSecrets(tx, { vault, clock }, flow, { ...secrets, keep: departure.keep }),
        }),
      );
      if (!isWritten) throw usedUp();
      return { kind: 'provider', app, url: departure.url };
    } catch (error) {
      if (!(error instanceof GrantError)) throw error;
      // Not over: the link can be opened again when the provider answers.
      return this.#fail(flow, grantFailure(error));
    }
  }

  /** The current app, client and secrets of a flow; or how the flow ends, when they are gone. */
  async #prepare(flow: ConnectFlow): Promise<Prepared | ConnectFailed> {
    const { store, vault, findApp } = this.#options;
    const app = await findApp(flow.app_slug, [flow.owner_id]);
    if (app === undefined) return this.#fail(flow, appMissing(flow.app_slug));
    const client =
      flow.oauth_client_id === null ? undefined : await openClient(store.read, vault, flow.oauth_client_id);
    if (flow.oauth_client_id !== null && client === undefined) return this.#fail(flow, clientMissing(app));
    return { app, client, secrets: await openSecrets(store.read, vault, flow) };
  }

  #fail(flow: ConnectFlow, failure: ConnectFailure): ConnectFailed {
    const { logger } = this.#options;
    const { owner_id: owner, user_id: user, app_slug: app } = flow;
    logger.warn({ owner, user, app, code: failure.code, error: failure.message }, 'account.not-connected');
    return { kind: 'failed', failure, redirectUrl: flow.redirect_url };
  }

  #alive(flow: ConnectFlow | undefined): ConnectFlow {
    if (flow === undefined || flow.expires_at_ms <= this.#options.clock.now()) throw notValid();
    if (flow.used_at_ms !== null) throw usedUp();
    return flow;
  }

  /** Any browser, until one has agreed. */
  #browserOf(
    flow: ConnectFlow,
    cookies: ReadonlyMap<string, string>,
  ): { browser: string; cookie: BrowserCookie | undefined } {
    if (flow.browser_hash !== null) return { browser: this.#ownBrowser(flow, cookies), cookie: undefined };
    const browser = newSecret();
    const maxAgeSeconds = Math.ceil((flow.expires_at_ms - this.#options.clock.now()) / 1000);
    return { browser, cookie: { name: cookieNameOf(flow), value: browser, maxAgeSeconds } };
  }

  /**
   * The first browser that agrees gets the flow, and no other. Not the first that opens it: those who preview links in
   * chats and mails do that.
   */
  async #bind(flow: ConnectFlow, browser: string): Promise<void> {
    const hash = hashOf('browser', browser);
    if (flow.browser_hash === hash) return;
    const isFirst =
      flow.browser_hash === null &&
      (await this.#options.store.transaction((tx) => bindFlow(tx, flow.id, hash)));
    if (!isFirst) throw otherBrowser();
  }

  #ownBrowser(flow: ConnectFlow, cookies: ReadonlyMap<string, string>): string {
    const browser = cookies.get(cookieNameOf(flow));
    if (browser === undefined || hashOf('browser', browser) !== flow.browser_hash) throw otherBrowser();
    return browser;
  }
}

interface Prepared {
  app: AppDefinition;
  client: OAuthClient | undefined;
  secrets: FlowSecrets;
}

function formStep(
  app: AppDefinition,
  secrets: FlowSecrets,
  step: {
    asks: string;
    browser: string;
    cookie: BrowserCookie | undefined;
    values: Record<string, string>;
    problems: Map<string, string>;
  },
): ConnectStep {
  const { browser, ...shown } = step;
  return {
    kind: 'form',
    app,
    asked: askedFields(app, secrets.fields),
    ...shown,
    formToken: formTokenOf(browser),
    goesOn: app.oauth !== undefined,
  };
}
