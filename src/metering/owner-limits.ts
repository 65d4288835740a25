import { CallerError } from '#lib/errors.ts';
import { countText } from '#lib/units.ts';
import type { OwnerQuotaTable } from '#storage/tables/identity-tables.ts';

/**
 * What an owner (u_… or o_…) may have and do beside its daily quotas; 0: no limit. Each applies as soon as it is set,
 * whether quotas are enforced or not.
 */
export interface Limits {
  sources: number;
  /** Active ones. */
  workflows: number;
  /** Emitted on one UTC day, log lines and errors apart. */
  events: number;
  /** Attempts on one UTC day. */
  deliveries: number;
  /** Events, runs and files (`owner-size-store.ts`), in MB. */
  storedMb: number;
  /** Open live streams on each node. */
  streams: number;
  /** Builds of components under way or waiting on each node. */
  builds: number;
  /** Workspaces that a user has created. Workspaces create none. */
  workspaces: number;
}

export type LimitName = keyof Limits;

export const noLimits: Readonly<Limits> = {
  sources: 0,
  workflows: 0,
  events: 0,
  deliveries: 0,
  storedMb: 0,
  streams: 0,
  builds: 0,
  workspaces: 0,
};

/** The column of each limit. */
const limitColumns = {
  sources: 'sources_max',
  workflows: 'workflows_max',
  events: 'events_max',
  deliveries: 'deliveries_max',
  storedMb: 'stored_mb_max',
  streams: 'streams_max',
  builds: 'builds_max',
  workspaces: 'workspaces_max',
} as const satisfies Record<LimitName, keyof OwnerQuotaTable>;

/** What the limits of an owner are read from. */
export type LimitRow = Pick<OwnerQuotaTable, (typeof limitColumns)[LimitName]>;

/** Pure: the settings, where the owner has no number of their own. */
export function effectiveLimits(defaults: Limits, own: LimitRow | undefined): Limits {
  const limit = (name: LimitName) => own?.[limitColumns[name]] ?? defaults[name];
  return {
    sources: limit('sources'),
    workflows: limit('workflows'),
    events: limit('events'),
    deliveries: limit('deliveries'),
    storedMb: limit('storedMb'),
    streams: limit('streams'),
    builds: limit('builds'),
    workspaces: limit('workspaces'),
  };
}

/** A limit as the API names it. */
export function limitNameOf(name: LimitName): string {
  return name === 'storedMb' ? 'stored_mb' : name;
}

/** How a limit is named in an error, with its number. */
export function limitText(name: LimitName, limit: number): string {
  switch (name) {
    case 'events':
    case 'deliveries':
      return `${countText(limit)} ${name} a day`;
    case 'workflows':
      return `${countText(limit)} active workflows`;
    case 'storedMb':
      return `${countText(limit)} MB of events, runs and files`;
    case 'streams':
      return `${countText(limit)} open streams on each node`;
    case 'builds':
      return `${countText(limit)} builds at the same time on each node`;
    default:
      return `${countText(limit)} ${name}`;
  }
}

/** What to do about a limit that no new day lifts. */
const ways = {
  sources: 'delete one, or ask the admin of the instance for more',
  workflows: 'deactivate one, or ask the admin of the instance for more',
  storedMb: 'delete some, or ask the admin of the instance for more',
  streams: 'close one, or ask the admin of the instance for more',
  workspaces: 'delete one, or ask the admin of the instance for more',
  builds: 'wait until one has ended, or ask the admin of the instance for more',
} as const;

export type LastingLimit = keyof typeof ways;

/** CallerError `quota_exceeded` (429). */
export function limitReached(
  name: LastingLimit,
  limit: number,
  details: Record<string, unknown> = {},
): CallerError {
  return new CallerError('quota_exceeded', `quota used up: ${limitText(name, limit)}; ${ways[name]}`, {
    quota: limitNameOf(name),
    limit,
    ...details,
  });
}
