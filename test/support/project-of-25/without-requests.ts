import { type RepositoryFiles, workflowFolder } from './workflow-folder.ts';

/** Workflows that no request starts, or that need a hand: timers, sources, mail, other languages, components that are not there. */
export function withoutRequests(): RepositoryFiles {
  return {
    ...workflowFolder('reports/python-report-p_Pytho17', pythonYaml, {
      'collect/entry.py': pythonCode,
      'answer/entry.js': pythonAnswerCode,
    }),
    ...workflowFolder('shell-and-go-p_Shell18', shellYaml, {
      'clean/entry.sh': 'jq ".items | length" "$PIPEDREAM_STEPS"\n',
      'measure/entry.go': 'package main\n\nfunc main() {\n\t/* measures */\n}\n',
    }),
    ...workflowFolder('reports/nightly/clean-up-p_Night19', nightlyYaml, {
      'sort_out/entry.js': nightlyCode,
    }),
    ...workflowFolder('feed_watch-p_Feedw20', feedYaml, { 'headline/entry.js': feedCode }),
    ...workflowFolder('inbox-p_Inbox21', inboxYaml, { 'triage/entry.js': triageCode }),
    ...workflowFolder('chat-post-p_Chatp24', chatYaml),
  };
}

const pythonYaml = `schema: workflow/2022.04
name: Python report
settings:
  error_notification: true
triggers:
- id: hi_Pytho17
steps:
- namespace: collect
  runtime: python3.12
  uses: "./collect/entry.py"
  props:
    __configurableProps:
    - app: beacon_api
      name: tower
      type: app
      authType: keys
      appId: app_B3acon
    tower:
      authProvisionId: apn_Beac0n
    since: "{{steps.trigger.event.body.since}}"
- namespace: answer
  runtime: nodejs20.x
  uses: "./answer/entry.js"
`;

const pythonCode = `# pipedream add-package requests==2.32.3
import os
import requests

def handler(pd: "pipedream"):
    key = pd.inputs["tower"]["$auth"]["api_key"]
    answer = requests.get(os.environ["REPORT_URL"], headers={"x-key": key}, params={"since": pd.inputs["since"]})
    return {"rows": len(answer.json())}
`;

const pythonAnswerCode = `export default defineComponent({
  async run({ steps, $ }) {
    await $.respond({ status: 200, body: steps.collect?.$return_value ?? "no report" });
  },
});
`;

const shellYaml = `schema: workflow/2022.04
name: Shell and Go
settings:
  error_notification: true
triggers:
- id: hi_Shell18
steps:
- namespace: clean
  runtime: bash
  uses: "./clean/entry.sh"
- namespace: measure
  runtime: go1.21
  uses: "./measure/entry.go"
- namespace: lost
  runtime: nodejs20.x
  uses: "./lost/entry.js"
  props:
    limit: "{{steps.measure.$return_value}}"
`;

const nightlyYaml = `schema: workflow/2022.04
name: Clean up
inactive: true
settings:
  error_notification: false
  network: net_Gr33nhs
triggers:
- id: ti_Night19
steps:
- namespace: sort_out
  runtime: nodejs18.x
  uses: "./sort_out/entry.js"
`;

const nightlyCode = `export default defineComponent({
  run({ steps }) {
    const days = Number(process.env.RETENTION_DAYS);
    const now = steps.trigger.event.timestamp;
    const ages = [0, 3, 7, 30].map((age) => ({ age, at: now - age * 86400 }));
    return ages.filter(({ at }) => at < now - days * 86400).map(({ age }) => age);
  },
});
`;

const feedYaml = `schema: workflow/2022.04
name: feed_watch
settings:
  error_notification: true
triggers:
- id: dc_Feedw20
- id: sub_Feedw20
steps:
- namespace: headline
  runtime: nodejs20.x
  uses: "./headline/entry.js"
  props:
    title: "{{steps.trigger.event.title || 'untitled'}}"
`;

const feedCode = `export default defineComponent({
  props: { title: { type: "string" } },
  run({ $ }) {
    $.export("words", this.title.split(" ").length);
    return this.title.slice(0, 10);
  },
});
`;

const inboxYaml = `schema: workflow/2022.04
name: Inbox
settings:
  error_notification: true
triggers:
- id: ei_Inbox21
steps:
- namespace: triage
  runtime: nodejs20.x
  uses: "./triage/entry.js"
- namespace: send_to_me
  runtime: nodejs20.x
  uses: email-send-email-to-self@0.4.2
  props:
    subject: "{{steps.triage.$return_value.subject}}"
    text: "{{steps.triage.$return_value.text}}"
`;

const triageCode = `export default defineComponent({
  run({ steps }) {
    const { subject, body, headers } = steps.trigger.event;
    const [{ address }] = headers.from.value;
    return { subject: \`[\${process.env.SUPPORT_NAME}] \${subject}\`, text: \`\${address}: \${body.text.trim()}\` };
  },
});
`;

const chatYaml = `schema: workflow/2022.04
name: Chat post
settings:
  error_notification: true
triggers:
- id: hi_Chatp24
steps:
- namespace: post
  runtime: nodejs18.x
  uses: chatter-post-message@0.2.17
  _props_cursor: dyp_Cu4s0r
  props:
    chatter:
      authProvisionId: apn_Chatt3
    conversation:
      __lv:
        label: "#greenhouse"
        value: C0GREEN
    col_0000: "{{steps.trigger.event.body.text}}"
    icon_emoji:
- namespace: bill
  runtime: nodejs18.x
  uses: "@fernco/billing-charge@1.0.0"
  props:
    amount: 3
- namespace: answer
  runtime: nodejs18.x
  uses: http-return-http-response@0.0.3
  props:
    resStatusCode: 200
    resBody: posted
`;
