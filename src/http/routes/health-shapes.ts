import { type Static, Type } from 'typebox';
import { healthStates } from '#health/health.ts';
import { OneOf } from '#http/route-support.ts';

/** The health of a source, workflow, webhook or account. */
export const Health = Type.Object(
  {
    state: OneOf(healthStates),
    since: Type.Union([Type.Integer(), Type.Null()], {
      description: 'Epoch seconds: the first success, failure or waiting item of this state; null: not known',
    }),
    reason: Type.Union([Type.String(), Type.Null()], { description: 'Why; null: it is healthy' }),
    failures: Type.Integer({ description: 'Failures since the last success' }),
    waiting: Type.Integer({
      description:
        'Runs or deliveries that wait for another attempt, or longer than a minute; 1000: at least so many',
    }),
  },
  {
    description:
      'Addition: what happened last. healthy: the last run, delivery or test succeeded; failing: it failed; paused: a user stopped it; ' +
      'disabled: the service stopped it; waiting: it has work that waits; untested: nothing has run yet',
  },
);

/** Parameter of lists. */
export const healthParameter = Type.Optional(
  OneOf(healthStates, { description: 'Addition: only those in this state of health' }),
);

export const FileBucketShape = Type.Object(
  {
    bucket: Type.String({
      description: 'Its name, and what the keys of its objects begin with; empty: the settings name none',
    }),
    state: OneOf(['unchecked', 'ok', 'failing'], {
      description:
        'Whether an object can be written to it, read and removed; unchecked: not tried since the start',
    }),
    since: Type.Union([Type.Integer(), Type.Null()], {
      description: 'Epoch seconds from which it is so; null: it is unchecked',
    }),
    reason: Type.Union([Type.String(), Type.Null()], { description: 'Why it fails; null: it does not' }),
  },
  { description: 'The bucket that has the content of files' },
);

export const EgressProxyShape = Type.Object(
  {
    proxy: Type.String({ description: 'Its host and port' }),
    state: OneOf(['unchecked', 'ok', 'failing'], {
      description: 'ok: it answered what was last asked of it; unchecked: not asked since the start',
    }),
    since: Type.Union([Type.Integer(), Type.Null()], {
      description: 'Epoch seconds from which it is so; null: it is unchecked',
    }),
    reason: Type.Union([Type.String(), Type.Null()], { description: 'Why it fails; null: it does not' }),
  },
  { description: 'The outbound proxy' },
);
/** The state of the outbound proxy. */
export type EgressProxyView = Static<typeof EgressProxyShape>;

/** The state of the bucket for files. */
export type FileBucketView = Static<typeof FileBucketShape>;
