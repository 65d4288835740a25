import type { HttpEvent } from '../http.app.ts';

/** `this` of the source. */
interface Source {
  $emit(event: unknown, metadata: { summary: string }): void;
}

export default {
  key: 'http-new-requests-payload-only',
  name: 'New Requests (Payload Only)',
  version: '1.0.0',
  description: 'Gets an address of its own and emits the body of each HTTP request that comes there',
  type: 'source',
  props: {
    // No custom response: the service answers 200 as soon as the request is safe, before this code runs.
    http: '$.interface.http',
  },
  async run(this: Source, event: HttpEvent) {
    this.$emit(event.body, { summary: `${event.method} ${event.path}` });
  },
  sampleEmit: { hello: 'world' },
};
