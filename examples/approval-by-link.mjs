// Waits, for a week if need be, until a reader follows one of two links. Waiting costs a row in the database.
// Try it: curl -X POST <endpoint_url> -H 'content-type: application/json' -d '{"request": "a new chair"}'
export default {
  settings: { name: 'Approval by link', auto_deploy: true },
  triggers: [{ type: 'http', props: { custom_response: true } }],
  steps: [
    {
      namespace: 'ask',
      code: `export default defineComponent({
        async run({ steps, $ }) {
          const { resume_url, cancel_url } = $.flow.suspend(7 * 24 * 60 * 60 * 1000);
          // For production: mail the links, or post them to a chat. Here the caller gets them.
          await $.respond({ status: 200, immediate: true, body: { approve: resume_url, refuse: cancel_url } });
          return steps.trigger.event.body.request;
        },
      })`,
    },
    {
      namespace: 'approved',
      code: `export default defineComponent({
        async run({ steps, $ }) {
          const { $return_value: request, $resume_data: approval } = steps.ask;
          $.send.emit({ approved: request, from: approval.client_ip });
          return 'Approved: ' + request;
        },
      })`,
    },
  ],
};
