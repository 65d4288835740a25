import type { Command } from 'commander';
import { Api, isObject } from './api.ts';
import { type CommandOptions, type GetSessionOptions, leaf, plain, textOption } from './command-kit.ts';
import { defaultUrl, serviceUrl } from './connection.ts';
import { CliError, usageError } from './exit-codes.ts';
import { checkProfileName, defaultProfile, profilesFile, readProfiles, writeProfiles } from './profiles.ts';
import { readTextFile } from './prop-values.ts';
import { Session } from './session.ts';
import { readable, showDone } from './show.ts';

export function loginCommands(program: Command, sessionOptions: GetSessionOptions): void {
  plain(program, 'login', 'keep the address of a service and an API key for it, as a profile')
    .option('--url <url>', `address of the service, such as ${defaultUrl}`)
    .option('--api-key-file <file>', 'file with the API key, - for standard input; else you are asked for it')
    .option(
      '--profile <name>',
      'name of the profile; the one you logged in to last is used when none is named',
    )
    .option('--json', 'print who you are, for machines')
    .action(async (options: CommandOptions) => login(new Session(sessionOptions(), options), options));
  plain(program, 'logout', 'forget a profile; the API key stays valid until it is revoked')
    .option('--profile <name>', 'which one; else the one in use')
    .option('--all', 'all of them')
    .option('--json', 'print nothing for people')
    .action(async (options: CommandOptions) => logout(new Session(sessionOptions(), options), options));
  leaf(program, 'whoami', 'who you are, where, and what you may use today', sessionOptions, whoami);
}

/** The key is tried before it is kept. */
async function login(session: Session, options: CommandOptions): Promise<void> {
  const profiles = await readProfiles(session.environment);
  const name = checkProfileName(
    textOption(options, 'profile') ?? session.environment.MILLRACE_PROFILE ?? defaultProfile,
  );
  const before = Object.hasOwn(profiles.byName, name) ? profiles.byName[name]?.url : undefined;
  const initial = session.environment.MILLRACE_URL || before || defaultUrl;
  const given = textOption(options, 'url');
  const file = textOption(options, 'apiKeyFile');
  const url = serviceUrl(
    given ??
      (session.questions.canAsk && file === undefined
        ? await session.questions.text('Address of the service:', { initial })
        : initial),
  );
  const apiKey = (await keyFor(session, file)).trim();
  if (apiKey === '') throw usageError('the API key is empty');
  if (!/^[!-~]+$/.test(apiKey)) throw usageError('the API key has characters that no API key has');
  const api = new Api({ url, apiKey, signal: session.interrupted });
  const user = await api.data('GET', '/v1/users/me');
  await writeProfiles(session.environment, {
    current: name,
    byName: { ...profiles.byName, [name]: { url, apiKey } },
  });
  showDone(
    session,
    `Logged in to ${url} as ${String(user.username)}, profile ${name} in ${profilesFile(session.environment)}.`,
    user,
  );
}

async function keyFor(session: Session, file: string | undefined): Promise<string> {
  if (file !== undefined) return readTextFile(session, file, '--api-key-file');
  const fromEnvironment = session.environment.MILLRACE_API_KEY ?? '';
  if (fromEnvironment !== '') return fromEnvironment;
  if (!session.questions.canAsk) {
    throw usageError(
      'there is no terminal to ask for the API key at',
      'Give it with --api-key-file FILE (- for standard input), or set MILLRACE_API_KEY and do without a login.',
    );
  }
  return session.questions.secret(
    'API key (npm start has printed it; it is also in api-key in its data folder):',
  );
}

async function logout(session: Session, options: CommandOptions): Promise<void> {
  const profiles = await readProfiles(session.environment);
  if (options.all === true) {
    await writeProfiles(session.environment, { current: defaultProfile, byName: {} });
    return showDone(session, 'Forgot all profiles.');
  }
  const name = textOption(options, 'profile') ?? session.environment.MILLRACE_PROFILE ?? profiles.current;
  if (!Object.hasOwn(profiles.byName, name)) {
    throw new CliError(
      'notFound',
      `there is no profile ${JSON.stringify(name)} in ${profilesFile(session.environment)}`,
    );
  }
  const { [name]: _gone, ...byName } = profiles.byName;
  const current = profiles.current === name ? (Object.keys(byName)[0] ?? defaultProfile) : profiles.current;
  await writeProfiles(session.environment, { current, byName });
  showDone(
    session,
    `Forgot profile ${name}.${Object.keys(byName).length === 0 ? '' : ` In use now: ${current}.`}`,
  );
}

async function whoami(session: Session): Promise<void> {
  const { url, apiKey, profile } = await session.connection();
  const user = await new Api({ url, apiKey, signal: session.interrupted }).data('GET', '/v1/users/me');
  if (session.isJson) return session.terminal.printJson(user);
  const { orgs, ...fields } = user;
  session.terminal.printFields([
    ['service', url],
    ['login', profile === undefined ? 'MILLRACE_API_KEY' : `profile ${profile}`],
    ...Object.entries(fields).map(([name, value]) => [name, readable(name, value)] as const),
    ...(Array.isArray(orgs) ? orgs : [])
      .filter(isObject)
      .map((org) => ['workspace', `${String(org.id)}  ${String(org.name)}`] as const),
  ]);
}
