import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Link, useLocation } from 'wouter';
import type { StepDefinition, Template } from '#sdk';
import { api } from '~/api/client.ts';
import { useMayWrite } from '~/api/rights.ts';
import { useTemplate } from '~/api/template-queries.ts';
import { definitionTree, type StepNode } from '~/editing/blocks.ts';
import { Ago } from '~/parts/ago.tsx';
import { BlockParts } from '~/parts/block-parts.tsx';
import { ConfirmButton } from '~/parts/confirm-button.tsx';
import { CopyButton } from '~/parts/copy.tsx';
import { JsonView } from '~/parts/json-view.tsx';
import { LoadedPage } from '~/parts/loaded-page.tsx';
import { useOwner } from '~/parts/owner.tsx';
import { PageFrame } from '~/parts/page.tsx';
import { visible } from '~/parts/plain-text.ts';
import { StepContent, StepMadeOf, sourceOf, triggerWords } from '~/parts/template-parts.tsx';
import { OwnerName } from './templates.tsx';

export function TemplatePage({ id }: { id: string }) {
  const template = useTemplate(id);
  return (
    <LoadedPage
      query={template}
      title={`Template ${id}`}
      list={{ href: '/templates', name: 'All templates' }}
    >
      {(data) => <Details template={data} />}
    </LoadedPage>
  );
}

function Details({ template }: { template: Template }) {
  const { ownerId } = useOwner();
  const mayUse = useMayWrite(ownerId) === true;
  const mayRemove = useMayWrite(template.owner_id ?? undefined) === true;
  const { id, name, steps, triggers, settings } = template;
  return (
    <PageFrame
      title={name}
      lead={
        <p className="muted facts">
          <span className="with-copy">
            <code className="break">{id}</code>
            <CopyButton text={id} label="Copy the id" />
          </span>
          <OwnerName id={template.owner_id} />
          <span>
            made <Ago ms={template.created_at * 1000} />
          </span>
        </p>
      }
      actions={
        mayUse && (
          <Link href={`/templates/${id}/use`} className="button primary">
            Use this template
          </Link>
        )
      }
    >
      <p className="muted">
        The triggers and steps of a workflow made from this template. It contains no accounts, data stores,
        secrets or tokens; you choose your own. Everyone who knows its id can use it.
      </p>
      <ol className="graph" aria-label="Triggers and steps">
        <li>
          {triggers.length === 0 ? (
            <div className="graph-node card muted">Nothing triggers it.</div>
          ) : (
            <ul className="graph-side" aria-label="Triggers">
              {triggers.map((trigger, index) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: a template never changes.
                <li key={index} className="graph-node card">
                  <strong>{triggerWords(trigger)}</strong>
                  {trigger.type === 'source' && (
                    <>
                      <StepMadeOf step={sourceOf(trigger)} />
                      <StepContent step={sourceOf(trigger)} />
                    </>
                  )}
                </li>
              ))}
            </ul>
          )}
        </li>
        {definitionTree(steps).map((node) => (
          <li key={node.position}>
            <TemplateStep node={node} />
          </li>
        ))}
      </ol>
      <details className="card">
        <summary>How it runs</summary>
        <JsonView value={settings} label="Settings" />
      </details>
      {mayRemove && <TakeOff template={template} />}
    </PageFrame>
  );
}

function TemplateStep({ node: { step, position, parts } }: { node: StepNode<StepDefinition> }) {
  return (
    <section className="graph-node card" aria-label={`Step ${visible(step.namespace)}`}>
      <header className="facts">
        <span className="muted">{position + 1}</span>
        <strong>{visible(step.namespace)}</strong>
        <StepMadeOf step={step} />
      </header>
      <StepContent step={step} />
      <BlockParts blockKind={step.block} parts={parts} draw={(node) => <TemplateStep node={node} />} />
    </section>
  );
}

function TakeOff({ template: { id } }: { template: Template }) {
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: () => api<void>('DELETE', `/v1/templates/${id}`),
    onSuccess: () => {
      navigate('/templates');
      queries.removeQueries({ queryKey: ['template', id] });
      void queries.invalidateQueries({ queryKey: ['templates'] });
    },
  });
  return (
    <section className="card" aria-labelledby="remove">
      <h2 id="remove">Take it off the list</h2>
      <p className="muted">Of yours and of the workspaces in which you may. Workflows made of it stay.</p>
      <ConfirmButton
        name="Take off the list"
        title="Take this template off the list?"
        change={remove}
        failure="It is still there."
      >
        <p>
          Its id leads nowhere then, unless others made the same template: they keep it. Workflows that were
          made of it stay, and the same template can be made again of the same workflow.
        </p>
      </ConfirmButton>
    </section>
  );
}
