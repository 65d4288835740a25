import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import type { Template, Workflow } from '#sdk';
import { orgOf } from '~/api/app-queries.ts';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { Problem } from './problem.tsx';

/** A template of what a workflow runs now, for others. */
export function MakeTemplate({ workflow }: { workflow: Workflow }) {
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const [name, setName] = useState(workflow.name);
  const [withValues, setWithValues] = useState(true);
  const make = useMutation({
    mutationFn: async () =>
      (
        await api<Data<Template>>('POST', '/v1/templates', {
          body: {
            workflow_id: workflow.id,
            name: name.trim() || workflow.name,
            include_props: withValues,
            ...orgOf(workflow.owner_id),
          },
        })
      ).data,
    onSuccess: (template) => {
      queries.setQueryData(['template', template.id], template);
      void queries.invalidateQueries({ queryKey: ['templates'] });
      navigate(`/templates/${template.id}`);
    },
  });
  return (
    <form
      className="card form"
      aria-labelledby="make-template"
      onSubmit={(event) => {
        event.preventDefault();
        make.mutate();
      }}
    >
      <h2 id="make-template">Make a template</h2>
      <p className="muted">
        A template has the current triggers, steps and settings. Everyone who knows its id can use it. It
        contains no accounts, data stores, values of secret props or tokens, and no disabled steps.
      </p>
      <div className="field">
        <label className="label" htmlFor="template-name">
          Name of the template
        </label>
        <input
          id="template-name"
          className="input"
          maxLength={200}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
      </div>
      <label className="check">
        <input
          type="checkbox"
          checked={withValues}
          onChange={(event) => setWithValues(event.target.checked)}
        />
        With the values of its props
      </label>
      {make.error !== null && <Problem error={make.error} what="The template was not made." />}
      <p className="below">
        <button type="submit" className="button" disabled={make.isPending}>
          {make.isPending ? 'One moment …' : 'Make a template'}
        </button>
      </p>
    </form>
  );
}
