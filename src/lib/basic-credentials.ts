/**
 * The value of an Authorization header with an OAuth client's id and secret. RFC 6749, 2.3.1: both are form-encoded. Libraries also encode
 * `-`, `_` and `.`, which occur in most secrets; the rule does not require it, and providers that do not decode would see another secret.
 */
export function basicCredentials(clientId: string, clientSecret: string): string {
  const credentials = `${formEncoded(clientId)}:${formEncoded(clientSecret)}`;
  return `Basic ${Buffer.from(credentials).toString('base64')}`;
}

function formEncoded(text: string): string {
  return new URLSearchParams([['', text]]).toString().slice(1);
}
