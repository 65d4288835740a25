// A source is created with the workflow, and each of its events is a run. Only orders are passed on; every subscriber of the
// channel "orders" of this workflow gets them. Failed runs are tried again for ten hours. Try it: post JSON to the endpoint of
// the source:  curl -X POST <endpoint_url> -H 'content-type: application/json' -d '{"type": "order", "items": 2}'
export default {
  settings: { name: 'Filter an inbox', auto_deploy: true, auto_retry: true, concurrency: 1 },
  triggers: [
    {
      type: 'source',
      props: { component: 'http-new-requests-payload-only', name: 'inbox', configured_props: {} },
    },
  ],
  steps: [
    {
      namespace: 'only_orders',
      props: { type: '{{steps.trigger.event.type}}' },
      code: `export default defineComponent({
        props: { type: { type: 'string', optional: true } },
        async run({ $ }) {
          if (this.type !== 'order') return $.flow.exit('not an order: ' + this.type);
        },
      })`,
    },
    {
      namespace: 'hand_on',
      code: `export default defineComponent({
        async run({ steps, $ }) {
          const { type, ...order } = steps.trigger.event;
          $.send.emit(order, 'orders');
          return order;
        },
      })`,
    },
  ],
};
