/** What the sources of this app have in common. Requests from anywhere need no account. */
export default {
  type: 'app',
  app: 'http',
};

/** What `run` of a source with an HTTP interface is given. */
export interface HttpEvent {
  method: string;
  path: string;
  query: Record<string, unknown>;
  /** Names in lower case. */
  headers: Record<string, string>;
  /** Parsed JSON or form, else text. */
  body: unknown;
  bodyRaw?: string;
  client_ip?: string;
  url?: string;
}
