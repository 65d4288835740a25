import type { CertificateAuthority } from '../certificates.ts';
import { startApify } from './apify.ts';
import { startGitlab } from './gitlab.ts';
import { startGoogleDrive } from './google-drive.ts';
import { startLinear } from './linear.ts';
import { startNotion } from './notion.ts';
import { startQuickbooks } from './quickbooks.ts';
import { startShopify } from './shopify.ts';
import { startSlack } from './slack.ts';
import type { ServiceStandIn } from './stand-in.ts';

/** What each service accepts, and nothing else. */
export const appSecrets = {
  apify: 'apify_api_canary_0123456789',
  gitlab: 'glpat-canary-0123456789',
  google_drive: 'ya29.canary-0123456789',
  linear_app: 'lin_api_canary_0123456789',
  notion: 'ntn_canary_0123456789',
  quickbooks: 'eyJlbmMi.canary-0123456789',
  shopify: 'shpat_canary_0123456789',
  slack: 'xoxp-canary-0123456789',
} as const;

export type StandInApp = keyof typeof appSecrets;

export const standInApps = Object.keys(appSecrets) as StandInApp[];

const starters: Record<StandInApp, (authority: CertificateAuthority) => Promise<ServiceStandIn>> = {
  apify: (authority) => startApify(authority, appSecrets.apify),
  gitlab: (authority) => startGitlab(authority, appSecrets.gitlab),
  google_drive: (authority) => startGoogleDrive(authority, (token) => token === appSecrets.google_drive),
  linear_app: (authority) => startLinear(authority, appSecrets.linear_app),
  notion: (authority) => startNotion(authority, appSecrets.notion),
  quickbooks: (authority) => startQuickbooks(authority, (token) => token === appSecrets.quickbooks),
  shopify: (authority) => startShopify(authority, appSecrets.shopify),
  slack: (authority) => startSlack(authority, appSecrets.slack),
};

/** Stand-ins for the services of several apps, each of which takes its one secret. */
export class StandIns {
  readonly #standIns = new Map<StandInApp, ServiceStandIn>();

  private constructor() {}

  static async start(authority: CertificateAuthority, apps: readonly StandInApp[]): Promise<StandIns> {
    const started = new StandIns();
    for (const app of apps) started.#standIns.set(app, await starters[app](authority));
    return started;
  }

  of(app: StandInApp): ServiceStandIn {
    const standIn = this.#standIns.get(app);
    if (standIn === undefined) throw new Error(`there is no stand-in of ${app} here`);
    return standIn;
  }

  /** For MILLRACE_CONNECT_TO. */
  get connectTo(): string[] {
    return [...this.#standIns.values()].map(({ connectTo }) => connectTo);
  }

  async close(): Promise<void> {
    for (const standIn of this.#standIns.values()) await standIn.close();
  }
}
