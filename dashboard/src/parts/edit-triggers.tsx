import { Link } from 'wouter';
import { withoutPlace } from '~/editing/code-problem.ts';
import { triggerText } from '~/editing/definition-diff.ts';
import { newTrigger, type TriggerDraft, type TriggerKind } from '~/editing/workflow-draft.ts';
import { NamedEnd } from './delivery-detail.tsx';
import type { EditedTrigger } from './edited-trigger.ts';
import { Icon } from './icon.tsx';
import { oneLine, shortened, visible } from './plain-text.ts';
import { Problem } from './problem.tsx';
import { SourceTrigger } from './source-trigger.tsx';
import { TimerField } from './timer-field.tsx';

const kinds: readonly { type: TriggerKind; name: string }[] = [
  { type: 'http', name: 'HTTP request' },
  { type: 'timer', name: 'Timer' },
  { type: 'email', name: 'Mail' },
  { type: 'source', name: 'Source' },
  { type: 'on_failure', name: 'Failed runs' },
];

/** The service's error about one trigger. */
export interface TriggerProblem {
  key: string;
  field: string;
  message: string;
}

/** What starts runs of the workflow. */
export function EditTriggers({
  triggers,
  heard,
  stepResponds,
  onChange,
  ownerId,
  problem,
}: {
  triggers: readonly TriggerDraft[];
  /** Emitters whose events trigger it by subscriptions, which are not part of its definition. */
  heard: readonly string[];
  /** A step sends a response. */
  stepResponds: boolean;
  onChange: (triggers: TriggerDraft[]) => void;
  ownerId: string;
  problem: TriggerProblem | undefined;
}) {
  const replace = (key: string, change: Partial<TriggerDraft>) =>
    onChange(triggers.map((one) => (one.key === key ? { ...one, ...change, isChanged: true } : one)));
  return (
    <section className="edit-section" aria-labelledby="edit-triggers">
      <h2 id="edit-triggers">Triggers</h2>
      {triggers.length === 0 && heard.length === 0 && <p className="muted">No trigger yet.</p>}
      {heard.length > 0 && (
        <p className="muted">
          Subscriptions trigger it too, for events of{' '}
          {heard.slice(0, 5).map((id, at) => (
            <span key={id}>
              {at > 0 && ', '}
              <NamedEnd id={id} />
            </span>
          ))}
          {heard.length > 5 && ` and ${heard.length - 5} more`}. They are changed under{' '}
          <Link href="/subscriptions">Subscriptions</Link>.
        </p>
      )}
      <ul className="edit-list">
        {triggers.map((trigger) => {
          const told = problem?.key === trigger.key ? problem : undefined;
          const name = kinds.find(({ type }) => type === trigger.type)?.name ?? trigger.type;
          return (
            <li key={trigger.key}>
              <section
                className={told === undefined ? 'card edit-item' : 'card edit-item faulty'}
                aria-label={`Trigger: ${name}`}
              >
                <header className="edit-head">
                  <span className="facts">
                    <strong>{name}</strong>
                    <span className="muted">
                      {trigger.id === null ? 'new' : visible(shortened(trigger.name ?? trigger.id, 100))}
                    </span>
                  </span>
                  <button
                    type="button"
                    className="button small quiet"
                    onClick={() => onChange(triggers.filter(({ key }) => key !== trigger.key))}
                  >
                    Remove<span className="off-screen"> trigger {oneLine(triggerText(trigger), 80)}</span>
                  </button>
                </header>
                <Trigger
                  trigger={trigger}
                  ownerId={ownerId}
                  onChange={(change) => replace(trigger.key, change)}
                />
                {stepResponds && trigger.type === 'http' && trigger.props.custom_response !== true && (
                  <p className="note" role="status">
                    A step responds, but the caller does not get that response: choose Custom response.
                  </p>
                )}
                {told !== undefined && (
                  <Problem error={withoutPlace(told.message)} what="This trigger does not fit." />
                )}
              </section>
            </li>
          );
        })}
      </ul>
      <div className="edit-row">
        {kinds.map(({ type, name }) => (
          <button
            key={type}
            type="button"
            className="button"
            onClick={() => onChange([...triggers, newTrigger(type)])}
          >
            <Icon name="plus" size={16} /> {name}
          </button>
        ))}
      </div>
    </section>
  );
}

function Trigger(props: EditedTrigger) {
  const { trigger, onChange } = props;
  if (trigger.type === 'http') return <HttpTrigger {...props} />;
  if (trigger.type === 'email')
    return (
      <p className="muted">
        Each mail to the address of this trigger starts a run. Deploying creates the address.
      </p>
    );
  if (trigger.type === 'on_failure')
    return (
      <p className="muted">
        Each failed run of another workflow of the same owner starts a run, with its event and its error. Its
        own failures do not.
      </p>
    );
  if (trigger.type === 'source') return <SourceTrigger {...props} />;
  const { cron, timezone, interval_seconds } = trigger.props;
  return (
    <TimerField
      definition={{ name: 'schedule', type: '$.interface.timer' }}
      id={`${trigger.key}-schedule`}
      value={cron === undefined ? { intervalSeconds: interval_seconds } : { cron, timezone }}
      onChange={(value) => {
        const next = (value ?? {}) as { intervalSeconds?: number; cron?: string; timezone?: string };
        onChange({
          props:
            next.cron === undefined
              ? { interval_seconds: next.intervalSeconds ?? null }
              : { cron: next.cron, timezone: next.timezone },
        });
      }}
      describedBy=""
      invalid={false}
    />
  );
}

function HttpTrigger({ trigger, ownerId, onChange }: EditedTrigger) {
  const { custom_response, auth } = trigger.props as {
    custom_response?: boolean;
    auth?: { type?: string; token?: string };
  };
  const set = (change: Record<string, unknown>) => onChange({ props: { ...trigger.props, ...change } });
  const id = `${trigger.key}-auth`;
  return (
    <div className="edit-body">
      <label className="check">
        <input
          type="checkbox"
          checked={custom_response === true}
          onChange={(event) => set({ custom_response: event.target.checked })}
        />
        Custom response: a step answers the request
      </label>
      <div className="field">
        <label className="label" htmlFor={id}>
          Who may call it
        </label>
        <select
          id={id}
          className="select"
          value={auth?.type ?? 'none'}
          onChange={(event) => set({ auth: { type: event.target.value } })}
        >
          <option value="none">Any caller that knows the endpoint URL</option>
          <option value="static_bearer_token">Who has a bearer token</option>
          {(ownerId.startsWith('o_') || auth?.type === 'oauth') && (
            <option value="oauth">Who has an access token of an API client of the workspace</option>
          )}
        </select>
      </div>
      {auth?.type === 'static_bearer_token' && (
        <div className="field">
          <label className="label" htmlFor={`${id}-token`}>
            Bearer token
          </label>
          <input
            id={`${id}-token`}
            className="input mono"
            type="password"
            autoComplete="new-password"
            placeholder={trigger.id === null ? 'At least 8 characters' : 'Left empty, one that it has stays'}
            value={auth.token ?? ''}
            onChange={(event) =>
              set({
                auth: {
                  type: 'static_bearer_token',
                  ...(event.target.value === '' ? {} : { token: event.target.value }),
                },
              })
            }
          />
        </div>
      )}
    </div>
  );
}
