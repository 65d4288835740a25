export interface ExpectedItem {
  /** The folders around it. */
  at?: string;
  status: 'converted' | 'check' | 'by_hand';
  wasActive?: boolean;
  /** Level, step and message of each finding. */
  findings?: readonly RegExp[];
}

/** What the report says of each workflow; worked out by hand from the repository. */
export const expectedReport: Readonly<Record<string, ExpectedItem>> = {
  Quote: { at: 'sales/emea', status: 'converted' },
  greet_customer: { status: 'converted' },
  Doorbell: { status: 'check', findings: [/it has no steps/] },
  large_orders: { at: 'sales', status: 'check', findings: [/^check register: .*httpRequest\.auth\.token/] },
  'Closed days': { status: 'converted' },
  'Visitor counter': { at: 'counters', status: 'converted' },
  'Guest book': { at: 'counters', status: 'converted' },
  'Stock lookup': {
    status: 'check',
    findings: [/^check ask: later steps .*SHOP_ID/, /^check ask: .*httpRequest\.auth\.password/],
  },
  'Push note': {
    status: 'check',
    findings: [
      /^check push: .*httpRequest\.url\.access_token/,
      /^check push: .*httpRequest\.headers\.x-api-key/,
      /^check answer: its prop resStatusCode was of another type, and was converted: expected an integer$/,
    ],
  },
  'Label printer': { status: 'converted' },
  'Old reply': { status: 'check', findings: [/^check reply: .*first generation/] },
  'Older body': {
    status: 'check',
    findings: [/^check double: .*first generation/, /^check reply: .*first generation/],
  },
  No: {
    at: 'sales',
    status: 'check',
    findings: [/^check echo_texts: its prop ratio was .*: expected a string$/],
  },
  Stamp: { status: 'converted' },
  'Early exit: nothing more': { status: 'converted' },
  'Respond now': { status: 'converted' },
  'Python report': {
    at: 'reports',
    status: 'by_hand',
    findings: [/^by_hand collect: this is a Python step/],
  },
  'Shell and Go': {
    status: 'by_hand',
    findings: [
      /^by_hand clean: this is a Bash step/,
      /^by_hand measure: this is a Go step/,
      /^by_hand lost: \.\/lost\/entry\.js is not in the export/,
    ],
  },
  'Clean up': {
    ...{ at: 'reports/nightly', status: 'by_hand', wasActive: false },
    findings: [/^by_hand : .*timer ti_Night19/, /^check : .*network net_Gr33nhs/],
  },
  feed_watch: {
    status: 'by_hand',
    findings: [
      /^by_hand : its source dc_Feedw20 is not here/,
      /^by_hand : what its subscription sub_Feedw20/,
    ],
  },
  Inbox: {
    status: 'check',
    findings: [
      /^check : its email trigger ei_Inbox21 has a new address/,
      /^check triage: later steps .*\[redacted\] in the place of SUPPORT_NAME/,
    ],
  },
  'Water plan': { status: 'check', findings: [/^check plan: its prop litres was .*: expected a string$/] },
  'Catalog search': { status: 'converted' },
  'Chat post': {
    status: 'by_hand',
    findings: [
      /^by_hand post: chatter needs an account of chatter/,
      /^by_hand post: this service has no component chatter-post-message@0\.2\.17/,
      /^by_hand bill: .*billing-charge@1\.0\.0, which is private to the workspace fernco/,
    ],
  },
  'Weekly numbers': {
    ...{ at: 'reports', status: 'check' },
    findings: [
      /^check : its data retention is false there/,
      /^check sum: .*steps\[\]\.continue_on_error: true/,
      /^check tell_team: this service has no component chatter-post-message/,
    ],
  },
};
