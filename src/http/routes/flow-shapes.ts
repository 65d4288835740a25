import { Type } from 'typebox';
import { OneOf } from '#http/route-support.ts';
import { flowBlocks } from '#storage/tables/flow-tables.ts';

const key = Type.Optional(
  Type.String({
    minLength: 1,
    maxLength: 1_000,
    description:
      'An expression over the event, such as {{steps.trigger.event.body.customer}}; absent: one key for all events',
  }),
);
const limit = Type.Integer({ minimum: 1, maximum: 10_000 });
const seconds = (maximum: number) => Type.Integer({ minimum: 1, maximum });

/**
 * `settings.flow_control` of a workflow, `flow_control` of a source. What may not be combined, and what makes no sense for a source, is
 * checked in flow-control/flow-control.ts, workflows/definitions/workflow-flow-control.ts and sources/source-flow-control.ts.
 */
export const FlowControl = Type.Object(
  {
    concurrency: Type.Optional(
      Type.Object(
        { limit, key },
        { additionalProperties: false, description: 'At most `limit` runs of each key are under way' },
      ),
    ),
    throttle: Type.Optional(
      Type.Object(
        { limit, seconds: seconds(86_400), key },
        {
          additionalProperties: false,
          description: 'At most `limit` runs of each key begin in any period of `seconds`',
        },
      ),
    ),
    debounce: Type.Optional(
      Type.Object(
        { seconds: seconds(86_400), max_wait_seconds: seconds(604_800), key },
        {
          additionalProperties: false,
          description:
            'One run, with the last event, when none of the key came for `seconds`; at the latest `max_wait_seconds` after the first',
        },
      ),
    ),
    singleton: Type.Optional(
      Type.Object(
        {
          mode: OneOf(['skip', 'replace'], {
            description:
              'Whether an event is skipped while a run of its key is under way, or replaces that run',
          }),
          key,
        },
        { additionalProperties: false, description: 'One run of each key is under way' },
      ),
    ),
    batch: Type.Optional(
      Type.Object(
        { max_events: Type.Integer({ minimum: 1, maximum: 1_000 }), max_seconds: seconds(86_400), key },
        {
          additionalProperties: false,
          description:
            'One run for up to `max_events` of a key, or for what came within `max_seconds`; its event is { events, batch: { count, key } }',
        },
      ),
    ),
    priority: Type.Optional(
      Type.Union(
        [Type.Integer({ minimum: -600, maximum: 600 }), Type.String({ minLength: 1, maxLength: 1_000 })],
        {
          description:
            'Seconds by which a run is placed earlier in the queue, -600 to 600, or an expression for them',
        },
      ),
    ),
    rate_limit: Type.Optional(
      Type.Object(
        {
          account: Type.String({
            minLength: 1,
            maxLength: 300,
            description: 'A step and its account prop: <namespace>.<prop>; of a source, the prop alone',
          }),
          limit,
          seconds: seconds(86_400),
        },
        {
          additionalProperties: false,
          description:
            'At most `limit` runs begin in any period of `seconds`, counted over all workflows and sources with a rate limit on the same account',
        },
      ),
    ),
  },
  {
    additionalProperties: false,
    description:
      'When runs may begin, by keys of their events; for runs of all triggers, and for all runs of a source',
  },
);

const count = (description: string) => Type.Integer({ description });

export const FlowQueue = Type.Object({
  arrived: count('Runs that were stored a moment ago, and not looked at yet'),
  collected: count('Events that a debounce or a batch holds back'),
  waiting: count('Runs that wait for their turn'),
  under_way: count('Runs that hold a place'),
  totals: Type.Object(
    {
      started: count('Runs that were let begin'),
      skipped: count('Events that a singleton skipped'),
      replaced: count('Runs that a later event of a singleton replaced'),
      debounced: count('Events that a later event of a debounce replaced'),
      batched: count('Events that became part of a batch'),
    },
    { description: 'Since the workflow or source has flow control' },
  ),
  waiting_keys: Type.Array(
    Type.Object({
      key: Type.String(),
      throttle_key: Type.String(),
      waiting: Type.Integer(),
      under_way: Type.Integer(),
      blocked_by: Type.Union([OneOf(flowBlocks), Type.Null()]),
      reason: Type.String({ description: 'In words' }),
      until: Type.Union([Type.String(), Type.Null()], { description: 'ISO 8601' }),
    }),
    { description: 'The 100 keys with the longest queues' },
  ),
  keys_under_way: Type.Array(Type.Object({ key: Type.String(), under_way: Type.Integer() }), {
    description: 'The 100 concurrency keys with the most runs under way',
  }),
});

/** The queue of a source, whose runs leave no records. */
export const SourceQueue = Type.Object({
  ...FlowQueue.properties,
  not_run: Type.Array(
    Type.Object({
      id: Type.String({ description: 'Of the run that never began, or was replaced' }),
      reason: Type.String({ description: 'In words' }),
      at: Type.String({ description: 'ISO 8601' }),
    }),
    { description: 'The last 100 events that were skipped, replaced or debounced, the latest first' },
  ),
});
