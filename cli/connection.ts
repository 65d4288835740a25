import { CliError, usageError } from './exit-codes.ts';
import { type Profiles, profilesFile, readProfiles } from './profiles.ts';

type Environment = Readonly<Record<string, string | undefined>>;

export const defaultUrl = 'http://127.0.0.1:8080';

export interface ChosenConnection {
  url: string;
  apiKey: string;
  /** Undefined: all of it came from the environment. */
  profile: string | undefined;
}

/** True when there is a profile or a variable to connect with. */
export async function hasConnection(environment: Environment): Promise<boolean> {
  if ((environment.MILLRACE_API_KEY ?? '') !== '' || (environment.MILLRACE_URL ?? '') !== '') return true;
  return Object.keys((await readProfiles(environment)).byName).length > 0;
}

/**
 * MILLRACE_URL and MILLRACE_API_KEY win over the profile. The key of a profile is for its own service: it is never sent to
 * another one that MILLRACE_URL names.
 */
export async function chooseConnection(
  environment: Environment,
  profileName: string | undefined,
): Promise<ChosenConnection> {
  const url =
    environment.MILLRACE_URL === undefined || environment.MILLRACE_URL === ''
      ? undefined
      : serviceUrl(environment.MILLRACE_URL);
  const apiKey = environment.MILLRACE_API_KEY === '' ? undefined : environment.MILLRACE_API_KEY;
  if (profileName === undefined && apiKey !== undefined && url !== undefined)
    return { url, apiKey, profile: undefined };
  const profiles = await readProfiles(environment);
  const wanted = profileName ?? environment.MILLRACE_PROFILE ?? profiles.current;
  const profile = Object.hasOwn(profiles.byName, wanted) ? profiles.byName[wanted] : undefined;
  if (profile === undefined && (profileName !== undefined || environment.MILLRACE_PROFILE !== undefined))
    throw unknownProfile(wanted, profiles, environment);
  if (apiKey !== undefined) return { url: url ?? profile?.url ?? defaultUrl, apiKey, profile: undefined };
  if (profile === undefined) {
    throw new CliError('notAllowed', 'you are not logged in', {
      hint: 'Run `millrace login`, or set MILLRACE_URL and MILLRACE_API_KEY.',
    });
  }
  if (url !== undefined && url !== profile.url) {
    throw new CliError(
      'notAllowed',
      `there is no API key for ${url}: the one of profile ${wanted} is for ${profile.url}`,
      {
        hint: 'Set MILLRACE_API_KEY too, or unset MILLRACE_URL.',
      },
    );
  }
  return { url: profile.url, apiKey: profile.apiKey, profile: wanted };
}

/** As it was given, without a slash at the end. Throws a usage error for what is no http or https URL. */
export function serviceUrl(text: string): string {
  const withScheme = /^[a-z]+:\/\//i.test(text) ? text : `http://${text}`;
  if (!URL.canParse(withScheme))
    throw usageError(`${JSON.stringify(text)} is not the address of a service`, example);
  const url = new URL(withScheme);
  if (
    (url.protocol !== 'http:' && url.protocol !== 'https:') ||
    url.username !== '' ||
    url.search !== '' ||
    url.hash !== ''
  )
    throw usageError(`${JSON.stringify(text)} is not the address of a service`, example);
  return `${url.origin}${url.pathname.replace(/\/(v1\/?)?$/, '')}`;
}

const example = `Such as ${defaultUrl} or https://millrace.example.com.`;

function unknownProfile(name: string, profiles: Profiles, environment: Environment): CliError {
  const names = Object.keys(profiles.byName);
  return new CliError(
    'usage',
    `there is no profile ${JSON.stringify(name)} in ${profilesFile(environment)}`,
    {
      hint: names.length === 0 ? 'Run `millrace login` first.' : `There are: ${names.join(', ')}.`,
    },
  );
}
