/**
 * What the service knows about an app: a service that accounts are for. One JSON file each in `apps/`, in a folder of
 * the operator's, or given by the API. Checked by `parse-app.ts`.
 *
 * Texts called a template may hold `{{field}}`: a custom field, or a credential of the account; `fillTemplate` fills them.
 */
export interface AppDefinition {
  /** Lower case, digits, `_` and `-`: what `type: "app", app: "<slug>"` of a component says. */
  slug: string;
  name: string;
  description: string;
  categories: string[];
  authType: 'oauth' | 'keys' | 'none';
  customFields: CustomField[];
  /** For `oauth` only. */
  oauth: OAuth2Settings | OAuth1Settings | undefined;
  test: AppTest | undefined;
}

/** A field that a user fills in; a component reads it as `$auth.<name>`. In the API: custom_fields_json. */
export interface CustomField {
  name: string;
  label: string;
  description: string;
  default: string | undefined;
  optional: boolean;
  /** Shown as a password, and redacted. */
  secret: boolean;
}

export interface OAuth2Settings {
  version: 2;
  grant: 'authorization_code' | 'client_credentials';
  /** Template, https; absent for client_credentials. */
  authorizationUrl: string | undefined;
  /** Template, https. */
  tokenUrl: string;
  /** Template; where a token is refreshed, when that is elsewhere than `tokenUrl`. */
  refreshUrl?: string | undefined;
  /** Template; RFC 7009. */
  revocationUrl: string | undefined;
  scopes: string[];
  /** The separator of scopes: a space by RFC 6749, but a comma for some providers. */
  scopeSeparator: string;
  /** True: the provider supports PKCE (S256). It is sent to all providers except those that refuse it. */
  pkce: boolean;
  clientAuth: 'basic' | 'post' | 'none';
  /** More parameters of the authorization request, such as access_type=offline. */
  authorizationParameters: Record<string, string>;
  /** More parameters of every token request. */
  tokenParameters: Record<string, string>;
  /** JSON body instead of a form (a few providers). */
  tokenBody: 'form' | 'json';
  /** Seconds that a token lives when the provider does not say; absent: it does not end. */
  expiresInSeconds: number | undefined;
  /** Where `oauth_uid` comes from: a path in the token response, in the id_token's claims, or in the answer of a GET. */
  uid:
    | { from: 'token' | 'id_token'; path: string }
    | { from: 'request'; url: string; path: string }
    | undefined;
  /** Fields of the token response that become credentials, by credential name: path in the response. */
  responseFields: Record<string, string>;
  /** Where the access token is in the response; `access_token` by RFC 6749. */
  accessTokenPath: string;
  registration: Registration;
}

export interface OAuth1Settings {
  version: 1;
  requestTokenUrl: string;
  authorizationUrl: string;
  accessTokenUrl: string;
  signatureMethod: 'HMAC-SHA1' | 'HMAC-SHA256';
  /** Sent as query parameters of the authorization URL. */
  authorizationParameters: Record<string, string>;
  /** Where `oauth_uid` comes from: a field of the answer with the token, or a path in the answer of a signed GET. */
  uid: { from: 'token'; path: string } | { from: 'request'; url: string; path: string } | undefined;
  registration: Registration;
}

/** How a user gets a client id and secret at the provider. */
export interface Registration {
  url: string;
  /** Markdown; `{{redirect_uri}}` is replaced by the exact redirect URI of this service. */
  text: string;
}

/** How an account of the app is tested. */
export type AppTest =
  | {
      kind: 'http';
      method: 'GET' | 'POST';
      /** Template. */
      url: string;
      /** Templates by name. */
      headers: Record<string, string>;
      /** Template whose values are escaped as the inside of a JSON string. */
      body: string | undefined;
      /** HTTP basic: templates. */
      basic: { username: string; password: string } | undefined;
      /** Statuses of success; empty: 200 to 299. */
      statuses: number[];
      /** A path in the JSON answer that must have this value, such as Slack's `ok: true`; absent: the status decides. */
      expect: { path: string; equals: unknown } | undefined;
    }
  | {
      kind: 'postgresql' | 'mysql' | 'ssh' | 'tcp';
      /** Templates. */
      host: string;
      port: string;
    };
