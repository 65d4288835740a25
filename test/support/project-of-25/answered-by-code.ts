import { type RepositoryFiles, workflowFolder } from './workflow-folder.ts';

/** Workflows whose own code answers: props in every form, responses, early ends, both generations of code. */
export function answeredByCode(): RepositoryFiles {
  return {
    ...workflowFolder('sales/emea/quote-p_Quote01', quoteYaml, {
      'price/entry.js': priceCode,
      'answer/entry.js': quoteAnswerCode,
    }),
    ...workflowFolder('greet_customer-p_Greet02', greetYaml, { 'strip_markup/entry.js': stripCode }),
    ...workflowFolder(
      'doorbell-p_Doorb03',
      'schema: workflow/2022.04\nname: Doorbell\ntriggers:\n- id: hi_Doorb03\n',
    ),
    ...workflowFolder('sales/no-p_NoNo13', plainTextYaml, { 'echo_texts/entry.js': echoCode }),
    ...workflowFolder('stamp-p_Stamp14', stampYaml, { 'stamp/entry.js': stampCode }),
    ...workflowFolder('early-exit-p_Exits15', earlyExitYaml, {
      'gate/entry.js': gateCode,
      'last_words/entry.js': lastWordsCode,
    }),
    ...workflowFolder('old-reply-p_OldRe11', oldReplyYaml, { 'reply/entry.js': oldReplyCode }),
    ...workflowFolder('older-body-p_OldBo12', olderBodyYaml, {
      'double/entry.js': doubleCode,
      'reply/entry.js': olderReplyCode,
    }),
    ...workflowFolder('label-printer-p_Label10', labelYaml, {
      'make_label/entry.mjs': labelCode,
      'make_label/format.mjs': labelFormatCode,
      'make_label/texts/plants.json': '{ "fern": "Boston fern", "moss": "Cushion moss" }\n',
      'make_label/README.md': 'How labels are made.\n',
    }),
  };
}

const quoteYaml = `schema: workflow/2022.04
name: Quote
settings:
  error_notification: true
  lambda_timeout: 40
triggers:
- id: hi_Quote01
steps:
- namespace: price
  runtime: nodejs20.x
  uses: "./price/entry.js"
  notes: |-
    **Each plant** counts.

    Extras are added once.
  props:
    quantity: "{{steps.trigger.event.body.quantity}}"
    plant:
      __lv:
        label: Boston fern
        value: fern
    extras:
    - __lv:
        label: Clay pot
        value: pot
    - "{{steps.trigger.event.body.extra}}"
    - __lv:
        label: Gift card
        value: card
    discount:
- namespace: answer
  runtime: nodejs18.x
  uses: "./answer/entry.js"
`;

const priceCode = `const plants = { fern: 12.5, moss: 4 };
const extras = { pot: 6, soil: 3, card: 2.25 };

export default defineComponent({
  props: {
    quantity: { type: "integer" },
    plant: { type: "string", options: [{ label: "Boston fern", value: "fern" }, { label: "Cushion moss", value: "moss" }] },
    extras: { type: "string[]" },
    discount: { type: "string", optional: true },
  },
  async run({ $ }) {
    const sum = this.extras.reduce((total, extra) => total + extras[extra], 0);
    $.export("$summary", \`\${this.quantity} of \${this.plant}\`);
    $.export("plant", this.plant);
    return { total: plants[this.plant] * this.quantity + sum, extras: this.extras, discount: this.discount ?? "none" };
  },
});
`;

const quoteAnswerCode = `export default defineComponent({
  async run({ steps, $ }) {
    await $.respond({
      status: 200,
      headers: { "x-plant": steps.price.plant },
      body: { ...steps.price.$return_value, currency: process.env.CURRENCY },
    });
  },
});
`;

const greetYaml = `schema: workflow/2022.04
name: greet_customer
settings:
  error_notification: false
triggers:
- id: hi_Greet02
steps:
- namespace: strip_markup
  runtime: nodejs20.x
  uses: "./strip_markup/entry.js"
  props:
    name: "{{steps.trigger.event.body.name.replace(/<.*?>/g,'')}}"
    loud: >-
      {{steps.trigger.event.body.words
      .map((word) => word.toUpperCase())
      .join(' ')}}
    longWords: "{{steps.trigger.event.body.words.filter((word) => word.length
      > 3).length}}"
    sentence: "Dear {{steps.trigger.event.body.name.replace(/<.*?>/g,'')}}, you have
      {{steps.trigger.event.body.points * 2}} points"
- namespace: sayHello
  runtime: nodejs20.x
  uses: http-return-http-response@0.0.4
  props:
    resStatusCode: 201
    resHeaders:
      x-greeting: "{{steps.strip_markup.name}}"
    resBody: "{{steps.strip_markup.$return_value}}"
`;

const stripCode = `export default defineComponent({
  props: {
    name: { type: "string" },
    loud: { type: "string" },
    longWords: { type: "integer" },
    sentence: { type: "string" },
  },
  run({ $ }) {
    $.export("name", this.name);
    return { loud: this.loud, longWords: this.longWords + 1, sentence: this.sentence };
  },
});
`;

/** Texts that YAML 1.1 and careless readers take for something else; written on Windows. */
const plainTextYaml = `schema: workflow/2022.04
name: 'No'
settings:
  error_notification: true
triggers:
- id: hi_NoNo13
steps:
- namespace: echo_texts
  runtime: nodejs20.x
  uses: "./echo_texts/entry.js"
  note: 'no'
  props:
    looksLikeOne: '{ "photos": steps.get_photos.$return_value }'
    answer: 'Yes'
    version: '1.10'
    code: '007'
    day: '2026-11-24'
    tags: "{{steps.trigger.event.body.tags}}"
    fixed:
    - 'on'
    - "{{steps.trigger.event.body.tags.length}}"
    options: "{{({ depth: steps.trigger.event.body.depth ?? 1 })}}"
    flag: true
    ratio: 0.5
`.replaceAll('\n', '\r\n');

const echoCode = `export default defineComponent({
  props: {
    looksLikeOne: { type: "string" },
    answer: { type: "string", options: ["Yes", "No"] },
    version: { type: "string" },
    code: { type: "string" },
    day: { type: "string" },
    tags: { type: "string[]" },
    fixed: { type: "string[]" },
    options: { type: "object" },
    flag: { type: "boolean" },
    ratio: { type: "string" },
  },
  async run({ $ }) {
    const { looksLikeOne, answer, version, code, day, tags, fixed, options, flag, ratio } = this;
    await $.respond({
      status: 200,
      headers: {},
      body: { looksLikeOne, answer, version, code, day, tags, fixed, options, flag, ratio: Number(ratio) * 2 },
    });
  },
});
`.replaceAll('\n', '\r\n');

const stampYaml = `schema: workflow/2022.04
name: Stamp
settings:
  error_notification: true
triggers:
- id: hi_Stamp14
steps:
- namespace: stamp
  runtime: nodejs18.x
  uses: "./stamp/entry.js"
  props:
    id: "{{\`\${steps.trigger.event.body.kind}-\${Date.now()}\`}}"
    day: "{{new Date(steps.trigger.event.body.at).toISOString().slice(0, 10)}}"
    path: "{{steps.trigger.event.path}}?{{steps.trigger.event.query.from}}"
`;

const stampCode = `export default {
  props: { id: { type: "string" }, day: { type: "string" }, path: { type: "string" } },
  async run({ $ }) {
    $.respond({ status: "202", headers: {}, body: { id: this.id, day: this.day, path: this.path, zone: process.env["STAMP_ZONE"] } });
  },
};
`;

const earlyExitYaml = `schema: workflow/2022.04
name: "Early exit: nothing more"
settings:
  error_notification: true
triggers:
- id: hi_Exits15
steps:
- namespace: gate
  runtime: nodejs20.x
  uses: "./gate/entry.js"
- namespace: last_words
  runtime: nodejs20.x
  uses: "./last_words/entry.js"
`;

const gateCode = `export default defineComponent({
  async run({ steps, $ }) {
    const { mode } = steps.trigger.event.body;
    if (mode === "now") return $.flow.exit("asked to stop now");
    if (mode === "later") $.flow.exit("asked to stop later");
    if (mode === "answered") {
      await $.respond({ status: 204 });
      $.flow.exit("answered");
    }
    return "passed the gate";
  },
});
`;

const lastWordsCode = `export default defineComponent({
  async run({ steps, $ }) {
    await $.respond({ status: 200, body: steps.gate.$return_value });
  },
});
`;

const oldReplyYaml = `schema: workflow/2022.04
name: Old reply
settings:
  error_notification: true
triggers:
- id: hi_OldRe11
steps:
- namespace: reply
  runtime: nodejs20.x
  uses: "./reply/entry.js"
`;

const oldReplyCode = `// Written when steps were plain functions.
async (event, steps) => {
  const { name } = event.body;
  this.caller = name;
  $respond({
    status: 201,
    headers: { "x-old": "yes" },
    body: { hello: name, same: steps.trigger.event.body.name === name },
  });
  return name.length;
};
`;

const olderBodyYaml = `schema: workflow/2022.04
name: Older body
settings:
  error_notification: true
triggers:
- id: hi_OldBo12
steps:
- namespace: double
  runtime: nodejs18.x
  uses: "./double/entry.js"
- namespace: reply
  runtime: nodejs18.x
  uses: "./reply/entry.js"
`;

const doubleCode = `const crypto = require("crypto");
if (typeof $event.body.number !== "number") $end("no number");
this.hash = crypto.createHash("sha1").update(String(event.body.number)).digest("hex");
return event.body.number * 2;
`;

const olderReplyCode = `await $respond({
  status: 200,
  body: { doubled: steps.double.$return_value, hash: steps.double.hash },
});
`;

const labelYaml = `schema: workflow/2022.04
name: Label printer
settings:
  error_notification: true
triggers:
- id: hi_Label10
steps:
- namespace: make_label
  runtime: nodejs20.x
  uses: "./make_label/entry.mjs"
  props:
    plant: "{{steps.trigger.event.query.plant}}"
    copies: "{{steps.trigger.event.query.copies}}"
`;

const labelCode = `import { label } from "./format.mjs";
import plants from "./texts/plants.json" with { type: "json" };

const { LABEL_PREFIX: prefix = "?" } = process.env;

export default {
  props: { plant: { type: "string" }, copies: { type: "integer", optional: true } },
  async run({ $ }) {
    const name = plants[this.plant];
    if (name === undefined) {
      await $.respond({ status: 404, body: "no such plant" });
      return $.flow.exit("no such plant");
    }
    const body = Array(Number(this.copies ?? 1)).fill(label(prefix, name)).join("\\n");
    await $.respond({ status: 200, headers: { "content-type": "text/plain" }, body });
  },
};
`;

const labelFormatCode = `const width = 20;
export const label = (prefix, name) => \`\${prefix} \${name.toUpperCase()}\`.padEnd(width, ".");
`;
