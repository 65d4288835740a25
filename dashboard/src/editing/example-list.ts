/** A workflow without code from the folder `examples`. */
export interface Example {
  /** Its file, without the ending. */
  file: string;
  name: string;
  text: string;
  /** What it reads, and does not run without. */
  variables: readonly string[];
}

export const exampleList: readonly Example[] = [
  {
    file: 'respond-to-a-request',
    name: 'Respond to a request',
    text: 'Fills a template from the request and responds with it.',
    variables: [],
  },
  {
    file: 'forward-a-form',
    name: 'Forward a form',
    text: 'Checks a form with a JSON Schema, answers what is wrong, and sends on what is valid.',
    variables: ['FORM_URL'],
  },
  {
    file: 'check-a-signature',
    name: 'Check a signature',
    text: 'Takes requests that are signed with a secret, and keeps them.',
    variables: ['SIGNING_SECRET'],
  },
  {
    file: 'shorten-links',
    name: 'Shorten links',
    text: 'Keeps addresses under short names, and redirects to them.',
    variables: [],
  },
  {
    file: 'report-as-csv',
    name: 'Report as CSV',
    text: 'Turns a list of orders into totals for each country.',
    variables: [],
  },
  {
    file: 'remind-me-later',
    name: 'Remind me later',
    text: 'Waits for some minutes, then posts a reminder.',
    variables: ['CHAT_URL'],
  },
  {
    file: 'watch-a-page',
    name: 'Watch a page',
    text: 'Posts when the text of a page has changed.',
    variables: ['PAGE_URL', 'CHAT_URL'],
  },
  {
    file: 'orders-in-turn',
    name: 'Orders in turn',
    text: 'Handles the events of a source one at a time, and numbers them for each customer.',
    variables: ['SHOP_URL'],
  },
  {
    file: 'news-digest',
    name: 'News digest',
    text: 'Mails you the posts of the last day of some feeds.',
    variables: ['FEED_URLS'],
  },
  {
    file: 'mail-to-chat',
    name: 'Mail to chat',
    text: 'Posts each mail that arrives.',
    variables: ['CHAT_URL'],
  },
];
