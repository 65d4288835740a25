/** The actions that are included, as a user finds them and puts them into workflows. What each of them does: components/<app>. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachSharedService } from '../support/millrace.ts';

forEachSharedService((fixture) => {
  const steps = (list: [namespace: string, component: string, props: object][]) =>
    list.map(([namespace, component, props]) => ({ namespace, component, props }));

  test('the search finds an action by words of its description, and says what it is', async () => {
    const { body } = await fixture.service.api(
      'GET',
      '/v1/components/search?query=delete%20request&app=http',
    );
    assert.ok(JSON.stringify(body).includes('http-delete-request'), JSON.stringify(body));
    const { body: one } = await fixture.service.api('GET', '/v1/components/registry/http-get-request');
    assert.match(one.data.description, /Example: /);
  });

  test('a workflow requests something and responds with it', async () => {
    await using web = await HttpReceiver.start({ answer: { body: { photos: ['a.png'] } } });
    const workflow = await fixture.service.createWorkflow({
      triggers: [{ type: 'http', props: { custom_response: true } }],
      steps: steps([
        [
          'get_photos',
          'http-custom-request',
          {
            httpRequest: {
              method: 'GET',
              url: `${web.url}/{{steps.trigger.event.query.album}}`,
              auth: { type: 'bearer', token: '{{"to" + "ken"}}' },
            },
          },
        ],
        [
          'return_http_response',
          'http-return-http-response',
          {
            resStatusCode: 202,
            resHeaders: { 'x-album': '{{steps.trigger.event.query.album}}' },
            resBody: '{{steps.get_photos.$return_value}}',
          },
        ],
      ]),
    });
    const response = await fetch(`${workflow.triggers[0].endpoint_url}?album=cats`);
    assert.deepEqual([response.status, response.headers.get('x-album')], [202, 'cats']);
    assert.deepEqual(await response.json(), { photos: ['a.png'] });
    const [request] = web.requests;
    assert.deepEqual([request?.url, request?.headers.authorization], ['/cats', 'Bearer token']);
  });
});
