import { Type } from 'typebox';
import { OneOf, OneOfOrNull, pageParameters } from '#http/route-support.ts';
import { webhookDisabledReasons, webhookStates } from '#storage/tables/delivery-tables.ts';
import { Health, healthParameter } from './health-shapes.ts';

export const nullable = <S extends ReturnType<typeof Type.String> | ReturnType<typeof Type.Integer>>(
  schema: S,
) => Type.Union([schema, Type.Null()]);

/** Specification, section 2, Webhook. */
export const webhookFields = {
  id: Type.String({ description: 'wh_…; the listener_id of subscriptions' }),
  user_id: Type.String(),
  owner_id: Type.String(),
  name: nullable(Type.String()),
  description: nullable(Type.String()),
  url: Type.String(),
  active: Type.Boolean(),
  state: OneOf(webhookStates, {
    description: 'paused: events are held; disabled: by the service, events are kept as blocked',
  }),
  health: Health,
  disabled_reason: OneOfOrNull(webhookDisabledReasons, {
    description: 'receiver_gone: it answered 410; only_failures: nothing but failures for 5 days',
  }),
  disabled_at: nullable(Type.Integer({ description: 'Epoch seconds' })),
  failing_since: nullable(
    Type.Integer({ description: 'Epoch seconds: the first failure since it last took an event' }),
  ),
  removed_records: Type.Integer({
    description: 'Dead letters that were deleted because they were too old or too many',
  }),
  created_at: Type.Integer({ description: 'Epoch seconds' }),
  updated_at: Type.Integer({ description: 'Epoch seconds' }),
};
export const Webhook = Type.Object(webhookFields, { additionalProperties: true });
export const signingSecret = Type.String({
  description: 'whsec_…: verifies the signatures (Standard Webhooks). Shown only here',
});

const url = Type.Optional(
  Type.String({ description: 'http:// or https:// with a host; port, path and query are allowed' }),
);
const name = Type.String({ maxLength: 200, description: 'What people call it' });
const description = Type.String({ maxLength: 2000, description: 'What it is for' });
/** The fields of a webhook: in the query, which has no null, */
export const textParameters = { url, name: Type.Optional(name), description: Type.Optional(description) };
/** and in the body. */
export const jsonParameters = {
  url,
  name: Type.Optional(nullable(name)),
  description: Type.Optional(nullable(description)),
};

export const WebhookQuery = Type.Object({ ...pageParameters, health: healthParameter });
