/** The command that shows the ids and names of each kind of object, by what the service calls the kind. */
const listCommands: Readonly<Record<string, string>> = {
  account: 'millrace accounts list',
  app: 'millrace apps list WORDS',
  component: 'millrace components list WORDS',
  'data store': 'millrace data-stores list',
  delivery: 'millrace deliveries list LISTENER',
  entry: 'millrace data-stores entries DATA-STORE',
  package: 'millrace registry list',
  repository: 'millrace registry list',
  run: 'millrace runs list WORKFLOW',
  source: 'millrace sources list',
  step: 'millrace workflows describe WORKFLOW',
  subscription: 'millrace subscriptions list',
  'test event': 'millrace test-events list WORKFLOW',
  variable: 'millrace env list',
  webhook: 'millrace webhooks list',
  workflow: 'millrace workflows list',
  workspace: 'millrace whoami',
};

/** A name such as `@pipedream/rss`: a package, where the key of a component was expected. */
const packageName = /^there is no component "(@[\w.-]+\/[\w.-]+)(?:@[^"]*)?"/;

const notFound = new RegExp(`\\bno (${Object.keys(listCommands).join('|')}) "`);

/** What to do about an answer that says that there is no such object. */
export function whereToLook(message: string): string {
  if (message.startsWith('no import '))
    return 'An import prints its id at its end; the dashboard lists all under Workflows, Import.';
  const packaged = packageName.exec(message)?.[1];
  if (packaged !== undefined)
    return `That is the name of an npm package. \`millrace registry add ${packaged}\` adds its components; \`millrace components list WORDS\` shows their keys.`;
  const kind = notFound.exec(message)?.[1];
  const command = kind === undefined ? undefined : listCommands[kind];
  if (command === undefined) return 'The `list` commands show the ids and names of what you can see.';
  return `\`${command}\` shows ${kind === 'component' ? 'the keys that there are' : 'what you can see'}.`;
}
