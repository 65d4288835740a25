import type { HttpEvent } from '../http.app.ts';

/** `this` of the source. */
interface Source {
  http: { respond(reply: { status: string; headers: Record<string, string>; body: string }): void };
  emitBodyOnly?: boolean;
  resStatusCode?: string;
  resContentType?: string;
  resBody?: string;
  $emit(event: unknown, metadata: { summary: string }): void;
}

export default {
  key: 'http-new-requests',
  name: 'New Requests',
  version: '1.0.0',
  description: 'Gets an address of its own and emits each HTTP request that comes there',
  type: 'source',
  props: {
    http: { type: '$.interface.http', customResponse: true },
    emitBodyOnly: {
      type: 'boolean',
      label: 'Body only',
      description: 'Emit the body of the request instead of the whole request',
      optional: true,
      default: false,
    },
    resStatusCode: {
      type: 'string',
      label: 'Response status',
      description: 'Status code of the reply',
      optional: true,
      default: '200',
    },
    resContentType: {
      type: 'string',
      label: 'Response content type',
      description: 'Content type of the reply',
      optional: true,
      default: 'application/json',
    },
    resBody: {
      type: 'string',
      label: 'Response body',
      description: 'Body of the reply',
      optional: true,
      default: '{ "success": true }',
    },
  },
  async run(this: Source, event: HttpEvent) {
    // The reply is sent first, so that the caller does not wait for the rest.
    this.http.respond({
      status: this.resStatusCode ?? '200',
      headers: { 'content-type': this.resContentType ?? 'application/json' },
      body: this.resBody ?? '{ "success": true }',
    });
    this.$emit(this.emitBodyOnly ? event.body : event, { summary: `${event.method} ${event.path}` });
  },
  sampleEmit: {
    method: 'POST',
    path: '/',
    query: {},
    headers: { 'content-type': 'application/json' },
    body: { hello: 'world' },
    bodyRaw: '{"hello":"world"}',
  },
};
