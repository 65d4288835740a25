import { HttpReceiver, type ReceivedRequest, type ReceiverAnswer } from './http-receiver.ts';

export const vendorKey = '0123456789abcdef0123456789abcdef';
export const vendorSecret = 'xoxb-never-to-be-imported';

/** Emits what it is sent. Written as users of Pipedream write a source. */
const feedCode = `export default {
  key: 'own-feed', name: 'Feed', version: '0.0.3', type: 'source',
  props: { http: '$.interface.http', timer: { type: '$.interface.timer' }, url: { type: 'string' } },
  run(event) { this.$emit({ url: this.url, body: event.body }); },
};`;
const issuesCode = `export default {
  key: 'own-issues', name: 'Issues', version: '0.1.0', type: 'source',
  props: { gitlab: { type: 'app', app: 'gitlab' }, http: '$.interface.http' },
  run(event) { this.$emit(event.body); },
};`;

/** The repository that the workflow of the stand-in is synced with: of its triggers it has the ids only. */
export const watchRepository = {
  'watch-p_Watch1/workflow.yaml': `schema: workflow/2022.04
name: Watch
triggers:
- id: ti_Tick111
- id: dc_Feed111
- id: sub_Issue11
steps:
- namespace: seen
  runtime: nodejs20.x
  uses: ./seen/entry.js
`,
  'watch-p_Watch1/seen/entry.js': 'export default { run({ steps }) { return steps.trigger.event; } };',
};

const page = (items: readonly { id: string }[], end = items.at(-1)?.id ?? '') => ({
  body: {
    page_info: { count: items.length, start_cursor: items[0]?.id ?? '', end_cursor: end },
    data: items,
  },
});

/**
 * Pipedream's public API as far as an import reads it: lists come a page at a time, the first request is throttled, the sources of the
 * workspace may not be read, and a list of webhooks of a workspace does not exist.
 */
export async function startPipedream({ hookUrl }: { hookUrl: string }): Promise<HttpReceiver> {
  const feed = {
    ...{ id: 'dc_Feed111', component_id: 'sc_Feed111', name: 'Feed of news', active: true },
    configured_props: {
      http: { endpoint_url: 'https://feed.m.pipedream.net' },
      timer: { cron: null, interval_seconds: 900 },
      url: 'https://news.example/feed',
    },
  };
  const issues = {
    ...{ id: 'dc_Issue11', component_id: 'sc_Issue11', name: 'Issues', active: true },
    configured_props: {
      gitlab: { authProvisionId: 'apn_Git1ab' },
      http: { endpoint_url: 'https://i.m.pipedream.net' },
    },
  };
  const lost = {
    id: 'dc_Lost111',
    component_id: 'sc_Lost111',
    name: 'Lost',
    active: false,
    configured_props: {},
  };
  const component = (id: string, code: string, props: unknown[]) => ({
    body: { data: { id, code, version: '0.0.3', name: 'x', configurable_props: props } },
  });
  const subscriptions = [
    { id: 'sub_Feed111', emitter_id: 'dc_Feed111', listener_id: 'wh_Hook111', event_name: '' },
    { id: 'sub_Issue11', emitter_id: 'dc_Issue11', listener_id: 'p_Watch1', event_name: '' },
  ];
  const webhooks = [
    { id: 'wh_Hook111', name: 'Receiver', description: null, url: hookUrl, active: true },
    { id: 'wh_Bad1111', name: 'No address', description: null, url: 'ftp://nowhere.example', active: true },
  ];
  const account = {
    ...{ id: 'apn_Git1ab', name: 'Team', app: { id: 'app_1', name: 'GitLab', name_slug: 'gitlab' } },
    credentials: { oauth_access_token: vendorSecret },
  };
  const routes: Record<string, (request: ReceivedRequest) => ReceiverAnswer> = {
    '/v1/users/me': () => ({ body: { data: { id: 'u_Ada1111', username: 'ada', api_key: vendorKey } } }),
    '/v1/users/me/sources': ({ url }) => {
      const after = new URL(url, 'http://x').searchParams.get('after');
      const all = [feed, issues, lost];
      const at = after === null ? 0 : all.findIndex(({ id }) => id === after) + 1;
      return page(all.slice(at, at + 1), all[at]?.id ?? after ?? '');
    },
    '/v1/orgs/o_Team111/sources': () => ({ status: 403, body: { error: 'forbidden' } }),
    '/v1/users/me/subscriptions': () => ({ body: { data: subscriptions } }),
    '/v1/workspaces/o_Team111/subscriptions': () => ({ body: { data: subscriptions } }),
    '/v1/users/me/webhooks': () => page(webhooks),
    '/v1/accounts': () => ({ body: { data: [account] } }),
    '/v1/workspaces/o_Team111/accounts': () => page([{ id: 'apn_Git1ab' }]),
    '/v1/components/sc_Feed111': () =>
      component('sc_Feed111', feedCode, [
        { name: 'http', type: '$.interface.http' },
        { name: 'timer', type: '$.interface.timer' },
        { name: 'url', type: 'string' },
      ]),
    '/v1/components/sc_Issue11': () =>
      component('sc_Issue11', issuesCode, [{ name: 'gitlab', type: 'app', app: 'gitlab' }]),
    // Not wrapped in `data`, as the hosted service answers it.
    '/v1/workflows/p_Watch1': () => ({
      body: {
        id: 'p_Watch1',
        name: 'Watch',
        steps: [],
        triggers: [{ id: 'ti_Tick111', cron: '0 9 * * *', timezone: 'Europe/Berlin' }, feed],
      },
    }),
    '/v1/sources/dc_Feed111/event_summaries': () =>
      page([{ id: '1700000000000-0', event: { title: 'An item' } } as { id: string }]),
  };
  let requests = 0;
  const answer = (request: ReceivedRequest): ReceiverAnswer => {
    if (request.headers.authorization !== `Bearer ${vendorKey}`)
      return { status: 401, body: { error: 'Unauthorized' } };
    requests += 1;
    if (requests === 1) return { status: 429, headers: { 'retry-after': '0' }, body: { error: 'Throttled' } };
    const route = routes[request.url.split('?', 1)[0] ?? ''];
    return route === undefined ? { status: 404, body: { error: 'not found' } } : route(request);
  };
  return HttpReceiver.start({ answer });
}
