import { findWebhook } from '#delivery/webhooks/webhook-store.ts';
import { notFound, type Ownership } from '#identity/permissions.ts';
import { CallerError } from '#lib/errors.ts';
import { findSource } from '#sources/source-store.ts';
import type { Db } from '#storage/store.ts';
import type { WebhookState } from '#storage/tables/delivery-tables.ts';
import { findWorkflow } from '#workflows/definitions/workflow-store.ts';

/** A channel's name, as long as a component may give it. */
const eventNameCharactersMax = 1000;

/** A channel that can be listened to. Throws CallerError `invalid_parameter`. */
export function checkEventName(eventName: string): void {
  if (eventName.length > eventNameCharactersMax)
    throw invalid('event_name', `event_name: expected at most ${eventNameCharactersMax} characters`);
  if (eventName === '$in')
    throw invalid(
      'event_name',
      'event_name: $in is the channel of waiting events, which cannot be subscribed to',
    );
}

/** What receives events. */
export interface Listener {
  id: string;
  ownerId: string;
  /** The state of a webhook; null for listeners of other kinds. */
  webhookState: WebhookState | null;
}

export async function findListener(db: Db, id: string): Promise<Listener | undefined> {
  if (id.startsWith('wh_')) {
    const webhook = await findWebhook(db, id);
    return webhook && { id, ownerId: webhook.owner_id, webhookState: webhook.state };
  }
  const emitter = await findEmitter(db, id);
  return emitter && { id, ownerId: emitter.owner_id, webhookState: null };
}

/** A source or workflow; undefined for any other id too. */
export async function findEmitter(db: Db, id: string): Promise<{ id: string; owner_id: string } | undefined> {
  if (id.startsWith('dc_')) return findSource(db, id);
  return id.startsWith('p_') ? findWorkflow(db, id) : undefined;
}

/** An id of exactly one emitter, not of all of a kind. */
export function isOfOneEmitter(id: string): boolean {
  return /^(dc|p)_/.test(id) && !id.endsWith('*');
}

/** The owner of a listener that the caller may change. Throws `not_found`, `forbidden`, `invalid_parameter`. */
export async function ownerOfListener(db: Db, owners: Ownership, id: string): Promise<string> {
  const found = await findListener(db, id);
  if (found === undefined && !/^(wh|dc|p)_/.test(id))
    throw invalid(
      'listener_id',
      'listener_id: expected the id of a webhook (wh_…), source (dc_…) or workflow (p_…)',
    );
  return requireWritable(owners, found?.ownerId, id, 'listener_id');
}

/** The owner of what these emitters are, written as in a subscription. Throws as `ownerOfListener` does. */
export async function ownerOfEmitters(
  db: Db,
  owners: Ownership,
  request: { emitterId: string; workspaceId?: string },
  listenerOwner: string,
): Promise<string> {
  const { emitterId: id, workspaceId } = request;
  if (id === 'dc_*' || id === 'p_*') {
    const ownerId = workspaceId ?? listenerOwner;
    return requireWritable(owners, ownerId, ownerId, 'org_id');
  }
  if (/^[ou]_/.test(id)) return requireWritable(owners, id, id, 'emitter_id');
  if (!/^(dc|p)_/.test(id))
    throw invalid(
      'emitter_id',
      'emitter_id: expected the id of a source (dc_…), workflow (p_…), workspace (o_…) or user (u_…), or dc_* or p_*',
    );
  return requireWritable(owners, (await findEmitter(db, id))?.owner_id, id, 'emitter_id');
}

/** Throws `not_found` for what is not there or not the caller's to see, `forbidden` for a viewer. */
export function requireWritable(
  owners: Ownership,
  ownerId: string | undefined,
  id: string,
  parameter: string,
): string {
  if (ownerId === undefined || !owners.mayRead(ownerId)) {
    const what = parameter === 'org_id' ? 'workspace' : parameter.replace(/_id$/, '');
    throw notFound(what, id, parameter);
  }
  if (!owners.mayWrite(ownerId))
    throw new CallerError('forbidden', 'your role in this workspace lets you only read its subscriptions');
  return ownerId;
}

export function invalid(parameter: string, message: string): CallerError {
  return new CallerError('invalid_parameter', message, { parameter });
}
