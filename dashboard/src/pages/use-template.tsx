import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { MillraceError, type Template, type Workflow } from '#sdk';
import { orgOf } from '~/api/app-queries.ts';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { useMayWrite } from '~/api/rights.ts';
import { type GivenProps, useTemplate } from '~/api/template-queries.ts';
import { allDefinitions } from '~/editing/blocks.ts';
import { LoadedPage } from '~/parts/loaded-page.tsx';
import { useOwner } from '~/parts/owner.tsx';
import { Empty, Loading, PageFrame } from '~/parts/page.tsx';
import { Problem } from '~/parts/problem.tsx';
import { sourceOf, triggerWords } from '~/parts/template-parts.tsx';
import { TemplateStepForm } from '~/parts/template-step-form.tsx';

/** Makes a workflow of a template: a form asks for what the template cannot hold. */
export function UseTemplatePage({ id }: { id: string }) {
  const template = useTemplate(id);
  return (
    <LoadedPage
      query={template}
      title={`Template ${id}`}
      list={{ href: '/templates', name: 'All templates' }}
    >
      {(data) => <UseTemplate template={data} />}
    </LoadedPage>
  );
}

function UseTemplate({ template }: { template: Template }) {
  const { ownerId } = useOwner();
  const mayWrite = useMayWrite(ownerId);
  return (
    <PageFrame title={`New workflow of ${template.name}`}>
      {mayWrite === undefined && <Loading />}
      {mayWrite === false && (
        <Empty title="You can look at this workspace, and not change it">
          <p>Ask one of its admins for the role of a member, or choose My own under Showing.</p>
        </Empty>
      )}
      {mayWrite === true && <Form key={ownerId} template={template} ownerId={ownerId} />}
    </PageFrame>
  );
}

function Form({ template, ownerId }: { template: Template; ownerId: string }) {
  const { id, triggers } = template;
  // Blocks come with all that they need.
  const steps = allDefinitions(template.steps).filter(({ block }) => block === undefined);
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const [name, setName] = useState(template.name);
  const [isActive, setIsActive] = useState(true);
  /** By the name of a step, or `triggers[1]`, as the service names the place. Undefined: its fields are not known yet. */
  const [given, setGiven] = useState<Readonly<Record<string, GivenProps>>>({});
  const sources = triggers.flatMap((trigger, index) => (trigger.type === 'source' ? [index] : []));
  const isComplete = Object.keys(given).length === steps.length + sources.length;
  const give = (place: string) => (props: GivenProps) =>
    setGiven((before) => ({ ...before, [place]: props }));
  const create = useMutation({
    mutationFn: async () =>
      (
        await api<Data<Workflow>>('POST', '/v1/workflows', {
          body: {
            template_id: id,
            ...orgOf(ownerId),
            settings: { name: name.trim() || template.name, auto_deploy: isActive },
            steps: steps.map(({ namespace }) => ({ namespace, props: given[namespace] ?? {} })),
            triggers: triggers.map((_, index) => {
              const props = given[`triggers[${index}]`];
              return props === undefined ? {} : { props: { configured_props: props } };
            }),
          },
        })
      ).data,
    onSuccess: (workflow) => {
      queries.setQueryData(['workflow', workflow.id], workflow);
      void queries.invalidateQueries({ queryKey: ['workflows'] });
      navigate(`/workflows/${workflow.id}`);
    },
  });
  const problem = placeOf(create.error);
  const problemsAt = (place: string) =>
    new Map(problem?.place === place ? [[problem.prop, problem.message]] : []);
  return (
    <form
      className="form template-form"
      onSubmit={(event) => {
        event.preventDefault();
        create.mutate();
      }}
    >
      <section className="card">
        <div className="field">
          <label className="label" htmlFor="workflow-name">
            Name
          </label>
          <input
            id="workflow-name"
            className="input"
            maxLength={200}
            required
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        </div>
        <label className="check">
          <input type="checkbox" checked={isActive} onChange={(event) => setIsActive(event.target.checked)} />
          Activate immediately
        </label>
        {triggers.length > 0 && (
          <p className="muted below">Triggered by: {triggers.map(triggerWords).join('; ')}.</p>
        )}
      </section>
      {sources.map((index) => (
        <TemplateStepForm
          key={`triggers[${index}]`}
          title="The source that triggers it"
          step={sourceOf(triggers[index] ?? {})}
          ownerId={ownerId}
          onGiven={give(`triggers[${index}]`)}
          problems={problemsAt(`triggers[${index}]`)}
        />
      ))}
      {steps.map((step) => (
        <TemplateStepForm
          key={step.namespace}
          title={`Step ${step.namespace}`}
          step={step}
          ownerId={ownerId}
          onGiven={give(step.namespace)}
          problems={problemsAt(step.namespace)}
        />
      ))}
      {create.error !== null && <Problem error={create.error} what="The workflow was not made." />}
      <button type="submit" className="button primary" disabled={create.isPending || !isComplete}>
        {create.isPending ? 'Building and deploying …' : 'Create workflow'}
      </button>
    </form>
  );
}

/** Where a prop was refused: `triggers[1].props.configured_props.word`, or the `props.word` of a step that the answer names. */
function placeOf(error: unknown): { place: string; prop: string; message: string } | undefined {
  if (!(error instanceof MillraceError)) return undefined;
  const { parameter, namespace } = error.details;
  const at =
    /^(triggers\[\d+\]|steps\[\d+\](?:\.(?:branches\[\d+\]\.steps|steps|error_steps)\[\d+\])*)\.(?:props\.)?(?:configured_props\.)?([^.[]+)/.exec(
      String(parameter ?? ''),
    );
  const [, list = '', prop] = at ?? [];
  const place = list.startsWith('triggers') ? list : namespace;
  if (typeof place !== 'string' || prop === undefined) return undefined;
  return { place, prop, message: error.message };
}
