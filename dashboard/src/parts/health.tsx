import { Link } from 'wouter';
import type { Health, Overview } from '#sdk';
import { Ago } from './ago.tsx';
import { formatNumber } from './format.ts';
import { oneLine } from './plain-text.ts';

/** The label of each state of health, and its tone. */
export type HealthState = Health['state'];
type HealthKind = Overview['attention'][number]['kind'];

const looks: Readonly<Record<HealthState, { name: string; look: string }>> = {
  healthy: { name: 'Healthy', look: 'good' },
  failing: { name: 'Failing', look: 'bad' },
  paused: { name: 'Paused', look: 'off' },
  disabled: { name: 'Disabled', look: 'bad' },
  waiting: { name: 'Waiting', look: 'warn' },
  untested: { name: 'Untested', look: 'off' },
};

export const healthStates = Object.keys(looks) as readonly HealthState[];

export function healthName(state: HealthState): string {
  return looks[state]?.name ?? state;
}

/** True for states whose reason says what to do something about. */
export function isTroubled(state: HealthState): boolean {
  return state === 'failing' || state === 'disabled' || state === 'waiting';
}

export function HealthBadge({ health: { state, reason } }: { health: Health }) {
  const { name, look } = looks[state] ?? { name: state, look: 'off' };
  return (
    <span className={`state ${look}`} title={reason === null ? undefined : oneLine(reason, 300)}>
      {name}
    </span>
  );
}

/** Since when and why an object is not healthy. */
export function HealthReason({
  health: { since, reason, failures },
  characters = 300,
}: {
  health: Health;
  /** In lists there is room for few. */
  characters?: number;
}) {
  return (
    <>
      {reason !== null && <bdi className="break">{oneLine(reason, characters)}</bdi>}
      {failures > 1 && ` · ${formatNumber(failures)} failures`}
      {since !== null && (
        <>
          {' '}
          · since <Ago ms={since * 1000} />
        </>
      )}
    </>
  );
}

/** Below the title of an object that needs attention: why, since when, and what to do. Nothing for all others. */
export function HealthNote({ kind, id, health }: { kind: HealthKind; id: string; health: Health }) {
  const { state } = health;
  if (state === 'healthy' || state === 'untested' || state === 'paused') return null;
  return (
    <div className={state === 'waiting' ? 'note' : 'problem'} role="status">
      <div>
        <p>
          <strong>{looks[state].name}:</strong> <HealthReason health={health} />
        </p>
        <p>
          <NextStep kind={kind} id={id} health={health} />
        </p>
      </div>
    </div>
  );
}

/** What to do about an object that is not healthy. */
export function NextStep({
  kind,
  id,
  health: { state, reason, waiting },
}: {
  kind: HealthKind;
  id: string;
  health: Health;
}) {
  if (kind === 'source')
    return state === 'waiting' ? (
      <>Runs continue by themselves. If they do not, check the logs of the service.</>
    ) : (
      <>
        <Link href={`/sources/${id}?tab=logs`}>See its errors</Link>, then fix its code or props. The next
        successful run makes it healthy.
      </>
    );
  if (kind === 'workflow')
    return state === 'waiting' ? (
      <>
        <Link href={`/workflows/${id}`}>See its runs</Link>: each says what it waits for.
        {/to be tried again/.test(reason ?? '') &&
          ' Those that are tried again show the error of their last try.'}
        {/to begin/.test(reason ?? '') && ' Flow control may hold those that are queued.'}
      </>
    ) : /\bis not set\b|\(not set: /.test(reason ?? '') ? (
      <>
        Set it under <Link href="/workspace?tab=variables">Variables</Link>, then replay the{' '}
        <Link href={`/workflows/${id}?state=failed`}>failed runs</Link>.
      </>
    ) : /what it sends failed/.test(reason ?? '') ? (
      <>
        <Link href={`/workflows/${id}`}>See its runs</Link>: the run succeeded, and says which send failed.
      </>
    ) : (
      <>
        <Link href={`/workflows/${id}?state=failed`}>See its failed runs</Link>, fix the step, and replay
        them.
      </>
    );
  if (kind === 'account')
    return state === 'waiting' ? (
      <>
        <Link href={`/accounts/${id}?tab=settings`}>Test it again</Link> when the provider works.
      </>
    ) : (
      <>
        <Link href={`/accounts/${id}?tab=settings`}>Connect it again</Link>, or test it.
      </>
    );
  const held = waiting === 0 ? '' : ` ${formatNumber(waiting)} wait.`;
  if (state === 'disabled')
    return (
      <>
        Fix the receiver, then <Link href={`/webhooks/${id}`}>enable the webhook</Link> and redeliver what it
        missed.
      </>
    );
  if (state === 'paused')
    return (
      <>
        <Link href={`/webhooks/${id}`}>Resume the webhook</Link> to send them.
      </>
    );
  return (
    <>
      <Link href={`/webhooks/${id}`}>See its deliveries</Link> and check the receiver. Deliveries are tried
      again for about 32 hours.{held}
    </>
  );
}
