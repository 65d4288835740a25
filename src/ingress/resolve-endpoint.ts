import type { ComponentShape } from '#components/component-shape.ts';
import { findComponent } from '#components/component-store.ts';
import { isDeleted } from '#identity/deletion-store.ts';
import { must } from '#lib/assert.ts';
import type { Clock } from '#lib/clock.ts';
import { mergedDefinitions } from '#sources/deployment.ts';
import type { ValueSealer } from '#sources/sealed-props.ts';
import { repliesItself } from '#sources/source-props.ts';
import { findSourceByEndpoint, goneSources, laneOfSource } from '#sources/source-store.ts';
import type { Store } from '#storage/store.ts';
import { openTriggerAuth, type TriggerAuth } from '#workflows/definitions/trigger-auth.ts';
import { findTriggerByKey } from '#workflows/definitions/trigger-store.ts';
import { findWorkflow, goneWorkflows } from '#workflows/definitions/workflow-store.ts';

/** The source or workflow that gets the requests to an endpoint. */
export type Endpoint = SourceEndpoint | WorkflowEndpoint;

export interface SourceEndpoint {
  kind: 'source';
  sourceId: string;
  ownerId: string;
  /** The lane of its runs. */
  lane: string;
  flowControl: string | null;
  /** The component replies itself (`customResponse`). */
  customResponse: boolean;
}

export interface WorkflowEndpoint {
  kind: 'workflow';
  workflowId: string;
  ownerId: string;
  /** What new events run. */
  deploymentId: string;
  flowControl: string | null;
  /** hi_… of the trigger. */
  triggerId: string;
  /** A step replies (`$.respond`). */
  customResponse: boolean;
  /** What callers must send; undefined: calls need no token. */
  auth: TriggerAuth | undefined;
}

/** Id of the source or workflow. */
export function subjectOf(endpoint: Endpoint): string {
  return endpoint.kind === 'source' ? endpoint.sourceId : endpoint.workflowId;
}

/** Endpoints remembered; the least recently used one is dropped first. */
const rememberedMax = 10_000;
/** With several processes, how long a change made in another one may go unseen here; a removal is heard of at once. */
const rememberedMs = 1_000;

/** From an endpoint's key to its source or workflow, remembered while it is in use, so that a request costs no query. */
export class EndpointDirectory {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #sealer: Pick<ValueSealer, 'open'>;
  readonly #remembered = new Map<string, { endpoint: Endpoint; untilMs: number }>();
  /** Counts calls of `forget`: what was read before one of them is not remembered after it. */
  #changes = 0;

  constructor(options: { store: Store; clock: Clock; sealer: Pick<ValueSealer, 'open'> }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#sealer = options.sealer;
  }

  /** Undefined for unknown keys, and for sources and workflows that are not active or whose owner was deleted. */
  async find(key: string): Promise<Endpoint | undefined> {
    const remembered = this.#remembered.get(key);
    if (remembered !== undefined && remembered.untilMs > this.#clock.now()) return remembered.endpoint;
    const changes = this.#changes;
    const endpoint = await this.#load(key);
    this.#remembered.delete(key);
    // Unknown keys are not remembered: guessing must not push the known ones out.
    if (endpoint === undefined || changes !== this.#changes) return endpoint;
    this.#remembered.set(key, {
      endpoint,
      untilMs: !this.#store.isShared ? Number.POSITIVE_INFINITY : this.#clock.now() + rememberedMs,
    });
    if (this.#remembered.size > rememberedMax) {
      const oldest = this.#remembered.keys().next().value;
      if (oldest !== undefined) this.#remembered.delete(oldest);
    }
    return endpoint;
  }

  /** Call it after the commit of a change of the key's source or workflow. */
  forget(key: string): void {
    this.#changes += 1;
    this.#remembered.delete(key);
  }

  /** To be called when a source or workflow was removed, on whichever node. */
  forgetSubject(id: string): void {
    this.#changes += 1;
    for (const [key, { endpoint }] of this.#remembered)
      if (subjectOf(endpoint) === id) this.#remembered.delete(key);
  }

  /** To be called when the owner was deleted; other nodes notice within a second. */
  forgetOwner(ownerId: string): void {
    this.#changes += 1;
    for (const [key, { endpoint }] of this.#remembered)
      if (endpoint.ownerId === ownerId) this.#remembered.delete(key);
  }

  /** True when its source or workflow was deleted since it was found. False when the store cannot be read. */
  async isRemoved(endpoint: Endpoint): Promise<boolean> {
    const db = this.#store.read;
    const id = new Set([subjectOf(endpoint)]);
    const gone = endpoint.kind === 'source' ? goneSources(db, id) : goneWorkflows(db, id);
    return gone.then(
      ({ size }) => size > 0,
      () => false,
    );
  }

  #load(key: string): Promise<Endpoint | undefined> {
    if (/^[0-9a-f]{32}$/.test(key)) return this.#loadSource(key);
    if (/^eo[0-9a-z]{13}$/.test(key)) return this.#loadWorkflow(key);
    return Promise.resolve(undefined);
  }

  async #loadSource(key: string): Promise<SourceEndpoint | undefined> {
    const source = await findSourceByEndpoint(this.#store.read, key);
    if (source === undefined || source.state === 'inactive') return undefined;
    if (await isDeleted(this.#store.read, source.owner_id)) return undefined;
    const component = must(
      await findComponent(this.#store.read, source.component_id),
      `component of ${source.id}`,
    );
    const definitions = mergedDefinitions(
      JSON.parse(component.shape) as ComponentShape,
      source.dynamic_props,
    );
    return {
      kind: 'source',
      sourceId: source.id,
      ownerId: source.owner_id,
      lane: laneOfSource(source),
      flowControl: source.flow_control,
      customResponse: repliesItself(definitions),
    };
  }

  async #loadWorkflow(key: string): Promise<WorkflowEndpoint | undefined> {
    const trigger = await findTriggerByKey(this.#store.read, key);
    if (trigger === undefined || trigger.kind !== 'http') return undefined;
    const workflow = await findWorkflow(this.#store.read, trigger.workflow_id);
    if (workflow === undefined || workflow.state !== 'active') return undefined;
    return {
      kind: 'workflow',
      workflowId: workflow.id,
      ownerId: workflow.owner_id,
      deploymentId: workflow.deployment_id,
      flowControl: workflow.flow_control,
      triggerId: trigger.id,
      customResponse: trigger.custom_response === 1,
      auth: await openTriggerAuth(this.#sealer, trigger),
    };
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
