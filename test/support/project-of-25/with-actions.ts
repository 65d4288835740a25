import { type RepositoryFiles, workflowFolder } from './workflow-folder.ts';

/** Workflows with actions of the registry: filters, data stores, a package and a Git repository. */
export function withActions(): RepositoryFiles {
  return {
    ...workflowFolder('closed-days-p_Close05', closedDaysYaml, { 'open/entry.js': openCode }),
    ...workflowFolder('counters/visitor-counter-p_Visit06', visitorYaml, { 'count/entry.js': countCode }),
    ...workflowFolder('counters/guest_book-p_Guest07', guestBookYaml),
    ...workflowFolder('water-plan-p_Water22', waterPlanYaml, { 'headline/entry.js': headlineCode }),
    ...workflowFolder('catalog-search-p_Catal23', catalogYaml),
    ...workflowFolder('reports/weekly-numbers-p_Weekl25', weeklyYaml, {
      'sum/entry.js': sumCode,
      'unused/entry.js': 'export default { run() { throw new Error("disabled"); } };\n',
    }),
  };
}

const closedDaysYaml = `schema: workflow/2022.04
name: Closed days
settings:
  error_notification: true
triggers:
- id: hi_Close05
steps:
- namespace: not_closed
  runtime: nodejs18.x
  uses: filter-continue-based-on-condition@0.0.1
  props:
    condition: IS_NULL
    initialValue: "{{steps.trigger.event.body.closed}}"
- namespace: endForGuests
  runtime: nodejs18.x
  uses: filter-end-based-on-condition@0.0.1
  props:
    condition: 'TRUE'
    initialValue: "{{steps.trigger.event.body.guest}}"
    secondValue:
- namespace: open
  runtime: nodejs18.x
  uses: "./open/entry.js"
`;

const openCode = `export default defineComponent({
  async run({ $ }) {
    await $.respond({ status: 200, headers: { "content-type": "text/plain" }, body: "open" });
  },
});
`;

const visitorYaml = `schema: workflow/2022.04
name: Visitor counter
settings:
  error_notification: true
triggers:
- id: hi_Visit06
steps:
- namespace: count
  runtime: nodejs20.x
  uses: "./count/entry.js"
  props:
    visits:
      storeId: ds_V1sits
`;

const countCode = `export default defineComponent({
  props: { visits: { type: "data_store" } },
  async run({ steps, $ }) {
    const { name } = steps.trigger.event.body;
    const isKnown = await this.visits.has(name);
    const count = ((await this.visits.get(name)) ?? 0) + 1;
    await this.visits.set(name, count);
    const keys = await this.visits.keys();
    await $.respond({ status: 200, body: { isKnown, count, names: keys.sort() } });
  },
});
`;

const guestBookYaml = `schema: workflow/2022.04
name: Guest book
settings:
  error_notification: true
triggers:
- id: hi_Guest07
steps:
- namespace: seen
  runtime: nodejs20.x
  uses: data_stores-has-key-or-create@0.1.2
  props:
    dataStore:
      storeId: ds_Gu3sts
    key: "guest-{{steps.trigger.event.body.name.toLowerCase()}}"
    addRecordIfNotFound: 'Yes'
    value: "{{steps.trigger.event.body}}"
- namespace: visits
  runtime: nodejs20.x
  uses: data_stores-get-record-or-create@0.1.10
  props:
    dataStore:
      storeId: ds_V1sits
    key: "{{steps.trigger.event.body.name}}"
    addRecordIfNotFound: 'No'
- namespace: last
  runtime: nodejs20.x
  uses: data_stores-add-update-record@0.1.9
  props:
    dataStore:
      storeId: ds_Gu3sts
    key: last
    value: "{{steps.trigger.event.body.name}}"
- namespace: answer
  runtime: nodejs20.x
  uses: http-return-http-response@0.0.3
  props:
    resStatusCode: 200
    resBody: "{{({ new: steps.seen.$return_value.newKeyCreated, visits: steps.visits.$return_value ?? 0, last: steps.last.$return_value.value })}}"
`;

const waterPlanYaml = `schema: workflow/2022.04
name: Water plan
settings:
  error_notification: true
triggers:
- id: hi_Water22
steps:
- namespace: plan
  runtime: nodejs20.x
  uses: greenhouse-water-plan@0.0.3
  props:
    plants: "{{steps.trigger.event.body.plants}}"
    litres:
      __lv:
        label: Half a litre
        value: 0.5
- namespace: headline
  runtime: nodejs20.x
  uses: "./headline/entry.js"
`;

const headlineCode = `import { titleCase } from "nursery-words@1.2.0";

export default defineComponent({
  async run({ steps, $ }) {
    const { total, per_plant } = steps.plan.$return_value;
    await $.respond({ status: 200, body: { title: titleCase("water for today"), total, per_plant } });
  },
});
`;

const catalogYaml = `schema: workflow/2022.04
name: Catalog search
settings:
  error_notification: true
triggers:
- id: hi_Catal23
steps:
- namespace: find
  runtime: nodejs20.x
  uses: catalog-find-item@0.0.1
  props:
    catalog:
      authProvisionId: apn_C4talg
    query: "{{steps.trigger.event.query.q}}"
- namespace: answer
  runtime: nodejs20.x
  uses: http-return-http-response@0.0.3
  props:
    resStatusCode: 200
    resBody: "{{steps.find.$return_value}}"
`;

const weeklyYaml = `schema: workflow/2022.04
name: Weekly numbers
settings:
  error_notification: true
  lambda_timeout: 120
  lambda_memory: 1024
  data_retention: false
triggers:
- id: hi_Weekl25
steps:
- namespace: unused
  runtime: nodejs18.x
  uses: "./unused/entry.js"
  disabled: true
  note: Not used since spring
- namespace: tell_team
  runtime: nodejs18.x
  uses: chatter-post-message@0.2.17
  disabled: true
  props:
    text: "{{steps.sum.$return_value}}"
- namespace: sum
  runtime: nodejs20.x
  uses: "./sum/entry.js"
  continue_on_error: true
  note: First
  notes: Second
`;

const sumCode = `export default defineComponent({
  async run({ steps, $ }) {
    const numbers = steps.trigger.event.body.numbers;
    const start = process.env?.WEEK_START;
    await $.respond({
      status: 200,
      body: { start, sum: numbers.reduce((one, other) => one + other, 0) },
    });
  },
});
`;
