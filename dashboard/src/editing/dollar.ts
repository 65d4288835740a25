/** A name that code can use, what it is, and what is below it. */
export interface Known {
  name: string;
  /** In a few signs, beside the name: `(key, value)`. */
  detail?: string;
  info?: string;
  below?: readonly Known[];
}

const urls = 'Answers { resume_url, cancel_url }.';

/** `$` of a step. */
export const stepDollar: readonly Known[] = [
  {
    name: 'export',
    detail: '(name, value)',
    info: 'Keeps a value for later steps: steps.<this step>.<name>. What run returns is kept as $return_value.',
  },
  {
    name: 'respond',
    detail: '({ status, headers, body, immediate })',
    info: 'Answers the HTTP request that started the run; its trigger needs "Custom response". With immediate the answer leaves before the run ends.',
  },
  {
    name: 'flow',
    info: 'How the run continues after this step.',
    below: [
      { name: 'exit', detail: '(reason)', info: 'Ends the run after this step, as a success.' },
      { name: 'delay', detail: '(ms)', info: `Pauses the run for so many milliseconds. ${urls}` },
      {
        name: 'suspend',
        detail: '(ms = 1 day)',
        info: `Waits for a request to the resume URL, at most so long. ${urls}`,
      },
      {
        name: 'rerun',
        detail: '(ms, context, retries = 10)',
        info: 'Runs this step again later, with context in $.context.run.context.',
      },
      { name: 'trigger', detail: '(workflowId, event)', info: 'Runs another workflow of the same owner.' },
      { name: 'refreshTimeout', detail: '()', info: 'Restarts the time limit of this step.' },
    ],
  },
  {
    name: 'send',
    info: 'What is sent when the step has ended well. In tests of a step nothing is sent.',
    below: [
      { name: 'http', detail: '({ method, url, headers, data })', info: 'Sends an HTTP request.' },
      {
        name: 'email',
        detail: '({ subject, text, html })',
        info: 'Sends a mail to the owner of the workflow.',
      },
      {
        name: 'emit',
        detail: '(event, channel)',
        info: 'Emits an event to those who subscribe to the workflow.',
      },
      { name: 's3', detail: '({ bucket, prefix, payload })', info: 'Writes an object into a bucket.' },
      {
        name: 'sse',
        detail: '({ channel, payload })',
        info: 'Sends a message to the stream of the workflow.',
      },
    ],
  },
  {
    name: 'files',
    info: 'Files of the project of the workflow.',
    below: [
      {
        name: 'open',
        detail: '(path)',
        info: 'A file: its toBuffer, toFile, toUrl, fromFile, fromUrl, delete …',
      },
      { name: 'dir', detail: '(path)', info: 'What is in a folder, as async iteration.' },
    ],
  },
  {
    name: 'context',
    info: 'Of this run.',
    below: [
      { name: 'id', info: 'The id of the run.' },
      { name: 'workflow_id', info: 'p_…' },
      { name: 'deployment_id', info: 'd_…' },
      { name: 'owner_id', info: 'u_… or o_…' },
      { name: 'deadline', info: 'Epoch milliseconds at which this step has to have ended.' },
      { name: 'run', info: '{ runs, context, callback_request }: runs counts from 1.' },
      { name: 'test', info: 'Whether the step is only being tried.' },
    ],
  },
];

const store: readonly Known[] = [
  { name: 'get', detail: '(key)', info: 'What is kept under the key; undefined: nothing.' },
  { name: 'set', detail: '(key, value)', info: 'Keeps a value under the key.' },
];

/** What props of these types have, beyond plain values. */
export const ofPropType: Readonly<Record<string, readonly Known[]>> = {
  '$.service.db': store,
  data_store: [
    ...store,
    { name: 'has', detail: '(key)' },
    { name: 'delete', detail: '(key)' },
    { name: 'keys', detail: '()' },
    { name: 'setTtl', detail: '(key, seconds)', info: 'After so long the key is gone; null: never.' },
    { name: 'clear', detail: '()' },
  ],
  '$.interface.http': [
    { name: 'respond', detail: '({ status, headers, body })', info: 'Answers the request.' },
    { name: 'endpoint', info: 'The endpoint URL.' },
  ],
  app: [{ name: '$auth', info: 'The credentials of the chosen account.' }],
};

export const emit: Known = {
  name: '$emit',
  detail: '(event, { id, summary, ts })',
  info: 'Emits an event; with id, one that came before is left out where the component has dedupe.',
};

/** Types that a prop can have. */
export const propTypes: readonly Known[] = [
  { name: 'string', info: 'A text.' },
  { name: 'integer', info: 'A whole number.' },
  { name: 'number', info: 'A number.' },
  { name: 'boolean', info: 'Yes or no.' },
  { name: 'object', info: 'An object.' },
  { name: 'any', info: 'Any JSON.' },
  { name: 'string[]', info: 'Texts.' },
  { name: 'integer[]', info: 'Whole numbers.' },
  { name: 'app', info: 'An account: with app: "<its slug>". Its credentials are this.<prop>.$auth.' },
  { name: 'data_store', info: 'A data store of the owner.' },
  { name: 'dir', info: 'A folder of files.' },
  { name: 'sql', info: 'A query of a database.' },
  { name: 'http_request', info: 'A request, put together in the form.' },
  { name: 'alert', info: 'No value: a text in the form.' },
  { name: '$.service.db', info: 'What the component remembers: get(key) and set(key, value).' },
  { name: '$.interface.timer', info: 'Of sources: runs it on a schedule.' },
  { name: '$.interface.http', info: 'Of sources: gives it an address.' },
];

/** Fields of the definition of a prop. */
export const propFields: readonly Known[] = [
  { name: 'type', info: 'What its values are.' },
  { name: 'label', info: 'Its name in forms.' },
  { name: 'description', info: 'Below its name in forms.' },
  { name: 'optional', info: 'true: it may be left out.' },
  { name: 'default', info: 'Where nothing is given.' },
  { name: 'options', info: 'Choices: an array, or an async function that answers one.' },
  { name: 'secret', info: 'true: it is kept sealed and never shown.' },
  { name: 'min', info: 'Of numbers.' },
  { name: 'max', info: 'Of numbers.' },
  { name: 'app', info: 'Of type app: the slug of the app.' },
  { name: 'reloadProps', info: 'true: additionalProps is called again when it changes.' },
  { name: 'hidden', info: 'true: it is not in forms.' },
];
