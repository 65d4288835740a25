/** A prop of a step with secrets in clear, or with none. */
export interface SecretCase {
  name: string;
  props: Record<string, unknown>;
  /** Texts that stand nowhere in what is left. */
  secrets: readonly string[];
  /** Paths of texts that may be secrets, and stay. */
  unsure?: readonly string[];
}

/** What no reader, report or file may show; each form has its own. */
export const canary = {
  stripe: `sk_live_${'Canary01'.repeat(3)}`,
  slack: 'xoxb-1234567890-canary02canary02',
  google: `AIza${'Canary03_'.repeat(4)}abc`,
  github: `ghp_${'Canary04'.repeat(5)}`,
  hook: 'T0CANARY5/B0CANARY5/canary05canary05canary05',
  discord: 'canary06-canary06_canary06canary06',
  telegram: '1234567890:Canary07canary07canary07canary07abc',
  jwt: 'eyJjYW5hcnkwOCI6.eyJjYW5hcnkwOCI6MX0.canary08canary08',
  plain: 'canary-09',
} as const;

const url = 'https://api.example';
const request = (fields: Record<string, unknown>) => ({ httpRequest: { method: 'GET', url, ...fields } });
const json = (value: unknown) => JSON.stringify(value);

export const secretCases: readonly SecretCase[] = [
  {
    name: 'a key as the user name of basic authentication',
    props: request({ auth: { type: 'basic', username: canary.stripe, password: '' } }),
    secrets: [canary.stripe],
  },
  {
    name: 'a key without a form as a user name without a password',
    props: request({ auth: { type: 'basic', username: canary.plain } }),
    secrets: [canary.plain],
  },
  {
    name: 'a password, and not the user name beside it',
    props: request({ auth: { type: 'basic', username: 'ada', password: canary.plain } }),
    secrets: [canary.plain],
  },
  {
    name: 'parameters of a URL with the names key, appid and code, and with a token',
    props: request({
      url: `${url}/a?key=${canary.google}&appid=canary-short&page=2&code=${'canary'.repeat(6)}==#access_token=${canary.plain}`,
    }),
    secrets: [canary.google, 'canary-short', 'canary'.repeat(6), canary.plain],
  },
  {
    name: 'a URL of a prop that is no request, and user names and passwords in URLs',
    props: {
      feed: `${url}/feed?token=${canary.plain}`,
      database: `postgres://ada:canary-10@db.example/shop`,
      sentry: 'https://canary11canary@sentry.example/1',
    },
    secrets: [canary.plain, 'canary-10', 'canary11canary'],
  },
  {
    name: 'parameters with the names key and appid',
    props: request({
      params: [
        { name: 'key', value: canary.plain },
        { name: 'appid', value: 'canary-12' },
        { name: 'q', value: 'Berlin' },
      ],
    }),
    secrets: [canary.plain, 'canary-12'],
  },
  {
    name: 'a body that is JSON, by name and by form, with expressions in it',
    props: request({
      method: 'POST',
      body: {
        type: 'raw',
        raw: `{"token": "${canary.plain}", "text": "{{JSON.stringify({ a: 'b' })}}", "n": {{1 + 1}}, "deep": [{"any": "${canary.slack}", "apiKey": "can\\"ary\\\\13"}], "sort_key": "x"}`,
      },
    }),
    secrets: [canary.plain, canary.slack, 'ary\\\\\\\\13'],
  },
  {
    name: 'a body that is a form, and one that is XML',
    props: {
      form: { method: 'POST', url, body: { raw: `grant_type=x&client_secret=${canary.plain}&scope=a` } },
      xml: {
        method: 'POST',
        url,
        body: { raw: '<login><user>ada</user><password>canary-14</password></login>' },
      },
    },
    secrets: [canary.plain, 'canary-14'],
  },
  {
    name: 'headers with odd names',
    props: request({
      headers: [
        { name: 'X-Auth', value: canary.plain },
        { name: 'X-Forward', value: 'Bearer canary-15' },
        { name: 'X-Odd', value: 'Basic Y2FuYXJ5OjE2' },
        { name: 'Idempotency-Key', value: 'order-1' },
        { name: 'Accept', value: 'text/plain' },
      ],
    }),
    secrets: [canary.plain, 'canary-15', 'Y2FuYXJ5OjE2'],
  },
  {
    name: 'two headers with the same name',
    props: request({
      headers: [
        { name: 'Authorization', value: 'Bearer canary-17' },
        { name: 'Authorization', value: 'Bearer canary-18', disabled: true },
      ],
    }),
    secrets: ['canary-17', 'canary-18'],
  },
  {
    name: 'what stands in clear beside an expression',
    props: request({
      headers: { Authorization: `Bearer ${canary.plain}{{1 + 1}}`, 'X-Api-Key': '{{1 + 1}}' },
    }),
    secrets: [canary.plain],
  },
  {
    name: 'addresses of incoming webhooks',
    props: {
      ...request({ url: `https://hooks.slack.com/services/${canary.hook}` }),
      discord: `https://discord.com/api/v10/webhooks/123456789/${canary.discord}?wait=true`,
      text: `Posted to https://api.telegram.org/bot${canary.telegram}/sendMessage, see there`,
      teams: 'https://shop.webhook.office.com/webhookb2/canary19@canary/IncomingWebhook/canary19/x',
      escaped: request({
        body: { raw: '{"to": "https:\\/\\/hooks.zapier.com\\/hooks\\/catch\\/123\\/canary20"}' },
      }).httpRequest,
    },
    secrets: [canary.hook, canary.discord, canary.telegram, 'canary19', 'canary20'],
  },
  {
    name: 'headers of a prop that is no request',
    props: {
      headers: { Authorization: `Bearer ${canary.plain}`, Accept: 'text/plain' },
      options: { requestHeaders: [{ key: 'X-Token', value: 'canary-21' }] },
    },
    secrets: [canary.plain, 'canary-21'],
  },
  {
    name: 'headers that are a text of JSON',
    props: { headers: json({ Authorization: `Bearer ${canary.plain}`, Accept: 'text/plain' }) },
    secrets: [canary.plain],
  },
  {
    name: 'a form within a longer text',
    props: {
      text: `curl -H 'Authorization: Bearer ${canary.slack}' and ${canary.github}, {{'or'}} ${canary.jwt}.`,
      list: ['a', `use ${canary.stripe}`],
      choice: { __lv: { label: 'One', value: `k-${canary.google}` } },
    },
    secrets: [canary.slack, canary.github, canary.jwt, canary.stripe, canary.google],
  },
  {
    name: 'a private key',
    props: { pem: '-----BEGIN RSA PRIVATE KEY-----\ncanary22\n-----END RSA PRIVATE KEY-----\n' },
    secrets: ['canary22'],
  },
  {
    name: 'a request that is a text of JSON, with JSON in its body',
    props: {
      httpRequest: json({
        method: 'POST',
        url: `${url}/?api_key=canary-23&q={{'x'}}`,
        headers: [
          { name: 'Authorization', value: `Bearer ${canary.plain}` },
          { name: 'X-Quoted-Token', value: 'canary"24\\' },
        ],
        auth: { type: 'basic', username: canary.stripe, password: '' },
        body: { mode: 'raw', raw: json({ token: 'canary-25', text: 'hello' }) },
      }),
    },
    secrets: ['canary-23', canary.plain, 'canary\\\\\\"24', canary.stripe, 'canary-25'],
  },
  {
    name: 'a literal of an expression',
    props: {
      one: `{{"${canary.stripe}"}}`,
      two: `{{[1].map(() => '${canary.slack}').join() + "x"}} and {{"${canary.github}"}}`,
    },
    secrets: [canary.stripe, canary.slack, canary.github],
  },
  {
    name: 'expressions in which a literal cannot be replaced',
    props: {
      key: `{{({ "${canary.stripe}": 1 })}}`,
      template: `{{\`${canary.slack}\${1 + 1}\`}}`,
    },
    secrets: [],
    unsure: ['key', 'template'],
  },
  {
    name: 'a secret in SQL, where an expression is a parameter',
    props: { sql: { query: `select * from a where token = '${canary.github}'`, params: [] } },
    secrets: [],
    unsure: ['sql.query'],
  },
  {
    name: 'braces around a secret that would become a part of the expression',
    props: { text: `{${canary.stripe}}`, open: `{{ ${canary.slack}` },
    secrets: [],
    unsure: ['text', 'open'],
  },
  {
    name: 'props with the name of a secret, of which their component may say that they are secret',
    props: {
      apiKey: canary.plain,
      nested: { clientSecret: 'canary-26' },
      password: '{{process.env.P}}',
      tokenType: 'Bearer',
    },
    secrets: [],
    unsure: ['apiKey', 'nested.clientSecret'],
  },
  {
    name: 'nothing that is a secret',
    props: {
      text: 'the token is secret, and https://example.com/?page=2&sort_key=name has none: task-force-2024-of-the-long-name',
      key: 'counter',
      project: { key: 'SHOP' },
      slack: { authProvisionId: 'apn_Abc123' },
      dataStore: { storeId: 'ds_Abc123' },
      nextPageToken: 'x1',
      url: '{{steps.trigger.event.url}}?token={{process.env.TOKEN}}',
      number: 5,
      nothing: null,
      ...request({
        headers: [
          { name: 'authorization', value: 'Bearer {{process.env.T}}' },
          { name: 'cookie', value: 'sid={{process.env.T}}; a=1' },
        ],
        body: { raw: '{"key": "A-1", "text": "{{steps.a}}"}' },
      }),
    },
    secrets: [],
  },
];
