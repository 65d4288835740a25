import { bytesText, countText, durationText } from '#lib/units.ts';
import { readDatabaseUrl } from './database-url.ts';
import { fileVariableOf } from './setting-files.ts';
import { type SettingDefinition, type Settings, settingDefinitions } from './settings.ts';

/** A setting as the admin of a running service sees it. */
export interface SettingView {
  env: string;
  text: string;
  /** The text as in the environment; '' when it is empty; null: it is set, and not shown. */
  value: string | null;
  /** An amount with its unit, such as 10 minutes or 2 GB; null: the value needs none. */
  amount: string | null;
  /** Where the value comes from. */
  from: 'environment' | 'file' | 'default';
}

/**
 * Pure: every setting with its value and where that comes from. Never a secret: how a text is shown is part of its
 * definition, and a URL is reduced to its host and path. Nothing but the settings is read from the environment.
 */
export function viewSettings(
  settings: Settings,
  environment: Readonly<Record<string, string | undefined>>,
): SettingView[] {
  const names = Object.keys(settingDefinitions) as (keyof Settings)[];
  return names.map((name) => {
    const definition: SettingDefinition = settingDefinitions[name];
    const { env, text } = definition;
    return {
      env,
      text,
      value: shownValue(definition, settings[name]),
      amount: amountOf(name, settings[name]),
      from: originOf(definition, environment),
    };
  });
}

function originOf(
  definition: SettingDefinition,
  environment: Readonly<Record<string, string | undefined>>,
): SettingView['from'] {
  if ((environment[definition.env] ?? '') !== '') return 'environment';
  const variable = fileVariableOf(definition);
  return variable !== undefined && (environment[variable] ?? '') !== '' ? 'file' : 'default';
}

/** The name of a setting ends in its unit. */
const units: readonly { ending: RegExp; amount: (value: number) => string }[] = [
  { ending: /^quotaComputeMs$/, amount: (value) => `${durationText(value)} a day` },
  { ending: /^quotaStoredMb$/, amount: (value) => (value === 0 ? 'no limit' : `${countText(value)} MB`) },
  {
    ending: /^quota(Sources|Workflows|Streams)$/,
    amount: (value) => (value === 0 ? 'no limit' : countText(value)),
  },
  {
    ending: /^quota(Events|Deliveries)$/,
    amount: (value) => (value === 0 ? 'no limit' : `${countText(value)} a day`),
  },
  { ending: /^quota/, amount: (value) => `${countText(value)} a day` },
  { ending: /Ms$/, amount: durationText },
  { ending: /Seconds$/, amount: (value) => durationText(value * 1000) },
  { ending: /Hours$/, amount: (value) => durationText(value * 3_600_000) },
  { ending: /Days$/, amount: (value) => durationText(value * 86_400_000) },
  { ending: /Kb$/, amount: (value) => bytesText(value * 1024) },
  { ending: /Mb$/, amount: (value) => bytesText(value * 1024 ** 2) },
  { ending: /Gb$/, amount: (value) => bytesText(value * 1024 ** 3) },
];

function amountOf(name: string, value: string | number | readonly string[]): string | null {
  // 0 turns off what has a limit above it; the text of the setting says so.
  if (typeof value !== 'number' || value === 0) return null;
  return units.find(({ ending }) => ending.test(name))?.amount(value) ?? null;
}

function shownValue(
  definition: SettingDefinition,
  value: string | number | readonly string[],
): string | null {
  const text = typeof value === 'object' ? value.join(',') : String(value);
  if (text === '' || definition.type === 'integer' || definition.type === 'choice') return text;
  if (definition.shown === 'whole') return text;
  return definition.shown === 'place' ? placeOf(text) : null;
}

/** Without user, password, query and fragment, each of which may hold a secret; null for what is no plain URL with a host. */
function placeOf(text: string): string | null {
  if (/^postgres/.test(text)) return placeOfDatabase(text);
  if (!URL.canParse(text)) return null;
  const { protocol, host, pathname } = new URL(text);
  return host === '' ? null : `${protocol}//${host}${pathname}`;
}

function placeOfDatabase(text: string): string | null {
  const urls = readDatabaseUrl(text).urls.map((url) => (URL.canParse(url) ? new URL(url) : undefined));
  const hosts = urls.map((url) => url?.host ?? '');
  const { protocol = '', pathname = '' } = urls[0] ?? {};
  return hosts.includes('') ? null : `${protocol}//${hosts.join(',')}${pathname}`;
}
