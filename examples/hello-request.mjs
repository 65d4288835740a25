// A request is answered by the workflow itself. Try it: curl '<endpoint_url>?name=Ada'
export default {
  settings: { name: 'Hello request', auto_deploy: true },
  triggers: [{ type: 'http', props: { custom_response: true } }],
  steps: [
    {
      namespace: 'greeting',
      // Expressions in props see the trigger and the steps before this one.
      props: { name: '{{steps.trigger.event.query.name ?? "stranger"}}' },
      code: `export default defineComponent({
        props: { name: { type: 'string' } },
        async run({ $ }) {
          $.export('$summary', 'Greeted ' + this.name);
          return 'Hello, ' + this.name + '!';
        },
      })`,
    },
    {
      namespace: 'answer',
      code: `export default defineComponent({
        async run({ steps, $ }) {
          await $.respond({
            status: 200,
            headers: { 'content-type': 'text/plain' },
            body: steps.greeting.$return_value + '\\n',
          });
        },
      })`,
    },
  ],
};
