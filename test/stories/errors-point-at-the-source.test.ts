import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEachSharedService } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

const source = `interface HttpEvent { body: { name?: string } }

export default {
  name: 'Greeter',
  props: { http: { type: '$.interface.http' } },
  async run(event: HttpEvent) {
    const greet = (name: string | undefined): string => {
      if (name === undefined) throw new TypeError('whom?');
      return name;
    };
    this.$emit(greet(event.body.name));
  },
};
`;

forEachSharedService((fixture) => {
  test('the stack of an error event has the lines of the TypeScript that was deployed', async () => {
    const { service } = fixture;
    const { id, configured_props } = await service.createSource({ component_code: source });
    await fetch(configured_props.http.endpoint_url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
    });
    const [failed] = await waitFor(
      async () => {
        const events = await service.events(id, '&event_name=$errors');
        return events.length > 0 && events;
      },
      { what: 'the error event' },
    );
    const { stack } = failed.event.error;
    assert.match(
      stack,
      /^TypeError: whom\?\n {4}at greet \(component\.ts:8:37\)\n {4}at \S*run \(component\.ts:11:16\)/,
    );
    assert.doesNotMatch(stack, /runner-|index\.cjs/);
  });
});
