import type { ReactNode } from 'react';
import { Link } from 'wouter';
import type { Workflow, WorkflowStep, WorkflowTrigger } from '#sdk';
import { useSubscriptions } from '~/api/queries.ts';
import { type StepNode, treeOf } from '~/editing/blocks.ts';
import { heardBy } from '~/editing/heard-subscriptions.ts';
import { BlockParts } from '~/parts/block-parts.tsx';
import { End, NamedEnd } from '~/parts/delivery-detail.tsx';
import { formatDuration } from '~/parts/format.ts';
import { oneLine, visible } from '~/parts/plain-text.ts';
import { StepCode, StepKind, StepProps } from '~/parts/step-parts.tsx';

/** The triggers, the steps and the listeners of a workflow, from top to bottom, in the order of a run. */
export function WorkflowGraph({ workflow }: { workflow: Workflow }) {
  const subscriptions = useSubscriptions(workflow.owner_id);
  const heard = heardBy(workflow, subscriptions.data ?? []);
  const listeners = subscriptions.data?.filter(({ emitter_id }) => emitter_id === workflow.id) ?? [];
  return (
    <ol className="graph" aria-label="Triggers and steps">
      <li>
        {workflow.triggers.length + heard.length === 0 ? (
          <div className="graph-node card muted">Nothing triggers it.</div>
        ) : (
          <ul className="graph-side" aria-label="Triggers">
            {workflow.triggers.map((trigger) => (
              <li key={trigger.id} className="graph-node card">
                <Trigger trigger={trigger} />
              </li>
            ))}
            {heard.map(({ id, emitter_id, event_name }) => (
              <li key={id} className="graph-node card">
                <strong>Subscription</strong>
                <p>
                  {event_name === '' ? 'events' : <code>{oneLine(event_name, 60)}</code>} of{' '}
                  <NamedEnd id={emitter_id} />
                </p>
              </li>
            ))}
          </ul>
        )}
      </li>
      {treeOf(workflow.steps).map((node) => (
        <li key={node.step.id}>
          <Step node={node} />
        </li>
      ))}
      {listeners.length > 0 && (
        <li>
          <ul className="graph-side" aria-label="Listeners">
            {listeners.map(({ id, listener_id, event_name }) => (
              <li key={id} className="graph-node card">
                <strong>Listener</strong>
                <p>
                  <NamedEnd id={listener_id} /> gets{' '}
                  {event_name === '' ? 'what it emits' : <code>{oneLine(event_name, 60)}</code>}
                </p>
              </li>
            ))}
          </ul>
        </li>
      )}
    </ol>
  );
}

function Trigger({ trigger }: { trigger: WorkflowTrigger }) {
  switch (trigger.type) {
    case 'http':
      return (
        <>
          <strong>HTTP request</strong>
          <p className="muted">
            {trigger.auth.type === 'none'
              ? 'from any caller that knows the endpoint URL'
              : trigger.auth.type === 'oauth'
                ? 'with an access token of an API client'
                : 'with its bearer token'}
            {trigger.custom_response ? '; a step answers' : ''}
          </p>
        </>
      );
    case 'email':
      return (
        <>
          <strong>Mail</strong>
          <p className="muted break">to {visible(trigger.email_address)}</p>
        </>
      );
    case 'on_failure':
      return (
        <>
          <strong>Failed runs</strong>
          <p className="muted">of other workflows</p>
        </>
      );
    case 'timer':
      return (
        <>
          <strong>Timer</strong>
          <p className="muted">
            {trigger.cron === null
              ? `every ${formatDuration((trigger.interval_seconds ?? 0) * 1000)}`
              : `cron ${oneLine(trigger.cron, 100)}, ${oneLine(trigger.timezone, 60)}`}
          </p>
        </>
      );
    case 'source':
      return (
        <>
          <strong>Source</strong>
          <p>
            <Link href={`/sources/${trigger.id}`}>
              <bdi>{oneLine(trigger.name, 100)}</bdi>
            </Link>
            {!trigger.active && <Plain> (inactive)</Plain>}
          </p>
        </>
      );
  }
}

function Plain({ children }: { children: ReactNode }) {
  return <span className="muted">{children}</span>;
}

function Step({ node }: { node: StepNode<WorkflowStep> }) {
  const { step, position, parts } = node;
  const accounts = Object.entries(step.authProvisionIdMap);
  return (
    <section
      className={step.disabled ? 'graph-node card disabled' : 'graph-node card'}
      aria-label={`Step ${step.namespace}`}
    >
      <header className="facts">
        <span className="muted">{position + 1}</span>
        <strong>{visible(step.namespace)}</strong>
        <StepKind step={step} />
        {step.disabled && <span className="state off">Disabled: left out</span>}
      </header>
      {accounts.length > 0 && (
        <p className="muted break">
          Accounts:{' '}
          {accounts.map(([prop, id], index) => (
            <span key={prop}>
              {index > 0 && ', '}
              {oneLine(prop, 60)} <End id={id} />
            </span>
          ))}
        </p>
      )}
      <StepProps step={step} />
      <StepCode step={step} />
      <BlockParts blockKind={step.block?.block} parts={parts} draw={(inner) => <Step node={inner} />} />
    </section>
  );
}
