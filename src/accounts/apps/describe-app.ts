import type { AppDefinition, AppTest } from './app-definition.ts';

/** An app in the format of a file (docs/apps.md): `parseApp` reads it back as the same app. */
export function describeApp(app: AppDefinition): Record<string, unknown> {
  return withoutUndefined({
    slug: app.slug,
    name: app.name,
    description: app.description,
    categories: app.categories,
    auth_type: app.authType,
    custom_fields: app.customFields.map(withoutUndefined),
    oauth: app.oauth && describeOAuth(app.oauth),
    test_request: app.test && describeTest(app.test),
  });
}

function describeOAuth(oauth: NonNullable<AppDefinition['oauth']>): Record<string, unknown> {
  if (oauth.version === 1) {
    return withoutUndefined({
      version: 1,
      request_token_url: oauth.requestTokenUrl,
      authorization_url: oauth.authorizationUrl,
      access_token_url: oauth.accessTokenUrl,
      signature_method: oauth.signatureMethod,
      authorization_parameters: oauth.authorizationParameters,
      uid: oauth.uid,
      registration: oauth.registration,
    });
  }
  return withoutUndefined({
    version: 2,
    grant: oauth.grant,
    authorization_url: oauth.authorizationUrl,
    token_url: oauth.tokenUrl,
    refresh_url: oauth.refreshUrl,
    revocation_url: oauth.revocationUrl,
    scopes: oauth.scopes,
    scope_separator: oauth.scopeSeparator,
    pkce: oauth.pkce,
    client_auth: oauth.clientAuth,
    authorization_parameters: oauth.authorizationParameters,
    token_parameters: oauth.tokenParameters,
    token_body: oauth.tokenBody,
    expires_in_seconds: oauth.expiresInSeconds,
    uid: oauth.uid,
    response_fields: oauth.responseFields,
    access_token_path: oauth.accessTokenPath,
    registration: oauth.registration,
  });
}

function describeTest(test: AppTest): Record<string, unknown> {
  return withoutUndefined({ ...test });
}

function withoutUndefined(object: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
}
