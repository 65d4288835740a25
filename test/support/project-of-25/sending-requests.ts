import { type RepositoryFiles, workflowFolder } from './workflow-folder.ts';

/** Workflows that send requests to `world`, by actions with every field of a request and by code with an account. */
export function sendingRequests(world: string): RepositoryFiles {
  return {
    ...workflowFolder('sales/large_orders-p_Large04', largeOrdersYaml(world)),
    ...workflowFolder('stock-lookup-p_Stock08', stockYaml(world)),
    ...workflowFolder('push-note-p_Pushn09', pushNoteYaml(world)),
    ...workflowFolder('respond-now-p_Respo16', respondNowYaml, {
      'accept/entry.js': acceptCode,
      'deliver/entry.js': deliverCode,
    }),
  };
}

const largeOrdersYaml = (world: string) => `schema: workflow/2022.04
name: large_orders
settings:
  error_notification: true
triggers:
- id: hi_Large04
steps:
- namespace: only_large
  runtime: nodejs20.x
  uses: filter-continue-based-on-condition@0.0.2
  props:
    condition: GREATER_THAN_EQUALS
    initialValue: "{{steps.trigger.event.body.amount}}"
    secondValue: '100'
    messageOnEnd: Too small
- namespace: register
  runtime: nodejs20.x
  uses: http-custom-request@0.2.1
  props:
    httpRequest:
      tab: Body
      method: POST
      url: ${world}/orders
      auth:
        type: bearer
        token: large-orders-bearer-in-clear
      headers:
      - name: Content-Type
        value: application/json
      params: []
      body:
        type: raw
        mode: raw
        contentType: application/json
        raw: |-
          {
            "id": "{{steps.trigger.event.body.id}}",
            "amount": {{steps.trigger.event.body.amount}}
          }
        fields: []
- namespace: respond
  runtime: nodejs20.x
  uses: http-return-http-response@0.0.4
  props:
    resStatusCode: "{{steps.register.$return_value.accepted ? 202 : 409}}"
    resBody: "{{steps.register.$return_value}}"
`;

const stockYaml = (world: string) => `schema: workflow/2022.04
name: Stock lookup
settings:
  error_notification: true
triggers:
- id: hi_Stock08
steps:
- namespace: ask
  runtime: nodejs20.x
  uses: http-custom-request@0.1.3
  props:
    httpRequest:
      tab: Auth
      method: GET
      url: ${world}/stock/{{steps.trigger.event.query.plant}}
      auth:
        type: basic
        username: nursery
        password: stock-password-in-clear
      headers:
      - name: accept
        value: application/json
      - name: x-debug
        value: '1'
        disabled: true
      - name: ''
        value: ''
      params:
      - name: shop
        value: "{{process.env.SHOP_ID}}"
      - name: verbose
        value: 'yes'
        disabled: true
      - name: ''
        value: ''
      body:
        type: fields
        mode: fields
        contentType: application/json
        fields: []
        raw: ''
- namespace: answer
  runtime: nodejs20.x
  uses: http-return-http-response@0.0.3
  props:
    resStatusCode: 200
    resHeaders:
      x-upstream: "{{steps.ask.response.status}}"
    resBody: "{{steps.ask.$return_value.left}} left"
`;

const pushNoteYaml = (world: string) => `schema: workflow/2022.04
name: Push note
settings:
  error_notification: false
triggers:
- id: hi_Pushn09
steps:
- namespace: push
  runtime: nodejs18.x
  uses: http-post-request@0.1.1
  props:
    httpRequest:
      tab: Headers
      method: POST
      url: ${world}/notes?access_token=note-query-in-clear&list=7
      headers:
      - name: x-api-key
        value: note-header-in-clear
      - name: x-source
        value: "{{steps.trigger.event.headers['x-sender']}}"
      params:
      - name: urgent
        value: "{{steps.trigger.event.body.urgent === true}}"
      body:
        type: fields
        mode: fields
        contentType: application/x-www-form-urlencoded
        fields:
        - name: title
          value: "{{steps.trigger.event.body.title.trim()}}"
        - name: unused
          value: x
          disabled: true
        - name: ''
          value: ''
        raw: ''
- namespace: answer
  runtime: nodejs18.x
  uses: http-return-http-response@0.0.3
  props:
    resStatusCode: '200'
    resBody:
      note: "{{steps.push.$return_value.id}}"
`;

const respondNowYaml = `schema: workflow/2022.04
name: Respond now
settings:
  error_notification: true
triggers:
- id: hi_Respo16
steps:
- namespace: accept
  runtime: nodejs20.x
  uses: "./accept/entry.js"
- namespace: deliver
  runtime: nodejs20.x
  uses: "./deliver/entry.js"
  props:
    beacon:
      authProvisionId: apn_Beac0n
`;

const acceptCode = `export default defineComponent({
  async run({ steps, $ }) {
    await $.respond({ immediate: true, status: 202, headers: {}, body: { accepted: steps.trigger.event.body.parcel } });
  },
});
`;

const deliverCode = `import { axios } from "@pipedream/platform";

export default defineComponent({
  props: { beacon: { type: "app", app: "beacon_api" } },
  async run({ steps, $ }) {
    const { parcel } = steps.trigger.event.body;
    return axios($, {
      method: "PUT",
      url: \`\${process.env.WAREHOUSE_URL}/parcels/\${encodeURIComponent(parcel)}\`,
      headers: { "x-key": this.beacon.$auth.api_key },
      data: { state: "on its way", note: undefined },
    });
  },
});
`;
