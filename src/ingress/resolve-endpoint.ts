import type { ComponentShape } from '#components/component-shape.ts';
import { findComponent } from '#components/component-store.ts';
import { must } from '#lib/assert.ts';
import type { Clock } from '#lib/clock.ts';
import { mergedDefinitions } from '#sources/deployment.ts';
import { repliesItself } from '#sources/source-props.ts';
import { findSourceByEndpoint } from '#sources/source-store.ts';
import type { Store } from '#storage/store.ts';

/** Who a request to an endpoint is for. */
export interface Endpoint {
  sourceId: string;
  ownerId: string;
  /** The component replies itself (`customResponse`). */
  customResponse: boolean;
}

/** Endpoints remembered; the least recently used one goes first. */
const rememberedMax = 10_000;
/** With several processes, how long a change made in another one may go unseen here. */
const rememberedMs = 1_000;

/** From an endpoint's key to its source, remembered while it is in use, so that a request costs no query. */
export class EndpointDirectory {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #remembered = new Map<string, { endpoint: Endpoint | undefined; untilMs: number }>();

  constructor(options: { store: Store; clock: Clock }) {
    this.#store = options.store;
    this.#clock = options.clock;
  }

  /** Undefined for unknown keys and for sources that are not active (or just being activated). */
  async find(key: string): Promise<Endpoint | undefined> {
    const remembered = this.#remembered.get(key);
    if (remembered !== undefined && remembered.untilMs > this.#clock.now()) return remembered.endpoint;
    const endpoint = await this.#load(key);
    // Unknown keys are not remembered: guessing must not push the known ones out.
    if (endpoint === undefined) return undefined;
    this.#remembered.delete(key);
    this.#remembered.set(key, {
      endpoint,
      untilMs: this.#store.name === 'sqlite' ? Number.POSITIVE_INFINITY : this.#clock.now() + rememberedMs,
    });
    if (this.#remembered.size > rememberedMax) {
      const oldest = this.#remembered.keys().next().value;
      if (oldest !== undefined) this.#remembered.delete(oldest);
    }
    return endpoint;
  }

  forget(key: string): void {
    this.#remembered.delete(key);
  }

  async #load(key: string): Promise<Endpoint | undefined> {
    if (!/^[0-9a-f]{32}$/.test(key)) return undefined;
    const source = await findSourceByEndpoint(this.#store.read, key);
    if (source === undefined || source.state === 'inactive') return undefined;
    const component = must(
      await findComponent(this.#store.read, source.component_id),
      `component of ${source.id}`,
    );
    const definitions = mergedDefinitions(
      JSON.parse(component.shape) as ComponentShape,
      source.dynamic_props,
    );
    return { sourceId: source.id, ownerId: source.owner_id, customResponse: repliesItself(definitions) };
  }
}

/** The URL of an endpoint: `{public_url}/in/<key>`, or `https://<key>.<domain>` when a domain is set. */
export function endpointUrl(settings: { publicUrl: string; endpointDomain: string }, key: string): string {
  return settings.endpointDomain === ''
    ? `${settings.publicUrl}/in/${key}`
    : `https://${key}.${settings.endpointDomain}`;
}

/** The endpoint key in a Host header such as `<key>.example.com:8080`, when it lies under `domain`. */
export function endpointKeyOfHost(host: string | undefined, domain: string): string | undefined {
  if (domain === '' || host === undefined) return undefined;
  const name = host.toLowerCase().replace(/:\d+$/, '').replace(/\.$/, '');
  const suffix = `.${domain.toLowerCase()}`;
  if (!name.endsWith(suffix)) return undefined;
  const key = name.slice(0, -suffix.length);
  return /^[a-z0-9]+$/.test(key) ? key : undefined;
}
