// Requests are counted in a data store; a timer emits the counts every quarter of an hour. Both triggers start the same
// steps, which look at what triggered them. Try it: curl '<endpoint_url>/some/page'
export default {
  settings: { name: 'Visit counter', auto_deploy: true },
  triggers: [
    { type: 'http', props: {} },
    { type: 'timer', props: { interval_seconds: 900 } },
  ],
  steps: [
    {
      namespace: 'count',
      code: `export default defineComponent({
        props: { visits: { type: 'data_store' } },
        async run({ steps, $ }) {
          const { source_type } = steps.trigger.context;
          if (source_type !== 'HTTP') return;
          const { path } = steps.trigger.event;
          await this.visits.set(path, ((await this.visits.get(path)) ?? 0) + 1);
          return $.flow.exit('counted ' + path);
        },
      })`,
    },
    {
      namespace: 'report',
      code: `export default defineComponent({
        props: { visits: { type: 'data_store' } },
        async run({ $ }) {
          const pages = {};
          for await (const [path, count] of this.visits) pages[path] = count;
          $.send.emit({ pages });
          $.export('$summary', Object.keys(pages).length + ' pages');
          return pages;
        },
      })`,
    },
  ],
};
